//! The workers' own effect log: what really happened, written by those who did it.
//!
//! One line for each thing, appended in one write, so that a killed or frozen process leaves whole lines:
//!
//! ```text
//! start   JOB FENCE NANOS     the handler began
//! tick    JOB FENCE NANOS     the handler is at work (exclusive jobs only)
//! effect  JOB FENCE NANOS     the handler did its side effect
//! accept  JOB FENCE NANOS     the server took the report
//! refuse  JOB FENCE NANOS     the server refused the report: a stale write
//! lost    JOB FENCE NANOS     the worker learnt that the job is not its any more
//! ```

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Write as _};
use std::path::Path;
use std::str::FromStr;

use clock::SystemClock;
use model::{Clock as _, Fence, JobId};

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// The handler began.
    Start,
    /// The handler is at work.
    Tick,
    /// The handler did its side effect.
    Effect,
    /// The server took the report.
    Accept,
    /// The server refused the report.
    Refuse,
    /// The worker learnt that the job is not its any more.
    Lost,
}

impl What {
    const WORDS: [(What, &str); 6] = [
        (What::Start, "start"),
        (What::Tick, "tick"),
        (What::Effect, "effect"),
        (What::Accept, "accept"),
        (What::Refuse, "refuse"),
        (What::Lost, "lost"),
    ];

    fn word(self) -> &'static str {
        Self::WORDS.iter().find(|(what, _)| *what == self).expect("every variant has a word").1
    }
}

/// One line of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What happened.
    pub what: What,
    /// To which job.
    pub job: JobId,
    /// Under which claim.
    pub fence: Fence,
    /// Monotonic time of this machine, comparable between processes.
    pub nanos: u64,
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(line: &str) -> Result<Self, String> {
        let wrong = || format!("not a line of an effect log: {line:?}");
        let mut words = line.split_whitespace();
        let mut next = || words.next().ok_or_else(wrong);
        let word = next()?;
        let what = What::WORDS.iter().find(|(_, known)| *known == word).ok_or_else(wrong)?.0;
        let job = next()?.parse().map_err(|_| wrong())?;
        let fence = Fence::new(next()?.parse().map_err(|_| wrong())?);
        let nanos = next()?.parse().map_err(|_| wrong())?;
        Ok(Entry { what, job, fence, nanos })
    }
}

/// Where a worker writes.
#[derive(Debug)]
pub struct EffectLog {
    file: File,
    echo: bool,
}

impl EffectLog {
    /// Opens the log, at its end. With `echo`, every line goes to stdout too, for someone who waits for it.
    pub fn open(path: &Path, echo: bool) -> io::Result<EffectLog> {
        Ok(EffectLog { file: File::options().create(true).append(true).open(path)?, echo })
    }

    /// Appends one line.
    pub fn write(&self, what: What, job: JobId, fence: Fence) {
        let nanos = SystemClock.monotonic().as_nanos();
        let line = format!("{} {job} {fence} {nanos}\n", what.word());
        (&self.file).write_all(line.as_bytes()).expect("the effect log can be written");
        if self.echo {
            print!("{line}");
        }
    }
}

/// Everything in a log; a log that does not exist yet is empty.
pub fn read(path: &Path) -> io::Result<Vec<Entry>> {
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    complete_lines(&text).map(|line| line.parse().map_err(io::Error::other)).collect()
}

/// The lines of a log that another process may still be writing. What follows the last line end is not a line yet: a write
/// can be seen half done.
pub fn complete_lines(text: &str) -> impl Iterator<Item = &str> {
    text.rfind('\n').map_or("", |end| &text[..end]).lines()
}

/// Each time a job went from one claim to the next: the job, and the time from the last sign of work under the old claim to
/// the first under the new one, in nanoseconds; negative where both were at work at once.
pub fn hand_overs<'a>(entries: impl IntoIterator<Item = &'a Entry>) -> Vec<(JobId, i64)> {
    let mut runs: BTreeMap<(JobId, Fence), (u64, u64)> = BTreeMap::new();
    let is_at_work = |entry: &&Entry| matches!(entry.what, What::Start | What::Tick | What::Effect);
    for entry in entries.into_iter().filter(is_at_work) {
        let (first, last) = runs.entry((entry.job, entry.fence)).or_insert((entry.nanos, entry.nanos));
        *first = entry.nanos.min(*first);
        *last = entry.nanos.max(*last);
    }
    let runs: Vec<_> = runs.into_iter().collect();
    let pairs = runs.windows(2).filter(|pair| pair[0].0.0 == pair[1].0.0);
    pairs.map(|pair| (pair[0].0.0, pair[1].1.0 as i64 - pair[0].1.1 as i64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_back() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = EffectLog::open(&path, false).unwrap();
        let job = JobId::from_bytes([7; 16]);
        for (what, _) in What::WORDS {
            log.write(what, job, Fence::new(9));
        }
        let entries = read(&path).unwrap();
        assert_eq!(
            entries.iter().map(|entry| entry.what).collect::<Vec<_>>(),
            What::WORDS.map(|(what, _)| what)
        );
        assert!(
            entries.iter().all(|entry| entry.job == job && entry.fence == Fence::new(9) && entry.nanos > 0)
        );
        assert!("start x 1 2".parse::<Entry>().is_err());
    }

    #[test]
    fn a_line_that_is_still_being_written_is_not_read_yet() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("log");
        let log = EffectLog::open(&path, false).unwrap();
        let job = JobId::from_bytes([7; 16]);
        log.write(What::Start, job, Fence::new(9));
        let whole = std::fs::read_to_string(&path).unwrap();
        for cut in 0..whole.len() {
            let mut text = whole.clone();
            text.push_str(&whole[..cut]);
            std::fs::write(&path, &text).unwrap();
            assert_eq!(read(&path).unwrap().len(), 1, "{cut} bytes of the second line are there");
        }
        std::fs::write(&path, whole.repeat(2)).unwrap();
        assert_eq!(read(&path).unwrap().len(), 2);
    }
}
