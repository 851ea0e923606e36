//! `tenure sim swim`: the laws of membership under faults, and experiments with a table each.

use std::collections::BTreeMap;
use std::fs;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use serde::Serialize;
use serde_json::{Value, json};
use sim::swim::experiments::{self, Amount, Crashes, Findings, PROFILES, Subject};
use sim::swim::{LAWS, Mutation, Options, SwimNode, faults};

use super::progress::bar;
use super::{chart, findings};
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(super) const EXAMPLES: &str = "\
Experiments (default worlds and nodes):
  laws         random faults, then calm; no law may be broken, and from 100 worlds on
               none unasked and no fault unmet (200 worlds of 3 to 40 nodes)
  calibration  plain SWIM beside what the papers measured (400; 128)
  detection    one crash: when the first knows, when all do (40; 128,1000)
  mass         several crash together: --crashes 10 or 5% (10; 1000)
  loss         packets lost everywhere: --loss 10,30 --minutes 10; false deaths (4; 128)
  blocked      one in eight can neither send nor receive for 8 to 33 s; false deaths (20; 128)
  pauses       the Lifeguard grid of blocks, as a share of plain SWIM's false deaths (60; 128)
  partition    two halves apart for 120 s, whole or on and off (10; 64)
  bootstrap    all start at once through one node (1; 256,1024)
  cuts         one in a hundred badly connected, one way: --minutes 5 (1; 1000)
  links        links dead in one direction for good: --links 10,12,15,20 --minutes 10; who is
               condemned, who is missing (1; 128)
  splits       50 random partitions of 5 s: false deaths, healing, load (4; 64,128)
  flapping     one node cut off, 7 or 14 s on and off: --minutes 5; its verdicts, others' (4; 64)
  idle         messages and bytes when nothing happens (1; 128,1024,4096)

Bytes are what datagrams and stream frames carry, seals included, without the headers of
UDP, TCP and IP.

Examples:
  tenure sim swim --seeds 500
  tenure sim swim --mutation never_refutes
  tenure sim swim --experiment calibration --plot calibration.svg
  tenure sim swim --experiment detection --profile fast --nodes 1000
  tenure sim swim --experiment mass --crashes 5% --json";

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// What to do; see below
    #[arg(long, value_name = "NAME", value_enum, default_value_t = Experiment::Laws)]
    experiment: Experiment,
    /// How many worlds [default: depends on the experiment]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    first_seed: u64,
    /// How many nodes, a row for each [default: depends on the experiment]
    #[arg(long, value_name = "N,…", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(2..=10_000))]
    nodes: Vec<u32>,
    /// How the nodes are configured
    #[arg(long, value_name = "NAME", default_value = "lan", value_parser = PossibleValuesParser::new(PROFILES))]
    profile: String,
    /// Scales the least time of a suspicion [default: the profile's]
    #[arg(long, value_name = "X")]
    alpha: Option<f64>,
    /// Scales the longest time of a suspicion [default: the profile's]
    #[arg(long, value_name = "X")]
    beta: Option<f64>,
    /// How many crash together: a number, or a share such as 5%
    #[arg(long, value_name = "N", default_value = "10", value_parser = crashes)]
    crashes: Crashes,
    /// Shares of lost packets, in percent
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "10,30")]
    loss: Vec<f64>,
    /// Shares of links that are dead in one direction, in percent
    #[arg(long, value_name = "P,…", value_delimiter = ',', default_value = "10,12,15,20")]
    links: Vec<f64>,
    /// How long the trouble lasts, in virtual minutes [default: 10, or 5 for cuts and flapping]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: Option<u64>,
    /// How long things go wrong before the laws ask for calm, in periods
    #[arg(long, value_name = "N", default_value_t = Options::default().periods)]
    periods: u32,
    /// Put a deliberate bug into the machines, to see a law notice it
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Mutation::all().map(Mutation::word).collect::<Vec<_>>()))]
    mutation: Option<String>,
    /// Draw the result as SVG into this file
    #[arg(long, value_name = "FILE")]
    plot: Option<PathBuf>,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Experiment {
    Laws,
    Calibration,
    Detection,
    Mass,
    Loss,
    Blocked,
    Pauses,
    Partition,
    Bootstrap,
    Cuts,
    Links,
    Splits,
    Flapping,
    Idle,
}

impl Experiment {
    /// How many worlds and of which sizes, unless somebody says otherwise: a minute at most on two slow cores.
    const fn usual(self) -> (u64, &'static [u32]) {
        match self {
            Experiment::Laws => (200, &[]),
            Experiment::Calibration => (400, &[128]),
            Experiment::Detection => (40, &[128, 1_000]),
            Experiment::Mass => (10, &[1_000]),
            Experiment::Loss => (4, &[128]),
            Experiment::Blocked => (20, &[128]),
            Experiment::Pauses => (60, &[128]),
            Experiment::Partition => (10, &[64]),
            Experiment::Bootstrap => (1, &[256, 1_024]),
            Experiment::Cuts => (1, &[1_000]),
            Experiment::Links => (1, &[128]),
            Experiment::Splits => (4, &[64, 128]),
            Experiment::Flapping => (4, &[64]),
            Experiment::Idle => (1, &[128, 1_024, 4_096]),
        }
    }
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match args.experiment {
        Experiment::Laws => laws(args, output),
        _ => experiment(args, output),
    }
}

