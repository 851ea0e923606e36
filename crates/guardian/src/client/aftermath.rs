//! The guardian was killed outside a namespace: find and end what it had started.
//!
//! The leaders of its families die with it by their parent-death signal. The rest is found by what cannot be taken for a
//! stranger's: the guardian's session, the environment of a job, or the guardian's cgroup.

use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::cgroup::Cgroup;
use crate::procfs::{self, Mark};

/// Between two looks.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Looks until it is given up: a process in uninterruptible sleep may outlast them.
const LOOKS_MAX: u32 = 1_000;

/// What is known of families whose guardian is gone.
pub(super) struct Remains {
    /// The guardian's session. Its number is not given to others as long as anyone is in it.
    session: i32,
    marks: Vec<Mark>,
    cgroup: Option<Cgroup>,
}

impl Remains {
    pub(super) fn new(guardian: u32, marks: Vec<Mark>, cgroup: Option<&str>) -> Remains {
        let session = i32::try_from(guardian).expect("process numbers are small");
        Remains { session, marks, cgroup: cgroup.map(Cgroup::at) }
    }

    /// Kills whoever is left; whether anybody was.
    fn kill(&self) -> bool {
        let mut is_left = false;
        if let Some(cgroup) = &self.cgroup {
            cgroup.kill_all();
            is_left |= !cgroup.is_empty();
        }
        for process in procfs::processes().filter(|process| self.includes(*process)) {
            is_left = true;
            // An error means that it is gone already.
            let _ = kill_process(process, Signal::KILL);
        }
        is_left
    }

    fn includes(&self, process: Pid) -> bool {
        let Some(stat) = procfs::stat(process).filter(|stat| !stat.is_zombie) else { return false };
        stat.session == self.session
            || !self.marks.is_empty() && {
                let environ = procfs::environ(process);
                self.marks.iter().any(|mark| mark.is_on(&environ))
            }
    }
}

/// Everyone is gone already: removes what they were held together by.
pub(super) fn tidy(remains: &Remains) {
    if let Some(cgroup) = &remains.cgroup {
        cgroup.remove_all();
    }
}

/// Ends them, again and again; whether nobody is left.
pub(super) async fn clear(remains: &Remains) -> bool {
    for _ in 0..LOOKS_MAX {
        if !remains.kill() {
            tidy(remains);
            return true;
        }
        tokio::time::sleep(LOOK_INTERVAL).await;
    }
    false
}
