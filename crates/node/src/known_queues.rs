//! How many queues there may be. A queue is never removed, so the names that a program makes up when it runs wild, such as one for
//! each job, would stay for ever: in the store, in every list, on `/metrics`.
//!
//! The names are a copy of what the store has, which is asked again before anything is refused. Where several servers share a store
//! it is also asked now and then before a queue is made, so that together they make a few too many at most.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{ErrorKind, Instant, QueueName, QueueSettings};
use rpc::ApiError;

use crate::api::{Answer, Api};

/// How old the copy may be where others make queues, too.
const FRESH: Duration = Duration::from_secs(1);

/// The names of queues that are there or are being made.
#[derive(Debug, Default)]
pub(crate) struct KnownQueues {
    known: Mutex<Known>,
    /// Held while the store is asked: however many are refused at once, it has one question to answer.
    asking: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct Known {
    names: HashSet<QueueName>,
    /// When the store was asked last.
    asked_at: Option<Instant>,
}

/// The store must be asked before more can be said.
#[derive(Debug, PartialEq, Eq)]
struct AskStore;

impl Known {
    /// Makes room for those of the names that are new, and answers them. All are taken, or none.
    fn take(
        &mut self,
        names: &[QueueName],
        most: usize,
        asked_after: Option<Instant>,
    ) -> Result<Vec<QueueName>, AskStore> {
        let new: Vec<QueueName> = names.iter().filter(|name| !self.names.contains(*name)).cloned().collect();
        if new.is_empty() {
            return Ok(new);
        }
        let is_fresh = self.asked_at.is_some_and(|at| asked_after.is_none_or(|after| at > after));
        if !is_fresh || self.names.len() + new.len() > most {
            return Err(AskStore);
        }
        self.names.extend(new.iter().cloned());
        Ok(new)
    }
}

impl KnownQueues {
    /// The store has these.
    pub(crate) fn learn(&self, queues: &[(QueueName, QueueSettings)], now: Instant) {
        let mut known = self.lock();
        known.names.extend(queues.iter().map(|(name, _)| name.clone()));
        known.asked_at = Some(now);
    }

    /// These were not made after all. Should another call have made one meanwhile, the store says so when it matters.
    pub(crate) fn release(&self, new: &[QueueName]) {
        let mut known = self.lock();
        for name in new {
            known.names.remove(name);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Api {
    /// Refuses to make more queues than there may be; those that are there go on. Answers those that are new, which whoever
    /// then does not make them must [release](KnownQueues::release).
    pub(crate) async fn admit_queues(&self, names: &[QueueName]) -> Answer<Vec<QueueName>> {
        let most = self.config.queues_max;
        let asked_after = self.store.is_shared().then(|| self.clock.monotonic() - FRESH);
        if let Ok(new) = self.known_queues.lock().take(names, most, asked_after) {
            return Ok(new);
        }
        let _asking = self.known_queues.asking.lock().await;
        let queues = self.store.queue_settings().await?;
        self.known_queues.learn(&queues, self.clock.monotonic());
        self.known_queues.lock().take(names, most, None).map_err(|AskStore| {
            ApiError::new(
                ErrorKind::Refused,
                format!(
                    "there may be {most} queues, {} are there, and this call would make more; use one that is there, or start \
                     the server with a larger --max-queues",
                    queues.len()
                ),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(texts: &[&str]) -> Vec<QueueName> {
        texts.iter().map(|text| text.parse().expect("a name")).collect()
    }

    fn at(millis: u64) -> Instant {
        Instant::ZERO + Duration::from_millis(millis)
    }

    fn settled(texts: &[&str]) -> Vec<(QueueName, QueueSettings)> {
        names(texts).into_iter().map(|name| (name, QueueSettings::default())).collect()
    }

    #[test]
    fn queues_are_taken_up_to_the_limit_and_those_that_are_there_go_on() {
        let queues = KnownQueues::default();
        let take = |texts: &[&str]| queues.lock().take(&names(texts), 3, None);
        assert_eq!(take(&["a"]), Err(AskStore), "nobody knows how many there are");
        queues.learn(&settled(&["a", "b"]), at(1));
        assert_eq!(take(&["a", "c"]), Ok(names(&["c"])));
        assert_eq!(take(&["a", "d"]), Err(AskStore));
        assert_eq!(take(&["a", "b", "c"]), Ok(Vec::new()));
        queues.release(&names(&["c"]));
        assert_eq!(take(&["d", "e"]), Err(AskStore), "all or none");
        assert_eq!(take(&["d"]), Ok(names(&["d"])));
        // One may have been made by others, more than there may be.
        queues.learn(&settled(&["e", "f"]), at(2));
        assert_eq!(take(&["e", "f"]), Ok(Vec::new()));
    }

    #[test]
    fn where_others_make_queues_the_store_is_asked_now_and_then() {
        let queues = KnownQueues::default();
        queues.learn(&settled(&["a"]), at(5_000));
        let take = |texts: &[&str], after| queues.lock().take(&names(texts), 10, Some(at(after)));
        assert_eq!(take(&["b"], 4_999), Ok(names(&["b"])));
        assert_eq!(take(&["c"], 5_000), Err(AskStore));
        assert_eq!(take(&["a", "b"], 5_000), Ok(Vec::new()), "nothing is made");
    }
}
