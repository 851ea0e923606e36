//! What an operator may choose about one server. Checked once, when the config is built.

use std::time::Duration;

use lease::passive::PassiveConfig;
use model::{Invalid, Limits};
use store::Retention;

use crate::door;

/// The settings of one server process.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// How the server calls itself to workers and people.
    pub name: String,
    /// The store in words, for `stats` and logs.
    pub store: String,
    /// Where workers and other servers reach this one; empty if nobody need know.
    pub address: String,
    /// The lease of a worker that asks for none, and of a job claimed by a single call. 20 s: a lost machine's jobs move on
    /// while a person still looks, and three missed beats (one every 4 s) fit in it.
    pub lease_default: Duration,
    /// How long a job may be on its way to its worker before the server asks whether it arrived. 30 s: most jobs have
    /// ended by then, and need not be asked about.
    pub verify_after: Duration,
    /// New workers per second, so that a crash loop does not keep the store busy. 500: a fleet of 10,000 is back in 20 s.
    pub registrations_per_second: u32,
    /// When a holder that only pings counts as gone.
    pub pings: PassiveConfig,
    /// Queues at most. 10,000: nobody reads a list of more, and each is a row for ever.
    pub queues_max: usize,
    /// Sizes that are refused.
    pub limits: Limits,
    /// How long finished jobs are kept: completed for a day, dead for a week, so that people come back to find them.
    pub retention: Retention,
    /// How long a stopping server waits for open requests.
    pub drain_grace: Duration,
    /// About volatile queues.
    pub volatile: VolatileConfig,
    /// About the port: who may speak to it, and what that may cost.
    pub door: DoorConfig,
}

/// What an operator may choose about the port.
#[derive(Clone, Debug)]
pub struct DoorConfig {
    /// Names that the server answers to, besides IP addresses, `localhost` and the name in [`NodeConfig::address`].
    pub hosts: Vec<String>,
    /// How long the message of a gRPC call may take to arrive, and a JSON body. 60 s: 8 MiB over 1 Mbit/s.
    pub message_timeout: Duration,
    /// Connections at most. 10,240: one for each of 10,000 workers, and some for people.
    pub connections_max: usize,
    /// Connections from one address at most; none: 256, and all but a fortieth of them on loopback, where a whole fleet may be.
    pub connections_per_address: Option<usize>,
    /// How long a connection without a call stays open. 60 s: clients of ours open another one when they need it.
    pub idle_timeout: Duration,
    /// How long a client may take nothing of an answer. 30 s: longer than most networks are gone.
    pub stalled_timeout: Duration,
    /// Bytes of bodies and answers on their way at most, over all connections.
    pub inflight_bytes_max: usize,
}

impl DoorConfig {
    /// [`Self::inflight_bytes_max`], unless a quarter of the memory is less.
    pub const INFLIGHT_BYTES_DEFAULT: usize = 1 << 30;
    /// The least of it: the largest batch fits several times, on its way in and out.
    pub const INFLIGHT_BYTES_LEAST: usize = 64 << 20;
    const CONNECTIONS_MAX: usize = 10_240;

    fn check(&self) -> Result<(), Invalid> {
        self.hosts.iter().try_for_each(|name| door::check_name(name))?;
        if self.connections_per_address == Some(0) {
            return Err(Invalid::new("no connection per address would keep everyone out; choose 1 or more"));
        }
        if self.inflight_bytes_max < Self::INFLIGHT_BYTES_LEAST {
            return Err(Invalid::new(format!(
                "{} bytes on their way are too few for several large batches; choose {} or more",
                self.inflight_bytes_max,
                Self::INFLIGHT_BYTES_LEAST
            )));
        }
        Ok(())
    }
}

impl Default for DoorConfig {
    fn default() -> Self {
        DoorConfig {
            hosts: Vec::new(),
            message_timeout: Duration::from_secs(60),
            connections_max: Self::CONNECTIONS_MAX,
            connections_per_address: None,
            idle_timeout: Duration::from_secs(60),
            stalled_timeout: Duration::from_secs(30),
            inflight_bytes_max: Self::INFLIGHT_BYTES_DEFAULT,
        }
    }
}

/// What an operator may choose about volatile queues.
#[derive(Clone, Debug, Default)]
pub struct VolatileConfig {
    /// Wait at least this long after a start, unless all workers agree before: for one start after leases were made shorter,
    /// because workers may still have longer ones. Never shorter than the safe wait of the present settings.
    pub initial_wait: Option<Duration>,
    /// Wait no longer than this, though a task that is running may then be started again.
    pub unsafe_initial_wait: Option<Duration>,
    /// Give the seat of a worker that is not healthy to one on another machine.
    pub allow_bump_unhealthy: bool,
}

impl NodeConfig {
    /// Checks what must hold between the settings.
    pub fn check(self) -> Result<Self, Invalid> {
        Limits::check_lease(self.lease_default)?;
        if self.lease_default > Limits::WORKER_LEASE_MAX {
            return Err(Invalid::new(format!(
                "lease of {:?} is too long for workers; choose at most {:?}",
                self.lease_default,
                Limits::WORKER_LEASE_MAX
            )));
        }
        if self.verify_after < Limits::LEASE_MIN || self.verify_after > Limits::LEASE_MAX {
            return Err(Invalid::new(format!(
                "verifying after {:?} is out of range; choose between {:?} and {:?}",
                self.verify_after,
                Limits::LEASE_MIN,
                Limits::LEASE_MAX
            )));
        }
        if self.registrations_per_second == 0 {
            return Err(Invalid::new(
                "no new workers per second would keep all workers out; choose 1 or more",
            ));
        }
        if self.queues_max == 0 {
            return Err(Invalid::new("no queues at all would leave nowhere for jobs; choose 1 or more"));
        }
        if self.limits.payload_bytes_max == 0 {
            return Err(Invalid::new(
                "the largest payload is 0 bytes, so no job could carry anything; choose 1 or more",
            ));
        }
        if self.limits.payload_bytes_max > self.limits.batch_bytes_max {
            return Err(Invalid::new(format!(
                "the largest payload ({} bytes) does not fit in the largest batch ({} bytes)",
                self.limits.payload_bytes_max, self.limits.batch_bytes_max
            )));
        }
        self.door.check()?;
        Ok(self)
    }
}

impl Default for NodeConfig {
    fn default() -> Self {
        NodeConfig {
            name: "tenure".to_owned(),
            store: "memory".to_owned(),
            address: String::new(),
            lease_default: Limits::LEASE_DEFAULT,
            verify_after: Limits::VERIFY_AFTER,
            registrations_per_second: 500,
            pings: PassiveConfig::default(),
            queues_max: 10_000,
            limits: Limits::default(),
            retention: Retention::default(),
            drain_grace: Duration::from_secs(10),
            volatile: VolatileConfig::default(),
            door: DoorConfig::default(),
        }
    }
}
