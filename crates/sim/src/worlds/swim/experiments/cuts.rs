//! One node in a hundred hears nothing on and off, or loses most of what it sends or is sent: are exactly those taken out?

use std::collections::BTreeSet;
use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::mass::choose;
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::{Belief, Node, Protocol};
use crate::worlds::swim::world::{Setup, World};

const WARM_PERIODS: u32 = 10;
const ONE_IN: u32 = 100;
const FLIP_FLOP: Duration = Duration::from_secs(20);
const LOSS: f64 = 0.8;
/// How often it is looked at whether the faulty are out.
const LOOK_EVERY: Duration = Duration::from_secs(1);

#[derive(Clone, Copy, Debug)]
enum Cut {
    FlipFlop,
    Egress,
    Ingress,
}

/// Runs all three for this long.
pub fn cuts<P: Protocol>(
    subject: &Subject<P>,
    lasts: Duration,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!(
            "one in {ONE_IN} badly connected for {} s, {}, {} worlds for each row",
            lasts.as_secs(),
            subject.name,
            amount.seeds
        ),
        columns: vec![
            "nodes",
            "cut",
            "faulty",
            "healthy_condemned",
            "false_deaths",
            "faulty_left_at_end",
            "all_out_after_p50",
            "all_out_after_max",
            "never_all_out",
            "out_percent_of_time",
        ],
        axes: Axes {
            x: "seconds after the cut",
            y: "share of worlds in which all faulty are out",
            is_x_log: false,
        },
        ..Findings::default()
    };
    let kinds = [
        (0, Cut::FlipFlop, "hears nothing, 20 s on and off"),
        (1, Cut::Egress, "loses 80 % of what it sends"),
        (2, Cut::Ingress, "loses 80 % of what it is sent"),
    ];
    for (round, cut, name) in kinds {
        let mut part = |done, of| progress(round * of + done, kinds.len() as u64 * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, cut, lasts, nodes, seed)) {
            let sum = |part: fn(&Run) -> u64| Cell::from(runs.iter().map(part).sum::<u64>());
            let out = Samples::new(runs.iter().filter_map(|run| run.all_out).collect());
            let share = Samples::new(runs.iter().map(|run| run.out_share * 100.0).collect());
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::from(name),
                sum(|run| run.faulty),
                sum(|run| run.condemned),
                sum(|run| run.false_deaths),
                sum(|run| run.left),
                Cell::seconds(out.at(0.5)),
                Cell::seconds(out.at(1.0)),
                Cell::from((runs.len() - out.len()) as u64),
                share.mean().map_or(Cell::Missing, |share| Cell::Number(share, 1)),
            ]);
            findings.curves.push(out.distribution(format!("{name}, {nodes} nodes")));
            findings.events += runs.iter().map(|run| run.events).sum::<u64>();
        }
    }
    findings
}

struct Run {
    faulty: u64,
    condemned: u64,
    false_deaths: u64,
    /// Faulty ones that some healthy node counts as a member at the end.
    left: u64,
    /// When no healthy node counted any of the faulty.
    all_out: Option<f64>,
    /// The share of the time since then for which that was so.
    out_share: f64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, cut: Cut, lasts: Duration, nodes: u32, seed: u64) -> Run {
    let victims = choose(&mut Rng::stream(seed, 0, "cuts"), nodes, (nodes / ONE_IN).max(1));
    let watch = Verdicts::new(nodes).troubled(victims.iter().copied());
    let mut world = subject.world(Setup::formed(seed, nodes), watch);
    let begin = Time::ZERO + subject.period * WARM_PERIODS;
    for victim in victims.iter().copied() {
        match cut {
            Cut::Egress => world.schedule(begin, Change::Egress(victim, LOSS)),
            Cut::Ingress => world.schedule(begin, Change::Ingress(victim, LOSS)),
            Cut::FlipFlop => {
                let (mut at, mut share) = (begin, 1.0);
                while at < begin + lasts {
                    world.schedule(at, Change::Ingress(victim, share));
                    (at, share) = (at + FLIP_FLOP, 1.0 - share);
                }
            }
        }
    }
    world.run_until(begin);
    let faulty: BTreeSet<Node> = victims.iter().copied().collect();
    let (mut all_out, mut looks, mut outs) = (None, 0u32, 0u32);
    while world.now() < begin + lasts {
        world.run_for(LOOK_EVERY);
        let is_out = still_in(&world, &faulty) == 0;
        if is_out && all_out.is_none() {
            all_out = Some(world.now().since(begin).as_secs_f64());
        }
        looks += u32::from(all_out.is_some());
        outs += u32::from(is_out);
    }
    Run {
        faulty: faulty.len() as u64,
        condemned: world.watch.condemned.len() as u64,
        false_deaths: world.watch.false_deaths_at_healthy,
        left: still_in(&world, &faulty),
        all_out,
        out_share: f64::from(outs) / f64::from(looks.max(1)),
        events: world.events(),
    }
}

/// How many of the faulty some healthy node counts as a member.
fn still_in<P: Protocol>(world: &World<'_, P, Verdicts>, faulty: &BTreeSet<Node>) -> u64 {
    let counted = |about: &&Node| {
        let mut healthy = world.up().filter(|(node, _)| !faulty.contains(node));
        healthy.any(|(_, node)| node.belief(**about) != Belief::Gone)
    };
    faulty.iter().filter(counted).count() as u64
}
