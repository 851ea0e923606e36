//! What goes into the guardian's machine and what comes out of it: plain values.

use std::time::Duration;

use model::{Instant, Nonce, WorkerKey};

use crate::clock_rule::Stopping;
use crate::message::Leave;

/// One job process and whatever it starts, named by the worker. Never used again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FamilyId(pub u64);

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// The worker says something.
    Said(Order),
    /// The worker's process is gone; it starts and stops nothing any more.
    WorkerDied,
    /// [`Output::Launch`] was tried: the family runs, or could not be started.
    Launched {
        /// Which.
        family: FamilyId,
        /// It runs.
        runs: bool,
    },
    /// The process that leads a family has exited. Others of the family may still run.
    LeaderExited {
        /// Which.
        family: FamilyId,
    },
    /// Nobody of the family is left.
    Emptied {
        /// Which.
        family: FamilyId,
    },
    /// A server took the leave of this key, or none could be reached.
    LeaveAnswered {
        /// Whose.
        key: WorkerKey,
        /// It was taken.
        taken: bool,
    },
}

/// What a worker says to its guardian.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// How to stop exclusive families, before anything else is said.
    Terms(Stopping),
    /// The key the worker uses from now on. Said before it is used for the first time.
    Key {
        /// The key.
        key: WorkerKey,
        /// Which process.
        nonce: Nonce,
    },
    /// Until when exclusive jobs may run under the present key, and the key may be used at least as long. Only ever later,
    /// for one key.
    Hold {
        /// By the clock both share.
        until: Instant,
    },
    /// Until when the present key may be used, where that is later than exclusive jobs may run under it. Only ever later, for
    /// one key.
    Lease {
        /// By the clock both share.
        until: Instant,
    },
    /// Start a family. Refused when it is too late for it.
    Launch {
        /// Which.
        family: FamilyId,
        /// It is exclusive: it must be gone by `until`.
        exclusive: bool,
    },
    /// Ask a family to end.
    Terminate {
        /// Which.
        family: FamilyId,
    },
    /// End a family.
    Kill {
        /// Which.
        family: FamilyId,
    },
    /// Whether exclusive jobs run inside the worker's own process, where only its death stops them for certain. Those that
    /// run when the key changes keep to the former key's lease until this is said again.
    Inside {
        /// They do.
        exclusive: bool,
    },
    /// The worker ends properly and has taken leave by itself, or has nothing to take leave of.
    Bye,
}

/// Do this for me.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start this family and answer [`Input::Launched`].
    Launch {
        /// Which.
        family: FamilyId,
    },
    /// Tell the worker that this family was not started, because it is too late for it.
    Refused {
        /// Which.
        family: FamilyId,
    },
    /// Ask everyone of the family to end.
    Terminate {
        /// Which.
        family: FamilyId,
    },
    /// End everyone of the family; [`Input::Emptied`] follows when that is done.
    Kill {
        /// Which.
        family: FamilyId,
    },
    /// The family is gone for certain: tell the worker how its leader ended.
    Ended {
        /// Which.
        family: FamilyId,
    },
    /// End the worker's process; [`Input::WorkerDied`] follows.
    KillWorker,
    /// Tell a server that the worker is gone; answer [`Input::LeaveAnswered`].
    Leave {
        /// Whose.
        key: WorkerKey,
        /// Which process.
        nonce: Nonce,
        /// In which words.
        leave: Leave,
    },
    /// Nothing is left to guard.
    Exit,
}

/// How long to try to tell a server at most, when no lease says how long that makes sense.
pub const LEAVE_WAIT_MAX: Duration = Duration::from_secs(60);
