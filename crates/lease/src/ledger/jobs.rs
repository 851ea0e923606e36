//! Every job whose handler has not ended, lost ones included, and when to look at which.
//!
//! A job that comes and goes without limits of its own never enters the agenda. An entry may be early, never late: one
//! look puts it right.

use std::collections::{BTreeMap, BTreeSet};

use model::{Fence, Hold, Instant, JobId};

use super::StopReason;
use super::held::{Due, Held};
use super::kill_clock::KillClock;

#[derive(Debug, Default)]
pub(super) struct Jobs {
    held: BTreeMap<Hold, Entry>,
    agenda: BTreeSet<(Instant, Hold)>,
    /// Jobs whose latest sign is to be sent.
    signs: BTreeSet<Hold>,
    /// How many entries have `is_timed`.
    timed: usize,
    /// Exclusive jobs that wait for their start.
    waiting: BTreeSet<Hold>,
    /// Exclusive jobs that run although their key, or the hold they lived on, is over.
    outlived: BTreeSet<Hold>,
}

#[derive(Debug)]
struct Entry {
    held: Held,
    /// Its place in the agenda.
    look_at: Option<Instant>,
    /// It is exclusive, and may have to be told to stop when the lease nears its end. Jobs that wait are no exception.
    is_timed: bool,
}

impl Jobs {
    /// A job whose handler starts at once.
    pub(super) fn insert(&mut self, now: Instant, hold: Hold, mut held: Held) {
        held.begin(now);
        let look_at = held.next_deadline();
        self.agenda.extend(look_at.map(|at| (at, hold)));
        self.enter(hold, held, look_at);
    }

    /// A job whose handler starts when somebody says so.
    pub(super) fn insert_waiting(&mut self, hold: Hold, held: Held) {
        self.waiting.insert(hold);
        self.enter(hold, held, None);
    }

    /// The handler of one that waited starts.
    pub(super) fn begin(&mut self, now: Instant, hold: Hold) {
        self.waiting.remove(&hold);
        if let Some(entry) = self.held.get_mut(&hold) {
            entry.held.begin(now);
            self.put_on_agenda(hold);
        }
    }

    pub(super) fn remove(&mut self, hold: Hold) -> Option<Held> {
        let entry = self.held.remove(&hold)?;
        if let Some(at) = entry.look_at {
            self.agenda.remove(&(at, hold));
        }
        self.signs.remove(&hold);
        self.timed -= usize::from(entry.is_timed);
        if entry.held.is_exclusive() {
            self.waiting.remove(&hold);
            self.outlived.remove(&hold);
        }
        Some(entry.held)
    }

    /// Notes why a handler must stop; whether that is news to it.
    pub(super) fn stop(&mut self, now: Instant, hold: Hold, reason: StopReason, clock: KillClock) -> bool {
        let Some(entry) = self.held.get_mut(&hold) else { return false };
        let is_news = entry.held.stop(now, reason, clock);
        self.overlook(hold);
        self.put_on_agenda(hold);
        is_news
    }

    /// The tasks of all must be ended now.
    pub(super) fn abort_all(&mut self, now: Instant) {
        for hold in self.holds().collect::<Vec<_>>() {
            if let Some(entry) = self.held.get_mut(&hold) {
                entry.held.abort(now);
                self.put_on_agenda(hold);
            }
        }
    }

    /// Their key is over: exclusive jobs are not ours any more. All that run.
    pub(super) fn outlive_key(&mut self) -> Vec<Hold> {
        for (hold, entry) in self.held.iter_mut().filter(|(_, entry)| entry.held.is_exclusive()) {
            entry.held.lose();
            self.outlived.insert(*hold);
        }
        self.outlived.iter().copied().collect()
    }

    /// The hold of the exclusive jobs that run has ended. They are still ours.
    pub(super) fn outlive_hold(&mut self) {
        let running = self
            .held
            .iter()
            .filter(|(hold, entry)| entry.held.is_exclusive() && !self.waiting.contains(hold));
        self.outlived.extend(running.map(|(hold, _)| *hold));
    }

    /// Exclusive jobs whose handlers run.
    pub(super) fn exclusive_running(&self) -> BTreeSet<Hold> {
        let runs =
            |(hold, entry): &(&Hold, &Entry)| entry.held.is_exclusive() && !self.waiting.contains(hold);
        self.held.iter().filter(runs).map(|(hold, _)| *hold).collect()
    }

    /// The end of the lease is nothing to this job any more.
    pub(super) fn overlook(&mut self, hold: Hold) {
        if let Some(entry) = self.held.get_mut(&hold) {
            self.timed -= usize::from(std::mem::take(&mut entry.is_timed));
        }
    }

