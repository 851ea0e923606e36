//! Exclusive jobs: at most one copy of each may run, so more is asked of us than of other jobs.
//!
//! ```text
//!   Assigned ──► waiting ──────────► running ──────────► told to stop ──► aborted ──► the process is doomed
//!                   │     Bound                 any reason,
//!                   │                           at K + S before the exclusive hold is over
//!                   └──► handed back: told to stop, or too late to start
//! ```
//!
//! They live on a hold of their own, which only answers extend whose server vouches for it. When it ends they are gone, while
//! the key and its ordinary jobs go on; what had to stop for that is handed back under the same key, and others are taken
//! again as soon as a server vouches for them.
//!
//! A job that waits takes its slot and is bound at once. Its bind is told with every heartbeat until the server says that it
//! took it: that a heartbeat was acknowledged proves nothing, because the registry may still be asking for the row.

use model::{Hold, Instant, Outcome};
use muster::Health;

use super::drain::Phase;
use super::farewell::Owed;
use super::kill_clock::KillClock;
use super::machine::Ledger;
use super::mutation::Mutation;
use super::{Output, StopReason};
use crate::clock_rule;
use crate::message::Change;

impl Ledger {
    /// Whether an exclusive job was assigned and has neither been started nor been given up: [`Output::Start`] or
    /// [`Output::Ended`] follows.
    pub fn is_waiting(&self, hold: Hold) -> bool {
        self.jobs.is_waiting(hold)
    }

    /// The server took these binds: what waited for that can start.
    pub(super) fn confirm(&mut self, now: Instant, holds: &[Hold]) {
        self.bound.acknowledge_binds(holds);
        for hold in holds {
            self.begin_if_waiting(now, *hold);
        }
    }

    pub(super) fn begin_if_waiting(&mut self, now: Instant, hold: Hold) {
        if !self.jobs.is_waiting(hold) {
            return;
        }
        if !self.may_run_exclusive(now) && !self.has(Mutation::StartsStopped) {
            return self.give_up(hold, StopReason::LeaseOver);
        }
        // Otherwise the bind is told again, and answered again.
        if self.is_free_for(hold) {
            self.jobs.begin(now, hold);
            self.outputs.push_back(Output::Start { hold });
        }
    }

    /// Whether nothing runs here that must have ended before this exclusive job starts: exclusive jobs of a dead key or of a
    /// hold that ended, and older claims of the same job. So exclusive jobs that run at the same time always live on the same
    /// hold.
    pub(super) fn is_free_for(&self, hold: Hold) -> bool {
        !self.jobs.has_outlived() && self.jobs.claims_of(hold.job).iter().all(|claim| *claim >= hold)
    }

    /// Whether we can promise now that an exclusive job is gone before the hold for it is over.
    pub(super) fn may_run_exclusive(&self, now: Instant) -> bool {
        let stopping = self.terms.stopping;
        let is_able = self.terms.profile.stop_within.is_some();
        let fits =
            self.instance.lease().is_some_and(|lease| clock_rule::fits_exclusive(lease, stopping.within()));
        let hold = self.exclusive_hold_until();
        let hold = if self.has(Mutation::StartsWithoutHold) { self.hold_until() } else { hold };
        let is_in_time = hold.is_some_and(|until| now < stopping.stop_at(until));
        self.phase == Phase::Serving && is_able && fits && is_in_time
    }

    /// Whether a scheduler may give us volatile jobs. It thinks so, or it would not; but what it sent may come late.
    pub(super) fn is_well(&self, now: Instant) -> bool {
        self.health(now) == Health::Healthy || self.has(Mutation::StartsUnwell)
    }

    /// It never starts here.
    pub(super) fn give_up(&mut self, hold: Hold, reason: StopReason) {
        self.jobs.remove(hold);
        let outcome = (reason != StopReason::Lost).then_some(Outcome::HandedBack);
        match &outcome {
            Some(outcome) => self.reports.owe(hold, outcome.clone()),
            None => self.forget(hold),
        }
        self.outputs.push_back(Output::Ended { hold, outcome });
    }

    pub(super) fn give_up_waiting(&mut self, reason: StopReason) {
        for hold in self.jobs.waiting() {
            self.give_up(hold, reason);
        }
    }

    /// Tells exclusive jobs to stop while there is time left to see that they do.
    pub(super) fn stop_exclusive_if_due(&mut self, now: Instant) {
        if self.exclusive_stop_at().is_none_or(|at| now < at) {
            return;
        }
        for hold in self.jobs.exclusive() {
            self.stop(now, hold, StopReason::LeaseOver);
        }
    }

    /// A server vouches for exclusive jobs again. What runs although the hold before had ended is about to end, and nothing
    /// new may be taken for it or beside it.
    pub(super) fn note_gap(&mut self, now: Instant) {
        if self.exclusive_hold_until().is_some_and(|until| until <= now) {
            self.jobs.outlive_hold();
        }
    }

    /// The key is over: an exclusive job that still runs is not handed on to the next one. It ends soon, or the process does.
    pub(super) fn disown_exclusive(&mut self) {
        if self.has(Mutation::ExclusiveInherited) {
            return;
        }
        for hold in self.jobs.outlive_key() {
            self.forget(hold);
        }
    }

    pub(super) fn exclusive_stop_at(&self) -> Option<Instant> {
        if !self.jobs.has_exclusive() || self.has(Mutation::StopsAtHoldUntil) {
            return None;
        }
        self.exclusive_hold_until().map(|until| self.terms.stopping.stop_at(until))
    }

    /// Binds that were told before and not taken yet.
    pub(super) fn binds_to_repeat(&self) -> Vec<Change> {
        self.jobs.waiting().into_iter().filter_map(|hold| self.bound.told_as(hold)).collect()
    }

    pub(super) fn kill_clock(&self) -> KillClock {
        let far = Some(Instant::from_nanos(u64::MAX));
        let hold_until = if self.has(Mutation::StopsAtHoldUntil) { far } else { self.exclusive_hold_until() };
        KillClock { stopping: self.terms.stopping, hold_until }
    }

    pub(super) fn say_farewells(&mut self) {
        while let Some(Owed { key, stopped_at, all_stopped, .. }) = self.farewells.take_ready() {
            let nonce = self.nonce();
            self.outputs.push_back(Output::Farewell { key, nonce, stopped_at, all_stopped });
        }
    }
}
