//! The present key and what its registry has said about it.
//!
//! ```text
//!             ok                 hold_until passes
//!   Fresh ─────────► Registered ───────────────────► Over ──► Fresh, under the next key; the lapsed one is its former
//!     │                  │        inactive            ▲
//!     └──────────────────┴────────────────────────────┘       no former
//! ```
//!
//! Exclusive jobs live on a hold of their own, which only answers that vouch for it extend. It may end while the key lives
//! on, and begin again.

use std::time::Duration;

use model::{Instant, Nonce, WorkerKey};
use muster::{SetId, set};

use crate::message::{Former, Generation, Token};

#[derive(Debug)]
pub(super) struct Instance {
    key: WorkerKey,
    nonce: Nonce,
    standing: Standing,
    /// From the last answer.
    token: Option<Token>,
    /// When the last answer was heard that took a heartbeat of this key.
    answered_at: Option<Instant>,
    /// The last key that was registered and lapsed, until a successor is registered.
    former: Option<WorkerKey>,
    /// The next heartbeat carries everything that is held.
    owes_full: bool,
    /// The life of the server that took the last heartbeat under this key.
    server: Option<Generation>,
    /// The set of workers that we were told last under this key, by that life of the server or by one before it.
    worker_set: Option<SetId>,
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Fresh,
    Registered(Registration),
    Over,
}

/// What the answers of the registry add up to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Registration {
    /// The lease that was granted last.
    lease: Duration,
    hold_until: Instant,
    /// Never later than `hold_until`; `None` until it was vouched for once.
    exclusive_until: Option<Instant>,
}

/// A heartbeat that was taken, as it counts for us.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// By which life of the server.
    pub(super) server: Generation,
    /// To be shown next.
    pub(super) token: Token,
    pub(super) lease: Duration,
    /// The end of that lease, from the send stamp.
    pub(super) hold_until: Instant,
    /// It is one for exclusive jobs, too.
    pub(super) is_exclusive: bool,
    /// The heartbeat carried everything that is held.
    pub(super) was_full: bool,
}

impl Instance {
    pub(super) fn new(key: WorkerKey, nonce: Nonce) -> Self {
        Instance {
            key,
            nonce,
            standing: Standing::Fresh,
            token: None,
            answered_at: None,
            former: None,
            owes_full: false,
            server: None,
            worker_set: None,
        }
    }

    /// A heartbeat was taken. Whether the lease is news: the first one of this key, or another one than before.
    pub(super) fn acknowledge(&mut self, taken: Taken) -> bool {
        let Taken { server, token, lease, hold_until, is_exclusive, was_full } = taken;
        self.server = Some(server);
        self.token = Some(token);
        self.former = None;
        self.owes_full &= !was_full;
        let before = self.registration().copied();
        let exclusive_until = is_exclusive.then_some(hold_until);
        self.standing = Standing::Registered(Registration {
            lease,
            hold_until: before.map_or(hold_until, |before| before.hold_until.max(hold_until)),
            exclusive_until: before.and_then(|before| before.exclusive_until).max(exclusive_until),
        });
        before.is_none_or(|before| before.lease != lease)
    }

    /// The answer was heard now.
    pub(super) fn answered_at(&mut self, now: Instant) {
        self.answered_at = Some(now);
    }

    pub(super) fn was_answered_at(&self) -> Option<Instant> {
        self.answered_at
    }

    /// The server of this life tells the present set of workers. Whether that is news.
    pub(super) fn keep_set(&mut self, server: Generation, told: SetId) -> bool {
        let before = self.worker_set;
        self.worker_set = set::keep(before, server, told);
        self.worker_set != before
    }

    /// Nothing is known of any set of workers.
    pub(super) fn forget_set(&mut self) {
        self.worker_set = None;
    }

    pub(super) fn show(&mut self, token: Token) {
        self.token = Some(token);
    }

    pub(super) fn owe_full(&mut self) {
        self.owes_full = true;
    }

    /// Its lease is over by our clock. What it holds can be handed on to the next key.
    pub(super) fn lapse(&mut self) {
        self.standing = Standing::Over;
        self.former = Some(self.key.clone());
    }

    /// The registry declared it dead. There is nothing to hand on.
    pub(super) fn inactivate(&mut self) {
        self.standing = Standing::Over;
        self.former = None;
    }

    /// The next key. Takes its place only if this one cannot be in use.
    pub(super) fn succeed(&mut self, key: WorkerKey) -> bool {
        if self.is_registered() {
            return false;
        }
        self.key = key;
        self.standing = Standing::Fresh;
        self.token = None;
        self.answered_at = None;
        self.owes_full = self.former.is_some();
        self.server = None;
        true
    }

    pub(super) fn key(&self) -> &WorkerKey {
        &self.key
    }

    pub(super) fn nonce(&self) -> Nonce {
        self.nonce
    }

    pub(super) fn token(&self) -> Option<Token> {
        self.token
    }

    /// Named until the successor is registered: an answer to its first heartbeat may get lost.
    pub(super) fn former(&self) -> Option<Former> {
        self.former.clone().map(|key| Former { key, nonce: self.nonce })
    }

    pub(super) fn worker_set(&self) -> Option<SetId> {
        self.worker_set
    }

    /// Whether this life of the server has taken a heartbeat of this key: it knows who we are and what we held.
    pub(super) fn is_known_to(&self, server: Generation) -> bool {
        self.server == Some(server)
    }

    pub(super) fn owes_full(&self) -> bool {
        self.owes_full
    }

    pub(super) fn is_registered(&self) -> bool {
        self.registration().is_some()
    }

    pub(super) fn is_over(&self) -> bool {
        self.standing == Standing::Over
    }

    pub(super) fn hold_until(&self) -> Option<Instant> {
        self.registration().map(|registration| registration.hold_until)
    }

    /// Until when exclusive jobs may run.
    pub(super) fn exclusive_until(&self) -> Option<Instant> {
        self.registration().and_then(|registration| registration.exclusive_until)
    }

    /// The lease that was granted last.
    pub(super) fn lease(&self) -> Option<Duration> {
        self.registration().map(|registration| registration.lease)
    }

    fn registration(&self) -> Option<&Registration> {
        match &self.standing {
            Standing::Registered(registration) => Some(registration),
            Standing::Fresh | Standing::Over => None,
        }
    }
}
