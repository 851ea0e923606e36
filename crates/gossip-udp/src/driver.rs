//! The loop: receive | stream | command | time → machine → act.

mod act;

use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use model::{Clock, Instant};
use swim::{Config, Epoch, Input, Machine, Request};
use tokio::net::TcpStream;
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::sleep;

use crate::cluster::{COMMANDS_MAX, Cluster, Command};
use crate::errands::{Errands, Returned};
use crate::filter::Filter;
use crate::gate::Gate;
use crate::seal::{Seal, Sealer};
use crate::sockets::Sockets;
use crate::stats::{Drops, Stats};
use crate::streams::Asked;
use crate::view::Publisher;

/// Most datagrams read in one turn, before streams, commands and time have theirs.
const DATAGRAMS_PER_TURN_MAX: usize = 64;
/// How often names are looked up again.
const LOOKUP_EVERY: Duration = Duration::from_secs(30);
/// How often dropped datagrams are worth a line in the log.
const LOG_DROPS_EVERY: Duration = Duration::from_secs(10);

/// After how long it is worth a line that nobody was found, and how often from then on.
const LOG_ALONE_AFTER: Duration = Duration::from_secs(5);
const LOG_ALONE_EVERY: Duration = Duration::from_secs(60);

/// How a driver is set up.
#[derive(Clone, Debug)]
pub struct Options {
    /// The cluster's name: nodes with another do not hear each other.
    pub label: String,
    /// How messages are protected.
    pub seal: Seal,
    /// Allows messages that are not protected on addresses that others can reach.
    pub insecure: bool,
    /// Where to look for the cluster: `host:port`, looked up again and again.
    pub seeds: Vec<String>,
    /// Cuts links on purpose.
    pub filter: Filter,
}

/// Why a driver cannot start.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// Anybody who reaches this address could speak for the cluster.
    #[error("{0} can be reached by others, and there is no key")]
    Insecure(SocketAddr),
    /// The sockets cannot be used.
    #[error("failed to use the sockets: {0}")]
    Io(#[from] io::Error),
}

/// Why a driver ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// It was told to, or nobody holds its handle.
    Stopped,
    /// The node has left.
    Left,
    /// This epoch of the node is over; the next must be higher than our own, and than this one if it is known.
    Expelled(Option<Epoch>),
}

/// Owns the machine and its sockets until it ends.
#[derive(Debug)]
pub struct Driver {
    machine: Machine,
    sockets: Sockets,
    clock: SystemClock,
    sealer: Arc<Sealer>,
    filter: Filter,
    gate: Gate,
    errands: Errands,
    asked: mpsc::Receiver<Asked>,
    commands: mpsc::Receiver<Command>,
    publisher: Publisher,
    stats: Stats,
    stats_out: watch::Sender<Stats>,
    /// How many datagrams were sent: the number of the next.
    sequence: u64,
    received: Vec<u8>,
    sealed: Vec<u8>,
    /// What acting brought up, for the machine to hear when it has said everything.
    inputs: VecDeque<Input>,
    seeds: Vec<String>,
    resolve_at: Instant,
    /// The loop wants to come by at least this often; how late it is, is its lag.
    beat: Duration,
    beat_at: Instant,
    publish_at: Option<Instant>,
    logged: (Instant, Drops),
    log_alone_at: Instant,
    leaving: Vec<oneshot::Sender<()>>,
    /// Off from a failure to the next beat: too many open files do not go away by trying.
    is_accepting: bool,
    ending: Option<Ending>,
}

/// Everything that can happen.
enum Woken {
    Readable,
    Accepted(io::Result<(TcpStream, SocketAddr)>),
    Asked(Asked),
    Returned(Returned),
    /// `None`: nobody holds a handle any more.
    Command(Option<Command>),
    Time,
}

