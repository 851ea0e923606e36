//! Which queues are exclusive, and who may serve which queues.
//!
//! Volatile queues are exclusive, and open only to those whom the muster lets run. The store refuses to give exclusive jobs to those who cannot stop them; this copy of its settings is there so that they
//! do not even ask, and their empty hands are not taken for an empty queue.

use std::collections::BTreeSet;
use std::sync::{PoisonError, RwLock};

use model::{QueueName, QueueSettings};

use crate::api::Api;
use crate::sessions::Session;

/// The exclusive queues, by name.
#[derive(Debug, Default)]
pub(crate) struct ExclusiveQueues {
    names: RwLock<BTreeSet<QueueName>>,
}

impl ExclusiveQueues {
    /// What the store says of all queues.
    pub(crate) fn load(&self, queues: Vec<(QueueName, QueueSettings)>) {
        let exclusive = queues.into_iter().filter(|(_, settings)| settings.exclusive);
        let names = exclusive.map(|(queue, _)| queue).collect();
        *self.names.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// A queue was set.
    pub(crate) fn set(&self, queue: &QueueName, exclusive: bool) {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        if exclusive {
            names.insert(queue.clone());
        } else {
            names.remove(queue);
        }
    }

    pub(crate) fn contains(&self, queue: &QueueName) -> bool {
        self.names.read().unwrap_or_else(PoisonError::into_inner).contains(queue)
    }
}

impl Api {
    /// Whether only those that can stop a job for certain may serve this queue.
    pub(crate) fn is_exclusive(&self, queue: &QueueName) -> bool {
        self.store.is_volatile(queue) || self.exclusive.contains(queue)
    }

    /// Those of a session's queues that it may be given jobs of.
    pub(crate) fn open_to(&self, session: &Session) -> Vec<QueueName> {
        let is_open = |queue: &&QueueName| {
            if self.store.is_volatile(queue) {
                session.is_fit() && session.is_mustered()
            } else {
                session.is_fit() || !self.exclusive.contains(queue)
            }
        };
        session.profile.queues.iter().filter(is_open).cloned().collect()
    }
}