    /// Nobody's end is set any more.
    pub(super) fn spare_all(&mut self) {
        for entry in self.held.values_mut() {
            entry.held.spare();
        }
    }

    /// A handler says that it gets on.
    pub(super) fn sign(&mut self, now: Instant, hold: Hold) {
        if let Some(signs) = self.held.get_mut(&hold).and_then(|entry| entry.held.signs()) {
            signs.give(now);
            if signs.queue_if_due(now) {
                self.signs.insert(hold);
            }
            self.put_on_agenda(hold);
        }
    }

    /// A new stream: nobody knows which signs arrived over the old one.
    pub(super) fn sign_again(&mut self, now: Instant) {
        for (hold, entry) in &mut self.held {
            if let Some(signs) = entry.held.signs() {
                signs.give_again();
                if signs.queue_if_due(now) {
                    self.signs.insert(*hold);
                }
            }
        }
    }

    /// Signs to send now.
    pub(super) fn take_signs(&mut self, now: Instant, entries_max: usize) -> Vec<Hold> {
        let mut taken = Vec::new();
        while taken.len() < entries_max {
            let Some(hold) = self.signs.pop_first() else { break };
            // A job that was lost meanwhile gives no signs any more.
            if let Some(signs) = self.held.get_mut(&hold).and_then(|entry| entry.held.signs()) {
                signs.sent(now);
                taken.push(hold);
            }
        }
        taken
    }

    /// Tells what is due for whom.
    pub(super) fn check(&mut self, now: Instant, clock: KillClock, mut due: impl FnMut(Hold, Due)) {
        while let Some(&(at, hold)) = self.agenda.first()
            && at <= now
        {
            self.agenda.pop_first();
            let Some(entry) = self.held.get_mut(&hold) else { continue };
            entry.look_at = None;
            entry.held.check(now, clock, |what| {
                if what == Due::Sign {
                    self.signs.insert(hold);
                } else {
                    due(hold, what);
                }
            });
            self.put_on_agenda(hold);
        }
    }

    /// The claims of this job that are held, oldest first. If there is a newer one, those before it have ended without our
    /// knowledge, or it could not have been claimed again.
    pub(super) fn claims_of(&self, job: JobId) -> Vec<Hold> {
        let (oldest, newest) = (Hold { job, fence: Fence::NONE }, Hold { job, fence: Fence::new(i64::MAX) });
        self.held.range(oldest..=newest).map(|(hold, _)| *hold).collect()
    }

    /// Whether it is held and may still be ours.
    pub(super) fn is_live(&self, hold: Hold) -> bool {
        self.held.get(&hold).is_some_and(|entry| !entry.held.is_lost())
    }

    pub(super) fn is_waiting(&self, hold: Hold) -> bool {
        self.waiting.contains(&hold)
    }

    pub(super) fn waiting(&self) -> Vec<Hold> {
        self.waiting.iter().copied().collect()
    }

    /// Exclusive jobs that may have to be told to stop.
    pub(super) fn exclusive(&self) -> Vec<Hold> {
        self.held.iter().filter(|(_, entry)| entry.is_timed).map(|(hold, _)| *hold).collect()
    }

    pub(super) fn has_outlived(&self) -> bool {
        !self.outlived.is_empty()
    }

    pub(super) fn has_exclusive(&self) -> bool {
        self.timed > 0
    }

    pub(super) fn has_signs(&self) -> bool {
        !self.signs.is_empty()
    }

    pub(super) fn holds(&self) -> impl Iterator<Item = Hold> {
        self.held.keys().copied()
    }

    pub(super) fn len(&self) -> u32 {
        u32::try_from(self.held.len()).unwrap_or(u32::MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.held.is_empty()
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.agenda.first().map(|(at, _)| *at)
    }

    fn enter(&mut self, hold: Hold, held: Held, look_at: Option<Instant>) {
        let is_timed = held.is_exclusive();
        self.timed += usize::from(is_timed);
        self.held.insert(hold, Entry { held, look_at, is_timed });
    }

    /// Makes sure that the job is looked at in time.
    fn put_on_agenda(&mut self, hold: Hold) {
        let Some(entry) = self.held.get_mut(&hold) else { return };
        let Some(next) = entry.held.next_deadline() else { return };
        if entry.look_at.is_none_or(|at| next < at) {
            if let Some(at) = entry.look_at.replace(next) {
                self.agenda.remove(&(at, hold));
            }
            self.agenda.insert((next, hold));
        }
    }
}
