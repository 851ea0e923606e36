//! The network falls apart again and again, each time for a few seconds and along another line: how long after the last time
//! until all see all, and at what cost?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use super::views::all_see_all;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 10;
const TIMES: u32 = 50;
const APART: Duration = Duration::from_secs(5);
const TOGETHER: Duration = Duration::from_secs(5);
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs it.
pub fn splits<P: Protocol>(subject: &Subject<P>, amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let mut findings = Findings {
        title: format!(
            "{TIMES} random partitions of {} s, {} s between them, {}, {} worlds for each row",
            APART.as_secs(),
            TOGETHER.as_secs(),
            subject.name,
            amount.seeds
        ),
        columns: vec![
            "nodes",
            "false_deaths",
            "healed_after_p50",
            "healed_after_p99",
            "healed_after_max",
            "not_healed",
            "messages_per_period",
            "bytes_per_second",
        ],
        axes: Axes {
            x: "seconds after the last partition",
            y: "share of worlds in which all see all",
            is_x_log: false,
        },
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| run(subject, nodes, seed)) {
        let healed = Samples::new(runs.iter().filter_map(|run| run.healed).collect());
        let mean = |part: fn(&Run) -> f64| runs.iter().map(part).sum::<f64>() / runs.len().max(1) as f64;
        findings.rows.push(vec![
            Cell::from(nodes),
            Cell::from(runs.iter().map(|run| run.false_deaths).sum::<u64>()),
            Cell::seconds(healed.at(0.5)),
            Cell::seconds(healed.at(0.99)),
            Cell::seconds(healed.at(1.0)),
            Cell::from((runs.len() - healed.len()) as u64),
            Cell::Number(mean(|run| run.messages), 2),
            Cell::Number(mean(|run| run.bytes), 0),
        ]);
        findings.curves.push(healed.distribution(format!("{nodes} nodes")));
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

struct Run {
    false_deaths: u64,
    healed: Option<f64>,
    /// Of a node while the partitions come and go.
    messages: f64,
    bytes: f64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Run {
    let mut rng = Rng::stream(seed, 0, "splits");
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes));
    let begin = Time::ZERO + subject.period * WARM_PERIODS;
    for number in 0..TIMES {
        let at = begin + (APART + TOGETHER) * number;
        for node in 0..nodes {
            world.schedule(at, Change::Side(node, u16::from(rng.chance(0.5))));
            world.schedule(at + APART, Change::Side(node, 0));
        }
    }
    let end = begin + (APART + TOGETHER) * (TIMES - 1) + APART;
    world.run_until(begin);
    let before = world.sent_by_all();
    world.run_until(end + Duration::from_nanos(1));
    let sent = world.sent_by_all().since(before);
    let node_seconds = f64::from(nodes) * end.since(begin).as_secs_f64();
    let false_deaths = world.watch.false_deaths;
    let healed = all_see_all(&mut world, end, PATIENCE);
    Run {
        false_deaths,
        healed,
        messages: sent.datagrams as f64 / node_seconds * subject.period.as_secs_f64(),
        bytes: sent.bytes() as f64 / node_seconds,
        events: world.events(),
    }
}
