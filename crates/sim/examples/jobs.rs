//! The world of jobs by hand.
//!
//! `cargo run --release -p sim --example jobs -- run [SEEDS [FIRST [MINUTES [MUTATION [LAW]]]]]` runs many seeds, a law with `edge` behind
//! it in worlds at the edge;
//! `… -- replay SEED [MINUTES [MUTATION [edge]]]` tells one of them.

use std::time::Instant;

use sim::jobs::{LAWS, Mutation, Options, Stats, percentile, replay, run};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, otherwise| words.get(place).map_or(otherwise, |it| it.parse().expect("a number"));
    let mutation = |place: usize| words.get(place).and_then(|it| Mutation::from_word(it));
    if words.first().is_some_and(|word| word == "replay") {
        let at_the_edge = words.get(4).is_some();
        let options =
            Options { minutes: number(2, 20), mutation: mutation(3), at_the_edge, ..Options::default() };
        let report = replay(number(1, 1), &options, &mut |line| println!("{line}"));
        return println!("hash {:016x}", report.trace_hash);
    }
    let options = Options {
        seeds: number(1, 100),
        first_seed: number(2, 1),
        minutes: number(3, 20),
        mutation: mutation(4),
        at_the_edge: words.get(6).is_some(),
        only_law: words.get(5).map(|word| LAWS.into_iter().find(|law| law == word).expect("a law")),
        ..Options::default()
    };
    let began = Instant::now();
    let report = run(&options, |_, _| {});
    report.failures.iter().take(1).for_each(|failure| println!("{failure}"));
    report.failures.iter().for_each(|it| println!("seed {} at {} s: {}", it.seed, it.at, it.violation));
    let (failed, took) = (report.failures.len(), began.elapsed());
    println!("{} seeds, {failed} failed, {took:.1?}, hash {:016x}", report.seeds, report.trace_hash);
    let Stats { rescues, rescues_undisturbed, crash_rescues, handovers, take_over_times, .. } = &report.stats;
    for (what, spans) in [
        ("rescues", rescues),
        ("undisturbed rescues", rescues_undisturbed),
        ("rescues after a crash beside a guardian", crash_rescues),
        ("hand-overs of exclusive jobs", handovers),
        ("take-overs from servers that were gone", take_over_times),
    ] {
        let [least, p50, p99] = [0, 50, 99].map(|percent| percentile(spans, percent).unwrap_or_default());
        println!("{} {what}: least {least:.1?}, p50 {p50:.1?}, p99 {p99:.1?}", spans.len());
    }
    let [rescues, rescues_undisturbed, crash_rescues, handovers, take_over_times] = [const { Vec::new() }; 5];
    let others =
        Stats { rescues, rescues_undisturbed, crash_rescues, handovers, take_over_times, ..report.stats };
    println!("{others:?}");
}
