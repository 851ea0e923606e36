//! What goes into the machine and what comes out of it: plain values.

use std::time::Duration;

use model::{Generation, WorkerKey};

use crate::consensus::{self, How};
use crate::health::{Health, Rules};
use crate::seats::About;
use crate::set::SetId;

/// What is agreed before the start.
#[derive(Clone, Debug)]
pub struct Terms {
    /// This scheduler's life.
    pub generation: Generation,
    /// After so long, whoever was not heard of has stopped all it ran: the longest lease, by the slowest clock, and a margin.
    pub safe_wait: Duration,
    /// A shorter wait that somebody chose, at the price that tasks may run twice.
    pub unsafe_wait: Option<Duration>,
    /// When a worker is healthy.
    pub rules: Rules,
    /// A newcomer from another machine takes the seat of one that is not healthy.
    pub allow_bump_unhealthy: bool,
    /// About the set of workers.
    pub consensus: consensus::Terms,
}

impl Terms {
    /// The usual ones.
    pub fn new(generation: Generation, safe_wait: Duration) -> Self {
        Terms {
            generation,
            safe_wait,
            unsafe_wait: None,
            rules: Rules::default(),
            allow_bump_unhealthy: false,
            consensus: consensus::Terms::default(),
        }
    }
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A heartbeat renewed its lease. A key that was [`Gone`](Input::Gone) is never heard again.
    Heard {
        /// Whose.
        key: WorkerKey,
        /// What it says about itself; only the first time counts.
        about: About,
        /// The set id that it holds.
        echoed: Option<SetId>,
    },
    /// It said outside a heartbeat that it holds this id.
    Echoed {
        /// Who.
        key: WorkerKey,
        /// The id.
        id: SetId,
    },
    /// All that it runs is known. Only the first time counts.
    Fetched {
        /// Who.
        key: WorkerKey,
    },
    /// Its heartbeats come over a new stream: a healthcheck that was under way on the one before is lost.
    Reconnected {
        /// Whose.
        key: WorkerKey,
    },
    /// A healthcheck came back well.
    Checked {
        /// Whose.
        key: WorkerKey,
        /// Which one.
        number: u64,
    },
    /// It runs nothing any more, for certain and for good: its lease is over, it left with all stopped, or it or its guardian
    /// confirmed its death.
    Gone {
        /// Who.
        key: WorkerKey,
    },
}

/// To be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Ask what it runs. Said again at every update until [`Input::Fetched`].
    Fetch {
        /// Whom.
        key: WorkerKey,
    },
    /// Send a healthcheck; there is no other one under way to this worker.
    Check {
        /// Whom.
        key: WorkerKey,
        /// Comes back in [`Input::Checked`].
        number: u64,
    },
    /// Tell it the present set at once, outside a heartbeat's answer. Never said during the wait.
    Tell {
        /// Whom.
        key: WorkerKey,
        /// The set.
        id: SetId,
    },
    /// Its health changed.
    Health {
        /// Whose.
        key: WorkerKey,
        /// To this.
        health: Health,
    },
    /// Renew its lease no more, and tell it so. It counts, with all that it runs, until [`Input::Gone`]. Said once.
    Dismiss {
        /// Whom.
        key: WorkerKey,
        /// Why.
        why: Dismissal,
    },
    /// A newcomer did not get its seat: renew its lease no more, and tell it to die. Said at each of its heartbeats.
    TurnAway {
        /// Whom.
        key: WorkerKey,
        /// Why.
        why: TurnedAway,
    },
    /// Tasks may be started from now on.
    WaitOver {
        /// How the wait ended.
        how: How,
        /// How long it was.
        after: Duration,
    },
}

/// Why a worker is renewed no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Dismissal {
    /// It was like this for too long.
    Overdue(Health),
    /// This one sits in its seat now.
    SeatTaken {
        /// Who.
        by: WorkerKey,
    },
}

/// Why a newcomer did not get its seat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TurnedAway {
    /// A later start on the same machine sits there.
    LaterStart {
        /// Who.
        by: WorkerKey,
    },
    /// An instance on another machine sits there and may be running something.
    OtherMachine {
        /// Who.
        by: WorkerKey,
    },
}
