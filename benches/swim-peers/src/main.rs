//! Tenure's membership beside foca's: the same world, the same faults, matched settings, one run, one table.
//!
//! Both have a period of 1 s, probes of 500 ms, three helpers, gossip to three nodes every 200 ms and datagrams of 1,400 bytes.
//! foca has its own values for a local network of that size (suspicion 4·log10(n) s) and renews identities. All periodic timers of
//! both begin at random moments.

mod foca;

use std::io::{IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use clap::Parser;
use serde_json::{Value, json};
use sim::swim::SwimNode;
use sim::swim::experiments::{
    Amount, Cell, Crashes, Findings, Progress, Subject, blocked, bootstrap, detection, flapping, idle, links,
    loss, mass, partition, splits,
};

use crate::foca::{FocaNode, Settings};

/// Membership protocols side by side in one simulated world.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  cargo run --release\n  cargo run --release -- --only crash,storm --seeds 5 --json")]
struct Args {
    /// Only these: crash, mass, loss, blocked, partition, splits, links, flapping, storm, idle
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<String>,
    /// How many worlds for each row
    #[arg(long, value_name = "K", default_value_t = 10)]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    first_seed: u64,
    /// One JSON object for each table instead of text
    #[arg(long)]
    json: bool,
}

/// One experiment for both.
struct Contest {
    name: &'static str,
    nodes: &'static [u32],
    ours: fn(&Subject<SwimNode>, &Amount, &mut Progress<'_>) -> Findings,
    theirs: fn(&Subject<FocaNode>, &Amount, &mut Progress<'_>) -> Findings,
}

const LOSSES: [f64; 2] = [0.1, 0.3];
const LOSS_LASTS: Duration = Duration::from_secs(600);
const DEAD_LINKS: [f64; 4] = [0.1, 0.12, 0.15, 0.2];
const FLAPPING_LASTS: Duration = Duration::from_secs(300);
const FIVE_PERCENT: Crashes = Crashes::Share(0.05);

const CONTESTS: [Contest; 10] = [
    Contest { name: "crash", nodes: &[256, 1_024], ours: detection, theirs: detection },
    Contest {
        name: "mass",
        nodes: &[256, 1_024],
        ours: |subject, amount, progress| mass(subject, FIVE_PERCENT, amount, progress),
        theirs: |subject, amount, progress| mass(subject, FIVE_PERCENT, amount, progress),
    },
    Contest {
        name: "loss",
        nodes: &[128],
        ours: |subject, amount, progress| loss(subject, &LOSSES, LOSS_LASTS, amount, progress),
        theirs: |subject, amount, progress| loss(subject, &LOSSES, LOSS_LASTS, amount, progress),
    },
    Contest { name: "blocked", nodes: &[128], ours: blocked, theirs: blocked },
    Contest { name: "partition", nodes: &[64], ours: partition, theirs: partition },
    Contest { name: "splits", nodes: &[64, 128], ours: splits, theirs: splits },
    Contest {
        name: "links",
        nodes: &[128],
        ours: |subject, amount, progress| links(subject, &DEAD_LINKS, LOSS_LASTS, amount, progress),
        theirs: |subject, amount, progress| links(subject, &DEAD_LINKS, LOSS_LASTS, amount, progress),
    },
    Contest {
        name: "flapping",
        nodes: &[64],
        ours: |subject, amount, progress| flapping(subject, FLAPPING_LASTS, amount, progress),
        theirs: |subject, amount, progress| flapping(subject, FLAPPING_LASTS, amount, progress),
    },
    Contest { name: "storm", nodes: &[256, 1_024], ours: bootstrap, theirs: bootstrap },
    Contest { name: "idle", nodes: &[256, 1_024], ours: idle, theirs: idle },
];

fn main() {
    let args = Args::parse();
    if let Some(unknown) = args.only.iter().find(|name| CONTESTS.iter().all(|contest| contest.name != **name)) {
        eprintln!("error: there is no {unknown:?}; choose from {}", CONTESTS.map(|contest| contest.name).join(", "));
        std::process::exit(2);
    }
    let tenure = Subject::swim("tenure", swim::Config::lan());
    let foca = Subject::<FocaNode> {
        name: "foca".to_owned(),
        period: Duration::from_secs(1),
        settings: Box::new(Settings::lan),
    };
    for contest in CONTESTS.iter().filter(|contest| args.only.is_empty() || args.only.iter().any(|name| name == contest.name)) {
        let amount =
            Amount { seeds: args.seeds, first_seed: args.first_seed, nodes: contest.nodes.to_vec(), threads: None };
        let ours = timed(contest.name, "tenure", |progress| (contest.ours)(&tenure, &amount, progress));
        let theirs = timed(contest.name, "foca", |progress| (contest.theirs)(&foca, &amount, progress));
        if args.json {
            println!("{}", as_json(contest.name, &args, &ours, &theirs));
        } else {
            print_table(contest.name, &args, &ours, &theirs);
        }
    }
}

fn timed(name: &str, who: &str, run: impl FnOnce(&mut Progress<'_>) -> Findings) -> Findings {
    let begun = Instant::now();
    let is_shown = std::io::stderr().is_terminal();
    let findings = run(&mut |done, of| {
        if is_shown {
            let _ = write!(std::io::stderr(), "\r{name}: {who} {done}/{of} ");
        }
    });
    if is_shown {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    eprintln!("{name}: {who} in {:.1} s, {} events", begun.elapsed().as_secs_f64(), findings.events);
    findings
}

fn print_table(name: &str, args: &Args, ours: &Findings, theirs: &Findings) {
    println!("\n{name} ({} worlds for each row, from seed {})", args.seeds, args.first_seed);
    let rows: Vec<Vec<String>> = [(ours, "tenure"), (theirs, "foca")]
        .into_iter()
        .flat_map(|(findings, who)| {
            findings.rows.iter().map(move |row| {
                std::iter::once(who.to_owned()).chain(row.iter().map(|cell| shown(cell))).collect()
            })
        })
        .collect();
    let head: Vec<String> =
        std::iter::once("protocol".to_owned()).chain(ours.columns.iter().map(|column| (*column).to_owned())).collect();
    let widths: Vec<usize> = (0..head.len())
        .map(|column| rows.iter().chain([&head]).filter_map(|row| row.get(column)).map(String::len).max().unwrap_or(0))
        .collect();
    for row in std::iter::once(&head).chain(&rows) {
        let cells: Vec<String> =
            row.iter().zip(&widths).map(|(cell, width)| format!("{cell:>width$}")).collect();
        println!("{}", cells.join("  "));
    }
}

fn as_json(name: &str, args: &Args, ours: &Findings, theirs: &Findings) -> Value {
    let table = |findings: &Findings| -> Vec<Value> {
        let row = |row: &Vec<Cell>| -> Value {
            findings.columns.iter().zip(row).map(|(column, cell)| ((*column).to_owned(), value(cell))).collect()
        };
        findings.rows.iter().map(row).collect()
    };
    json!({"experiment": name, "seeds": args.seeds, "first_seed": args.first_seed,
        "tenure": table(ours), "foca": table(theirs)})
}

fn shown(cell: &Cell) -> String {
    match cell {
        Cell::Text(text) => text.clone(),
        Cell::Count(count) => count.to_string(),
        Cell::Number(number, digits) => format!("{number:.digits$}"),
        Cell::Missing => "-".to_owned(),
    }
}

fn value(cell: &Cell) -> Value {
    match cell {
        Cell::Text(text) => json!(text),
        Cell::Count(count) => json!(count),
        Cell::Number(number, _) => json!(number),
        Cell::Missing => Value::Null,
    }
}
