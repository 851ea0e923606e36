//! Nothing happens: what does it cost the nodes, and what does it cost to simulate?

use std::time::Instant;

use super::findings::{Axes, Cell, Findings};
use super::subject::{Amount, Progress, Subject};
use crate::worlds::swim::protocol::Protocol;
use crate::worlds::swim::world::Setup;

const WARM_PERIODS: u32 = 5;
/// Long enough for a comparison of views that comes every half minute.
const PERIODS: u32 = 60;

/// Runs it.
pub fn idle<P: Protocol>(subject: &Subject<P>, amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let mut findings = Findings {
        title: format!(
            "nothing happens, {}, {PERIODS} periods, {} worlds for each row",
            subject.name, amount.seeds
        ),
        columns: vec![
            "nodes",
            "messages_per_period",
            "bytes_per_message",
            "bytes_per_second",
            "stream_bytes_per_second",
            "most_bytes_per_second",
            "events_per_second",
        ],
        axes: Axes { x: "nodes", y: "bytes a node sends in a second", is_x_log: true },
        ..Findings::default()
    };
    for (nodes, runs) in amount.run(progress, |nodes, seed| run(subject, nodes, seed)) {
        let count = runs.len().max(1) as f64;
        let mean = |part: fn(&Run) -> f64| runs.iter().map(part).sum::<f64>() / count;
        let bytes = mean(|run| run.bytes);
        findings.rows.push(vec![
            Cell::from(nodes),
            Cell::Number(mean(|run| run.messages), 3),
            Cell::Number(mean(|run| run.message_bytes), 1),
            Cell::Number(bytes, 0),
            Cell::Number(mean(|run| run.stream_bytes), 0),
            Cell::Number(runs.iter().map(|run| run.most).fold(0.0, f64::max), 0),
            Cell::Number(mean(|run| run.speed), 0),
        ]);
        findings.add_point("bytes per second", (f64::from(nodes), bytes));
        findings.events += runs.iter().map(|run| run.events).sum::<u64>();
    }
    findings
}

struct Run {
    messages: f64,
    message_bytes: f64,
    bytes: f64,
    stream_bytes: f64,
    most: f64,
    /// Events simulated in a second of real time.
    speed: f64,
    events: u64,
}

fn run<P: Protocol>(subject: &Subject<P>, nodes: u32, seed: u64) -> Run {
    let mut world = subject.world(Setup::formed(seed, nodes), ());
    world.run_for(subject.period * WARM_PERIODS);
    let before: Vec<_> = (0..nodes).map(|node| world.sent(node)).collect();
    let (events_before, began) = (world.events(), Instant::now());
    world.run_for(subject.period * PERIODS);
    let took = began.elapsed().as_secs_f64();
    let each: Vec<_> = (0..).zip(before).map(|(node, before)| world.sent(node).since(before)).collect();
    let seconds = subject.period.as_secs_f64() * f64::from(PERIODS);
    let most = each.iter().map(|sent| sent.bytes()).max().unwrap_or_default() as f64 / seconds;
    let all: crate::worlds::swim::node::Sent = each.into_iter().sum();
    let count = f64::from(nodes);
    Run {
        messages: all.datagrams as f64 / count / f64::from(PERIODS),
        message_bytes: all.datagram_bytes as f64 / all.datagrams.max(1) as f64,
        bytes: all.bytes() as f64 / count / seconds,
        stream_bytes: all.stream_bytes as f64 / count / seconds,
        most,
        speed: (world.events() - events_before) as f64 / took,
        events: world.events(),
    }
}
