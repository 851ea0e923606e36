//! What the machine keeps about one worker.

use model::{Instant, WorkerKey};

use crate::health::{Health, Stamps};
use crate::seats::About;
use crate::set::SetId;

/// One worker.
#[derive(Clone, Debug)]
pub(super) struct Worker {
    pub(super) key: WorkerKey,
    pub(super) about: About,
    pub(super) stamps: Stamps,
    /// As it was told last.
    pub(super) health: Health,
    /// What it was told last, or said by itself.
    pub(super) told: Option<SetId>,
    /// The healthcheck that is under way.
    pub(super) check: Option<Check>,
    /// When the last healthcheck was sent.
    pub(super) check_sent: Option<Instant>,
}

/// A healthcheck under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) number: u64,
    pub(super) sent: Instant,
}

impl Worker {
    /// One that was heard of for the first time.
    pub(super) fn new(now: Instant, key: WorkerKey, about: About) -> Self {
        Worker {
            key,
            about,
            stamps: Stamps { joined: Some(now), heard: Some(now), ..Stamps::default() },
            health: Health::New,
            told: None,
            check: None,
            check_sent: None,
        }
    }
}
