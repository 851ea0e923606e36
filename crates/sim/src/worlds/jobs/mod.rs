//! The world of jobs and leases: three servers with a registry each over one store, and a handful of workers.
//!
//! Real are the dispatcher, upkeep, registry and its ownership of each server, the ledger of each worker, the guardian beside
//! it, and the store. Models are the network, the clocks, the processes, what the store's answers take, the handlers, the families of
//! processes that some of them are, and whoever enqueues. Leases are short, so that twenty minutes hold many of them.
//!
//! ```text
//!   clients ──► server A ─┐         ┌─ worker ─ worker ─ …     each belongs to the registry that enlisted it,
//!   clients ──► server B ─┼─ store  │    │        │            or that took that one over when its server
//!   clients ──► server C ─┘         │  guardian  …             was gone, and knows all addresses
//!                                   └────┴─ families of processes
//! ```
//!
//! Of some queues at most one copy of a job may run. The world knows by true time which processes run, and counts on
//! what no software can do without: of a worker and its guardian one is awake at any time (a frozen machine is not
//! simulated), and with the first process of a namespace everyone in it dies.

mod bookkeeping;
mod books;
mod call;
mod calm;
mod chaos;
mod corners;
mod database;
mod deaths;
mod event;
mod failing_servers;
mod families;
mod farewell;
mod guardian;
mod laws;
mod mutation;
mod nature;
mod outside;
mod pipe;
mod runs;
mod server;
mod setup;
mod stats;
mod succession;
mod usurper;
mod vigil;
mod worker;
mod workload;
mod world;

use std::num::NonZeroUsize;
use std::time::Duration;

pub use self::laws::LAWS;
pub use self::mutation::Mutation;
use self::setup::Setup;
pub use self::stats::{Stats, percentile};
use self::world::World;
use crate::seeds::{self, Seeds};
use crate::trace::Trace;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many seeds.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// How long things go wrong, in virtual minutes.
    pub minutes: u64,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The only law to ask, one of [`LAWS`]; all when `None`. Shows what a law notices that others notice first.
    pub only_law: Option<&'static str>,
    /// Only worlds in which the clock rule is tightest.
    pub at_the_edge: bool,
    /// How many of the last events a failure shows.
    pub last_events: usize,
    /// Over how many threads; as many as there are cores when `None`.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seeds: 100,
            first_seed: 1,
            minutes: 20,
            mutation: None,
            only_law: None,
            at_the_edge: false,
            last_events: 60,
            threads: None,
        }
    }
}

/// What came of it.
pub type Report = crate::law::Report<Stats>;

/// Runs the seeds. `progress` hears after each how many are done and how many of them failed.
pub fn run(options: &Options, progress: impl FnMut(u64, u64)) -> Report {
    let seeds = Seeds {
        first: options.first_seed,
        count: options.seeds,
        last_events: options.last_events,
        threads: options.threads,
    };
    seeds.run(Stats::add, |seed, trace| world(seed, options, trace).run(), progress)
}

/// Runs one seed again and tells everything that happens, line by line.
pub fn replay(seed: u64, options: &Options, line: &mut dyn FnMut(String)) -> Report {
    seeds::replay(seed, |seed, trace| world(seed, options, trace).run(), line)
}

fn world<'a>(seed: u64, options: &Options, trace: Trace<'a>) -> World<'a> {
    let faults_last = Duration::from_secs(60 * options.minutes);
    let setup = Setup::draw(seed, faults_last, options.mutation);
    let setup = if options.at_the_edge { setup.at_the_edge() } else { setup };
    World::new(Setup { only_law: options.only_law, ..setup }, trace)
}
