//! Several nodes crash at once: when do all others know of all of them, and how far is the last behind the middle?

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::{Node, Protocol};
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 10;
const PATIENCE_PERIODS: u32 = 300;

/// How many crash.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Crashes {
    /// So many.
    Count(u32),
    /// This share of all.
    Share(f64),
}

impl Crashes {
    fn of(self, nodes: u32) -> u32 {
        let count = match self {
            Crashes::Count(count) => count,
            Crashes::Share(share) => (f64::from(nodes) * share).round() as u32,
        };
        count.clamp(1, nodes.saturating_sub(1))
    }
}

struct Run {
    first: Option<f64>,
    middle: Option<f64>,
    last: Option<f64>,
    false_deaths: u64,
    events: u64,
}

/// Runs it.
pub fn mass<P: Protocol>(
    subject: &Subject<P>,
    crashes: Crashes,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!(
            "many crash together, {}, {} worlds for each row; seconds",
            subject.name, amount.seeds
        ),
        columns: vec![
            "nodes",
            "crashes",
            "first_p50",
            "median_node_p50",
            "last_node_p50",
            "last_node_p99",
            "last_node_max",
            "not_all_known",
            "false_deaths",
        ],
        axes: Axes {
            x: "seconds after the crashes",
            y: "share of worlds in which all know all",
            is_x_log: false,
        },
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| run(subject, crashes, nodes, seed)) {
        let samples = |time: fn(&Run) -> Option<f64>| Samples::new(runs.iter().filter_map(time).collect());
        let (first, middle, last) =
            (samples(|run| run.first), samples(|run| run.middle), samples(|run| run.last));
        findings.rows.push(vec![
            Cell::from(nodes),
            Cell::from(crashes.of(nodes)),
            Cell::seconds(first.at(0.5)),
            Cell::seconds(middle.at(0.5)),
            Cell::seconds(last.at(0.5)),
            Cell::seconds(last.at(0.99)),
            Cell::seconds(last.at(1.0)),
            Cell::from((runs.len() - last.len()) as u64),
            Cell::from(runs.iter().map(|run| run.false_deaths).sum::<u64>()),
        ]);
        findings.curves.push(last.distribution(format!("last node of {nodes}")));
        findings.curves.push(middle.distribution(format!("median node of {nodes}")));
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

fn run<P: Protocol>(subject: &Subject<P>, crashes: Crashes, nodes: u32, seed: u64) -> Run {
    let mut rng = Rng::stream(seed, 0, "crashes");
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes).until_known());
    world.run_for(subject.period * WARM_PERIODS);
    let at = world.now() + subject.period / 3;
    for victim in choose(&mut rng, nodes, crashes.of(nodes)) {
        world.schedule(at, Change::Crash(victim));
    }
    world.run_for(subject.period * PATIENCE_PERIODS);
    let deaths = world.watch.deaths();
    let all = deaths.map(|(_, death)| death.all).collect::<Option<Vec<_>>>();
    let first = world.watch.deaths().filter_map(|(_, death)| death.first).min();
    let each = Samples::new(world.watch.known_to_each());
    Run {
        first: first.map(|first| first.since(at).as_secs_f64()),
        middle: each.at(0.5),
        last: all.and_then(|all| all.into_iter().max()).map(|last| last.since(at).as_secs_f64()),
        false_deaths: world.watch.false_deaths,
        events: world.events(),
    }
}

/// So many different nodes.
pub(super) fn choose(rng: &mut Rng, nodes: u32, count: u32) -> Vec<Node> {
    let mut all: Vec<Node> = (0..nodes).collect();
    for place in 0..count.min(nodes) as usize {
        let other = place + rng.below(all.len() as u64 - place as u64) as usize;
        all.swap(place, other);
    }
    all.truncate(count as usize);
    all
}
