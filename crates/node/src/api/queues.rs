//! Queues: what they hold and how they are set.

use model::QueueName;
use rpc::{ApiError, convert, wire};
use store::News;

use super::{Answer, Api};
use crate::event::Event;

impl Api {
    pub(crate) async fn queues(&self) -> Answer<wire::ListQueuesResponse> {
        let stats = self.store.stats().await?;
        let queues = stats
            .into_iter()
            .map(|stats| {
                let workers = self.workers_for(&stats.queue);
                convert::queue(stats, workers)
            })
            .collect();
        Ok(wire::ListQueuesResponse { queues })
    }

    pub(crate) async fn set_queue(&self, request: wire::SetQueueRequest) -> Answer<wire::Queue> {
        let queue = QueueName::new(&request.name)?;
        let patch = convert::queue_patch(&request)?;
        if patch.volatile == Some(true) && self.store.is_shared() {
            return Err(ApiError::invalid(
                "a volatile queue belongs to one server, and this store is one that several may use; choose an exclusive \
                 queue, or a server of its own (`tenure serve --volatile-only`)",
            ));
        }
        let changes_who_serves = patch.exclusive.is_some() || patch.volatile.is_some();
        let settings = self.store.set_queue(&queue, patch).await?;
        if changes_who_serves {
            self.exclusive.set(&queue, settings.exclusive);
            self.tell(Event::QueueSet { queue: queue.clone() }).await;
        }
        self.tell_others(|| News::QueueSet(queue.clone()));
        if !settings.paused {
            // Resumed, perhaps: its jobs may be claimed now.
            self.wake(vec![queue.clone()]).await;
        }
        let stats = self.store.stats().await?.into_iter().find(|stats| stats.queue == queue);
        let stats = stats.unwrap_or(store::QueueStats {
            queue: queue.clone(),
            settings,
            counts: [0; 6],
            oldest: None,
        });
        Ok(convert::queue(stats, self.workers_for(&queue)))
    }

    /// How many workers connected to us may be given jobs of this queue. `None` if there are none and other servers may have
    /// some.
    pub(crate) fn workers_for(&self, queue: &QueueName) -> Option<u32> {
        let count = self.sessions.workers_for(queue, self.is_exclusive(queue));
        (count > 0 || self.charge.others().is_empty()).then_some(count)
    }
}
