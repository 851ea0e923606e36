//! Everything that is to happen later. Timers are never cancelled: each carries what it was set for, and one that comes too
//! late finds that this is over.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use model::Instant;

use crate::identity::{Identity, Incarnation, NodeId};

/// Something to do later.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Timer {
    /// When to judge the present probe and begin the next.
    Tick,
    /// When to ask helpers, if this probe is still unanswered.
    ProbeTimeout { number: u32 },
    /// When to ask more helpers, if this probe is still unanswered.
    MoreHelpers { number: u32 },
    /// When to tell who asked that there is no answer to this ping.
    Nack { number: u32 },
    /// When to ping one more after a death.
    Scout,
    /// When to ask observers, if this ping is still unanswered.
    ScoutTimeout { number: u32 },
    /// When a suspicion has lasted too long.
    Suspicion { node: Identity, incarnation: Incarnation },
    /// When to ask the silent observers of this round again.
    AskAgain { round: u32 },
    /// When this round is over.
    RoundEnd { round: u32 },
    /// When there is a token for another round.
    Accuse,
    /// When to send the next ping of this measurement, or to judge it, or to forget it.
    Measure { node: Identity, first: u32 },
    /// When to ping a node again that others take for dead, or to believe it.
    Check { id: NodeId, number: u32 },
    /// When to spread news.
    Gossip,
    /// When to compare views whatever the digests say.
    Sync,
    /// When to look for the cluster.
    Join,
    /// When to contact the dead or a known address.
    ReachOut,
    /// When a contradiction that was not believed at once may be believed, if its node is still heard.
    HoldDown { node: Identity, incarnation: Incarnation },
    /// When to begin or go on with the review of this number.
    Review { number: u32 },
    /// When to forget who is long gone.
    Sweep,
}

/// Timers in order of time, and of their setting among equals.
#[derive(Debug, Default)]
pub(crate) struct Timers {
    heap: BinaryHeap<Reverse<(Instant, u64, Timer)>>,
    set: u64,
}

impl Timers {
    pub(crate) fn set(&mut self, at: Instant, timer: Timer) {
        self.set += 1;
        self.heap.push(Reverse((at, self.set, timer)));
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.heap.peek().map(|Reverse((at, ..))| *at)
    }

    /// The first timer that is due.
    pub(crate) fn due(&mut self, now: Instant) -> Option<Timer> {
        if self.next()? > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, timer))| timer)
    }

    pub(crate) fn clear(&mut self) {
        self.heap.clear();
    }
}
