//! Every course of events in a small world: a few workers, a task or two, and schedulers that die and start again.
//!
//! Explored is `muster::Consensus`, the code that ships, together with all that can happen around it: heartbeats, answers and
//! starts that are under way for as long as they like or lost with their stream, workers that end, schedulers that die at any
//! moment. What is abstracted, and how:
//!
//! * **Time** is reduced to the order of expiries, which the clock rule guarantees. A worker's hold may be over at any moment; only
//!   after that may its scheduler lose it. A safe wait is over only when no worker holds a lease that its scheduler has not heard
//!   of. Nothing else depends on time: how long anything takes is left open, so all speeds are explored.
//! * **A crash of a worker** is the end of its hold: in both, all that it ran has stopped and its key is not used again. In the time
//!   between death and the end of its processes it is simply silent.
//! * **A crash and the restart** of the scheduler are one step. What happens to workers in between may happen just after.
//! * **Links** are streams: in order, at most two messages each way, lost together. Heartbeats are addressed to one life of
//!   the scheduler and die with it. What it has said arrives after its death too, until the worker belongs to its successor.
//! * **What a worker runs** is asked and answered in one step: between answer and arrival it can only become less. So is what a
//!   result or a poll says, that a task certainly does not run there.
//! * **Clients** resubmit every task to every scheduler, and want it again after its end: there is always something to start.
//! * **Health** by age of heartbeats is chance: a permitted worker may be found healthy at any time.
//! * **Workers that cannot be told apart** are one, see `symmetry`; minds of schedulers are kept once, see `mind`.

mod code;
mod laws;
mod mind;
mod rules;
mod state;
mod story;
mod symmetry;

use std::num::NonZeroUsize;
use std::ops::ControlFlow;

use muster::Mutation;
use muster::consensus::Terms;

use self::code::{Codes, MEMBERS_MAX, SLOTS_MAX};
use self::mind::Minds;
pub use self::rules::Action;
use self::state::{IN_FLIGHT_MAX, Scheduler, Shared, Slot, State, TASKS_MAX};
use self::symmetry::Order;
use crate::explore::{self, Counterexample, Limits, Model, Progress};

/// How large a world.
#[derive(Clone, Copy, Debug)]
pub struct Bounds {
    /// Workers at a time, up to 3.
    pub workers: usize,
    /// Times the scheduler dies and starts again, up to 5.
    pub restarts: u8,
    /// Times a worker ends and comes back under a new key, all workers together.
    pub ends: u8,
    /// Tasks, up to 2.
    pub tasks: usize,
    /// Messages under way on one stream, up to 2.
    pub in_flight: usize,
    /// Additions in a row before newcomers queue.
    pub batch_after: u32,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The only law to ask; all when `None`.
    pub only_law: Option<&'static str>,
}

impl Bounds {
    /// Most instances of workers: workers at a time, and as many more for each end.
    pub const INSTANCES_MAX: usize = MEMBERS_MAX;
}

impl Default for Bounds {
    fn default() -> Self {
        Bounds {
            workers: 2,
            restarts: 1,
            ends: 1,
            tasks: 1,
            in_flight: 2,
            batch_after: Terms::default().batch_after_min,
            mutation: None,
            only_law: None,
        }
    }
}

/// What was found.
#[derive(Clone, Debug)]
pub struct Findings {
    /// What was explored.
    pub bounds: Bounds,
    /// Different states.
    pub states: u64,
    /// Steps between them.
    pub transitions: u64,
    /// Steps from the beginning to the farthest one.
    pub depth: u32,
    /// Different minds of schedulers among them.
    pub minds: usize,
    /// Whether that is all there is.
    pub is_complete: bool,
    /// A shortest way to break a law.
    pub violation: Option<Counterexample<Action>>,
}

/// The names of the laws.
pub const LAWS: [&str; 3] = laws::LAWS;

/// Explores it all, or as much as the limits allow. `progress` hears how far it has come and says whether to go on.
pub fn explore(
    bounds: Bounds,
    limits: Limits,
    mut progress: impl FnMut(&Progress) -> ControlFlow<()>,
) -> Findings {
    let world = World::new(bounds, true);
    let outcome = explore::search(&world, limits, &mut progress);
    // A story whose workers change names at every step is hard to follow, so it is searched for again without that; by one
    // thread, so that it is the same every time.
    let violation = outcome.violation.map(|found| {
        let alone = Limits { states_max: u64::MAX, threads: NonZeroUsize::new(1) };
        explore::search(&World::new(bounds, false), alone, progress).violation.unwrap_or(found)
    });
    Findings {
        bounds,
        states: outcome.states,
        transitions: outcome.transitions,
        depth: outcome.depth,
        minds: world.minds.len(),
        is_complete: outcome.is_complete,
        violation,
    }
}

/// The model.
struct World {
    bounds: Bounds,
    minds: Minds,
    /// The ways to rename workers; none if they keep their names.
    orders: Vec<Order>,
}

impl World {
    fn new(bounds: Bounds, is_symmetric: bool) -> Self {
        assert!((1..=SLOTS_MAX).contains(&bounds.workers), "at most {SLOTS_MAX} workers");
        assert!((1..=TASKS_MAX).contains(&bounds.tasks), "at most {TASKS_MAX} tasks");
        assert!((1..=IN_FLIGHT_MAX).contains(&bounds.in_flight), "at most {IN_FLIGHT_MAX} under way");
        assert!(bounds.restarts <= 5, "at most 5 restarts");
        let instances = bounds.workers * (1 + usize::from(bounds.ends));
        let terms = Terms { batch_after_min: bounds.batch_after, ..Terms::default() };
        World {
            bounds,
            minds: Minds::new(Codes::new(instances), terms, bounds.mutation),
            orders: if is_symmetric { symmetry::orders(bounds.workers, instances) } else { Vec::new() },
        }
    }

    /// A scheduler of this generation starts among workers that never met one.
    fn began(&self, generation: u8) -> State {
        let mind = Shared(self.minds.begin(generation));
        State {
            scheduler: Scheduler { generation, mind, has_left: false, on: [None; TASKS_MAX] },
            slots: [Slot::new(); SLOTS_MAX],
            ends_left: self.bounds.ends,
        }
    }
}

impl Model for World {
    type State = State;
    type Action = Action;

    fn initial(&self) -> State {
        self.began(1)
    }

    fn actions(&self, state: &State, into: &mut Vec<Action>) {
        self.possible(state, into);
    }

    fn next(&self, state: &State, action: &Action) -> Option<State> {
        self.follow(state, *action)
    }

    fn check(&self, state: &State) -> Result<(), String> {
        self.judge(state)
    }

    fn canonical(&self, state: State) -> State {
        symmetry::least(state, &self.orders, &self.minds)
    }

    fn tell(&self, before: &State, action: &Action, after: &State) -> String {
        self.line(before, *action, after)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(bounds: Bounds, is_symmetric: bool) -> u64 {
        let world = World::new(bounds, is_symmetric);
        let outcome = explore::search(&world, Limits::default(), |_| ControlFlow::Continue(()));
        assert!(outcome.is_complete && outcome.violation.is_none());
        outcome.states
    }

    /// Renaming two workers makes at most two states into one. Fewer states than that would mean that some were taken for others
    /// that are not the same.
    #[test]
    fn only_states_that_differ_in_names_are_one() {
        let two = Bounds { workers: 2, restarts: 1, ends: 0, in_flight: 1, ..Bounds::default() };
        let (all, named) = (count(two, true), count(two, false));
        assert!(all < named && named <= all * 2, "{all} of {named}");
    }
}