impl Driver {
    /// A driver for this machine, which must have the same config, and the handle to it. Nothing happens before
    /// [`run`](Self::run); whoever subscribes before that misses no event.
    pub fn new(
        sockets: Sockets,
        machine: Machine,
        config: &Config,
        options: Options,
    ) -> Result<(Cluster, Driver), StartError> {
        let sealer = Arc::new(Sealer::new(&options.label, options.seal));
        let addr = sockets.local_addr()?;
        if sealer.is_open() && !addr.ip().to_canonical().is_loopback() && !options.insecure {
            return Err(StartError::Insecure(addr));
        }
        let clock = SystemClock;
        let now = clock.monotonic();
        let (errands, asked) = Errands::new(Arc::clone(&sealer), config.stream_timeout);
        let (commands_in, commands) = mpsc::channel(COMMANDS_MAX);
        let (stats_out, stats) = watch::channel(Stats::default());
        let publisher = Publisher::new(now, &machine);
        let cluster =
            Cluster { commands: commands_in, views: publisher.views(), events: publisher.events(), stats };
        let beat = (config.probe_timeout / 2).max(Duration::from_millis(1));
        let driver = Driver {
            gate: Gate::new(
                machine.me(),
                Arc::clone(&sealer),
                options.filter.clone(),
                config.members_max,
                config.datagram_bytes_max,
            ),
            machine,
            sockets,
            clock,
            sealer,
            filter: options.filter,
            errands,
            asked,
            commands,
            publisher,
            stats: Stats::default(),
            stats_out,
            sequence: 0,
            // One byte more than allowed, to see that there was more.
            received: vec![0; config.datagram_bytes_max + 1],
            sealed: Vec::with_capacity(config.datagram_bytes_max),
            inputs: VecDeque::new(),
            seeds: options.seeds,
            resolve_at: now,
            beat,
            beat_at: now + beat,
            publish_at: None,
            logged: (now, Drops::default()),
            log_alone_at: now + LOG_ALONE_AFTER,
            leaving: Vec::new(),
            is_accepting: true,
            ending: None,
        };
        Ok((cluster, driver))
    }

    /// Runs until the node has left, is expelled, or is told to stop; gives the sockets back for the next epoch.
    pub async fn run(mut self) -> (Ending, Sockets) {
        // Sending never waits, so the socket must be known to be ready before the first word.
        if let Err(error) = self.sockets.udp.writable().await {
            tracing::warn!(%error, "datagram socket not ready");
        }
        self.beat_at = self.clock.monotonic() + self.beat;
        self.act();
        let ending = loop {
            if let Some(ending) = self.ending {
                break ending;
            }
            match self.wait().await {
                Woken::Readable | Woken::Time => {}
                Woken::Accepted(accepted) => self.accept(accepted),
                Woken::Asked(asked) => self.hear(asked),
                Woken::Returned(returned) => self.take_back(returned),
                Woken::Command(Some(command)) => self.obey(command),
                Woken::Command(None) => self.ending = Some(Ending::Stopped),
            }
            // Before time has its turn: after a stall the answers that came meanwhile are heard first.
            self.receive();
            self.keep_time();
        };
        self.publisher.publish_now(&self.machine);
        self.stats_out.send_replace(self.stats);
        for done in self.leaving {
            // Whoever asked may have gone.
            let _ = done.send(());
        }
        (ending, self.sockets)
    }

    async fn wait(&mut self) -> Woken {
        let now = self.clock.monotonic();
        let deadlines = [self.machine.next_deadline(), self.publish_at, Some(self.resolve_at)];
        let wake_at = deadlines.into_iter().flatten().fold(self.beat_at, Instant::min);
        let Driver { sockets, asked, errands, commands, stats, .. } = self;
        tokio::select! {
            _ = sockets.udp.readable() => Woken::Readable,
            accepted = sockets.tcp.accept(), if self.is_accepting => Woken::Accepted(accepted),
            Some(asked) = asked.recv() => Woken::Asked(asked),
            returned = errands.next(stats) => Woken::Returned(returned),
            command = commands.recv() => Woken::Command(command),
            () = sleep(wake_at.since(now)) => Woken::Time,
        }
    }

    fn receive(&mut self) {
        for _ in 0..DATAGRAMS_PER_TURN_MAX {
            if self.ending.is_some() {
                return;
            }
            match self.sockets.udp.try_recv_from(&mut self.received) {
                Ok((length, addr)) => self.receive_one(length, addr),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                // An earlier datagram of ours was refused somewhere; that is not about the next one.
                Err(error) => tracing::debug!(%error, "receiving failed"),
            }
        }
    }

    fn receive_one(&mut self, length: usize, addr: SocketAddr) {
        let now = self.clock.monotonic();
        self.stats.datagrams_in += 1;
        self.stats.bytes_in += length as u64;
        match self.gate.admit(now, addr, &mut self.received[..length]) {
            Ok(packet) => self.feed(Input::Datagram(addr, packet)),
            Err(dropped) => self.stats.dropped.count(dropped),
        }
    }

