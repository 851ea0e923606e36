//! A tenth of the workers start and die in a loop: how long until a good newcomer is healthy, with newcomers that queue and
//! without?

use std::time::Duration;

use super::{Amount, Cell, Findings, Progress, Samples};
use crate::rng::Rng;
use crate::time::Time;
use crate::trace::Trace;
use crate::worlds::muster::event::Slot;
use crate::worlds::muster::laws::turnover_converges;
use crate::worlds::muster::mutation::Mutation;
use crate::worlds::muster::setup::Setup;
use crate::worlds::muster::world::World;

/// By then the first wait is over, and the loop has been going on for a while.
const SETTLES: Duration = Duration::from_secs(60);
/// Within so long after that the good newcomers come.
const COME_WITHIN: Duration = Duration::from_secs(60);
/// How many of them.
const NEWCOMERS: u32 = 5;
/// How many times the bound is waited for.
const PATIENCE: u32 = 10;

/// What came of one world.
struct Run {
    /// From the start of each newcomer that became healthy, in seconds.
    healthy_after: Vec<f64>,
    /// Newcomers that did not.
    never: u64,
    events: u64,
}

/// Runs it: a row for each number of workers, with and without queueing.
pub fn turnover(amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let setup = Setup::quiet(0, 1);
    let bound = turnover_converges::bound(&setup.rules, setup.rate_error());
    let mut findings = Findings {
        title: format!(
            "a tenth of the workers crash in a loop, {NEWCOMERS} good newcomers in each of {} worlds; seconds until they are healthy",
            amount.seeds
        ),
        columns: vec![
            "workers",
            "looping",
            "queueing",
            "newcomers",
            "healthy_p50",
            "healthy_p99",
            "healthy_max",
            "never",
            "bound",
            "waited_for",
        ],
        ..Findings::default()
    };
    for (queueing, mutation) in [("yes", None), ("no", Some(Mutation::Machine(muster::Mutation::NoBatching)))]
    {
        for (workers, runs) in amount.run(progress, |workers, seed| run(workers, seed, bound, mutation)) {
            let healthy =
                Samples::new(runs.iter().flat_map(|run| run.healthy_after.iter().copied()).collect());
            findings.rows.push(vec![
                Cell::from(workers),
                Cell::from(looping(workers)),
                Cell::from(queueing),
                Cell::from(runs.len() as u64 * u64::from(NEWCOMERS)),
                Cell::seconds(healthy.at(0.5)),
                Cell::seconds(healthy.at(0.99)),
                Cell::seconds(healthy.at(1.0)),
                Cell::from(runs.iter().map(|run| run.never).sum::<u64>()),
                Cell::seconds(Some(bound.as_secs_f64())),
                Cell::seconds(Some((bound * PATIENCE).as_secs_f64())),
            ]);
            findings.events += runs.iter().map(|run| run.events).sum::<u64>();
        }
    }
    findings
}

fn looping(workers: u32) -> u32 {
    workers.div_ceil(10)
}

fn run(workers: u32, seed: u64, bound: Duration, mutation: Option<Mutation>) -> Run {
    let rng = &mut Rng::stream(seed, 0, "turnover");
    let mut setup = Setup::quiet(seed, workers + NEWCOMERS);
    setup.mutation = mutation;
    setup.workers.iter_mut().take(looping(workers) as usize).for_each(|worker| worker.is_looping = true);
    let newcomers = workers..workers + NEWCOMERS;
    for slot in newcomers.clone() {
        setup.workers[slot as usize].starts_at = SETTLES + rng.span(Duration::ZERO, COME_WITHIN);
    }
    let starts: Vec<(Slot, Time)> =
        newcomers.map(|slot| (slot, Time::ZERO + setup.workers[slot as usize].starts_at)).collect();
    let mut world = World::new(setup, Trace::silent());
    let end = Time::ZERO + SETTLES + COME_WITHIN + bound * PATIENCE;
    while world.now < end && starts.iter().any(|(slot, _)| !world.healthy_at.contains_key(slot)) {
        world.run_until(world.now + Duration::from_secs(1));
    }
    let took = |(slot, start): &(Slot, Time)| Some(world.healthy_at.get(slot)?.since(*start).as_secs_f64());
    let healthy_after: Vec<f64> = starts.iter().filter_map(took).collect();
    Run { never: starts.len() as u64 - healthy_after.len() as u64, healthy_after, events: world.events() }
}
