//! One store under measurement: its servers, each with a worker process, from the first job to the last.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Result, ensure};
use worker::Client;

use super::latency::Latency;
use super::{Bench, Database, StoreKind, SystemArgs, bar, latency, noop, share, throughput};
use crate::exit::Failure;
use crate::fleet::{Process, Server, this_program};

pub(super) struct Subject {
    pub(super) store: StoreKind,
    pub(super) bench: Bench,
    servers: Vec<Server>,
    /// None before the drain: the backlog is enqueued first.
    workers: Vec<Process>,
    home: PathBuf,
    /// Gone after the servers.
    _database: Database,
}

/// What was measured with many jobs at once.
pub(super) struct Bulk {
    pub(super) enqueue_per_s: u64,
    pub(super) drain_per_s: u64,
    pub(super) pipelined_per_s: u64,
    /// CPU time, while enqueue and drain went on at once.
    pub(super) server_busy: Duration,
    /// That of server, worker and producer together.
    pub(super) system_busy: Duration,
    /// That of the store alone for as many jobs, if it is in memory.
    pub(super) store_alone: Option<Duration>,
}

impl Subject {
    /// Starts the servers, with their data below this directory.
    pub(super) async fn start(
        args: &SystemArgs,
        store: StoreKind,
        home: &Path,
        quiet: bool,
    ) -> Result<Subject> {
        ensure!(
            args.servers == 1 || store == StoreKind::Postgres,
            Failure::usage("several servers need `--store postgres`")
        );
        std::fs::create_dir_all(home)?;
        let database = Database::new(store, args.database().flagged()?, !args.unsafe_no_fsync)?;
        let memory = format!("{}B", args.volatile_bytes());
        let mut more = vec!["--store", store.word()];
        if args.unsafe_no_fsync {
            more.push("--unsafe-no-fsync");
        }
        if store == StoreKind::Volatile {
            // A server that nobody can have worked for before has nobody to wait for.
            more.extend(["--unsafe-initial-wait", "0s", "--volatile-memory", &memory]);
        }
        more.extend(database.flags());
        let mut servers = Vec::new();
        for number in 0..args.servers {
            let data = home.join(format!("data-{number}"));
            servers.push(Server::start(&this_program()?, &data, &more).await?);
        }
        let clients =
            servers.iter().map(|server| Client::connect(&server.url)).collect::<Result<Vec<_>, _>>()?;
        let bench = Bench { clients, bar: bar(args.jobs, quiet), forgets: store == StoreKind::Volatile };
        Ok(Subject { store, bench, servers, workers: Vec::new(), home: home.to_owned(), _database: database })
    }

    /// Measures enqueue, drain, and both at once.
    pub(super) async fn bulk(&mut self, args: &SystemArgs) -> Result<Bulk> {
        let bench = &self.bench;
        bench.bar.set_message("enqueue");
        bench.pause(true).await?;
        let enqueue_per_s = throughput::enqueue(bench, args).await?;

        bench.bar.set_message("drain");
        self.workers = self.start_workers(args)?;
        bench.wait_for_workers().await?;
        if self.is_volatile() {
            bench.wait_for_muster().await?;
        }
        let drain_per_s = throughput::drain(bench, args.jobs).await?;

        bench.bar.set_message("pipelined");
        let server = self.servers.iter().map(|server| server.process.pid()).collect::<Result<Vec<_>>>()?;
        let mut system = self.workers.iter().map(Process::pid).collect::<Result<Vec<_>>>()?;
        system.extend(server.iter().copied().chain([rustix::process::getpid()]));
        let before = (share::busy(&server)?, share::busy(&system)?);
        let pipelined_per_s = throughput::pipelined(bench, args).await?;
        let server_busy = share::busy(&server)?.saturating_sub(before.0);
        let system_busy = share::busy(&system)?.saturating_sub(before.1);
        // Now, while the machine is as fast as it was.
        let store_alone = self.is_volatile().then(|| share::of_memory(args)).transpose()?;
        Ok(Bulk { enqueue_per_s, drain_per_s, pipelined_per_s, server_busy, system_busy, store_alone })
    }

    /// Measures latency, at the end of which the workers end.
    pub(super) async fn latency(mut self, args: &SystemArgs) -> Result<Latency> {
        self.bench.bar.set_message("latency");
        let latency = latency::measure(&self.bench, args, &mut self.workers).await?;
        self.bench.bar.finish_and_clear();
        Ok(latency)
    }

    fn is_volatile(&self) -> bool {
        self.store == StoreKind::Volatile
    }

    fn start_workers(&self, args: &SystemArgs) -> Result<Vec<Process>> {
        let slots = (args.concurrency / u32::from(args.servers)).max(1);
        let guarded: &[&str] = if self.is_volatile() { &["--guarded"] } else { &[] };
        let log = self.home.join("worker.log");
        self.servers.iter().map(|server| noop::start(&server.url, slots, guarded, &log)).collect()
    }
}
