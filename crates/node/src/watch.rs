//! Who wants to know when jobs change. Costs nothing while nobody watches.

use model::{JobId, Kind, QueueName};
use rpc::wire::JobEvent;
use store::JobFilter;
use tokio::sync::broadcast;

/// Events a slow watcher may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 16_384;

/// Hands events to all watchers.
#[derive(Debug)]
pub(crate) struct Watchers {
    sender: broadcast::Sender<JobEvent>,
}

impl Watchers {
    pub(crate) fn new() -> Self {
        Watchers { sender: broadcast::Sender::new(BACKLOG_MAX) }
    }

    /// True if anyone would see an event; ask before making one.
    pub(crate) fn any(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    pub(crate) fn tell(&self, event: JobEvent) {
        // An error means that the last watcher just left.
        let _ = self.sender.send(event);
    }

    pub(crate) fn subscribe(&self) -> broadcast::Receiver<JobEvent> {
        self.sender.subscribe()
    }
}

/// Which events a watcher wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ids: Vec<JobId>,
    pub(crate) filter: JobFilter,
}

impl Wanted {
    pub(crate) fn matches(&self, event: &JobEvent) -> bool {
        let matches_queue =
            self.filter.queue.as_ref().map(QueueName::as_str).is_none_or(|queue| queue == event.queue);
        let matches_kind = self.filter.kind.as_ref().map(Kind::as_str).is_none_or(|kind| kind == event.kind);
        let matches_id = self.ids.is_empty() || event.id.parse().is_ok_and(|id| self.ids.contains(&id));
        matches_queue && matches_kind && matches_id
    }
}
