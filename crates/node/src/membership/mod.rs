//! The server as a member of a cluster: who else is there, who is alive, what changed.
//!
//! `life` keeps the server in its cluster, start after start; this file is what the rest of the server sees of that. All of it
//! is evidence for people and for later layers: no job and no lease depends on it.

mod expulsions;
mod life;
mod meta;
mod metrics;
mod told;

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use gossip_udp::{Filter, Seal, Sockets, Stats, View};
use model::Clock;
use rpc::{node_convert, wire};
use swim::{Epoch, NodeId};
use tokio::sync::{broadcast, watch};

use crate::Node;
use meta::Meta;

pub(crate) use life::live;
pub(crate) use metrics::MemberMetrics;

/// Events a slow watcher may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 4_096;
/// How long a leave may take beyond the good-byes.
const LEAVE_GRACE: Duration = Duration::from_secs(1);

/// What a server needs to be a member.
pub struct Cluster {
    /// Its number.
    pub id: NodeId,
    /// The cluster's name; members of other clusters are not heard.
    pub name: String,
    /// How members watch each other; the same on all.
    pub config: swim::Config,
    /// Where to look for others, as `host:port`.
    pub join: Vec<String>,
    /// Where others are heard.
    pub sockets: Sockets,
    /// Where others reach these.
    pub address: SocketAddr,
    /// What messages are sealed with. A clone of its ring changes the keys while the server runs.
    pub seal: Seal,
    /// Allows messages that are not sealed on addresses that others can reach.
    pub insecure: bool,
    /// What is lost on purpose.
    pub filter: Filter,
    /// A durable epoch, higher than all before and than the one given.
    pub epochs: Box<dyn FnMut(Epoch) -> io::Result<Epoch> + Send>,
}

/// How a server stands to its cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// It takes part, or tries to.
    Member,
    /// Its epoch was ended; it comes back under a higher one.
    Rejoining,
    /// It left.
    Left,
    /// It gave up, or could not take part; why.
    Ousted(String),
}

impl Standing {
    /// True while it is in the cluster, or on its way.
    const fn takes_part(&self) -> bool {
        matches!(self, Standing::Member | Standing::Rejoining)
    }

    const fn word(&self) -> &'static str {
        match self {
            Standing::Member => "member",
            Standing::Rejoining => "rejoining",
            Standing::Left => "left",
            Standing::Ousted(_) => "ousted",
        }
    }
}

/// The membership of this server.
pub(crate) struct Membership {
    pub(crate) id: NodeId,
    cluster: String,
    clock: Arc<dyn Clock>,
    /// The present start's driver, or the last one's; none before the first.
    driver: Mutex<Option<Driven>>,
    standing: watch::Sender<Standing>,
    news: broadcast::Sender<wire::NodeEvent>,
    metrics: MemberMetrics,
    about_us: Meta,
    leave_wait: Duration,
}

/// A driver, and what of its counts the metrics have already.
struct Driven {
    handle: gossip_udp::Cluster,
    counted: Stats,
}

impl Membership {
    pub(crate) fn new(cluster: &Cluster, node: &Node) -> Self {
        let Node { config, clock, metrics, .. } = node;
        let members = MemberMetrics::default();
        metrics.register_members(&members);
        Membership {
            id: cluster.id,
            cluster: cluster.name.clone(),
            clock: Arc::clone(clock),
            driver: Mutex::default(),
            standing: watch::Sender::new(Standing::Member),
            news: broadcast::Sender::new(BACKLOG_MAX),
            metrics: members,
            about_us: Meta {
                api_address: config.address.clone(),
                name: config.name.clone(),
                version: env!("CARGO_PKG_VERSION").to_owned(),
            },
            leave_wait: cluster.config.farewell_time() + LEAVE_GRACE,
        }
    }

    /// Everyone as of now.
    pub(crate) fn list(&self) -> wire::ListNodesResponse {
        let standing = self.standing.borrow().clone();
        let (nodes, health, lonely) = match self.view() {
            Some(view) => {
                let nodes = view.members.iter().map(|member| self.node(&view, member)).collect();
                (nodes, view.health, view.is_lonely)
            }
            None => (Vec::new(), 0, false),
        };
        wire::ListNodesResponse {
            nodes,
            cluster: self.cluster.clone(),
            health,
            lonely,
            standing: standing.word().to_owned(),
            why: if let Standing::Ousted(why) = standing { why } else { String::new() },
        }
    }

