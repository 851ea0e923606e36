//! The present stream: whom it leads to, whether that one looks after us, which starts came over it, and how many credits
//! its server has.

use super::Start;
use crate::message::Generation;
use model::WorkerKey;

#[derive(Debug)]
pub(super) struct Stream {
    generation: Generation,
    /// Its server took a heartbeat over it. Until then it may be one that another registry's workers are nothing to.
    is_served: bool,
    starts_seen: u64,
    /// Credits the server has of us.
    pub(super) credits: u32,
    /// The server told a set of workers that it has not heard back yet.
    owes_echo: bool,
}

impl Stream {
    pub(super) fn new(generation: Generation) -> Self {
        Stream { generation, is_served: false, starts_seen: 0, credits: 0, owes_echo: false }
    }

    /// Whether this start is meant for us as we are now and has not come before.
    pub(super) fn is_current(&self, start: &Start, key: &WorkerKey) -> bool {
        start.generation == self.generation && start.key == *key && start.number > self.starts_seen
    }

    /// Its server took a heartbeat.
    pub(super) fn serve(&mut self) {
        self.is_served = true;
    }

    pub(super) fn is_served(&self) -> bool {
        self.is_served
    }

    /// A start came that uses one of our credits.
    pub(super) fn take(&mut self, start: &Start) {
        self.starts_seen = self.starts_seen.max(start.number);
        self.credits = self.credits.saturating_sub(1);
    }

    /// Its server must hear back which set of workers it told.
    pub(super) fn owe_echo(&mut self) {
        self.owes_echo = true;
    }

    /// Whether it must hear that now; true once.
    pub(super) fn take_echo(&mut self) -> bool {
        std::mem::take(&mut self.owes_echo)
    }

    pub(super) fn owes_echo(&self) -> bool {
        self.owes_echo
    }

    pub(super) fn generation(&self) -> Generation {
        self.generation
    }

    pub(super) fn starts_seen(&self) -> u64 {
        self.starts_seen
    }
}
