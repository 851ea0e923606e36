//! Packets are lost everywhere, for long: is anybody taken for dead who is there?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

/// Runs it for each of these shares of lost packets.
pub fn loss<P: Protocol>(
    subject: &Subject<P>,
    shares: &[f64],
    lasts: Duration,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!(
            "uniform packet loss for {} s, {}, {} worlds for each row",
            lasts.as_secs(),
            subject.name,
            amount.seeds
        ),
        columns: vec![
            "nodes",
            "loss_percent",
            "false_deaths",
            "nodes_condemned",
            "worlds_with_any",
            "messages_per_period",
            "bytes_per_second",
        ],
        axes: Axes { x: "lost packets (%)", y: "false deaths per world", is_x_log: false },
        ..Findings::default()
    };
    let total = shares.len() as u64;
    for (round, share) in (0..).zip(shares.iter().copied()) {
        let mut part = |done, of| progress(round * of + done, total * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, share, lasts, nodes, seed)) {
            let count = runs.len().max(1) as f64;
            let sum = |part: fn(&Run) -> f64| runs.iter().map(part).sum::<f64>();
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::Number(share * 100.0, 0),
                Cell::from(runs.iter().map(|run| run.false_deaths).sum::<u64>()),
                Cell::from(runs.iter().map(|run| run.condemned).sum::<u64>()),
                Cell::from(runs.iter().filter(|run| run.false_deaths > 0).count() as u64),
                Cell::Number(sum(|run| run.messages) / count, 2),
                Cell::Number(sum(|run| run.bytes) / count, 0),
            ]);
            let name = format!("{nodes} nodes");
            let point = (share * 100.0, sum(|run| run.false_deaths as f64) / count);
            findings.add_point(&name, point);
            findings.events += runs.iter().map(|run| run.events).sum::<u64>();
        }
    }
    findings
}

struct Run {
    false_deaths: u64,
    condemned: u64,
    messages: f64,
    bytes: f64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, share: f64, lasts: Duration, nodes: u32, seed: u64) -> Run {
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes));
    world.schedule(Time::ZERO, Change::Loss(share));
    world.run_for(lasts);
    let sent = world.sent_by_all();
    let node_seconds = f64::from(nodes) * lasts.as_secs_f64();
    Run {
        false_deaths: world.watch.false_deaths,
        condemned: world.watch.condemned.len() as u64,
        messages: sent.datagrams as f64 / node_seconds * subject.period.as_secs_f64(),
        bytes: sent.bytes() as f64 / node_seconds,
        events: world.events(),
    }
}
