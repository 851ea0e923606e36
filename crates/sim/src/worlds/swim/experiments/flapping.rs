//! One node comes and goes every few seconds: what do the others say of it, and what does it say of them?

use std::time::Duration;

use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};
use super::verdicts::Verdicts;
use super::views::all_see_all;
use crate::rng::Rng;
use crate::time::Time;
use crate::worlds::swim::change::Change;
use crate::worlds::swim::protocol::{Node, Protocol};
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 10;
/// For so long it is well connected, and for so long it is not.
const HALVES: [Duration; 2] = [Duration::from_secs(7), Duration::from_secs(14)];
const PATIENCE: Duration = Duration::from_secs(600);

#[derive(Clone, Copy, Debug)]
enum Cut {
    Both,
    Ingress,
    Egress,
}

/// Runs all three kinds for this long.
pub fn flapping<P: Protocol>(
    subject: &Subject<P>,
    lasts: Duration,
    amount: &Amount,
    progress: &mut Progress<'_>,
) -> Findings {
    let mut findings = Findings {
        title: format!(
            "one node cut off, on and off for {} s, {}, {} worlds for each row",
            lasts.as_secs(),
            subject.name,
            amount.seeds
        ),
        columns: vec![
            "nodes",
            "cut",
            "off_and_on",
            "its_verdicts",
            "false_deaths",
            "healthy_condemned",
            "healed_after_p50",
            "healed_after_max",
            "not_healed",
            "messages_per_period",
        ],
        axes: Axes { x: "seconds after the end", y: "share of worlds in which all see all", is_x_log: false },
        ..Findings::default()
    };
    let cuts = [(Cut::Both, "both ways"), (Cut::Ingress, "hears nothing"), (Cut::Egress, "is not heard")];
    let kinds = cuts.into_iter().flat_map(|cut| HALVES.map(|half| (cut, half)));
    let total = (cuts.len() * HALVES.len()) as u64;
    for (round, ((cut, name), half)) in (0..).zip(kinds) {
        let mut part = |done, of| progress(round * of + done, total * of);
        for (nodes, runs) in amount.run(&mut part, |nodes, seed| run(subject, cut, half, lasts, nodes, seed))
        {
            let healed = Samples::new(runs.iter().filter_map(|run| run.healed).collect());
            let sum = |part: fn(&Run) -> u64| runs.iter().map(part).sum::<u64>();
            let messages = runs.iter().map(|run| run.messages).sum::<f64>() / runs.len().max(1) as f64;
            findings.rows.push(vec![
                Cell::from(nodes),
                Cell::from(name),
                Cell::Text(format!("{} s", half.as_secs())),
                Cell::from(sum(|run| run.its_verdicts)),
                Cell::from(sum(|run| run.false_deaths)),
                Cell::from(sum(|run| run.condemned)),
                Cell::seconds(healed.at(0.5)),
                Cell::seconds(healed.at(1.0)),
                Cell::from((runs.len() - healed.len()) as u64),
                Cell::Number(messages, 2),
            ]);
            findings.curves.push(healed.distribution(format!("{name}, {} s, {nodes} nodes", half.as_secs())));
            findings.events += sum(|run| run.events);
        }
    }
    findings
}

struct Run {
    /// Verdicts of the flapping node about others.
    its_verdicts: u64,
    /// Verdicts of others about each other.
    false_deaths: u64,
    condemned: u64,
    healed: Option<f64>,
    messages: f64,
    events: u64,
}

fn run<P: Protocol>(
    subject: &Subject<P>,
    cut: Cut,
    half: Duration,
    lasts: Duration,
    nodes: u32,
    seed: u64,
) -> Run {
    let victim = Rng::stream(seed, 0, "flapping").below(u64::from(nodes)) as Node;
    let mut world = subject.world(Setup::formed(seed, nodes), Verdicts::new(nodes).troubled([victim]));
    let begin = Time::ZERO + subject.period * WARM_PERIODS;
    let (mut at, mut share) = (begin, 1.0);
    while at < begin + lasts {
        if !matches!(cut, Cut::Egress) {
            world.schedule(at, Change::Ingress(victim, share));
        }
        if !matches!(cut, Cut::Ingress) {
            world.schedule(at, Change::Egress(victim, share));
        }
        (at, share) = (at + half, 1.0 - share);
    }
    let end = begin + lasts;
    world.schedule(end, Change::Heal);
    world.run_until(begin);
    let before = world.sent_by_all();
    world.run_until(end + Duration::from_nanos(1));
    let sent = world.sent_by_all().since(before);
    let node_seconds = f64::from(nodes) * lasts.as_secs_f64();
    let healthy = world.watch.false_deaths_at_healthy;
    let its_verdicts = world.watch.false_deaths - healthy;
    let condemned = world.watch.condemned.len() as u64;
    let healed = all_see_all(&mut world, end, PATIENCE);
    Run {
        its_verdicts,
        false_deaths: healthy,
        condemned,
        healed,
        messages: sent.datagrams as f64 / node_seconds * subject.period.as_secs_f64(),
        events: world.events(),
    }
}
