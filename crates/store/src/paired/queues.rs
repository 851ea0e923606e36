//! How jobs come into their queues, and how a queue changes sides: no job may come into the side that its queue has left.

use std::task::{Context, Poll, Waker};

use model::{QueueName, QueuePatch, QueueSettings, State};

use super::merge::Split;
use super::routes::{Change, invalid};
use super::store::{Paired, patch_of};
use crate::error::StoreError;
use crate::port::{EnqueueAnswer, EnqueueBatch, JobStore};

impl Paired {
    /// Enqueues each job on its side.
    pub(super) async fn put(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        self.settle().await;
        let request_id = batch.request_id;
        match Split::by_id(batch.jobs, |job| job.id) {
            Split::Durable(jobs) => self.enqueue_durable(EnqueueBatch { request_id, jobs }).await,
            Split::Volatile(jobs) => self.enqueue_volatile(EnqueueBatch { request_id, jobs }, false),
            Split::Both { durable, volatile, order } => {
                drop(self.routes.check(&volatile)?);
                let volatile = EnqueueBatch { request_id: request_id.clone(), jobs: volatile };
                self.volatile.find_room(&volatile)?;
                let first = self.enqueue_durable(EnqueueBatch { request_id, jobs: durable }).await?;
                // Whoever took the room meanwhile: half of a batch must not be left out.
                let second = self.enqueue_volatile(volatile, true)?;
                let mut ready = first.ready;
                ready.extend(second.ready);
                ready.sort_unstable();
                Ok(EnqueueAnswer {
                    jobs: order.merge(first.jobs, second.jobs),
                    repeated: first.repeated && second.repeated,
                    ready,
                    next_run_in: first.next_run_in.into_iter().chain(second.next_run_in).min(),
                    ended: second.ended,
                })
            }
        }
    }

    /// Jobs that find the door of their queue open are with the durable store before it can close. That one writes in order, so
    /// whoever closes the door and then writes finds them there.
    async fn enqueue_durable(&self, batch: EnqueueBatch) -> Result<EnqueueAnswer, StoreError> {
        let mut enqueueing;
        let at_once = {
            let _open = self.routes.check(&batch.jobs)?;
            enqueueing = self.durable.enqueue(batch);
            enqueueing.as_mut().poll(&mut Context::from_waker(Waker::noop()))
        };
        match at_once {
            Poll::Ready(answer) => answer,
            Poll::Pending => enqueueing.await,
        }
    }

    /// Jobs that find the door of their queue open are in before it can close.
    fn enqueue_volatile(&self, batch: EnqueueBatch, has_room: bool) -> Result<EnqueueAnswer, StoreError> {
        let _open = self.routes.check(&batch.jobs)?;
        self.volatile.put(batch, has_room)
    }

    /// Makes a queue volatile, or durable again.
    pub(super) async fn move_queue(
        &self,
        queue: &QueueName,
        patch: QueuePatch,
    ) -> Result<QueueSettings, StoreError> {
        let becomes_volatile = patch.volatile == Some(true);
        if becomes_volatile && self.durable.is_shared() {
            return Err(invalid(format!(
                "a volatile queue belongs to one server; queue {queue} is in a store that several may use"
            )));
        }
        self.settle().await;
        let mut change = self.routes.change(queue)?;
        self.check_idle(queue, becomes_volatile).await?;
        // From here on both stores may say different things, and the caller may give up at any time.
        change.is_settled = false;
        let settings = self.durable.set_queue(queue, patch.clone()).await?;
        // What was on its way to the durable store when the door closed is there by now.
        if let Err(refused) = self.check_idle(queue, becomes_volatile).await {
            self.step_back(change).await?;
            return Err(refused);
        }
        let settings = match becomes_volatile {
            true => self.volatile.set_queue(queue, patch_of(&settings)).await?,
            false => settings,
        };
        change.become_volatile(becomes_volatile);
        Ok(settings)
    }

    /// Steps back where a change was left in the middle. Queues that cannot be settled now take no jobs.
    async fn settle(&self) {
        while let Some(change) = self.routes.unsettled() {
            if self.step_back(change).await.is_err() {
                return;
            }
        }
    }

    /// Has the durable store say again what the queue is.
    async fn step_back(&self, mut change: Change<'_>) -> Result<(), StoreError> {
        let back = QueuePatch { volatile: Some(change.is_volatile), ..QueuePatch::default() };
        self.durable.set_queue(&change.queue, back).await?;
        change.is_settled = true;
        Ok(())
    }

    /// Refuses while a queue has live jobs, in whichever store, or may have some that only their workers know of.
    async fn check_idle(&self, queue: &QueueName, becomes_volatile: bool) -> Result<(), StoreError> {
        let unclaimed = self.volatile.inheritance().unclaimed;
        if unclaimed > 0 && !becomes_volatile {
            return Err(StoreError::Refused(format!(
                "workers know of {unclaimed} volatile jobs that have not been submitted again since the server started, and \
                 some may be of queue {queue}; try again when `tenure muster status` shows none"
            )));
        }
        let both = [self.durable.stats().await?, self.volatile.stats().await?];
        let counts = both.iter().flatten().filter(|stats| stats.queue == *queue).map(|stats| stats.counts);
        let live = |counts: [u64; 6]| {
            [State::Scheduled, State::Available, State::Running]
                .map(|state| counts[state as usize])
                .iter()
                .sum::<u64>()
        };
        match counts.map(live).sum() {
            0 => Ok(()),
            live => Err(StoreError::Refused(format!(
                "queue {queue} has {live} jobs that have not ended; it can be made volatile or durable when it has none"
            ))),
        }
    }
}
