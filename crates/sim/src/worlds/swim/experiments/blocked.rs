//! Some nodes can neither send nor receive for a while, as overloaded ones: do they, or others, take healthy nodes for dead?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::mass::choose;
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 15;
/// One in so many is blocked, for a time between these.
const ONE_IN: u32 = 8;
const LASTS_MIN: Duration = Duration::from_secs(8);
const LASTS_MAX: Duration = Duration::from_secs(33);
/// How long it goes on after the last block has ended.
const AFTER: Duration = Duration::from_secs(60);

/// Runs it.
pub fn blocked<P: Protocol>(subject: &Subject<P>, amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let mut findings = Findings {
        title: format!(
            "one in {ONE_IN} blocked for 8 to 33 s, {}, {} worlds for each row",
            subject.name, amount.seeds
        ),
        columns: vec![
            "nodes",
            "blocked",
            "false_deaths",
            "at_healthy_nodes",
            "healthy_condemned",
            "worlds_with_any",
        ],
        axes: Axes { x: "false deaths", y: "share of worlds with at most so many", is_x_log: false },
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| run(subject, nodes, seed)) {
        let sum = |part: fn(&Run) -> u64| Cell::from(runs.iter().map(part).sum::<u64>());
        findings.rows.push(vec![
            Cell::from(nodes),
            Cell::from(nodes / ONE_IN),
            sum(|run| run.false_deaths),
            sum(|run| run.at_healthy),
            sum(|run| run.condemned),
            sum(|run| u64::from(run.false_deaths > 0)),
        ]);
        let deaths = Samples::new(runs.iter().map(|run| run.false_deaths as f64).collect());
        findings.curves.push(deaths.distribution(format!("{nodes} nodes")));
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

struct Run {
    false_deaths: u64,
    at_healthy: u64,
    condemned: u64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Run {
    let mut rng = Rng::stream(seed, 0, "blocked");
    let victims = choose(&mut rng, nodes, nodes / ONE_IN);
    let watch = Verdicts::new(nodes).troubled(victims.iter().copied());
    let mut world = subject.world(Setup::formed(seed, nodes), watch);
    world.run_for(subject.period * WARM_PERIODS);
    for victim in victims {
        world.schedule(world.now(), Change::BlockIo(victim, rng.span(LASTS_MIN, LASTS_MAX)));
    }
    world.run_for(LASTS_MAX + AFTER);
    Run {
        false_deaths: world.watch.false_deaths,
        at_healthy: world.watch.false_deaths_at_healthy,
        condemned: world.watch.condemned.len() as u64,
        events: world.events(),
    }
}
