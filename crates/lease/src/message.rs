//! What workers and registries say to each other: plain values. `rpc` puts them on the wire.

use std::fmt;
use std::time::Duration;

pub use model::Generation;
use model::{Hold, HolderEnd, Instant, Nonce, QueueName, Seat, WorkerKey};
use muster::SetId;

use crate::digest::Digest;

/// Proves that a worker has seen the last answer. Opaque to workers; a registry makes a new one for every answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Token {
    pub(crate) generation: Generation,
    pub(crate) sequence: u64,
}

impl Token {
    /// Matches nothing: stands for a token that cannot be read.
    pub const GARBAGE: Token = Token { generation: Generation(0), sequence: 0 };

    /// The token in a worker's text; text that no registry wrote is [`Token::GARBAGE`].
    pub fn parse(text: &str) -> Token {
        let parts = text.split_once('.').and_then(|(generation, sequence)| {
            let generation = u64::from_str_radix(generation, 16).ok()?;
            Some(Token {
                generation: Generation(generation),
                sequence: u64::from_str_radix(sequence, 16).ok()?,
            })
        });
        parts.unwrap_or(Token::GARBAGE)
    }
}

impl fmt::Display for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:x}.{:x}", self.generation.0, self.sequence)
    }
}

/// A change of a worker's bound set, with its change counter after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Change {
    /// The job that began or ceased to be held.
    pub hold: Hold,
    /// The worker's change counter, which this change raised to that.
    pub change: u64,
}

/// Who a worker is, for people and for dispatch.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// A host, a pod.
    pub name: String,
    /// What it serves.
    pub queues: Vec<QueueName>,
    /// How many jobs it runs at once.
    pub slots: u32,
    /// Its program's version.
    pub version: String,
    /// How long it takes at most to stop a job for certain, whatever the job does; `None` if it cannot. Only those that can
    /// get exclusive jobs.
    pub stop_within: Option<Duration>,
    /// The stable place it sits in, if any: one instance at a time.
    pub seat: Option<Seat>,
    /// The machine it runs on; tells who may take whose seat.
    pub host: String,
    /// When its process started, in microseconds since 1970.
    pub started_us: u64,
}

/// "I am alive, and this changed in what I hold."
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heartbeat {
    /// The instance key.
    pub key: WorkerKey,
    /// Which process uses it.
    pub nonce: Nonce,
    /// From the answer before; `None` in the first one.
    pub token: Option<Token>,
    /// The lease asked for; zero for the registry's default.
    pub lease: Duration,
    /// What it began to hold since the last answer.
    pub binds: Vec<Change>,
    /// What it ceased to hold since the last answer.
    pub unbinds: Vec<Change>,
    /// The worker's change counter now.
    pub change: u64,
    /// Everything it holds, as of that counter.
    pub digest: Digest,
    /// Everything it holds, as of that counter, in full: when asked to resync, with `former`, and until this life of the
    /// server has taken a heartbeat.
    pub full: Option<Vec<Hold>>,
    /// The key that lapsed, in the first heartbeat of its successor.
    pub former: Option<Former>,
    /// Who it is, until this life of the server has taken a heartbeat.
    pub profile: Option<Profile>,
    /// Free slots, for people.
    pub free_slots: u32,
    /// How late its own loop runs, for people.
    pub lag: Duration,
    /// When it was sent, by the worker's own clock.
    pub sent_at: Option<Instant>,
    /// When the answer was heard that its token is from, by that clock.
    pub answered_at: Option<Instant>,
    /// The highest start number it received over its present stream.
    pub starts_seen: u64,
    /// The set of workers it was told last, by this server or by one before it.
    pub worker_set: Option<SetId>,
}

impl Heartbeat {
    /// It came over a stream whose starts all have numbers above this one, while those of every stream before it have not. A
    /// worker refuses what came over an older stream than its present one, so it is as if it had seen those.
    pub fn came_after_start(&mut self, last_before: u64) {
        self.starts_seen = self.starts_seen.max(last_before);
    }
}

/// A key that lapsed by its worker's own clock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Former {
    /// The key.
    pub key: WorkerKey,
    /// Which process used it.
    pub nonce: Nonce,
}

/// The registry's answer to a heartbeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The lease runs anew.
    Ok(Ack),
    /// The key is dead: stop all its jobs, take a new one.
    Inactive {
        /// Why.
        why: InactiveReason,
    },
    /// An answer was lost or overtaken. Nothing was renewed.
    Mismatch {
        /// The token to show.
        token: Token,
        /// The lease still stands.
        held: bool,
        /// Send everything you hold.
        resync: bool,
    },
    /// Another registry owns this worker.
    NotOwner {
        /// Where to find it, if that is known.
        address: Option<String>,
    },
    /// Not now.
    Later {
        /// Not before.
        retry_after: Duration,
        /// Why.
        why: LaterReason,
    },
}

/// A heartbeat that was taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ack {
    /// For the next heartbeat.
    pub token: Token,
    /// The lease granted.
    pub lease: Duration,
    /// The lease is one for exclusive jobs too. Otherwise what they have had so far must do: the server cannot be sure that it
    /// is still the one who judges this worker.
    pub exclusive_hold: bool,
    /// Stop these.
    pub stops: Vec<Stop>,
    /// Send everything you hold in the next heartbeat, at once.
    pub resync: bool,
    /// Take no more work, finish, leave.
    pub drain: bool,
    /// The present set of workers, where one is kept and the server does not wait for its workers any more.
    pub worker_set: Option<SetId>,
}

/// An order to stop a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Stop {
    /// Which.
    pub hold: Hold,
    /// Why.
    pub reason: StopOrder,
}

/// Why a registry wants a job stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum StopOrder {
    /// Someone cancelled it; it stays held until reported.
    Cancelled,
    /// It is not this worker's any more.
    Lost,
    /// Its handler gave no sign for too long; it stays held until reported.
    Silent,
}

/// How a worker goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Leave {
    /// Nothing that it ran under this key runs any more. Otherwise its leave is silence.
    pub all_stopped: bool,
    /// Its process died and its guardian says so, or its guardian died and the process does. What it still holds is lost.
    pub crashed: bool,
    /// Nothing exclusive that it ran under this key runs any more; other jobs may. Ends nothing: its registry learns whether that
    /// was in time.
    pub exclusive_stopped: bool,
    /// For how long nothing exclusive has run under this key.
    pub stopped_for: Duration,
    /// Since when, by the clock that its heartbeats are stamped with.
    pub stopped_at: Option<Instant>,
}

/// Why a key is dead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InactiveReason {
    /// It ended like this.
    Ended(HolderEnd),
    /// The registry has never heard of it, yet it shows a token.
    Unknown,
    /// Another process uses it.
    KeyTaken,
}

impl InactiveReason {
    /// For people.
    pub const fn sentence(self) -> &'static str {
        match self {
            InactiveReason::Ended(end) => end.sentence(),
            InactiveReason::Unknown => "this server does not know it",
            InactiveReason::KeyTaken => "another process uses this key",
        }
    }
}

/// Why a registry does not answer a first heartbeat now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LaterReason {
    /// Too many new workers at once.
    Throttled,
    /// The store cannot make the worker durable now, or the registry has not read it yet.
    StoreTrouble,
}
