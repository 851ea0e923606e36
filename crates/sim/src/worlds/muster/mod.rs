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
use std::panic::{self, AssertUnwindSafe};
use std::time::Duration;

pub use self::laws::LAWS;
pub use self::mutation::Mutation;
use self::setup::Setup;
pub use self::stats::{Stats, percentile};
use self::world::{Outcome, World};
use crate::law::{Failure, Violation};
use crate::run;
use crate::time::Time;
use crate::trace::{Hash, Tail, Trace};

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
pub fn run(options: &Options, mut progress: impl FnMut(u64, u64)) -> Report {
    let mut report = Report::default();
    let mut hash = Hash::default();
    run::seeds(
        options.first_seed,
        options.seeds,
        options.threads,
        |seed| run_seed(seed, options),
        |_, (outcome, failure)| {
            report.seeds += 1;
            report.stats.add(&outcome.stats);
            hash.add(outcome.hash);
            report.failures.extend(failure);
            progress(report.seeds, report.failures.len() as u64);
        },
    );
    report.trace_hash = hash.get();
    report
}

/// Runs one seed again and tells everything that happens, line by line.
pub fn replay(seed: u64, options: &Options, line: &mut dyn FnMut(String)) -> Report {
    let outcome = survive(|| world(seed, options, Trace::told(line)).run());
    let failure = outcome.violation.clone().map(|violation| Failure {
        seed,
        violation,
        at: outcome.at,
        last_events: Vec::new(),
    });
    let mut hash = Hash::default();
    hash.add(outcome.hash);
    Report { seeds: 1, stats: outcome.stats, trace_hash: hash.get(), failures: failure.into_iter().collect() }
}

/// One run; one that fails is told again for its last events.
fn run_seed(seed: u64, options: &Options) -> (Outcome, Option<Failure>) {
    let outcome = survive(|| world(seed, options, Trace::silent()).run());
    let Some(violation) = outcome.violation.clone() else { return (outcome, None) };
    let mut tail = Tail::new(options.last_events);
    let mut keep = |line| tail.push(line);
    let again = survive(|| world(seed, options, Trace::told(&mut keep)).run());
    assert_eq!(again.hash, outcome.hash, "a seed tells the same story whenever it is told");
    let failure = Failure { seed, violation, at: outcome.at, last_events: tail.into_lines() };
    (outcome, Some(failure))
}

/// A machine that panics has found a promise of its own broken; its seed must not be lost with it.
fn survive(run: impl FnOnce() -> Outcome) -> Outcome {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("without words");
        let violation = Violation { law: "panicked", what: text.to_owned() };
        Outcome { stats: Stats::default(), hash: 0, at: Time::ZERO, violation: Some(violation) }
    })
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
