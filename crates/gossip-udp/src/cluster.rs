//! The handle through which the rest of a process sees the cluster and speaks to its driver.

use std::sync::Arc;

use bytes::Bytes;
use swim::{Event, Identity, META_BYTES_MAX, Mark, Member};
use tokio::sync::{broadcast, mpsc, oneshot, watch};

use crate::stats::Stats;
use crate::view::View;

/// Most commands waiting for the driver; whoever sends one more waits.
pub(crate) const COMMANDS_MAX: usize = 64;

/// A node's view of its cluster. Clones are cheap; when the last is gone, the driver ends.
#[derive(Clone, Debug)]
pub struct Cluster {
    pub(crate) commands: mpsc::Sender<Command>,
    pub(crate) views: watch::Receiver<Arc<View>>,
    pub(crate) events: broadcast::WeakSender<Event>,
    pub(crate) stats: watch::Receiver<Stats>,
}

/// What a driver is asked to do.
#[derive(Debug)]
pub(crate) enum Command {
    /// Leave, and say when that is done.
    Leave(oneshot::Sender<()>),
    Expel(Identity),
    SetMeta(Bytes),
    SetMark(Mark),
    /// Look for the cluster under these names instead of the earlier ones.
    SetSeeds(Vec<String>),
    Stop,
}

/// Why a command was not taken. Nothing has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClusterError {
    /// The driver has ended.
    #[error("the node is not in the cluster any more")]
    Ended,
    /// Longer than [`META_BYTES_MAX`].
    #[error("{0} bytes of metadata; at most {META_BYTES_MAX} are allowed")]
    MetaTooLong(usize),
}

impl Cluster {
    /// What is known now: the last that was published.
    pub fn view(&self) -> Arc<View> {
        self.views.borrow().clone()
    }

    /// Everybody we know, in order of id, ourselves included.
    pub fn members(&self) -> Vec<Member> {
        self.views.borrow().members.clone()
    }

    /// To wait for the view to change.
    pub fn watch(&self) -> watch::Receiver<Arc<View>> {
        self.views.clone()
    }

    /// Events from now on, each told after the view that shows it. A reader that is too slow gets
    /// [`Lagged`](broadcast::error::RecvError::Lagged) with the number of events that it missed; the end of the driver closes
    /// the channel.
    pub fn events(&self) -> broadcast::Receiver<Event> {
        match self.events.upgrade() {
            Some(events) => events.subscribe(),
            None => broadcast::channel(1).1,
        }
    }

    /// What was counted, a moment ago.
    pub fn stats(&self) -> Stats {
        *self.stats.borrow()
    }

    /// To wait for the counts to change.
    pub fn watch_stats(&self) -> watch::Receiver<Stats> {
        self.stats.clone()
    }

    /// Leaves the cluster for good (for this epoch). Returns when the others were told, or the driver ended otherwise.
    pub async fn leave(&self) {
        let (done, left) = oneshot::channel();
        if self.send(Command::Leave(done)).await.is_ok() {
            // An error means that the driver ended first: then we are out as well.
            let _ = left.await;
        }
    }

    /// That start of a node counts as gone for good.
    pub async fn expel(&self, identity: Identity) -> Result<(), ClusterError> {
        self.send(Command::Expel(identity)).await
    }

    /// From now on the others are told this about us.
    pub async fn set_meta(&self, meta: Bytes) -> Result<(), ClusterError> {
        if meta.len() > META_BYTES_MAX {
            return Err(ClusterError::MetaTooLong(meta.len()));
        }
        self.send(Command::SetMeta(meta)).await
    }

    /// From now on the others are told that we are this far in the control log.
    pub async fn set_mark(&self, mark: Mark) -> Result<(), ClusterError> {
        self.send(Command::SetMark(mark)).await
    }

    /// From now on the cluster is looked for under these names (`host:port`).
    pub async fn set_seeds(&self, names: Vec<String>) -> Result<(), ClusterError> {
        self.send(Command::SetSeeds(names)).await
    }

    /// Ends the driver without a word to the others.
    pub async fn stop(&self) {
        // An error means that it has ended already.
        let _ = self.send(Command::Stop).await;
    }

    async fn send(&self, command: Command) -> Result<(), ClusterError> {
        self.commands.send(command).await.map_err(|_| ClusterError::Ended)
    }
}
