//! Queues: what they hold and how they are set.

use model::{ErrorKind, QueueName};
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
        if patch.volatile == Some(false) && self.store.is_durable() && self.store.is_volatile(&queue) {
            self.check_all_are_known(&queue).await?;
        }
        let changes_who_serves = patch.exclusive.is_some() || patch.volatile.is_some();
        let new = self.admit_queues(std::slice::from_ref(&queue)).await?;
        let settings = self.store.set_queue(&queue, patch).await;
        let settings = settings.inspect_err(|_| self.known_queues.release(&new))?;
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

    /// Refuses while workers that this life of the server has not heard of may run jobs of this volatile queue.
    async fn check_all_are_known(&self, queue: &QueueName) -> Answer<()> {
        if !self.muster_status().await?.waiting {
            return Ok(());
        }
        Err(ApiError::new(
            ErrorKind::Refused,
            format!(
                "queue {queue} stays volatile while the server waits for the workers it had before; try again when \
                 `tenure muster status` shows that volatile queues are open"
            ),
        ))
    }

    /// How many workers connected to us may be given jobs of this queue. `None` if there are none and other servers may have
    /// some.
    pub(crate) fn workers_for(&self, queue: &QueueName) -> Option<u32> {
        let count = self.sessions.workers_for(queue, self.is_exclusive(queue));
        (count > 0 || self.charge.others().is_empty()).then_some(count)
    }
}
