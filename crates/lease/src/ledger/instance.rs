//! The present key and what its registry has said about it.
//!
//! ```text
//!             ok                 hold_until passes
//!   Fresh ─────────► Registered ───────────────────► Over ──► Fresh, under the next key; the lapsed one is its former
//!     │                  │        inactive            ▲
//!     └──────────────────┴────────────────────────────┘       no former
//! ```

use std::time::Duration;

use model::{Instant, Nonce, WorkerKey};

use crate::message::{Former, Token};

#[derive(Debug)]
pub(super) struct Instance {
    key: WorkerKey,
    nonce: Nonce,
    standing: Standing,
    /// From the last answer.
    token: Option<Token>,
    /// The last key that was registered and lapsed, until a successor is registered.
    former: Option<WorkerKey>,
    /// The next heartbeat carries everything that is held.
    owes_full: bool,
}

#[derive(Debug, PartialEq, Eq)]
enum Standing {
    Fresh,
    Registered { hold_until: Instant, lease: Duration },
    Over,
}

impl Instance {
    pub(super) fn new(key: WorkerKey, nonce: Nonce) -> Self {
        Instance { key, nonce, standing: Standing::Fresh, token: None, former: None, owes_full: false }
    }

    /// A heartbeat was taken. Whether the lease is news: the first one of this key, or another one than before.
    pub(super) fn acknowledge(
        &mut self,
        token: Token,
        hold_until: Instant,
        lease: Duration,
        was_full: bool,
    ) -> bool {
        self.token = Some(token);
        self.former = None;
        self.owes_full &= !was_full;
        let (is_news, before) = match self.standing {
            Standing::Registered { hold_until, lease: before } => (lease != before, hold_until),
            Standing::Fresh | Standing::Over => (true, Instant::ZERO),
        };
        self.standing = Standing::Registered { hold_until: hold_until.max(before), lease };
        is_news
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
        self.owes_full = self.former.is_some();
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

    pub(super) fn owes_full(&self) -> bool {
        self.owes_full
    }

    pub(super) fn is_registered(&self) -> bool {
        matches!(self.standing, Standing::Registered { .. })
    }

    pub(super) fn is_over(&self) -> bool {
        self.standing == Standing::Over
    }

    pub(super) fn hold_until(&self) -> Option<Instant> {
        match self.standing {
            Standing::Registered { hold_until, .. } => Some(hold_until),
            Standing::Fresh | Standing::Over => None,
        }
    }

    /// The lease that was granted last.
    pub(super) fn lease(&self) -> Option<Duration> {
        match self.standing {
            Standing::Registered { lease, .. } => Some(lease),
            Standing::Fresh | Standing::Over => None,
        }
    }
}
