//! Runs an experiment of the membership world, or its laws, without the rest of the system around it:
//! `cargo run --release -p sim --example swim -- detection 40 128,1024 lan`.

use std::time::{Duration, Instant};

use sim::swim::experiments::{self, Amount, Cell, Crashes, Findings, Subject};
use sim::swim::{Mutation, Options, replay, run};

fn main() {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let word = |at: usize| args.get(at).map(String::as_str);
    let number = |at: usize, usual: u64| word(at).and_then(|word| word.parse().ok()).unwrap_or(usual);
    let what = word(0).unwrap_or("laws");
    let seeds = number(1, 20);
    let began = Instant::now();
    if what == "laws" || what == "replay" {
        laws(what, seeds, number(2, 1), word(3));
        return;
    }
    let nodes = word(2).unwrap_or("128").split(',').filter_map(|word| word.parse().ok()).collect();
    let subject = Subject::named(word(3).unwrap_or("lan"), None, None).expect("a profile");
    let amount = Amount { seeds, first_seed: 1, nodes, threads: None };
    let progress = &mut |_, _| {};
    let findings = match what {
        "calibration" => experiments::calibration(&amount, progress),
        "detection" => experiments::detection(&subject, &amount, progress),
        "mass" => experiments::mass(&subject, Crashes::Count(10), &amount, progress),
        "loss" => experiments::loss(&subject, &[0.1, 0.3], Duration::from_secs(600), &amount, progress),
        "blocked" => experiments::blocked(&subject, &amount, progress),
        "pauses" => {
            let named = |name| Subject::named(name, None, None).expect("a profile");
            let subjects =
                [named("swim"), named("lifeguard"), subject, Subject::patient("lan").expect("a profile")];
            experiments::pauses(&subjects, &amount, progress)
        }
        "partition" => experiments::partition(&subject, &amount, progress),
        "links" => {
            experiments::links(&subject, &[0.1, 0.12, 0.15, 0.2], Duration::from_secs(600), &amount, progress)
        }
        "splits" => experiments::splits(&subject, &amount, progress),
        "flapping" => experiments::flapping(&subject, Duration::from_secs(300), &amount, progress),
        "bootstrap" => experiments::bootstrap(&subject, &amount, progress),
        "cuts" => experiments::cuts(&subject, Duration::from_secs(300), &amount, progress),
        _ => experiments::idle(&subject, &amount, progress),
    };
    show(&findings);
    let took = began.elapsed().as_secs_f64();
    println!("{} events in {took:.1} s, {:.0} a second", findings.events, findings.events as f64 / took);
}

fn laws(what: &str, seeds: u64, first_seed: u64, mutation: Option<&str>) {
    let mutation = mutation.and_then(Mutation::from_word);
    let options = Options { seeds, first_seed, mutation, ..Options::default() };
    let report = match what {
        "replay" => replay(first_seed, &options, &mut |line| println!("{line}")),
        _ => run(&options, |_| {}),
    };
    for failure in &report.failures {
        println!("seed {} broke {} at {}", failure.seed, failure.violation, failure.at);
    }
    let after = report.stats.converged_after.iter().max().copied().unwrap_or_default();
    for (law, asked) in sim::swim::LAWS.iter().zip(report.stats.asked) {
        println!("{law:<28} asked {asked}");
    }
    println!("{:?}", report.stats.struck);
    println!("{:?}", sim::swim::Stats { converged_after: Vec::new(), ..report.stats });
    println!(
        "{} of {} broken, slowest calm {:.1} s",
        report.failures.len(),
        report.seeds,
        after as f64 / 1e9
    );
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
}
