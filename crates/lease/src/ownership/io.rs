//! What goes into the ownership of a registry and what comes out of it: plain values.

use std::time::Duration;

use model::{Instant, RegistryId};

use crate::clock_rule::RateError;

/// How ownership is kept and lost; the same for all servers of one store.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    /// How often a beat is committed; well below half of `owned_for`, or nobody is ever taken over.
    pub beat_every: Duration,
    /// How long a beat makes the registry ours; whoever sees none for so long may take it.
    pub owned_for: Duration,
    /// The assumed clock-rate error.
    pub rate_error: RateError,
}

impl Terms {
    /// A beat every second, five of them missed before others take over.
    pub const DEFAULT: Terms = Terms {
        beat_every: Duration::from_secs(1),
        owned_for: Duration::from_secs(5),
        rate_error: RateError::DEFAULT,
    };
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// [`Output::Found`] was done; `None` if the store failed. Its commit counts as the first beat.
    Founded {
        /// When the call was sent.
        sent: Instant,
        /// The new registry.
        registry: Option<RegistryId>,
    },
    /// [`Output::Beat`] was done.
    Beaten {
        /// When the call was sent.
        sent: Instant,
        /// All registries there are.
        seen: Vec<Sighting>,
    },
    /// [`Output::Beat`] failed: whether it was committed, nobody knows.
    BeatFailed,
    /// The beat was refused: the registry is not there any more.
    Gone,
    /// The beat does not come through, and another server says that the registry is not there any more.
    SaidGone {
        /// When that server asked the store, by our clock, and not later than that.
        seen_at: Instant,
    },
    /// [`Output::TakeOver`] was done, refused, or failed: this registry can be tried again.
    TakeOverDone {
        /// Whose workers were to be taken.
        from: RegistryId,
    },
    /// This server is about to resign. Nothing is ours from now on, and nothing more is asked for: what comes out of this must
    /// be carried out before the store hears that others may take over.
    Resigning,
}

/// A registry as the store showed it with an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Which.
    pub registry: RegistryId,
    /// How often it has beaten.
    pub beats: u64,
    /// Its server has gone.
    pub resigned: bool,
}

/// Do this for me.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make a new registry. Answer: [`Input::Founded`].
    Found,
    /// A new registry is ours: start a roll of workers for it.
    Begin {
        /// Which.
        registry: RegistryId,
    },
    /// Commit a beat. Answer: [`Input::Beaten`], [`Input::BeatFailed`], [`Input::Gone`] or [`Input::SaidGone`].
    Beat {
        /// Of this one.
        registry: RegistryId,
    },
    /// The registry is ours for certain until then; the last word counts.
    OwnedUntil(Instant),
    /// It is not ours any more: its workers are another server's, and the next one is founded soon.
    Disowned {
        /// Which.
        registry: RegistryId,
    },
    /// Take over its workers, if it has not beaten since. Answer: [`Input::TakeOverDone`]. Should `by` be disowned before the
    /// answer comes, they are not ours either.
    TakeOver {
        /// Whose.
        from: RegistryId,
        /// As seen.
        beats: u64,
        /// Ours.
        by: RegistryId,
    },
}
