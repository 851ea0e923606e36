//! What the registry was told that we hold, and what it has not acknowledged yet.
//!
//! A job is *untold* until a heartbeat, or an early bind, mentions it; one that is settled before that is never
//! mentioned. Every change of the told set raises the change counter and is sent until a heartbeat that carried it was
//! taken. The digest of the told set is kept up with every change, so that a heartbeat costs what has changed.

use std::collections::BTreeMap;

use model::{Hold, Instant, Limits, Nonce};

use super::alarm::Alarm;
use crate::digest::Digest;
use crate::key_hash::{ByHold, by_hold};
use crate::message::Change;

#[derive(Debug)]
pub(super) struct BoundSet {
    /// Held, not mentioned yet, and when to mention it at the latest, heartbeat or not. Most jobs come and
    /// go in here.
    untold: ByHold<Instant>,
    /// When to look for jobs that must be mentioned.
    alarm: Alarm,
    /// With the counter of the bind.
    told: BTreeMap<Hold, u64>,
    digest: Digest,
    counter: u64,
    /// What the registry may not know yet, by the counter of the change.
    changes: BTreeMap<u64, Delta>,
}

#[derive(Clone, Copy, Debug)]
enum Delta {
    Bind(Hold),
    Unbind(Hold),
}

impl BoundSet {
    pub(super) fn new(nonce: Nonce) -> Self {
        BoundSet {
            untold: by_hold(nonce),
            alarm: Alarm::default(),
            told: BTreeMap::new(),
            digest: Digest::default(),
            counter: 0,
            changes: BTreeMap::new(),
        }
    }

    /// We hold it from now on.
    pub(super) fn insert(&mut self, hold: Hold, bind_by: Instant) {
        self.untold.insert(hold, bind_by);
        self.alarm.set_by(bind_by);
    }

    /// We do not hold it any more.
    pub(super) fn remove(&mut self, hold: Hold) {
        if self.untold.remove(&hold).is_none() && self.told.remove(&hold).is_some() {
            self.digest.remove(hold);
            self.change(Delta::Unbind(hold));
        }
    }

    /// Mentions everything, as far as a registry takes it.
    pub(super) fn tell_all(&mut self) {
        for hold in self.take_untold(|_| true) {
            self.tell(hold);
        }
        if self.untold.is_empty() {
            self.alarm.clear();
        }
    }

    /// Mentions what cannot wait for the next heartbeat.
    pub(super) fn tell_due(&mut self, now: Instant) -> Vec<Change> {
        if !self.alarm.is_due(now) {
            return Vec::new();
        }
        let due = self.take_untold(|by| by <= now);
        self.alarm.clear();
        if let Some(next) = self.untold.values().filter(|by| **by > now).min() {
            self.alarm.set(*next);
        }
        due.into_iter().map(|hold| Change { hold, change: self.tell(hold) }).collect()
    }

    /// The registry took these early binds.
    pub(super) fn acknowledge_binds(&mut self, holds: &[Hold]) {
        for change in holds.iter().filter_map(|hold| self.told.get(hold)) {
            self.changes.remove(change);
        }
    }

    /// The registry took everything up to this counter.
    pub(super) fn acknowledge(&mut self, counter: u64) {
        self.changes = self.changes.split_off(&(counter + 1));
    }

    /// A new key: its registry knows nothing of what we hold.
    pub(super) fn start_over(&mut self, now: Instant) {
        let told = std::mem::take(&mut self.told);
        self.untold.extend(told.into_keys().map(|hold| (hold, now)));
        self.digest = Digest::default();
        self.changes.clear();
    }

    /// We hold nothing any more.
    pub(super) fn clear(&mut self) {
        self.untold.clear();
        self.alarm.clear();
        self.told.clear();
        self.digest = Digest::default();
        self.changes.clear();
    }

    pub(super) fn handle_deadline(&mut self, now: Instant) {
        self.alarm.handle_deadline(now);
    }

    /// Whether something may have to be mentioned now.
    pub(super) fn is_due(&self, now: Instant) -> bool {
        self.alarm.is_due(now)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        self.alarm.next_deadline()
    }

    /// The binds and unbinds that are not acknowledged; `None` if they are more than a heartbeat may carry.
    pub(super) fn changes(&self) -> Option<(Vec<Change>, Vec<Change>)> {
        if self.changes.len() > Limits::BOUND_MAX {
            return None;
        }
        let (mut binds, mut unbinds) = (Vec::new(), Vec::new());
        for (change, delta) in &self.changes {
            match *delta {
                Delta::Bind(hold) => binds.push(Change { hold, change: *change }),
                Delta::Unbind(hold) => unbinds.push(Change { hold, change: *change }),
            }
        }
        Some((binds, unbinds))
    }

    /// How it was mentioned, if it was.
    pub(super) fn told_as(&self, hold: Hold) -> Option<Change> {
        self.told.get(&hold).map(|change| Change { hold, change: *change })
    }

    /// What was mentioned, in full.
    pub(super) fn told(&self) -> Vec<Hold> {
        self.told.keys().copied().collect()
    }

    /// What we hold, mentioned or not.
    pub(super) fn holds(&self) -> Vec<Hold> {
        let mut holds: Vec<Hold> = self.told.keys().chain(self.untold.keys()).copied().collect();
        holds.sort_unstable();
        holds
    }

    /// How many those are.
    pub(super) fn len(&self) -> usize {
        self.told.len() + self.untold.len()
    }

    pub(super) fn digest(&self) -> Digest {
        self.digest
    }

    pub(super) fn counter(&self) -> u64 {
        self.counter
    }

    /// What is to be mentioned now, as far as a registry takes it, in the order of jobs.
    fn take_untold(&mut self, is_due: impl Fn(Instant) -> bool) -> Vec<Hold> {
        let due = self.untold.iter().filter(|(_, by)| is_due(**by));
        let mut due: Vec<Hold> = due.map(|(hold, _)| *hold).collect();
        due.sort_unstable();
        due.truncate(Limits::BOUND_MAX.saturating_sub(self.told.len()));
        for hold in &due {
            self.untold.remove(hold);
        }
        due
    }

    fn tell(&mut self, hold: Hold) -> u64 {
        let change = self.change(Delta::Bind(hold));
        self.told.insert(hold, change);
        self.digest.add(hold);
        change
    }

    fn change(&mut self, delta: Delta) -> u64 {
        self.counter += 1;
        self.changes.insert(self.counter, delta);
        self.counter
    }
}
