//! One node crashes: when does the first other node know, and when do all?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

/// How long nodes run before one crashes; for the second half of it the traffic is counted.
const WARM_PERIODS: u32 = 20;
/// After so many periods a crash counts as never noticed.
const PATIENCE_PERIODS: u32 = 600;

/// What one crash shows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Crash {
    /// Seconds until the first node knew.
    pub(super) first: Option<f64>,
    /// Seconds until all knew.
    pub(super) all: Option<f64>,
    /// Datagrams that a node sent in a period before.
    pub(super) messages: f64,
    /// Bytes, of datagrams and streams, that a node sent in a second before.
    pub(super) bytes: f64,
    pub(super) false_deaths: u64,
    pub(super) events: u64,
}

/// Runs it.
pub fn detection<P: Protocol>(
    subject: &Subject<P>,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!("one crash, {}, {} worlds for each row; seconds", subject.name, amount.seeds),
        columns: vec![
            "nodes",
            "first_p50",
            "first_p99",
            "first_p999",
            "all_p50",
            "all_p99",
            "all_p999",
            "spread_p99",
            "unnoticed",
            "false_deaths",
            "messages_per_period",
            "bytes_per_second",
        ],
        axes: Axes {
            x: "seconds after the crash",
            y: "share of crashes known to the first node, or to all",
            is_x_log: false,
        },
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| crash(subject, nodes, seed)) {
        let [first, all] = times(&runs);
        let spread = Samples::new(runs.iter().filter_map(|run| Some(run.all? - run.first?)).collect());
        let mut row = vec![Cell::from(nodes)];
        row.extend(first.row());
        row.extend(all.row());
        row.push(Cell::seconds(spread.at(0.99)));
        row.push(Cell::from((runs.len() - all.len()) as u64));
        row.push(Cell::from(runs.iter().map(|run| run.false_deaths).sum::<u64>()));
        let [messages, bytes] = traffic(&runs);
        row.extend([Cell::Number(messages, 2), Cell::Number(bytes, 0)]);
        findings.rows.push(row);
        findings.curves.push(first.distribution(format!("first, {nodes} nodes")));
        findings.curves.push(all.distribution(format!("all, {nodes} nodes")));
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

/// One world in which one node crashes at some moment of a period.
pub(super) fn crash<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Crash {
    let mut rng = Rng::stream(seed, 0, "crash");
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes).until_known());
    world.run_for(subject.period * (WARM_PERIODS / 2));
    let before = world.sent_by_all();
    world.run_for(subject.period * (WARM_PERIODS / 2));
    let sent = world.sent_by_all().since(before);
    let at = world.now() + rng.span(Duration::ZERO, subject.period);
    world.schedule(at, Change::Crash(rng.below(u64::from(nodes)) as u32));
    world.run_for(subject.period * PATIENCE_PERIODS);
    let after = |time: Option<Time>| time.map(|time| time.since(at).as_secs_f64());
    let death = world.watch.deaths().next().map(|(_, death)| death);
    let node_periods = f64::from(nodes) * f64::from(WARM_PERIODS / 2);
    Crash {
        first: after(death.and_then(|death| death.first)),
        all: after(death.and_then(|death| death.all)),
        messages: sent.datagrams as f64 / node_periods,
        bytes: sent.bytes() as f64 / node_periods / subject.period.as_secs_f64(),
        false_deaths: world.watch.false_deaths,
        events: world.events(),
    }
}

/// First and last knowledge.
pub(super) fn times(runs: &[Crash]) -> [Samples; 2] {
    [
        Samples::new(runs.iter().filter_map(|run| run.first).collect()),
        Samples::new(runs.iter().filter_map(|run| run.all).collect()),
    ]
}

/// Mean datagrams in a period and bytes in a second, of one node.
pub(super) fn traffic(runs: &[Crash]) -> [f64; 2] {
    let count = runs.len().max(1) as f64;
    let sum = |amount: fn(&Crash) -> f64| runs.iter().map(amount).sum::<f64>() / count;
    [sum(|run| run.messages), sum(|run| run.bytes)]
}
