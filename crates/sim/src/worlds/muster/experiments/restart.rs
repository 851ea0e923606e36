//! A scheduler dies when every worker has said that it knows the present set, and the next one starts: how long does it wait?

use std::time::Duration;

use super::{Amount, Cell, Findings, Progress, Samples};
use crate::rng::Rng;
use crate::trace::Trace;
use crate::worlds::muster::event::Event;
use crate::worlds::muster::setup::Setup;
use crate::worlds::muster::world::World;

/// The first wait is a full one, and then everybody is told, checked and heard.
const SETTLES: Duration = Duration::from_secs(45);
/// How many times the scheduler dies in one world.
const RESTARTS: u32 = 5;
/// Between two deaths, at least; longer than any wait.
const PAUSE: Duration = Duration::from_secs(30);

/// What came of one world.
struct Run {
    /// Waits in seconds, and how many of them ended by time.
    waits: Vec<f64>,
    full: u64,
    events: u64,
}

/// Runs it: a row for each number of workers, with streams that are reset when the scheduler dies and with streams that are not.
pub fn restart(amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let setup = Setup::quiet(0, 1);
    let (heartbeat, safe_wait) = (setup.rules.heartbeat.as_secs_f64(), setup.safe_wait().as_secs_f64());
    let goal = 2.0 * heartbeat + 1.0;
    let mut findings = Findings {
        title: format!(
            "restart after all workers know the set, {} worlds of {RESTARTS} restarts for each row; seconds; heartbeat {heartbeat}",
            amount.seeds
        ),
        columns: vec![
            "workers",
            "streams",
            "restarts",
            "agreed",
            "wait_p50",
            "wait_p99",
            "wait_max",
            "p50_heartbeats",
            "p99_heartbeats",
            "safe_wait",
            "goal_p99",
        ],
        ..Findings::default()
    };
    for (streams, is_noticed) in [("reset", true), ("silent", false)] {
        for (workers, runs) in amount.run(progress, |workers, seed| run(workers, seed, is_noticed)) {
            let waits = Samples::new(runs.iter().flat_map(|run| run.waits.iter().copied()).collect());
            let full: u64 = runs.iter().map(|run| run.full).sum();
            let heartbeats =
                |share| waits.at(share).map_or(Cell::Missing, |wait| Cell::Number(wait / heartbeat, 2));
            findings.rows.push(vec![
                Cell::from(workers),
                Cell::from(streams),
                Cell::from(waits.len() as u64),
                Cell::from(waits.len() as u64 - full),
                Cell::seconds(waits.at(0.5)),
                Cell::seconds(waits.at(0.99)),
                Cell::seconds(waits.at(1.0)),
                heartbeats(0.5),
                heartbeats(0.99),
                Cell::seconds(Some(safe_wait)),
                Cell::seconds(Some(goal)),
            ]);
            findings.events += runs.iter().map(|run| run.events).sum::<u64>();
        }
    }
    findings.notes.push("without set ids every restart waits for the safe wait".to_owned());
    findings
}

fn run(workers: u32, seed: u64, is_noticed: bool) -> Run {
    let mut rng = Rng::stream(seed, 0, "restart");
    let mut world = World::new(Setup::quiet(seed, workers), Trace::silent());
    world.run_until(world.now + SETTLES);
    world.stats.waits_full.clear();
    for _ in 0..RESTARTS {
        // At any phase of anybody's heartbeat.
        world.run_until(world.now + PAUSE + rng.span(Duration::ZERO, Duration::from_secs(10)));
        world.scheduler_ends(is_noticed);
        let away = rng.span_of_any_size(Duration::from_millis(10), Duration::from_secs(5));
        world.push_in(away, Event::SchedulerStarts);
    }
    world.run_until(world.now + PAUSE);
    let (agreed, full) = (&world.stats.waits_agreed, &world.stats.waits_full);
    let waits = agreed.iter().chain(full).map(|nanos| *nanos as f64 / 1e9);
    Run { waits: waits.collect(), full: full.len() as u64, events: world.events() }
}
