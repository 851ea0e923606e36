//! All nodes start at once and know one of them: how long until all see all?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::views::{Sizes, all_see_all};
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::{Change, Memory};
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

/// Within this time all start, the one that all know first.
const STORM: Duration = Duration::from_millis(200);
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs it.
pub fn bootstrap<P: Protocol>(
    subject: &Subject<P>,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!("all start at once, {}, {} worlds for each row", subject.name, amount.seeds),
        columns: vec![
            "nodes",
            "all_see_all_p50",
            "all_see_all_max",
            "never",
            "distinct_sizes_p50",
            "kilobytes_per_node",
            "most_kilobytes",
        ],
        axes: Axes { x: "nodes", y: "seconds until all see all", is_x_log: true },
        notes: vec!["2,000 nodes elsewhere: memberlist 95 s, Rapid 41 to 48 s".to_owned()],
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| run(subject, nodes, seed)) {
        let took = Samples::new(runs.iter().filter_map(|run| run.took).collect());
        let sizes = Samples::new(runs.iter().map(|run| run.sizes as f64).collect());
        let mean = runs.iter().map(|run| run.bytes).sum::<f64>() / runs.len().max(1) as f64;
        let most = runs.iter().map(|run| run.bytes_max).max().unwrap_or_default();
        findings.rows.push(vec![
            Cell::from(nodes),
            Cell::seconds(took.at(0.5)),
            Cell::seconds(took.at(1.0)),
            Cell::from((runs.len() - took.len()) as u64),
            sizes.at(0.5).map_or(Cell::Missing, |sizes| Cell::Number(sizes, 0)),
            Cell::Number(mean / 1e3, 1),
            Cell::Number(most as f64 / 1e3, 1),
        ]);
        if let Some(median) = took.at(0.5) {
            findings.add_point("median", (f64::from(nodes), median));
        }
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

struct Run {
    took: Option<f64>,
    sizes: u64,
    bytes: f64,
    bytes_max: u64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Run {
    let mut rng = Rng::stream(seed, 0, "storm");
    let mut world = subject.world(Setup::empty(seed, nodes), Sizes::new(nodes));
    world.schedule(Time::ZERO, Change::Start(0, Memory::Lost));
    for node in 1..nodes {
        world.schedule(
            Time::ZERO + rng.span(Duration::from_millis(1), STORM),
            Change::Start(node, Memory::Lost),
        );
    }
    let took = all_see_all(&mut world, Time::ZERO, PATIENCE);
    Run {
        took,
        sizes: world.watch.distinct(),
        bytes: world.sent_by_all().bytes() as f64 / f64::from(nodes),
        bytes_max: (0..nodes).map(|node| world.sent(node).bytes()).max().unwrap_or_default(),
        events: world.events(),
    }
}
