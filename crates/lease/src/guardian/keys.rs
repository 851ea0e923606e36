//! The keys of one worker's process, and how far their leave is.
//!
//! A server may still count something to a key that the worker has given up: what it ran under that key was told to stop,
//! and its lease decides unless someone says that it did. So the last few keys are kept, and leave is taken of each.

use std::collections::VecDeque;

use model::{Backoff, Instant, Nonce, WorkerKey};

use super::Output;
use super::io::LEAVE_WAIT_MAX;
use crate::message::Leave;

/// Most keys that are kept. A worker that uses up more within one lease has the older ones end with their leases.
const KEYS_MAX: usize = 4;

/// The keys in the order of their use; the last is the present one.
#[derive(Debug, Default)]
pub(super) struct Keys {
    used: VecDeque<UsedKey>,
    /// Of the present one.
    number: KeyNumber,
}

/// The place of a key among all that the worker has used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct KeyNumber(u64);

#[derive(Debug)]
struct UsedKey {
    number: KeyNumber,
    key: WorkerKey,
    nonce: Nonce,
    /// When the last exclusive job that was started under it had ended.
    exclusive_ended_at: Option<Instant>,
    /// Until when exclusive jobs may run under it.
    hold: Option<Instant>,
    /// Until when the worker may act under it; `None` while it is not registered, as far as we know.
    lease: Option<Instant>,
    farewell: Farewell,
    backoff: Backoff,
}

/// How far the leave of a key is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Farewell {
    /// To be sent, not before this time.
    DueAt(Instant),
    /// On its way.
    Sent {
        /// It says that all is stopped; otherwise that is still to be said.
        all_stopped: bool,
    },
    /// Taken, or not worth another try.
    Over,
}

impl Keys {
    /// The worker uses this key from now on.
    pub(super) fn take(&mut self, key: WorkerKey, nonce: Nonce) {
        // Nothing is started under a key before it is registered: one that never was has nothing to take leave of.
        self.used.retain(|used| used.lease.is_some());
        while self.used.len() >= KEYS_MAX {
            self.used.pop_front();
        }
        let farewell = Farewell::DueAt(Instant::ZERO);
        self.number.0 += 1;
        self.used.push_back(UsedKey {
            number: self.number,
            key,
            nonce,
            exclusive_ended_at: None,
            hold: None,
            lease: None,
            farewell,
            backoff: Backoff::default(),
        });
    }

    /// Which the present one is.
    pub(super) fn number(&self) -> KeyNumber {
        self.number
    }

    /// An exclusive job that was started under this key, or under any for `None`, has ended now.
    pub(super) fn exclusive_ended(&mut self, now: Instant, number: Option<KeyNumber>) {
        for used in self.used.iter_mut().filter(|used| number.is_none_or(|number| used.number == number)) {
            used.exclusive_ended_at = Some(now);
        }
    }

    /// Moves the end of the present key's hold for exclusive jobs. Never to an earlier time.
    pub(super) fn extend(&mut self, until: Instant) {
        if let Some(present) = self.used.back_mut() {
            present.hold = present.hold.max(Some(until));
        }
        self.extend_lease(until);
    }

    /// Moves the end of the present key's lease. Never to an earlier time.
    pub(super) fn extend_lease(&mut self, until: Instant) {
        if let Some(present) = self.used.back_mut() {
            present.lease = present.lease.max(Some(until));
        }
    }

    pub(super) fn is_present(&self, key: &WorkerKey, nonce: Nonce) -> bool {
        self.used.back().is_some_and(|present| present.key == *key && present.nonce == nonce)
    }

    /// The end of the present key's hold for exclusive jobs.
    pub(super) fn hold(&self) -> Option<Instant> {
        self.used.back().and_then(|present| present.hold)
    }

    /// Tells the present key's server that the worker is gone although not all has stopped.
    pub(super) fn warn(&mut self) -> Option<Output> {
        let present = self.used.back_mut()?;
        present.farewell = Farewell::Sent { all_stopped: false };
        Some(present.leave(Leave { crashed: true, ..Leave::default() }))
    }

    /// The leaves that are due, nothing having run since `stopped_at`. What a server wants to know is since when nothing
    /// *exclusive* has run, under that very key: ordinary jobs may go on for longer than the lease.
    pub(super) fn leave(&mut self, now: Instant, stopped_at: Instant) -> Vec<Output> {
        let mut outputs = Vec::new();
        for used in &mut self.used {
            if !matches!(used.farewell, Farewell::DueAt(at) if at <= now) {
                continue;
            }
            // A lease that has just run out is worth one try: the server learns how far apart its end and ours were.
            // So is, at any time, that something had gone on beyond it.
            let went_on = used.hold.is_some_and(|hold| used.exclusive_ended_at > Some(hold));
            let is_long_over = used.lease.is_some_and(|lease| lease + LEAVE_WAIT_MAX <= now) && !went_on;
            if is_long_over {
                used.farewell = Farewell::Over;
            } else {
                used.farewell = Farewell::Sent { all_stopped: true };
                let stopped_at = used.exclusive_ended_at.unwrap_or(stopped_at);
                outputs.push(used.leave(Leave {
                    all_stopped: true,
                    crashed: true,
                    stopped_for: now.since(stopped_at),
                    stopped_at: Some(stopped_at),
                    ..Leave::default()
                }));
            }
        }
        outputs
    }

    /// A leave was taken, or nobody could be told; there is no sense in telling anyone once the lease is over.
    pub(super) fn answered(
        &mut self,
        now: Instant,
        key: &WorkerKey,
        taken: bool,
        stopped_at: Option<Instant>,
    ) {
        let Some(used) = self.used.iter_mut().find(|used| used.key == *key) else { return };
        let Farewell::Sent { all_stopped } = used.farewell else { return };
        used.farewell = if !all_stopped {
            Farewell::DueAt(now)
        } else if taken {
            Farewell::Over
        } else {
            let retry_at = now + used.backoff.next_delay();
            let give_up_at = used.lease.unwrap_or(stopped_at.unwrap_or(now) + LEAVE_WAIT_MAX);
            if retry_at < give_up_at { Farewell::DueAt(retry_at) } else { Farewell::Over }
        };
    }

    pub(super) fn have_left(&self) -> bool {
        self.used.iter().all(|used| used.farewell == Farewell::Over)
    }

    /// When to try again to take leave.
    pub(super) fn next_leave_at(&self) -> Option<Instant> {
        let due = |used: &UsedKey| match used.farewell {
            Farewell::DueAt(at) => Some(at),
            Farewell::Sent { .. } | Farewell::Over => None,
        };
        self.used.iter().filter_map(due).min()
    }
}

impl UsedKey {
    fn leave(&self, leave: Leave) -> Output {
        Output::Leave { key: self.key.clone(), nonce: self.nonce, leave }
    }
}