/// What `--json` prints of the laws.
#[derive(Debug, Serialize)]
struct LawFigures {
    seeds: u64,
    first_seed: u64,
    periods: u32,
    mutation: Option<String>,
    failed: usize,
    failures: Vec<Value>,
    trace_hash: String,
    events: u64,
    wall_seconds: f64,
    verdicts: u64,
    verdicts_told: u64,
    verdicts_about_live_nodes: u64,
    refutations: u64,
    calm_seconds_p50: Option<f64>,
    calm_seconds_max: Option<f64>,
    /// How often each law was asked.
    laws_asked: BTreeMap<&'static str, u64>,
    /// How often each fault struck.
    faults_struck: BTreeMap<&'static str, u64>,
    /// Laws that were never asked and faults that never struck: what was not tried.
    not_tried: Vec<&'static str>,
}

/// Most broken laws that are told with their last events.
const FAILURES_TOLD_MAX: usize = 20;
/// From so many worlds on, a law that none of them asked and a fault that struck none is a failure: this run proves less than it
/// seems to. Fewer worlds cannot be expected to meet everything.
const TRIES_ALL_FROM: u64 = 100;

fn laws(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let mutation = args.mutation.as_deref().and_then(Mutation::from_word);
    let options = Options {
        seeds: args.seeds.unwrap_or(args.experiment.usual().0),
        first_seed: args.first_seed,
        periods: args.periods,
        mutation,
        threads: args.threads,
        ..Options::default()
    };
    let bar = bar(options.seeds, output);
    let began = Instant::now();
    let report = sim::swim::run(&options, |done| bar.set_position(done));
    bar.finish_and_clear();
    let stats = &report.stats;
    let calm = stats.converged_after.iter().map(|nanos| *nanos as f64 / 1e9).collect();
    let calm = experiments::Samples::new(calm);
    let laws_asked = LAWS.into_iter().zip(stats.asked).collect();
    let faults_struck =
        faults().map(|fault| (fault, stats.struck.get(fault).copied().unwrap_or_default())).collect();
    let figures = LawFigures {
        seeds: report.seeds,
        first_seed: args.first_seed,
        periods: args.periods,
        mutation: args.mutation.clone(),
        failed: report.failures.len(),
        failures: report
            .failures
            .iter()
            .map(|it| json!({ "seed": it.seed, "law": it.violation.law, "what": it.violation.what }))
            .collect(),
        trace_hash: format!("{:016x}", report.trace_hash),
        events: stats.events,
        wall_seconds: findings::seconds(began.elapsed()),
        verdicts: stats.verdicts,
        verdicts_told: stats.told,
        verdicts_about_live_nodes: stats.false_verdicts,
        refutations: stats.refutations,
        calm_seconds_p50: calm.at(0.5),
        calm_seconds_max: calm.at(1.0),
        not_tried: not_tried(&laws_asked, &faults_struck),
        laws_asked,
        faults_struck,
    };
    let is_all_tried = mutation.is_some() || report.seeds < TRIES_ALL_FROM || figures.not_tried.is_empty();
    if output.is_json() {
        output.json(&figures)?;
    } else {
        output.line(figures.for_people())?;
        for failure in report.failures.iter().take(FAILURES_TOLD_MAX) {
            let bug = args.mutation.as_ref().map(|word| format!(" --mutation {word}")).unwrap_or_default();
            let again = format!("--seed {} --periods {}{bug}", failure.seed, args.periods);
            output.note(format_args!("{failure}\nto see it again: tenure sim replay --world swim {again}"));
        }
        let untold = report.failures.len().saturating_sub(FAILURES_TOLD_MAX);
        if untold > 0 {
            output.note(format_args!("{untold} more worlds broke a law; --json lists them all"));
        }
        if !is_all_tried {
            let what = figures.not_tried.join(", ");
            output
                .note(format_args!("never asked, or never struck: {what}. What is not tried is not shown."));
        }
    }
    Ok(if report.failures.is_empty() && is_all_tried { Exit::Done } else { Exit::Failed })
}

/// What none of the worlds met.
fn not_tried(
    laws_asked: &BTreeMap<&'static str, u64>,
    faults_struck: &BTreeMap<&'static str, u64>,
) -> Vec<&'static str> {
    let all = laws_asked.iter().chain(faults_struck);
    all.filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect()
}

