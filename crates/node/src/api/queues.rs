//! Queues: what they hold and how they are set.

use model::QueueName;
use rpc::{convert, wire};

use super::{Answer, Api};

impl Api {
    pub(crate) async fn queues(&self) -> Answer<wire::ListQueuesResponse> {
        let stats = self.store.stats().await?;
        let queues = stats
            .into_iter()
            .map(|stats| {
                let workers = self.sessions.workers_for(&stats.queue);
                convert::queue(stats, workers)
            })
            .collect();
        Ok(wire::ListQueuesResponse { queues })
    }

    pub(crate) async fn set_queue(&self, request: wire::SetQueueRequest) -> Answer<wire::Queue> {
        let queue = QueueName::new(&request.name)?;
        let patch = convert::queue_patch(&request)?;
        let settings = self.store.set_queue(&queue, patch).await?;
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
        Ok(convert::queue(stats, self.sessions.workers_for(&queue)))
    }
}
