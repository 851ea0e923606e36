//! A worker as the registry sees it: its counter, its set, the changes that no answer has confirmed yet.

use std::collections::BTreeSet;
use std::time::Duration;

use model::{ClientId, Fence, Hold, JobId, Nonce, WallTime, WorkerKey};

use crate::message::{Answer, Change, Former, Heartbeat, Profile, Token};

/// Claim number `fence` of job `job`.
pub(super) fn hold_of(job: u64, fence: i64) -> Hold {
    Hold { job: JobId::from_bytes(u128::from(job).to_be_bytes()), fence: Fence::new(fence) }
}

/// The first claim of job `job`.
pub(super) fn hold(job: u64) -> Hold {
    hold_of(job, 1)
}

/// The first claim of submission `job` to a volatile queue.
pub(super) fn volatile(job: u64) -> Hold {
    Hold { job: ClientId::new(WallTime::from_millis(1), 1).job(job), fence: Fence::new(1) }
}

/// The key with this name.
pub(super) fn key(name: &str) -> WorkerKey {
    WorkerKey::new(name).expect("a valid key")
}

/// A well-behaved worker.
#[derive(Clone, Debug)]
pub(super) struct Peer {
    pub(super) key: WorkerKey,
    pub(super) nonce: Nonce,
    pub(super) token: Option<Token>,
    pub(super) lease: Duration,
    pub(super) change: u64,
    pub(super) held: BTreeSet<Hold>,
    pub(super) binds: Vec<Change>,
    pub(super) unbinds: Vec<Change>,
    pub(super) wants_full: bool,
    pub(super) starts_seen: u64,
    pub(super) former: Option<Former>,
}

impl Peer {
    pub(super) fn new(name: &str) -> Self {
        Peer {
            key: key(name),
            nonce: Nonce::new(7),
            token: None,
            lease: Duration::from_secs(20),
            change: 0,
            held: BTreeSet::new(),
            binds: Vec::new(),
            unbinds: Vec::new(),
            wants_full: false,
            starts_seen: 0,
            former: None,
        }
    }

    /// The same process under a new key, after the old one lapsed.
    pub(super) fn successor(&self, name: &str) -> Self {
        Peer {
            key: key(name),
            token: None,
            binds: Vec::new(),
            unbinds: Vec::new(),
            wants_full: true,
            former: Some(Former { key: self.key.clone(), nonce: self.nonce }),
            ..self.clone()
        }
    }

    /// Begins to hold; the change may also be sent early.
    pub(super) fn bind(&mut self, hold: Hold) -> Change {
        assert!(self.held.insert(hold), "a worker is given {hold:?} once");
        self.change += 1;
        let change = Change { hold, change: self.change };
        self.binds.push(change);
        change
    }

    /// Ceases to hold.
    pub(super) fn unbind(&mut self, hold: Hold) {
        assert!(self.held.remove(&hold), "a worker lets go of what it has");
        self.change += 1;
        self.unbinds.push(Change { hold, change: self.change });
    }

    /// What it says now.
    pub(super) fn beat(&self) -> Heartbeat {
        Heartbeat {
            key: self.key.clone(),
            nonce: self.nonce,
            token: self.token,
            lease: self.lease,
            binds: self.binds.clone(),
            unbinds: self.unbinds.clone(),
            change: self.change,
            digest: self.held.iter().copied().collect(),
            full: self.wants_full.then(|| self.held.iter().copied().collect()),
            former: self.former.clone(),
            profile: self.token.is_none().then(|| Profile { name: "host".into(), ..Profile::default() }),
            free_slots: 3,
            lag: Duration::from_millis(2),
            sent_at: None,
            answered_at: None,
            starts_seen: self.starts_seen,
            worker_set: None,
        }
    }

    /// Hears the answer to what it said when its counter was `change`.
    pub(super) fn hear(&mut self, change: u64, answer: &Answer) {
        match answer {
            Answer::Ok(ack) => {
                self.token = Some(ack.token);
                self.former = None;
                self.binds.retain(|it| it.change > change);
                self.unbinds.retain(|it| it.change > change);
                self.wants_full = ack.resync;
            }
            Answer::Mismatch { token, resync, .. } => {
                self.token = Some(*token);
                self.wants_full |= resync;
            }
            Answer::Inactive { .. } | Answer::NotOwner { .. } | Answer::Later { .. } => {}
        }
    }
}
