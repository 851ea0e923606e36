//! A share of all links is dead in one direction, for good: is anybody taken for dead whom most others reach?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::{Node, Protocol};
use crate::worlds::swim::world::{Setup, World};

/// The traffic is counted in the last part of the time only, when there is nothing left to find out.
const SETTLED_AFTER: f64 = 0.5;

/// Runs it for each of these shares of dead links. A link leads from one node to another, in this direction only.
pub fn links<P: Protocol>(
    subject: &Subject<P>,
    shares: &[f64],
    lasts: Duration,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!(
            "links dead in one direction for {} s, {}, {} worlds for each row",
            lasts.as_secs(),
            subject.name,
            amount.seeds
        ),
        columns: vec![
            "nodes",
            "dead_links_percent",
            "nodes_condemned",
            "false_deaths",
            "worlds_with_any",
            "pairs_missing_percent",
            "messages_per_period",
            "bytes_per_second",
        ],
        axes: Axes { x: "dead links (%)", y: "nodes condemned per world", is_x_log: false },
        ..Findings::default()
    };
    let total = shares.len() as u64;
    for (round, share) in (0..).zip(shares.iter().copied()) {
        let mut part = |done, of| progress(round * of + done, total * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, share, lasts, nodes, seed)) {
            let count = runs.len().max(1) as f64;
            let mean = |part: fn(&Run) -> f64| runs.iter().map(part).sum::<f64>() / count;
            let sum = |part: fn(&Run) -> u64| runs.iter().map(part).sum::<u64>();
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::Number(share * 100.0, 0),
                Cell::from(sum(|run| run.condemned)),
                Cell::from(sum(|run| run.false_deaths)),
                Cell::from(sum(|run| u64::from(run.condemned > 0))),
                Cell::Number(mean(|run| run.missing) * 100.0, 2),
                Cell::Number(mean(|run| run.messages), 2),
                Cell::Number(mean(|run| run.bytes), 0),
            ]);
            findings.add_point(&format!("{nodes} nodes"), (share * 100.0, mean(|run| run.condemned as f64)));
            findings.events += sum(|run| run.events);
        }
    }
    findings
}

struct Run {
    condemned: u64,
    false_deaths: u64,
    /// The share of all pairs of which one does not count the other as a member at the end.
    missing: f64,
    messages: f64,
    bytes: f64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, share: f64, lasts: Duration, nodes: u32, seed: u64) -> Run {
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes));
    for change in dead_links(&mut Rng::stream(seed, 0, "links"), nodes, share) {
        world.schedule(Time::ZERO, change);
    }
    world.run_for(lasts.mul_f64(SETTLED_AFTER));
    let before = world.sent_by_all();
    let counted = lasts.mul_f64(1.0 - SETTLED_AFTER);
    world.run_for(counted);
    let sent = world.sent_by_all().since(before);
    let node_seconds = f64::from(nodes) * counted.as_secs_f64();
    Run {
        condemned: world.watch.condemned.len() as u64,
        false_deaths: world.watch.false_deaths,
        missing: missing(&world),
        messages: sent.datagrams as f64 / node_seconds * subject.period.as_secs_f64(),
        bytes: sent.bytes() as f64 / node_seconds,
        events: world.events(),
    }
}

/// Each link is dead with this probability, whatever the other direction is.
fn dead_links(rng: &mut Rng, nodes: u32, share: f64) -> Vec<Change> {
    let mut dead = Vec::new();
    for from in 0..nodes {
        dead.extend((0..nodes).filter(|to| *to != from && rng.chance(share)).map(|to| Change::Cut(from, to)));
    }
    dead
}

fn missing<P: Protocol>(world: &World<'_, P, Verdicts>) -> f64 {
    let nodes = world.len();
    let lacks = |by: &P, about: Node| !by.belief(about).is_present();
    let missing: usize = world
        .up()
        .map(|(node, by)| (0..nodes).filter(|about| *about != node && lacks(by, *about)).count())
        .sum();
    missing as f64 / f64::from(nodes * (nodes - 1)).max(1.0)
}
