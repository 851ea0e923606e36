//! What `/proc` says about processes.

use std::fs;

use rustix::process::Pid;

/// The variables that name a job and its hold on it in the environment of everything it starts.
const MARKS: [&str; 2] = ["TENURE_JOB_ID", "TENURE_FENCE"];

/// What ties a process to a family by its environment, wherever it went. Empty when the job has no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark(Vec<Vec<u8>>);

impl Mark {
    /// The mark that everything inherits which is started with these variables.
    pub(crate) fn of(env: &[(String, String)]) -> Mark {
        let entry = |name: &&str| {
            let (_, value) = env.iter().rev().find(|(given, _)| given == name)?;
            Some(format!("{name}={value}").into_bytes())
        };
        Mark(MARKS.iter().map(entry).collect::<Option<_>>().unwrap_or_default())
    }

    /// Whether this environment, as `/proc` shows it, has the mark.
    pub(crate) fn is_on(&self, environ: &[u8]) -> bool {
        let has = |mark: &Vec<u8>| environ.split(|byte| *byte == 0).any(|entry| entry == mark);
        !self.0.is_empty() && self.0.iter().all(has)
    }
}

/// A line of `/proc/<pid>/stat`, as far as anyone here wants to know.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) is_zombie: bool,
    pub(crate) session: i32,
}

/// How a process stands; `None` if there is none of that number.
pub(crate) fn stat(process: Pid) -> Option<Stat> {
    parse_stat(&fs::read_to_string(format!("/proc/{process}/stat")).ok()?)
}

/// The environment a process was started with; empty when it is not ours to read.
pub(crate) fn environ(process: Pid) -> Vec<u8> {
    fs::read(format!("/proc/{process}/environ")).unwrap_or_default()
}

/// The cgroups a process is in.
pub(crate) fn cgroups(process: Pid) -> String {
    fs::read_to_string(format!("/proc/{process}/cgroup")).unwrap_or_default()
}

/// Everyone.
pub(crate) fn processes() -> impl Iterator<Item = Pid> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
}

fn parse_stat(text: &str) -> Option<Stat> {
    // The name, in parentheses, may contain anything, so the fields are counted after its end.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let is_zombie = matches!(fields.next()?, "Z" | "X");
    let mut number = || fields.next()?.parse::<i32>().ok();
    let (_parent, _group, session) = (number()?, number()?, number()?);
    // One whose first thread has exited looks dead while others of its threads run on.
    let threads = fields.nth(13).and_then(|count| count.parse::<u32>().ok()).unwrap_or(1);
    Some(Stat { is_zombie: is_zombie && threads <= 1, session })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_cannot_confuse_the_fields() {
        let stat = parse_stat("12 (a) Z 1 (b c) S 3 4 5 0 -1").unwrap();
        assert_eq!(stat, Stat { is_zombie: false, session: 5 });
        assert!(parse_stat("12 (gone) Z 3 4 5 0").unwrap().is_zombie);
        assert_eq!(parse_stat("12 (cut) Z 3"), None);
        let threads = |count| format!("12 (x) Z 1 2 3 0 -1 4 0 0 0 0 1 2 0 0 20 0 {count} 0 99");
        assert!(parse_stat(&threads(1)).unwrap().is_zombie);
        assert!(!parse_stat(&threads(2)).unwrap().is_zombie, "its other thread lives");
    }

    #[test]
    fn a_mark_needs_both_its_variables() {
        let env = |fence: &str| {
            vec![("TENURE_JOB_ID".into(), "a".into()), ("TENURE_FENCE".into(), fence.to_owned())]
        };
        let mark = Mark::of(&env("7"));
        assert!(mark.is_on(b"HOME=/\0TENURE_FENCE=7\0TENURE_JOB_ID=a\0"));
        assert!(!mark.is_on(b"TENURE_FENCE=71\0TENURE_JOB_ID=a\0"), "another hold of the same job");
        assert!(!mark.is_on(b"TENURE_JOB_ID=a\0"));
        assert!(!Mark::of(&[]).is_on(b"TENURE_FENCE=7\0"), "no mark is on nobody");
        assert_eq!(Mark::of(&env("7")[..1]), Mark::default());
    }

    #[test]
    fn we_are_among_the_processes() {
        let me = rustix::process::getpid();
        assert!(processes().any(|process| process == me));
        assert!(!stat(me).unwrap().is_zombie);
        assert!(!environ(me).is_empty());
    }
}
