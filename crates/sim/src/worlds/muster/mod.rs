//! The world of muster: a scheduler that keeps no record of what is running, workers that do, and clients that submit again.
//!
//! Real is `muster`, with and without time. There are two ways to look at it. [`model`] explores every course of events of a few
//! workers. The rest of this module runs large worlds at random: one scheduler that dies and starts again at any moment,
//! up to ten thousand workers on streams that delay and break, clocks that drift as far as the clock rule allows, workers that crash,
//! freeze, lapse, take each other's seats or never last, and tasks that clients want until they have a result.
//!
//! ```text
//!   clients ──► scheduler (one life after another) ◄── stream ──► worker ─ tasks
//!   keep what they want     leases, answers, starts                its own clock, the set id, results until acknowledged
//! ```
//!
//! The world knows by true time what runs where. It counts on what no software can do without: a guardian stops a worker's
//! tasks when its hold is over, whether or not the worker is awake. There are never two schedulers at a time.

mod books;
mod chaos;
mod event;
pub mod experiments;
mod laws;
pub mod model;
mod mutation;
mod scheduler;
mod sets;
mod setup;
mod stats;
mod tasks;
mod worker;
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
    /// The most workers. Worlds of up to a thousand are drawn smaller and larger; beyond that all are as large.
    pub workers_max: u32,
    /// How long things go wrong, in virtual seconds.
    pub seconds: u64,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The only law to ask, one of [`LAWS`]; all when `None`. Shows what a law notices that others notice first.
    pub only_law: Option<&'static str>,
    /// Only worlds in which the rules are tightest. A quarter of the others are such worlds, too.
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
            workers_max: 200,
            seconds: 240,
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
    let faults_last = Duration::from_secs(options.seconds);
    let mut setup = Setup::draw(seed, options.workers_max, faults_last, options.mutation);
    if options.at_the_edge || seed.is_multiple_of(4) && options.workers_max <= 1_000 {
        setup = setup.at_the_edge();
    }
    setup.only_law = options.only_law;
    World::new(setup, trace)
}
