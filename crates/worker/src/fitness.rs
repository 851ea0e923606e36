//! Whether a worker may serve exclusive queues: can it stop every job for certain, before its lease is over?
//!
//! It needs a guardian, because a worker that is frozen or dead stops nothing. It needs a lease in which two heartbeats
//! may be lost before a job must be told to stop. And if it has handlers inside its own process, its guardian must be
//! able to end that process, since nothing else ends a handler that does not listen.

use std::time::Duration;

use lease::clock_rule::{self, Stopping};
use model::Invalid;

/// How to come by a guardian.
pub(crate) const GUARDIAN_HINT: &str = "call worker::guardian::run_if_asked() first in main, then give the builder \
                                        Guardian::start(Isolation::Auto)";

/// The shortest safety: the kernel needs some time to end a process.
const SAFETY_MIN: Duration = Duration::from_millis(10);

/// What decides.
pub(crate) struct Fitness {
    pub(crate) stopping: Stopping,
    /// `None` leaves it to the server; then it shows when the worker registers.
    pub(crate) lease: Option<Duration>,
    /// `None` without a guardian.
    pub(crate) can_kill_worker: Option<bool>,
    /// It has handlers inside its own process.
    pub(crate) has_inside: bool,
}

impl Fitness {
    /// Says why not, and what to change.
    pub(crate) fn check(&self) -> Result<(), Invalid> {
        let Some(can_kill_worker) = self.can_kill_worker else {
            return Err(Invalid::new(format!(
                "exclusive queues need a guardian, and this worker has none; {GUARDIAN_HINT}"
            )));
        };
        if self.has_inside && !can_kill_worker {
            return Err(Invalid::new(
                "a guardian in a PID namespace cannot end this process, so handlers inside it cannot serve \
                 exclusive queues; run their jobs as commands (exec), or start the guardian with Isolation::Groups",
            ));
        }
        match self.lease {
            Some(lease) if !clock_rule::fits_exclusive(lease, self.stopping.within()) => {
                Err(Invalid::new(too_short(lease, self.stopping)))
            }
            _ => Ok(()),
        }
    }
}

/// Refuses a safety that leaves the kernel no time.
pub(crate) fn check_safety(safety: Duration) -> Result<(), Invalid> {
    if safety < SAFETY_MIN {
        return Err(Invalid::new(format!(
            "safety of {safety:?} leaves no time to end a process; choose at least {SAFETY_MIN:?}"
        )));
    }
    Ok(())
}

fn too_short(lease: Duration, stopping: Stopping) -> String {
    let interval = clock_rule::heartbeat_interval(lease);
    let Stopping { kill_wait, safety } = stopping;
    format!(
        "lease of {lease:?} is too short for exclusive queues: 3 heartbeats, one every {interval:?}, kill wait of \
         {kill_wait:?} and safety of {safety:?} take {:?}; choose a lease of at least {:?}, or a shorter kill wait or \
         safety",
        interval * 3 + stopping.within(),
        clock_rule::exclusive_lease_min(stopping.within()),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fit() -> Fitness {
        Fitness { stopping: Stopping::DEFAULT, lease: None, can_kill_worker: Some(true), has_inside: true }
    }

    fn complaint(fitness: Fitness) -> String {
        fitness.check().unwrap_err().0
    }

    #[test]
    fn a_guardian_that_can_end_everything_and_a_long_lease_are_fit() {
        let namespace = || Fitness { can_kill_worker: Some(false), ..fit() };
        assert_eq!(fit().check(), Ok(()));
        assert_eq!(Fitness { lease: Some(Duration::from_secs(15)), ..fit() }.check(), Ok(()));
        assert_eq!(Fitness { has_inside: false, ..namespace() }.check(), Ok(()));
        assert!(complaint(namespace()).starts_with("a guardian in a PID namespace cannot end this process"));
        let none = complaint(Fitness { can_kill_worker: None, ..fit() });
        assert_eq!(
            none,
            format!("exclusive queues need a guardian, and this worker has none; {GUARDIAN_HINT}")
        );
    }

    #[test]
    fn a_short_lease_is_refused_with_all_its_numbers() {
        let short = complaint(Fitness { lease: Some(Duration::from_secs(10)), ..fit() });
        assert_eq!(
            short,
            "lease of 10s is too short for exclusive queues: 3 heartbeats, one every 2s, kill wait of 5s and safety \
             of 1s take 12s; choose a lease of at least 15s, or a shorter kill wait or safety"
        );
    }

    #[test]
    fn some_safety_there_must_be() {
        assert_eq!(check_safety(Duration::from_secs(1)), Ok(()));
        assert!(check_safety(Duration::ZERO).unwrap_err().0.contains("at least 10ms"));
    }
}
