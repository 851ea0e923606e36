//! A worker process of the world. What it says is its peer's; which exclusive jobs it runs is decided by the worker's own
//! rule: from the moment it hears that the bind stands, to the moment it lets go or its own clock ends its lease.

use std::collections::BTreeMap;

use model::{Hold, Instant, Nonce, WorkerKey};

use super::super::peer::Peer;
use crate::message::Change;

/// Whom a start is for, besides its key.
#[derive(Clone, Copy, Debug)]
pub(super) struct Start {
    /// The life of the server that sent it.
    pub(super) life: u64,
    /// Higher than that of every start before it.
    pub(super) number: u64,
}

/// A worker process.
pub(super) struct Node {
    pub(super) peer: Peer,
    /// The life of the server at the other end of its stream.
    pub(super) life: u64,
    index: u64,
    keys: u32,
    /// The last heartbeat, and when it was sent.
    pub(super) number: u64,
    pub(super) sent_at: Instant,
    /// Until when it may act on its lease.
    pub(super) hold_until: Option<Instant>,
    /// Until when its exclusive jobs may.
    pub(super) exclusive_until: Option<Instant>,
    /// The exclusive jobs under its present key.
    exclusive: BTreeMap<Hold, Exclusive>,
}

struct Exclusive {
    bind: Change,
    is_running: bool,
}

/// The exclusive jobs of a key that was declared over; they run until they are stopped, or to the end of its lease.
pub(super) struct Fading {
    pub(super) key: WorkerKey,
    pub(super) nonce: Nonce,
    pub(super) hold_until: Instant,
    pub(super) running: Vec<Hold>,
}

impl Node {
    pub(super) fn new(index: u64, now: Instant) -> Self {
        let peer = Peer { nonce: Nonce::new(index), ..Peer::new(&format!("n{index}-0")) };
        let exclusive = BTreeMap::new();
        Node {
            peer,
            life: 0,
            index,
            keys: 0,
            number: 0,
            sent_at: now,
            hold_until: None,
            exclusive_until: None,
            exclusive,
        }
    }

    /// Begins to hold, unless this start was overtaken by another one or by a new stream. An ordinary job runs at once, an
    /// exclusive one waits, and a volatile one runs at once or never.
    pub(super) fn assign(
        &mut self,
        now: Instant,
        hold: Hold,
        is_exclusive: bool,
        start: Start,
    ) -> Option<Change> {
        if start.life != self.life || start.number <= self.peer.starts_seen {
            return None;
        }
        self.peer.starts_seen = start.number;
        let bind = self.peer.bind(hold);
        if is_exclusive {
            let may_run = self.exclusive_until.is_some_and(|until| until > now);
            self.exclusive.insert(hold, Exclusive { bind, is_running: hold.job.is_volatile() && may_run });
        }
        Some(bind)
    }

    /// Hears that a bind stands.
    pub(super) fn hear_bound(&mut self, now: Instant, hold: Hold) {
        if let Some(job) = self.exclusive.get_mut(&hold) {
            job.is_running |= self.exclusive_until.is_some_and(|until| until > now);
        }
    }

    /// The binds that it waits for.
    pub(super) fn unanswered(&self) -> Vec<Change> {
        self.exclusive.values().filter(|job| !job.is_running).map(|job| job.bind).collect()
    }

    /// A heartbeat that was sent then got this lease, perhaps for exclusive jobs too.
    pub(super) fn hold_on(&mut self, until: Instant, is_exclusive: bool) {
        self.hold_until = self.hold_until.max(Some(until));
        if is_exclusive {
            self.exclusive_until = self.exclusive_until.max(Some(until));
        }
    }

    /// The exclusive jobs that must have stopped by now, while the key lives on.
    pub(super) fn outlived(&self, now: Instant) -> Vec<Hold> {
        let is_over = self.exclusive_until.is_some_and(|until| until <= now);
        self.started().filter(|_| is_over).collect()
    }

    /// Ceases to hold, and to run.
    pub(super) fn let_go(&mut self, hold: Hold) {
        self.peer.unbind(hold);
        self.exclusive.remove(&hold);
    }

    /// Its lease is over by its own clock: it never uses that key again, and its exclusive jobs are over. Says which.
    pub(super) fn lapse(&mut self) -> Vec<Hold> {
        let over: Vec<Hold> = std::mem::take(&mut self.exclusive).into_keys().collect();
        self.peer.held.retain(|hold| !over.contains(hold));
        self.keys += 1;
        self.peer = self.peer.successor(&self.name());
        (self.hold_until, self.exclusive_until) = (None, None);
        over
    }

    /// Goes on under a new key, with nothing. Leaves behind what it ran.
    pub(super) fn start_over(&mut self) -> Option<Fading> {
        let running: Vec<Hold> = self.started().collect();
        self.exclusive.clear();
        self.keys += 1;
        let peer = Peer { nonce: self.peer.nonce, ..Peer::new(&self.name()) };
        let old = std::mem::replace(&mut self.peer, peer);
        self.hold_until = None;
        let hold_until = self.exclusive_until.take()?;
        (!running.is_empty()).then_some(Fading { key: old.key, nonce: old.nonce, hold_until, running })
    }

    /// The exclusive jobs that it started under its present key.
    pub(super) fn started(&self) -> impl Iterator<Item = Hold> {
        self.exclusive.iter().filter(|(_, job)| job.is_running).map(|(hold, _)| *hold)
    }

    fn name(&self) -> String {
        format!("n{}-{}", self.index, self.keys)
    }
}