impl LawFigures {
    fn for_people(&self) -> String {
        let span =
            |seconds: Option<f64>| seconds.map_or("none".to_owned(), |seconds| format!("{seconds:.1} s"));
        let counted = |what: &str, counts: &BTreeMap<&'static str, u64>| {
            let lines = counts.iter().map(|(name, count)| format!("\n  {name:<28} {count:>12}"));
            format!("{what}{}", lines.collect::<String>())
        };
        [
            format!(
                "seeds             {:>12}   (from {}, {} periods of faults each)",
                self.seeds, self.first_seed, self.periods
            ),
            format!("broken laws       {:>12}", self.failed),
            format!(
                "verdicts          {:>12}   ({} more were told of one)",
                self.verdicts, self.verdicts_told
            ),
            format!(
                "about live nodes  {:>12}   (cut off, stopped or slow; {} accusations refuted)",
                self.verdicts_about_live_nodes, self.refutations
            ),
            format!(
                "views agree after {:>12}   (p50; at most {})",
                span(self.calm_seconds_p50),
                span(self.calm_seconds_max)
            ),
            format!("events            {:>12}   (in {} s)", self.events, self.wall_seconds),
            format!("trace         {}", self.trace_hash),
            counted("laws, and how often each was asked", &self.laws_asked),
            counted("faults, and how often each struck", &self.faults_struck),
        ]
        .join("\n")
    }
}

fn experiment(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let (usual_seeds, usual_nodes) = args.experiment.usual();
    let amount = Amount {
        seeds: args.seeds.unwrap_or(usual_seeds),
        first_seed: args.first_seed,
        nodes: if args.nodes.is_empty() { usual_nodes.to_vec() } else { args.nodes.clone() },
        threads: args.threads,
    };
    let bar = bar(1, output);
    let began = Instant::now();
    let findings = find(args, &amount, &mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    })?;
    bar.finish_and_clear();
    let took = began.elapsed();
    if let Some(path) = &args.plot {
        let drawn = chart::svg(&findings);
        fs::write(path, drawn)
            .map_err(|error| Failure::usage(format!("cannot write {}: {error}", path.display())))?;
    }
    findings::print(output, &args.experiment, &findings, took)?;
    Ok(Exit::Done)
}

fn find(args: &Args, amount: &Amount, progress: &mut experiments::Progress<'_>) -> anyhow::Result<Findings> {
    let subject = named(args)?;
    let minutes = |usual| Duration::from_secs(60 * args.minutes.unwrap_or(usual));
    let shares = |percents: &[f64]| -> Vec<f64> { percents.iter().map(|percent| percent / 100.0).collect() };
    Ok(match args.experiment {
        Experiment::Calibration => experiments::calibration(amount, progress),
        Experiment::Detection => experiments::detection(&subject, amount, progress),
        Experiment::Mass => experiments::mass(&subject, args.crashes, amount, progress),
        Experiment::Loss => experiments::loss(&subject, &shares(&args.loss), minutes(10), amount, progress),
        Experiment::Blocked => experiments::blocked(&subject, amount, progress),
        Experiment::Pauses => {
            // Lifeguard beside it shows whether this grid weighs as the paper's does.
            let references = [("swim", None, None), ("lifeguard", Some(5.0), Some(6.0))];
            let references =
                references.into_iter().filter_map(|(name, alpha, beta)| Subject::named(name, alpha, beta));
            let mut subjects: Vec<_> = references.chain([subject]).collect();
            // The same machine, made to take as long as plain SWIM does.
            subjects.extend(Subject::patient(&args.profile));
            experiments::pauses(&subjects, amount, progress)
        }
        Experiment::Partition => experiments::partition(&subject, amount, progress),
        Experiment::Bootstrap => experiments::bootstrap(&subject, amount, progress),
        Experiment::Cuts => experiments::cuts(&subject, minutes(5), amount, progress),
        Experiment::Links => {
            experiments::links(&subject, &shares(&args.links), minutes(10), amount, progress)
        }
        Experiment::Splits => experiments::splits(&subject, amount, progress),
        Experiment::Flapping => experiments::flapping(&subject, minutes(5), amount, progress),
        Experiment::Idle | Experiment::Laws => experiments::idle(&subject, amount, progress),
    })
}

fn named(args: &Args) -> anyhow::Result<Subject<SwimNode>> {
    let unknown = || Failure::usage(format!("there is no profile {:?}", args.profile));
    Ok(Subject::named(&args.profile, args.alpha, args.beta).ok_or_else(unknown)?)
}

fn crashes(text: &str) -> Result<Crashes, String> {
    let wrong = || format!("{text:?} is neither a number nor a share such as 5%");
    match text.strip_suffix('%') {
        Some(share) => {
            let share: f64 = share.parse().map_err(|_| wrong())?;
            if (0.0..100.0).contains(&share) { Ok(Crashes::Share(share / 100.0)) } else { Err(wrong()) }
        }
        None => text.parse().map(Crashes::Count).map_err(|_| wrong()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_world_met_is_named() {
        let asked = BTreeMap::from([("views_differ", 3), ("info_differs", 0)]);
        let struck = BTreeMap::from([("twin", 0), ("crash", 9)]);
        assert_eq!(not_tried(&asked, &struck), ["info_differs", "twin"]);
    }
}
