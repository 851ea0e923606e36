//! How an attempt ended, as its holder reports it.

use std::time::Duration;

use bytes::Bytes;

use crate::id::Hold;

/// How one attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The work is done; the result may be empty.
    Completed {
        /// What the handler returned.
        result: Bytes,
    },
    /// The attempt failed.
    Failed {
        /// What went wrong, for people.
        error: String,
        /// Whether and when to try again.
        retry: Retry,
    },
    /// The holder gives the job back unharmed: the attempt does not count and the job is offered at once.
    HandedBack,
}

/// What a failed attempt asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// As the job's policy says.
    ByPolicy,
    /// After this long, if attempts are left.
    After(Duration),
    /// Never: the job is dead now, whatever attempts are left.
    Never,
}

/// An outcome together with the claim it belongs to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The claim that ended.
    pub hold: Hold,
    /// How it ended.
    pub outcome: Outcome,
}
