//! Keeps the server in its cluster: one driver for each epoch, and a higher epoch whenever others ended the last one.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use gossip_udp::{Driver, Ending, Options, Sockets, StartError};
use swim::{Epoch, Event, Identity, Info, Machine};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tracing::{error, info, warn};

use super::expulsions::{Expulsions, Verdict};
use super::{Cluster, Membership, Standing};

/// How long until a new epoch is tried again that could not be kept.
const EPOCH_RETRY: Duration = Duration::from_secs(1);

/// Takes part until the server leaves or gives up. To break down is to give up, too: otherwise it would show its last view for
/// ever, and look well.
pub(crate) async fn live(membership: Arc<Membership>, cluster: Cluster) {
    if AssertUnwindSafe(start_after_start(&membership, cluster)).catch_unwind().await.is_err() {
        membership.oust("its part in the cluster broke down; the log says where".to_owned());
    }
}

async fn start_after_start(membership: &Membership, cluster: Cluster) {
    let Cluster { id, name, config, join, mut sockets, address, seal, insecure, filter, mut epochs } =
        cluster;
    let config = Arc::new(config);
    let info = Info { addr: address, meta: membership.about_us.encode() };
    let options = Options { label: name, seal, insecure, seeds: join, filter };
    let mut expulsions = Expulsions::default();
    // What others have seen of us.
    let mut known = Epoch::default();
    loop {
        // On disk before the first word under it.
        let epoch = match epochs(known) {
            Ok(epoch) => epoch,
            Err(error) => {
                // A disk that is full may have room again.
                membership.oust(format!("cannot keep a new epoch: {error}"));
                tokio::time::sleep(EPOCH_RETRY).await;
                continue;
            }
        };
        let me = Identity { id, epoch };
        let now = membership.clock.monotonic();
        let machine = Machine::new(now, Arc::clone(&config), me, info.clone(), Vec::new(), rand::random());
        let ended = membership.take_part(me, Driver::new(sockets, machine, &config, options.clone())).await;
        let ending;
        (ending, sockets) = match ended {
            Ok(ended) => ended,
            Err(error) => return membership.oust(format!("cannot take part: {error}")),
        };
        match ending {
            Ending::Left => return membership.settle(Standing::Left, "gone", ""),
            // Nobody does that while the server runs.
            Ending::Stopped => return membership.oust("the membership driver stopped".to_owned()),
            Ending::Expelled(by) => known = by.unwrap_or(epoch).max(epoch),
        }
        if expulsions.note(membership.clock.monotonic()) == Verdict::GiveUp {
            return membership.oust(format!(
                "node {id} was expelled again and again; most likely another server has the same --node-id"
            ));
        }
        membership.settle(Standing::Rejoining, "rejoining", "");
    }
}

impl Membership {
    /// One start, from its first word to its last.
    async fn take_part(
        &self,
        me: Identity,
        driver: Result<(gossip_udp::Cluster, Driver), StartError>,
    ) -> Result<(Ending, Sockets), StartError> {
        let (handle, driver) = driver?;
        let events = handle.events();
        self.set_driver(handle);
        info!(node = me.id.0, epoch = me.epoch.0, cluster = self.cluster, "joining the cluster");
        self.standing.send_replace(Standing::Member);
        // Whoever watches already learns who we are now.
        for present in self.present() {
            let _ = self.news.send(present);
        }
        let (ended, ()) = tokio::join!(driver.run(), self.listen(me, events));
        Ok(ended)
    }

    /// Tells what the driver says, to its last word.
    async fn listen(&self, me: Identity, mut events: broadcast::Receiver<Event>) {
        loop {
            match events.recv().await {
                Ok(event) => self.tell(me, &event),
                // The view has it all; only its history is incomplete.
                Err(RecvError::Lagged(missed)) => warn!(missed, "membership events were lost"),
                Err(RecvError::Closed) => return,
            }
        }
    }

    /// Gives up, and says so, once.
    fn oust(&self, why: String) {
        let ousted = Standing::Ousted(why.clone());
        if *self.standing.borrow() == ousted {
            return;
        }
        error!(node = self.id.0, cluster = self.cluster, reason = why, "this server is out of its cluster");
        self.settle(ousted, "ousted", &why);
    }

    fn settle(&self, standing: Standing, event: &str, reason: &str) {
        self.standing.send_replace(standing);
        self.announce(event, self.get(self.id).unwrap_or_default(), reason.to_owned());
    }
}
