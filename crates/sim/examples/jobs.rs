//! The world of jobs by hand.
//!
//! `cargo run --release -p sim --example jobs -- run [SEEDS [FIRST [MINUTES [MUTATION]]]]` runs many seeds;
//! `… -- replay SEED [MINUTES [MUTATION]]` tells one of them.

use std::time::Instant;

use sim::jobs::{Mutation, Options, Stats, percentile, replay, run};

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let number =
        |place: usize, otherwise| words.get(place).map_or(otherwise, |it| it.parse().expect("a number"));
    let mutation = |place: usize| words.get(place).map(|it| Mutation::from_word(it).expect("a mutation"));
    if words.first().is_some_and(|word| word == "replay") {
        let options = Options { minutes: number(2, 20), mutation: mutation(3), ..Options::default() };
        let report = replay(number(1, 1), &options, &mut |line| println!("{line}"));
        return println!("hash {:016x}", report.trace_hash);
    }
    let options = Options {
        seeds: number(1, 100),
        first_seed: number(2, 1),
        minutes: number(3, 20),
        mutation: mutation(4),
        ..Options::default()
    };
    let began = Instant::now();
    let report = run(&options, |_, _| {});
    report.failures.iter().take(1).for_each(|failure| println!("{failure}"));
    report.failures.iter().for_each(|it| println!("seed {} at {} s: {}", it.seed, it.at, it.violation));
    let (failed, took) = (report.failures.len(), began.elapsed());
    println!("{} seeds, {failed} failed, {took:.1?}, hash {:016x}", report.seeds, report.trace_hash);
    for (what, spans) in [("all", &report.stats.rescues), ("undisturbed", &report.stats.rescues_undisturbed)]
    {
        let (p50, p99) = (percentile(spans, 50), percentile(spans, 99));
        println!("{} rescues ({what}): p50 {p50:.1?}, p99 {p99:.1?}", spans.len());
    }
    println!("{:?}", Stats { rescues: Vec::new(), rescues_undisturbed: Vec::new(), ..report.stats });
}
