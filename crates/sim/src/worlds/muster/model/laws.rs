//! What must hold in every state.

use super::World;
use super::code::has;
use super::state::State;

/// The names of the laws.
pub(super) const LAWS: [&str; 3] =
    ["never_running_twice", "no_exit_before_all_runners_known", "exit_is_one_way"];

impl World {
    /// The first law that the state breaks, and how.
    pub(super) fn judge(&self, state: &State) -> Result<(), String> {
        let [twice, unknown, back] = LAWS;
        let mind = &state.scheduler.mind.0;
        let workers = || (0..self.bounds.workers).map(|slot| (slot, &state.slots[slot]));
        for task in 0..self.bounds.tasks {
            let runners: Vec<String> = workers()
                .filter(|(_, worker)| has(worker.runs, task as u8))
                .map(|(slot, worker)| self.name(worker.instance(slot, self.bounds.workers)))
                .collect();
            self.asked(twice, runners.len() <= 1, || {
                format!("task {} runs on {}", task + 1, runners.join(" and "))
            })?;
        }
        if mind.is_over {
            let stranger = workers().find(|(slot, worker)| {
                worker.runs != 0 && !has(mind.fetched, worker.instance(*slot, self.bounds.workers))
            });
            self.asked(unknown, stranger.is_none(), || {
                let (slot, worker) = stranger.expect("one was found");
                let name = self.name(worker.instance(slot, self.bounds.workers));
                format!(
                    "scheduler {} waits no longer and does not know what {name} runs",
                    state.scheduler.generation
                )
            })?;
        }
        self.asked(back, mind.is_over || !state.scheduler.has_left, || {
            format!("scheduler {} waits again", state.scheduler.generation)
        })
    }

    fn asked(&self, law: &str, holds: bool, what: impl FnOnce() -> String) -> Result<(), String> {
        let is_asked = self.bounds.only_law.is_none_or(|only| only == law);
        if holds || !is_asked { Ok(()) } else { Err(format!("{law}: {}", what())) }
    }
}
