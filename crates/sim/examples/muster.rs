//! Explores small worlds of muster, runs large ones at random, and measures:
//! `cargo run --release -p sim --example muster -- model 2x2 [--ends N] [--break gate_removed] [--states N]`,
//! `… -- run [--seeds N] [--first N] [--workers N] [--seconds N] [--edge] [--break MUTATION] [--law LAW]`, `… -- replay --first SEED …`,
//! `… -- restart|turnover [--workers 10,100] [--seeds N]`.

use std::ops::ControlFlow;
use std::time::Instant;

use sim::explore::Limits;
use sim::muster::experiments::{self, Amount, Cell, Findings};
use sim::muster::model::{self, Bounds};
use sim::muster::{LAWS, Mutation, Options, Stats, percentile, replay, run};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.first().map(String::as_str) {
        Some("model") => explore(&args[1..]),
        Some("run") => run_seeds(&args[1..]),
        Some("replay") => {
            let options = options(&args[1..]);
            let report = replay(options.first_seed, &options, &mut |line| println!("{line}"));
            println!("hash {:016x}", report.trace_hash);
        }
        Some(what @ ("restart" | "turnover")) => {
            let workers = flag(&args, "--workers").unwrap_or("10,100");
            let amount = Amount {
                seeds: number(&args, "--seeds", 20),
                first_seed: number(&args, "--first", 1),
                nodes: workers.split(',').map(|word| word.parse().expect("a number")).collect(),
                threads: None,
            };
            let began = Instant::now();
            let progress = &mut |_, _| {};
            show(&match what {
                "restart" => experiments::restart(&amount, progress),
                _ => experiments::turnover(&amount, progress),
            });
            println!("{:.1?}", began.elapsed());
        }
        _ => println!("muster model 2x2 | run | replay | restart | turnover"),
    }
}

fn show(findings: &Findings) {
    println!("{}\n{}", findings.title, findings.columns.join(" | "));
    for row in &findings.rows {
        let cells = row.iter().map(|cell| match cell {
            Cell::Text(text) => text.clone(),
            Cell::Count(count) => count.to_string(),
            Cell::Number(number, digits) => format!("{number:.digits$}"),
            Cell::Missing => "-".to_owned(),
        });
        println!("{}", cells.collect::<Vec<_>>().join(" | "));
    }
    println!("{} events", findings.events);
}

fn options(args: &[String]) -> Options {
    let usual = Options::default();
    Options {
        seeds: number(args, "--seeds", usual.seeds),
        first_seed: number(args, "--first", usual.first_seed),
        workers_max: number(args, "--workers", u64::from(usual.workers_max)) as u32,
        seconds: number(args, "--seconds", usual.seconds),
        mutation: flag(args, "--break").map(|word| Mutation::from_word(word).expect("a mutation")),
        only_law: flag(args, "--law").map(|word| LAWS.into_iter().find(|law| *law == word).expect("a law")),
        at_the_edge: args.iter().any(|arg| arg == "--edge"),
        ..usual
    }
}

fn run_seeds(args: &[String]) {
    let began = Instant::now();
    let report = run(&options(args), |_, _| {});
    report.failures.iter().take(1).for_each(|failure| println!("{failure}"));
    report.failures.iter().for_each(|it| println!("seed {} at {} s: {}", it.seed, it.at, it.violation));
    let Stats { waits_agreed, waits_full, healthy_after, .. } = &report.stats;
    for (what, spans) in [
        ("waits that ended by agreement", waits_agreed),
        ("waits that ended by time", waits_full),
        ("good workers healthy", healthy_after),
    ] {
        let [p50, p99, most] = [50, 99, 100].map(|percent| percentile(spans, percent).unwrap_or_default());
        println!("{} {what}: p50 {p50:.1?}, p99 {p99:.1?}, most {most:.1?}", spans.len());
    }
    let [waits_agreed, waits_full, healthy_after] = [const { Vec::new() }; 3];
    let took = began.elapsed();
    println!("{:?}", Stats { waits_agreed, waits_full, healthy_after, ..report.stats });
    let failed = report.failures.len();
    println!("{} seeds, {failed} failed, {took:.1?}, hash {:016x}", report.seeds, report.trace_hash);
}

/// The number behind a flag.
fn flag<'a>(args: &'a [String], name: &str) -> Option<&'a str> {
    let place = args.iter().position(|arg| arg == name)?;
    args.get(place + 1).map(String::as_str)
}

fn number(args: &[String], name: &str, usual: u64) -> u64 {
    flag(args, name).map_or(usual, |word| word.parse().expect("a number"))
}

fn explore(args: &[String]) {
    let (workers, restarts) =
        args.first().and_then(|size| size.split_once('x')).expect("a size such as 2x2: workers x restarts");
    let usual = Bounds::default();
    let mutation = flag(args, "--break").map(|word| {
        muster::Mutation::ALL.into_iter().find(|mutation| mutation.word() == word).expect("a mutation")
    });
    let only_law =
        flag(args, "--law").map(|word| model::LAWS.into_iter().find(|law| *law == word).expect("a law"));
    let bounds = Bounds {
        workers: workers.parse().expect("a number"),
        restarts: restarts.parse().expect("a number"),
        ends: number(args, "--ends", u64::from(usual.ends)) as u8,
        tasks: number(args, "--tasks", usual.tasks as u64) as usize,
        in_flight: number(args, "--in-flight", usual.in_flight as u64) as usize,
        batch_after: number(args, "--batch-after", u64::from(usual.batch_after)) as u32,
        mutation,
        only_law,
    };
    let limits = Limits { states_max: number(args, "--states", u64::MAX), threads: None };
    let began = Instant::now();
    let mut shown = began;
    let findings = model::explore(bounds, limits, |progress| {
        if shown.elapsed().as_secs() >= 10 {
            shown = Instant::now();
            eprintln!("{progress:?}");
        }
        ControlFlow::Continue(())
    });
    if let Some(story) = &findings.violation {
        print!("{story}");
    }
    let took = began.elapsed().as_secs_f64();
    println!(
        "{} states, {} transitions, depth {}, {} minds, complete: {}, {took:.1} s",
        findings.states, findings.transitions, findings.depth, findings.minds, findings.is_complete
    );
}