    /// One node as of now.
    pub(crate) fn get(&self, id: NodeId) -> Option<wire::Node> {
        let view = self.view()?;
        view.member(id).map(|member| self.node(&view, member))
    }

    /// What changes from now on.
    pub(crate) fn subscribe(&self) -> broadcast::Receiver<wire::NodeEvent> {
        self.news.subscribe()
    }

    /// Everyone as of now, as the first events of a watcher.
    pub(crate) fn present(&self) -> Vec<wire::NodeEvent> {
        let at_ms = self.clock.wall().as_millis();
        let present = |node| wire::NodeEvent {
            event: "present".to_owned(),
            node: Some(node),
            reason: String::new(),
            at_ms,
        };
        self.list().nodes.into_iter().map(present).collect()
    }

    /// Declares this start of a node gone for good; false if this server takes no part any more.
    pub(crate) async fn expel(&self, identity: swim::Identity) -> bool {
        let Some(driver) = self.driver() else { return false };
        driver.expel(identity).await.is_ok()
    }

    /// Leaves the cluster; true if the others could be told in time.
    pub(crate) async fn leave(&self) -> bool {
        let mut standing = self.standing.subscribe();
        let leaving = async {
            // Between two epochs there is nobody to tell: then it is the next one that leaves.
            while standing.borrow_and_update().takes_part() {
                if let Some(driver) = self.driver() {
                    driver.leave().await;
                }
                if standing.changed().await.is_err() {
                    return;
                }
            }
        };
        tokio::time::timeout(self.leave_wait, leaving).await.is_ok()
    }

    /// Leaves because the server goes; silence would do as well, only slower.
    pub(crate) async fn farewell(&self) {
        if self.standing().takes_part() && !self.leave().await {
            tracing::info!(
                "could not tell the cluster that this server goes; others find out by its silence"
            );
        }
    }

    pub(crate) fn standing(&self) -> Standing {
        self.standing.borrow().clone()
    }

    /// What `/readyz` has to say: an error if this server should not be counted on, else remarks.
    pub(crate) fn readiness(&self) -> Result<Option<&'static str>, String> {
        if let Standing::Ousted(why) = &*self.standing.borrow() {
            return Err(format!("ousted from cluster {}: {why}", self.cluster));
        }
        let is_lonely = self.view().is_some_and(|view| view.is_lonely);
        Ok(is_lonely.then_some("lonely: most other nodes seem gone, or nobody is heard"))
    }

    /// Brings the metrics up to date.
    pub(crate) fn sample(&self) {
        let mut driver = self.lock();
        let Some(Driven { handle, counted }) = &mut *driver else { return };
        let (view, stats) = (handle.view(), handle.stats());
        self.metrics.set_members(view.members.iter().map(|member| member.state));
        self.metrics.health.set(i64::from(view.health));
        self.metrics.lonely.set(i64::from(view.is_lonely));
        self.metrics.add(counted, &stats);
        *counted = stats;
    }

    /// From now on this driver speaks for us.
    fn set_driver(&self, handle: gossip_udp::Cluster) {
        // What the last one counted is not lost.
        self.sample();
        *self.lock() = Some(Driven { handle, counted: Stats::default() });
    }

    fn driver(&self) -> Option<gossip_udp::Cluster> {
        self.lock().as_ref().map(|driven| driven.handle.clone())
    }

    fn view(&self) -> Option<Arc<View>> {
        self.lock().as_ref().map(|driven| driven.handle.view())
    }

    fn lock(&self) -> MutexGuard<'_, Option<Driven>> {
        self.driver.lock().expect("no panic while holding the lock")
    }

    fn node(&self, view: &View, member: &swim::Member) -> wire::Node {
        let Meta { api_address, name, version } = Meta::decode(&member.info.meta);
        wire::Node {
            api_address,
            name,
            version,
            is_self: member.identity.id == self.id,
            leader_preference: member.identity.id == view.leader_preference,
            ..node_convert::node(member, self.clock.monotonic())
        }
    }
}
