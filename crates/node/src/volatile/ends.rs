//! Who waits for the ends of volatile jobs: one stream for each client that keeps its submissions.
//!
//! Costs nothing while nobody waits. A client that reads too slowly loses its stream and finds what it missed when it comes
//! back, because the store remembers ends until they are acknowledged.

use std::collections::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};

use model::{ClientId, Job, JobId};
use rpc::wire;
use tokio::sync::mpsc;

/// Ends that may wait for a slow client.
const BACKLOG_MAX: usize = 65_536;

/// Everyone who waits.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    waiting: Mutex<HashMap<ClientId, Vec<mpsc::Sender<wire::End>>>>,
    /// How many streams there are.
    count: AtomicUsize,
}

impl Ends {
    /// Whether anybody waits at all.
    pub(crate) fn is_someone(&self) -> bool {
        self.count.load(Ordering::Relaxed) > 0
    }

    /// Whether somebody waits for the end of this job.
    pub(crate) fn wants(&self, id: JobId) -> bool {
        id.submission().is_some_and(|(client, _)| self.lock().contains_key(&client))
    }

    /// This job has ended.
    pub(crate) fn tell(&self, job: &Job) {
        let Some((client, _)) = job.id.submission() else { return };
        let mut waiting = self.lock();
        let Some(streams) = waiting.get_mut(&client) else { return };
        streams.retain(|stream| stream.try_send(end(job)).is_ok());
        if streams.is_empty() {
            waiting.remove(&client);
        }
        self.recount(&waiting);
    }

    /// From now on.
    pub(crate) fn follow(&self, client: ClientId) -> mpsc::Receiver<wire::End> {
        let (sender, receiver) = mpsc::channel(BACKLOG_MAX);
        let mut waiting = self.lock();
        let streams = waiting.entry(client).or_default();
        streams.retain(|stream| !stream.is_closed());
        streams.push(sender);
        waiting.retain(|_, streams| streams.iter().any(|stream| !stream.is_closed()));
        self.recount(&waiting);
        receiver
    }

    fn recount(&self, waiting: &HashMap<ClientId, Vec<mpsc::Sender<wire::End>>>) {
        self.count.store(waiting.len(), Ordering::Relaxed);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<ClientId, Vec<mpsc::Sender<wire::End>>>> {
        self.waiting.lock().expect("no panic while holding the lock")
    }
}

/// How a job ended, on the wire.
pub(crate) fn end(job: &Job) -> wire::End {
    wire::End {
        id: job.id.to_string(),
        state: job.state.word().to_owned(),
        result: job.result.clone().unwrap_or_default(),
        error: job.last_error.clone().unwrap_or_default(),
        attempt: job.attempt,
        fence: job.fence.get(),
    }
}
