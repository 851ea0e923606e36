//! Two halves do not reach each other for two minutes, once or on and off: how long from contact until all see all?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use super::views::all_see_all;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 10;
const LASTS: Duration = Duration::from_secs(120);
const FLAP: Duration = Duration::from_secs(3);
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs both.
pub fn partition<P: Protocol>(
    subject: &Subject<P>,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!("two halves apart for 120 s, {}, {} worlds for each row", subject.name, amount.seeds),
        columns: vec![
            "nodes",
            "partition",
            "seen_as_gone_p50",
            "healed_after_p50",
            "healed_after_p99",
            "healed_after_max",
            "not_healed",
        ],
        axes: Axes { x: "seconds after contact", y: "share of worlds in which all see all", is_x_log: false },
        ..Findings::default()
    };
    for (round, name, flap) in [(0, "whole", None), (1, "on and off, 3 s each", Some(FLAP))] {
        let mut part = |done, of| progress(round * of + done, 2 * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, flap, nodes, seed)) {
            let healed = Samples::new(runs.iter().filter_map(|run| run.healed).collect());
            let gone = Samples::new(runs.iter().map(|run| run.gone as f64).collect());
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::from(name),
                gone.at(0.5).map_or(Cell::Missing, |gone| Cell::Number(gone, 0)),
                Cell::seconds(healed.at(0.5)),
                Cell::seconds(healed.at(0.99)),
                Cell::seconds(healed.at(1.0)),
                Cell::from((runs.len() - healed.len()) as u64),
            ]);
            findings.curves.push(healed.distribution(format!("{name}, {nodes} nodes")));
            findings.events += runs.iter().map(|run| run.events).sum::<u64>();
        }
    }
    findings
}

struct Run {
    /// Nodes that somebody took for gone.
    gone: usize,
    healed: Option<f64>,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, flap: Option<Duration>, nodes: u32, seed: u64) -> Run {
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes));
    let begin = Time::ZERO + subject.period * WARM_PERIODS;
    let end = begin + LASTS;
    let (step, mut at, mut apart) = (flap.unwrap_or(LASTS), begin, true);
    while at < end {
        for node in 0..nodes / 2 {
            world.schedule(at, Change::Side(node, u16::from(apart)));
        }
        at = at + step;
        apart = !apart;
    }
    world.schedule(end, Change::Heal);
    world.run_until(end + Duration::from_nanos(1));
    let healed = all_see_all(&mut world, end, PATIENCE);
    Run { gone: world.watch.condemned.len(), healed, events: world.events() }
}
