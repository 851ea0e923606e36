//! What tasks write down of themselves: when they began, that they go on, when they ended. Whether two of them ran at once is judged
//! from that alone.

use std::collections::BTreeMap;
use std::path::Path;

use cli::effects;
use model::{Fence, JobId};

/// One run of a job, as its own process wrote it down, in microseconds since 1970.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    pub(super) fence: Fence,
    pub(super) first: u64,
    pub(super) last: u64,
    pub(super) has_ended: bool,
}

/// A task that runs for as many milliseconds as its payload says and writes down that it runs. It forks nothing, so that many of
/// them leave the machine to the others.
pub(super) fn task(log: &Path) -> String {
    let millis = r#"read -r millis
        end=$(( ${EPOCHREALTIME/[.,]/} + millis * 1000 ))
        while (( ${EPOCHREALTIME/[.,]/} < end ))"#;
    noted(log, millis)
}

/// A task that runs until this file is there.
pub(super) fn task_until(file: &Path, log: &Path) -> String {
    noted(log, &format!("while [[ ! -e {} ]]", file.display()))
}

/// A task that writes down that it runs as long as it does, whoever asks it to stop.
fn noted(log: &Path, as_long_as: &str) -> String {
    format!(
        r#"trap '' TERM
        exec 3>>{log} 4<> <(:)
        say() {{ echo "$1 $TENURE_JOB_ID $TENURE_FENCE ${{EPOCHREALTIME/[.,]/}}" >&3; }}
        say start
        {as_long_as}; do say tick; read -rt 0.03 -u 4; done
        say end"#,
        log = log.display()
    )
}

/// All runs of each job, in the order of their beginnings.
pub(super) fn read(log: &Path) -> BTreeMap<JobId, Vec<Run>> {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    let mut runs: BTreeMap<(JobId, Fence), Run> = BTreeMap::new();
    for line in effects::complete_lines(&text) {
        let words: Vec<&str> = line.split(' ').collect();
        let [what, id, fence, micros] = words[..] else { panic!("not a line of the log: {line:?}") };
        let fence = Fence::new(fence.parse().expect("a fence"));
        let at = micros.parse().expect("a date");
        let run = runs.entry((id.parse().expect("a job id"), fence));
        let run = run.or_insert(Run { fence, first: at, last: at, has_ended: false });
        (run.first, run.last) = (run.first.min(at), run.last.max(at));
        assert!(!run.has_ended, "a run that had ended goes on: {line:?}");
        run.has_ended = what == "end";
    }
    let mut jobs: BTreeMap<JobId, Vec<Run>> = BTreeMap::new();
    for ((id, _), run) in runs {
        jobs.entry(id).or_default().push(run);
    }
    for runs in jobs.values_mut() {
        runs.sort_by_key(|run| run.first);
    }
    jobs
}
