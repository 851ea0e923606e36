//! Our own stalls. While anybody lives, a tick shows that our own loop runs. A tick that is late means that heartbeats
//! waited unread through no fault of their senders: everybody gets that time back, before anybody is judged.

use std::time::Duration;

use model::Instant;

use super::machine::Registry;
use super::mutation::Mutation;

/// How often to see that our own loop runs. Well below [`STALL_TOLERANCE`], so that a stall is measured nearly whole.
const STALL_TICK: Duration = Duration::from_millis(250);
/// A stall up to this long is a hiccup that leases survive by themselves: a heartbeat lost to it is followed by another.
pub(super) const STALL_TOLERANCE: Duration = Duration::from_secs(1);

/// Notices that we stood still.
#[derive(Debug, Default)]
pub(super) struct StallWatch {
    /// When to see that our own loop runs: every [`STALL_TICK`] while anybody lives.
    tick_at: Option<Instant>,
    stalls: u64,
}

impl StallWatch {
    /// The next sign of life.
    pub(super) fn next_tick(&self) -> Option<Instant> {
        self.tick_at
    }

    /// How often we stood still.
    pub(super) fn stalls(&self) -> u64 {
        self.stalls
    }

    /// A sign of life, if it is time for one.
    pub(super) fn tick(&mut self, now: Instant) {
        if self.tick_at.is_some_and(|at| at <= now) {
            self.tick_at = Some(now + STALL_TICK);
        }
    }

    /// How long we stood still until now, if we did.
    fn stalled(&mut self, now: Instant) -> Option<Duration> {
        let late = now.since(self.tick_at?);
        if late <= STALL_TOLERANCE {
            return None;
        }
        self.tick_at = Some(now + STALL_TICK);
        self.stalls += 1;
        Some(late)
    }

    fn run(&mut self, now: Instant, is_needed: bool) {
        self.tick_at = is_needed.then(|| self.tick_at.unwrap_or(now + STALL_TICK));
    }
}

impl Registry {
    /// Gives everybody the time back that we stood still.
    pub(super) fn notice_stall(&mut self, now: Instant) {
        let Some(late) = self.watch.stalled(now) else { return };
        if self.rules.has(Mutation::OwnStallIgnored) {
            return;
        }
        for worker in self.workers.values_mut().filter(|worker| worker.is_active()) {
            let grace = self.rules.grace(now, worker.durable_grant);
            worker.expires = (worker.expires + late).max(grace);
        }
    }

    /// So many more, or fewer, are alive.
    pub(super) fn count_alive(&mut self, now: Instant, change: isize) {
        self.alive = self.alive.saturating_add_signed(change);
        self.watch.run(now, self.alive > 0);
    }
}
