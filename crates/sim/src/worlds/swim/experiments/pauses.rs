//! The grid of the Lifeguard paper: C of the nodes are blocked together for D, go on for I, and are blocked again, for two
//! minutes. Each world draws one point of the grid; all subjects see the same points.

use std::time::Duration;

use super::findings::{Axes, Cell, Findings};
use super::mass::choose;
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

const AT_ONCE: [u32; 9] = [1, 4, 8, 12, 16, 20, 24, 28, 32];
const LASTS_MS: [u64; 6] = [128, 512, 2_048, 8_192, 16_384, 32_768];
const BETWEEN_MS: [u64; 8] = [1, 4, 16, 64, 256, 1_024, 4_096, 16_384];
/// As in the paper: some quiet time, then two minutes of blocks, begun anew as long as they last.
const WARM: Duration = Duration::from_secs(15);
const TROUBLE: Duration = Duration::from_secs(120);
/// Verdicts that are still under way.
const AFTER: Duration = Duration::from_secs(30);

/// One point of the grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Point {
    /// How many are blocked together.
    pub at_once: u32,
    /// For how long.
    pub lasts: Duration,
    /// How long they then run.
    pub between: Duration,
}

impl Point {
    fn draw(seed: u64) -> Self {
        let mut rng = Rng::stream(seed, 0, "grid");
        Point {
            at_once: *rng.pick(&AT_ONCE),
            lasts: Duration::from_millis(*rng.pick(&LASTS_MS)),
            between: Duration::from_millis(*rng.pick(&BETWEEN_MS)),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Run {
    point: Option<Point>,
    false_deaths: u64,
    at_healthy: u64,
    errors: u64,
    errors_of_healthy: u64,
    messages: u64,
    bytes: u64,
    events: u64,
}

/// Runs it. The first subject is what the others are compared with.
pub fn pauses<P: Protocol>(
    subjects: &[Subject<P>],
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!("blocked again and again, {} points of the Lifeguard grid for each row", amount.seeds),
        columns: vec![
            "nodes",
            "subject",
            "false_deaths",
            "at_healthy_nodes",
            "percent_of_first",
            "healthy_percent_of_first",
            "errors",
            "errors_of_healthy",
            "messages_per_second",
            "bytes_per_second",
        ],
        axes: Axes { x: "blocked for (ms)", y: "false deaths per world", is_x_log: true },
        notes: vec![
            "plain SWIM has 78 false deaths in a run of the paper, 0.3 of them between healthy nodes. Here it has many more: \
             whoever is blocked goes on probing, and all it concluded gets out at once; there, the probing waits too"
                .to_owned(),
            "Lifeguard paper, table IV and VII: α5β6 1.53 % and 1.89 % of SWIM's, α2β6 24.16 % and 13.65 %"
                .to_owned(),
        ],
        ..Findings::default()
    };
    let mut base: Vec<(u32, u64, u64)> = Vec::new();
    let total = subjects.len() as u64;
    for (round, subject) in (0..).zip(subjects) {
        let mut part = |done, of| progress(round * of + done, total * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, nodes, seed)) {
            let sum = |part: fn(&Run) -> u64| runs.iter().map(part).sum::<u64>();
            let (all, healthy) = (sum(|run| run.false_deaths), sum(|run| run.at_healthy));
            if round == 0 {
                base.push((nodes, all, healthy));
            }
            let first = base.iter().find(|(number, ..)| *number == nodes).copied().unwrap_or_default();
            let node_seconds = f64::from(nodes) * (WARM + TROUBLE + AFTER).as_secs_f64() * runs.len() as f64;
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::Text(subject.name.clone()),
                Cell::from(all),
                Cell::from(healthy),
                percent(all, first.1),
                percent(healthy, first.2),
                Cell::from(sum(|run| run.errors)),
                Cell::from(sum(|run| run.errors_of_healthy)),
                Cell::Number(sum(|run| run.messages) as f64 / node_seconds, 2),
                Cell::Number(sum(|run| run.bytes) as f64 / node_seconds, 0),
            ]);
            for lasts in LASTS_MS {
                let of_this =
                    |run: &&Run| run.point.is_some_and(|point| point.lasts == Duration::from_millis(lasts));
                let these: Vec<&Run> = runs.iter().filter(of_this).collect();
                if !these.is_empty() {
                    let deaths =
                        these.iter().map(|run| run.false_deaths).sum::<u64>() as f64 / these.len() as f64;
                    findings.add_point(&format!("{}, {nodes} nodes", subject.name), (lasts as f64, deaths));
                }
            }
            findings.events += sum(|run| run.events);
        }
    }
    findings
}

fn percent(part: u64, of: u64) -> Cell {
    if of == 0 { Cell::Missing } else { Cell::Number(part as f64 * 100.0 / of as f64, 2) }
}

fn run<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Run {
    let point = Point::draw(seed);
    let victims = choose(&mut Rng::stream(seed, 0, "victims"), nodes, point.at_once.min(nodes / 4));
    let watch = Verdicts::new(nodes).troubled(victims.iter().copied());
    let mut world = subject.world(Setup::formed(seed, nodes), watch);
    let (begin, mut at) = (Time::ZERO + WARM, Time::ZERO + WARM);
    while at < begin + TROUBLE {
        for victim in victims.iter().copied() {
            world.schedule(at, Change::BlockIo(victim, point.lasts));
        }
        at = at + point.lasts + point.between;
    }
    world.run_until(begin + TROUBLE + AFTER);
    let sent = world.sent_by_all();
    Run {
        point: Some(point),
        false_deaths: world.watch.false_deaths,
        at_healthy: world.watch.false_deaths_at_healthy,
        errors: world.watch.errors,
        errors_of_healthy: world.watch.errors_of_healthy,
        messages: sent.datagrams,
        bytes: sent.bytes(),
        events: world.events(),
    }
}