    fn accept(&mut self, accepted: io::Result<(TcpStream, SocketAddr)>) {
        match accepted {
            Ok((stream, addr)) => {
                let is_taken = self.errands.accept(stream, addr);
                self.stats.streams_in += u64::from(is_taken);
                self.stats.streams_refused += u64::from(!is_taken);
            }
            Err(error) => {
                tracing::debug!(%error, "accepting failed");
                self.is_accepting = false;
            }
        }
    }

    fn hear(&mut self, asked: Asked) {
        let Asked { ticket, addr, request, reply } = asked;
        let is_cut = self.home(&request).is_some_and(|home| self.filter.cuts_streams(home));
        self.errands.keep(ticket, reply);
        if !is_cut {
            self.feed(Input::Request(ticket, addr, request));
        }
    }

    /// Where the sender of a request listens, as far as known: the stream itself comes from any port.
    fn home(&self, request: &Request) -> Option<SocketAddr> {
        let id = match request {
            Request::Ping { from, .. } | Request::Push { from, .. } => from.id,
            Request::Compare { from, .. } => match &from.info {
                Some(info) => return Some(info.addr),
                None => from.node.id,
            },
        };
        self.machine.member(id).map(|member| member.info.addr)
    }

    fn take_back(&mut self, returned: Returned) {
        match returned {
            Returned::Response(ticket, response) => self.feed(Input::Response(ticket, response)),
            Returned::Answered => {}
            Returned::Resolved(mut addrs) => {
                let own = self.machine.member(self.machine.me().id).map(|member| member.info.addr);
                addrs.retain(|addr| Some(*addr) != own && self.sockets.local_addr().ok() != Some(*addr));
                if !addrs.is_empty() {
                    self.feed(Input::Seeds(addrs));
                }
            }
        }
    }

    fn obey(&mut self, command: Command) {
        match command {
            Command::Leave(done) => {
                self.leaving.push(done);
                self.feed(Input::Leave);
            }
            Command::Expel(identity) => self.feed(Input::Expel(identity)),
            Command::SetMeta(meta) => self.feed(Input::SetMeta(meta)),
            Command::SetMark(mark) => self.feed(Input::SetMark(mark)),
            Command::SetSeeds(names) => {
                self.seeds = names;
                self.resolve_at = self.clock.monotonic();
            }
            Command::Stop => self.ending = Some(Ending::Stopped),
        }
    }

    fn keep_time(&mut self) {
        let now = self.clock.monotonic();
        if now >= self.beat_at {
            self.come_by(now);
        }
        if self.machine.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.machine.handle_deadline(now);
            self.act();
        }
        if now >= self.resolve_at {
            self.resolve_at = now + LOOKUP_EVERY;
            if !self.seeds.is_empty() {
                self.errands.resolve(self.seeds.clone());
            }
        }
        self.publish_at = self.publisher.publish(now, &self.machine);
    }

    /// The loop's own beat.
    fn come_by(&mut self, now: Instant) {
        let late = now.since(self.beat_at);
        self.beat_at = now + self.beat;
        self.is_accepting = true;
        if late > self.beat {
            self.stats.lags += 1;
            // A machine whose deadline has passed sees for itself how late it is; one that was waiting for nothing does not.
            let sees = self.machine.next_deadline().is_some_and(|deadline| deadline + self.beat < now);
            if !sees {
                self.feed(Input::Lagged(late));
            }
        }
        self.stats_out.send_if_modified(|published| {
            let is_new = *published != self.stats;
            *published = self.stats;
            is_new
        });
        self.log_drops(now);
        self.log_alone(now);
    }

    fn log_drops(&mut self, now: Instant) {
        let drops = self.stats.dropped;
        let (last, before) = self.logged;
        if drops != before && now.since(last) >= LOG_DROPS_EVERY {
            self.logged = (now, drops);
            tracing::warn!(since = drops.total() - before.total(), ?drops, "datagrams dropped");
        }
    }

    /// Whoever looks for others and finds none should not have to guess why.
    fn log_alone(&mut self, now: Instant) {
        if now < self.log_alone_at {
            return;
        }
        self.log_alone_at = now + LOG_ALONE_EVERY;
        if !self.seeds.is_empty() && self.machine.members().nth(1).is_none() {
            let why = self.errands.last_failure().unwrap_or("none of their names is found");
            tracing::warn!(looked_at = ?self.seeds, why, "no other node found");
        }
    }
}
