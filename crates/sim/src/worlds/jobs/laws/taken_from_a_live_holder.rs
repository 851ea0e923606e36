//! **The promise:** a worker that lives keeps its jobs. As long as its process runs and its own registry has it active
//! with the job bound, or has not yet heard after a restart what it holds, the job is not taken back. Two things are not
//! life: a job with a heartbeat timeout must beat itself, and a worker that was kicked is gone by an operator's will.

use lease::registry::WorkerState;
use model::{Hold, WorkerKey};

use super::holds;
use crate::law::Verdict;
use crate::worlds::jobs::books::shown;

pub(super) const LAW: &str = "taken_from_a_live_holder";

/// What is true of a holder at the moment a job is taken back from it.
pub(in super::super) struct Holder<'a> {
    pub(in super::super) key: &'a WorkerKey,
    pub(in super::super) is_alive: bool,
    /// In the eyes of its own registry.
    pub(in super::super) state: Option<WorkerState>,
    pub(in super::super) is_bound: bool,
    /// The job must beat itself.
    pub(in super::super) beats_itself: bool,
    /// At most one copy of the job may run: its holder is told to stop it and keeps it until it has.
    pub(in super::super) is_exclusive: bool,
}

/// A job was taken back.
pub(in super::super) fn check(hold: Hold, holder: &Holder<'_>) -> Verdict {
    let keeps_it = match holder.state {
        Some(WorkerState::Active | WorkerState::Stopping) => {
            holder.is_bound && (!holder.beats_itself || holder.is_exclusive)
        }
        Some(WorkerState::Unsynced) => true,
        Some(WorkerState::Joining | WorkerState::Ended(_)) | None => false,
    };
    holds(LAW, !(holder.is_alive && keeps_it), || {
        format!(
            "{} was taken back from {}, which lives and has it: {:?}",
            shown(hold),
            holder.key,
            holder.state
        )
    })
}
