//! Does this world measure as others did? Plain SWIM in it, beside what the papers say of plain SWIM.

use swim::{Config, Suspicion};

use super::detection::{crash, times, traffic};
use super::findings::{Axes, Cell, Findings, Samples};
use super::subject::{Amount, Progress, Subject};

/// First detection and full dissemination, median, 99 % and 99.9 %, in seconds: Lifeguard, table V, SWIM.
const LIFEGUARD_FIRST: [f64; 3] = [12.44, 16.96, 19.40];
const LIFEGUARD_ALL: [f64; 3] = [12.90, 16.93, 20.17];
/// SWIM, figures 2 and 3: messages that a node sends in a period, periods until the first probe of a crashed node.
const SWIM_MESSAGES: f64 = 2.0;
const SWIM_PERIODS: f64 = 1.58;

/// Runs it. Takes the first of the numbers of nodes; the papers had 128.
pub fn calibration(amount: &Amount, progress: &mut Progress<'_>) -> Findings {
    let halves = amount.seeds * 2;
    let mut done_before = 0;
    let mut run = |subject: &Subject<_>, progress: &mut Progress<'_>| {
        let first = Amount { nodes: amount.nodes.iter().copied().take(1).collect(), ..amount.clone() };
        let mut all = first.run(&mut |done, _| progress(done_before + done, halves), |nodes, seed| {
            crash(subject, nodes, seed)
        });
        done_before += amount.seeds;
        all.pop().expect("there is a number of nodes")
    };
    let (nodes, plain) = run(&Subject::swim("SWIM", Config::plain_swim()), progress);
    let at_once = Suspicion { alpha: 0.0, beta: 1.0, confirmations: 0 };
    let basic_config = Config { suspicion: at_once, ..Config::plain_swim() };
    let period = basic_config.period.as_secs_f64();
    let (_, basic) = run(&Subject::swim("basic", basic_config), progress);

    let [first, all] = times(&plain);
    // A probe fails at the end of its period. Which period after the crash it was that began it is what SWIM counts.
    let [basic_first, _] = times(&basic);
    let periods =
        basic.iter().filter_map(|run| run.first).map(|first| (first / period - 1.0).ceil().max(1.0));
    let periods = Samples::new(periods.collect());
    let mut rows = Vec::new();
    let mut row = |what: &str, ours: Option<f64>, theirs: f64| {
        let off = ours.map_or(Cell::Missing, |ours| Cell::Number((ours / theirs - 1.0) * 100.0, 1));
        rows.push(vec![Cell::from(what), Cell::seconds(ours), Cell::Number(theirs, 2), off]);
    };
    let shares = [(0.5, "median"), (0.99, "99 %"), (0.999, "99.9 %")];
    for ((share, name), theirs) in shares.into_iter().zip(LIFEGUARD_FIRST) {
        row(&format!("first detection, {name} (s)"), first.at(share), theirs);
    }
    for ((share, name), theirs) in shares.into_iter().zip(LIFEGUARD_ALL) {
        row(&format!("full dissemination, {name} (s)"), all.at(share), theirs);
    }
    row("messages sent per node and period", Some(traffic(&basic)[0]), SWIM_MESSAGES);
    row("periods to the first probe of a crashed node, mean", periods.mean(), SWIM_PERIODS);
    Findings {
        title: format!("plain SWIM, {nodes} nodes, {} crashes, beside the papers", amount.seeds),
        columns: vec!["figure", "here", "paper", "off_by_percent"],
        rows,
        axes: Axes { x: "seconds after the crash", y: "share of crashes", is_x_log: false },
        curves: vec![
            first.distribution("first detection"),
            all.distribution("full dissemination"),
            basic_first.distribution("first failed probe"),
        ],
        notes: vec!["papers: Lifeguard (2017) table V, SWIM (2002) figures 2 and 3".to_owned()],
        events: plain.iter().chain(&basic).map(|run| run.events).sum(),
    }
}
