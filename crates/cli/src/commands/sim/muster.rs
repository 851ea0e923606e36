//! `tenure sim muster`: schedulers that keep no record of what is running, tried at random and, in small worlds, in every way.

use std::num::NonZeroUsize;
use std::ops::ControlFlow;
use std::str::FromStr;
use std::time::{Duration, Instant};

use anyhow::ensure;
use clap::builder::PossibleValuesParser;
use clap::{Args as ClapArgs, ValueEnum};
use indicatif::{ProgressBar, ProgressStyle};
use serde::Serialize;
use serde_json::{Value, json};
use sim::explore::Limits;
use sim::muster::experiments::{self, Amount};
use sim::muster::model::{self, Bounds, Findings};
use sim::muster::{Mutation, Options, Report, percentile};

use super::findings;
use super::progress::bar;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::output::Output;

pub(super) const EXAMPLES: &str = "\
Examples:
  tenure sim muster --seeds 1000
  tenure sim muster --seeds 20 --workers 10000
  tenure sim muster --mutation hold_ignored
  tenure sim muster --model 2x2
  tenure sim muster --model 3x1 --states 50000000 --json
  tenure sim muster --model 2x2 --break gate
  tenure sim muster --model 2x0 --break exit_reentered --law exit_is_one_way
  tenure sim muster --experiment restart
  tenure sim muster --experiment turnover --workers 100 --seeds 20
  tenure sim replay --world muster --seed 42

A model is every course of events of a few workers over a few restarts of their scheduler (2x2: two
workers, two restarts). --break takes a rule out of it: gate (new workers need not be known to the
others), new (workers whose tasks are not known yet do not count), ids (set ids are sent while the
scheduler waits), or the name of any other deliberate bug of the machine. The shortest way to two
copies at once is then told step by step; a bug that breaks another law needs --law.

Experiments (20 worlds of 10, 100 and 1,000 workers unless --seeds and --workers say otherwise):
  restart   the scheduler dies when all workers know the set: how long does the next one wait?
  turnover  a tenth of the workers crash in a loop: when may good newcomers run something?";

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// How many worlds [default: 100, or 20 of each size in an experiment]
    #[arg(long, value_name = "K", value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: Option<u64>,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    first_seed: u64,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    world: WorldArgs,
    /// Measure instead; see below
    #[arg(long, value_name = "NAME", value_enum, conflicts_with_all = ["model", "seconds", "mutation"])]
    experiment: Option<Experiment>,
    /// Explore every course of events of so many workers and restarts instead, such as 2x2
    #[arg(long, value_name = "WORKERSxRESTARTS", conflicts_with_all = ["seeds", "first_seed", "workers", "seconds", "mutation"])]
    model: Option<Size>,
    /// Stop exploring after about so many states
    #[arg(long, value_name = "N", requires = "model")]
    states: Option<u64>,
    /// How often a worker of the model ends and comes back as another, all of them together
    #[arg(long, value_name = "N", requires = "model", default_value_t = Bounds::default().ends, value_parser = clap::value_parser!(u8).range(0..=7))]
    ends: u8,
    /// Take a rule out of the model, to see what happens
    #[arg(long = "break", value_name = "RULE", requires = "model", value_parser = rule)]
    broken: Option<muster::Mutation>,
    /// Ask the model for this law alone [default: with --break never_running_twice, else all]
    #[arg(long, value_name = "LAW", requires = "model", value_parser = PossibleValuesParser::new(model::LAWS))]
    law: Option<String>,
}

#[derive(Debug, ClapArgs)]
pub(super) struct WorldArgs {
    /// Workers in the largest worlds, or in all worlds of an experiment [default: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    workers: Option<u32>,
    /// Virtual seconds of faults, before the calm in which everything must end
    #[arg(long, value_name = "N", default_value_t = Options::default().seconds, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    seconds: u64,
    /// Put a deliberate bug into a machine, to see a law notice it
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Mutation::all().map(Mutation::word).collect::<Vec<_>>()))]
    mutation: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
enum Experiment {
    Restart,
    Turnover,
}

/// How large a model is.
#[derive(Clone, Copy, Debug)]
struct Size {
    workers: usize,
    restarts: u8,
}

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Size, String> {
        let wrong = || format!("{text:?} is not a size such as 2x2: 1 to 3 workers, 0 to 5 restarts");
        let (workers, restarts) = text.split_once('x').ok_or_else(wrong)?;
        let workers = workers.parse().ok().filter(|workers| (1..=3).contains(workers)).ok_or_else(wrong)?;
        let restarts = restarts.parse().ok().filter(|restarts| *restarts <= 5).ok_or_else(wrong)?;
        Ok(Size { workers, restarts })
    }
}

/// Short names for the rules that people ask about, and the machine's own names for all of them.
fn rule(text: &str) -> Result<muster::Mutation, String> {
    let word = match text {
        "gate" => "gate_removed",
        "new" => "new_ignored",
        "ids" => "ids_during_wait",
        other => other,
    };
    let found = muster::Mutation::ALL.into_iter().find(|mutation| mutation.word() == word);
    found.ok_or_else(|| {
        let words = muster::Mutation::ALL.map(muster::Mutation::word).join(", ");
        format!("there is no such rule; choose gate, new, ids, or one of {words}")
    })
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match (args.model, args.experiment) {
        (Some(size), _) => explore(args, size, output),
        (None, Some(experiment)) => measure(args, experiment, output),
        (None, None) => laws(args, output),
    }
}

fn measure(args: &Args, experiment: Experiment, output: &Output) -> anyhow::Result<Exit> {
    let amount = Amount {
        seeds: args.seeds.unwrap_or(20),
        first_seed: args.first_seed,
        nodes: args.world.workers.map_or_else(|| vec![10, 100, 1_000], |workers| vec![workers]),
        threads: args.threads,
    };
    let bar = bar(1, output);
    let began = Instant::now();
    let progress = &mut |done, of| {
        bar.set_length(of);
        bar.set_position(done);
    };
    let found = match experiment {
        Experiment::Restart => experiments::restart(&amount, progress),
        Experiment::Turnover => experiments::turnover(&amount, progress),
    };
    bar.finish_and_clear();
    findings::print(output, &experiment, &found, began.elapsed())?;
    Ok(Exit::Done)
}

fn laws(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let options = Options {
        seeds: args.seeds.unwrap_or(Options::default().seeds),
        first_seed: args.first_seed,
        threads: args.threads,
        ..args.world.options()
    };
    let bar = bar(options.seeds, output);
    let began = Instant::now();
    let report = sim::muster::run(&options, |done, _| bar.set_position(done));
    bar.finish_and_clear();
    let figures = Figures::of(&report, args, began.elapsed());
    if output.is_json() {
        output.json(&figures)?;
    } else {
        output.line(figures.for_people())?;
        for failure in &report.failures {
            output.note(format_args!(
                "{failure}\nto see it again: {}",
                args.world.replay_command(failure.seed)
            ));
        }
    }
    Ok(if report.failures.is_empty() { Exit::Done } else { Exit::Failed })
}

impl Args {
    fn bounds(&self, size: Size) -> anyhow::Result<Bounds> {
        let bounds = Bounds {
            workers: size.workers,
            restarts: size.restarts,
            ends: self.ends,
            mutation: self.broken,
            only_law: self.law(),
            ..Bounds::default()
        };
        let most = Bounds::INSTANCES_MAX / size.workers - 1;
        let fits = usize::from(self.ends) <= most;
        ensure!(fits, Failure::usage(format!("with so many workers --ends may be {most} at most")));
        Ok(bounds)
    }

    /// The law to ask for; with a rule left out the one that the rule is for.
    fn law(&self) -> Option<&'static str> {
        let word = self.law.as_deref().or(self.broken.map(|_| "never_running_twice"))?;
        model::LAWS.into_iter().find(|law| *law == word)
    }
}

impl WorldArgs {
    fn options(&self) -> Options {
        let usual = Options::default();
        Options {
            workers_max: self.workers.unwrap_or(usual.workers_max),
            seconds: self.seconds,
            mutation: self.mutation.as_deref().and_then(Mutation::from_word),
            ..usual
        }
    }

    fn replay_command(&self, seed: u64) -> String {
        let bug = self.mutation.as_ref().map(|word| format!(" --mutation {word}")).unwrap_or_default();
        let Options { workers_max: workers, seconds, .. } = self.options();
        format!("tenure sim replay --world muster --seed {seed} --workers {workers} --seconds {seconds}{bug}")
    }
}

/// What `--json` prints of the laws.
#[derive(Debug, Serialize)]
struct Figures {
    seeds: u64,
    first_seed: u64,
    workers_max: u32,
    seconds: u64,
    mutation: Option<String>,
    failed: usize,
    failures: Vec<Value>,
    trace_hash: String,
    events: u64,
    virtual_seconds: u64,
    wall_seconds: f64,
    workers: u64,
    instances: u64,
    restarts: u64,
    tasks: u64,
    starts: u64,
    starts_refused: u64,
    heartbeats: u64,
    faults: u64,
    turned_away: u64,
    waits_agreed: usize,
    wait_agreed_ms_p50: Option<u64>,
    wait_agreed_ms_p99: Option<u64>,
    waits_full: usize,
    wait_full_ms_p50: Option<u64>,
    healthy_after_ms_p50: Option<u64>,
    healthy_after_ms_p99: Option<u64>,
}

impl Figures {
    fn of(report: &Report, args: &Args, took: Duration) -> Figures {
        let stats = &report.stats;
        let millis = |spans: &[u64], percent| percentile(spans, percent).map(|span| span.as_millis() as u64);
        Figures {
            seeds: report.seeds,
            first_seed: args.first_seed,
            workers_max: args.world.options().workers_max,
            seconds: args.world.seconds,
            mutation: args.world.mutation.clone(),
            failed: report.failures.len(),
            failures: report
                .failures
                .iter()
                .map(|it| json!({ "seed": it.seed, "law": it.violation.law, "what": it.violation.what }))
                .collect(),
            trace_hash: format!("{:016x}", report.trace_hash),
            events: stats.events,
            virtual_seconds: stats.virtual_time.as_secs(),
            wall_seconds: findings::seconds(took),
            workers: stats.workers,
            instances: stats.instances,
            restarts: stats.restarts,
            tasks: stats.tasks,
            starts: stats.starts,
            starts_refused: stats.starts_refused,
            heartbeats: stats.heartbeats,
            faults: stats.faults,
            turned_away: stats.turned_away,
            waits_agreed: stats.waits_agreed.len(),
            wait_agreed_ms_p50: millis(&stats.waits_agreed, 50),
            wait_agreed_ms_p99: millis(&stats.waits_agreed, 99),
            waits_full: stats.waits_full.len(),
            wait_full_ms_p50: millis(&stats.waits_full, 50),
            healthy_after_ms_p50: millis(&stats.healthy_after, 50),
            healthy_after_ms_p99: millis(&stats.healthy_after, 99),
        }
    }

    fn for_people(&self) -> String {
        let span = |millis: Option<u64>| {
            millis.map_or("none".to_owned(), |millis| format!("{:.1} s", millis as f64 / 1e3))
        };
        let virtual_time = duration::show(Duration::from_secs(self.virtual_seconds));
        [
            format!(
                "seeds              {:>12}   (from {}, {} s of faults each, up to {} workers)",
                self.seeds, self.first_seed, self.seconds, self.workers_max
            ),
            format!("broken laws        {:>12}", self.failed),
            format!(
                "workers            {:>12}   ({} instances, {} turned away)",
                self.workers, self.instances, self.turned_away
            ),
            format!("scheduler restarts {:>12}", self.restarts),
            format!(
                "tasks              {:>12}   (started {} times, refused {})",
                self.tasks, self.starts, self.starts_refused
            ),
            format!(
                "waits that agreed  {:>12}   (p50 {}, p99 {})",
                self.waits_agreed,
                span(self.wait_agreed_ms_p50),
                span(self.wait_agreed_ms_p99)
            ),
            format!("waits in full      {:>12}   (p50 {})", self.waits_full, span(self.wait_full_ms_p50)),
            format!(
                "healthy after p50  {:>12}   (p99 {})",
                span(self.healthy_after_ms_p50),
                span(self.healthy_after_ms_p99)
            ),
            format!(
                "events             {:>12}   ({virtual_time} of virtual time in {} s)",
                self.events, self.wall_seconds
            ),
            format!("trace          {}", self.trace_hash),
        ]
        .join("\n")
    }
}

fn explore(args: &Args, size: Size, output: &Output) -> anyhow::Result<Exit> {
    let bounds = args.bounds(size)?;
    let limits = Limits { states_max: args.states.unwrap_or(u64::MAX), threads: args.threads };
    let spinner = if output.shows_progress() { ProgressBar::new_spinner() } else { ProgressBar::hidden() };
    let style = ProgressStyle::with_template("{spinner} {msg}").expect("the template is valid");
    spinner.set_style(style);
    let began = Instant::now();
    let found = model::explore(bounds, limits, |progress| {
        spinner.set_message(format!(
            "{} states, {} steps deep, {} waiting",
            progress.states, progress.depth, progress.waiting
        ));
        spinner.tick();
        ControlFlow::Continue(())
    });
    spinner.finish_and_clear();
    if output.is_json() {
        output.json(&as_json(&found, began.elapsed()))?;
    } else {
        tell(&found, began.elapsed(), output)?;
    }
    match (&found.violation, found.is_complete) {
        (Some(_), _) => Ok(Exit::Failed),
        (None, true) => Ok(Exit::Done),
        (None, false) if args.states.is_some() => Ok(Exit::Done),
        (None, false) => Err(Failure::failed("the exploration was stopped before its end").into()),
    }
}

fn tell(found: &Findings, took: Duration, output: &Output) -> anyhow::Result<()> {
    if let Some(story) = &found.violation {
        output.text(&story.to_string())?;
    }
    let law = found.bounds.only_law.map_or("no law is broken".to_owned(), |law| format!("{law} holds"));
    let extent = match (&found.violation, found.is_complete) {
        (Some(_), _) => "until a law was broken".to_owned(),
        (None, true) => format!("all there are; {law}"),
        (None, false) => format!("not all there are; {law} so far"),
    };
    output.line(format_args!("states       {:>12}   ({extent})", found.states))?;
    output
        .line(format_args!("transitions  {:>12}   (up to {} steps deep)", found.transitions, found.depth))?;
    output.line(format_args!("took         {:>10.1} s", took.as_secs_f64()))?;
    Ok(())
}

fn as_json(found: &Findings, took: Duration) -> Value {
    json!({
        "workers": found.bounds.workers,
        "restarts": found.bounds.restarts,
        "ends": found.bounds.ends,
        "law": found.bounds.only_law,
        "broken_rule": found.bounds.mutation.map(muster::Mutation::word),
        "states": found.states,
        "transitions": found.transitions,
        "depth": found.depth,
        "complete": found.is_complete,
        "violation": found.violation.as_ref().map(|it| &it.violation),
        "story": found.violation.as_ref().map(|it| &it.story),
        "wall_seconds": findings::seconds(took),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_rules_are_read_or_refused_with_the_way_out() {
        let size: Size = "3x1".parse().unwrap();
        assert_eq!((size.workers, size.restarts), (3, 1));
        for bad in ["", "2", "4x1", "2x6", "0x1", "axb"] {
            assert!(bad.parse::<Size>().unwrap_err().contains("such as 2x2"), "{bad}");
        }
        assert_eq!(rule("gate"), Ok(muster::Mutation::GateRemoved));
        assert_eq!(rule("new"), Ok(muster::Mutation::NewIgnored));
        assert_eq!(rule("ids"), Ok(muster::Mutation::IdsDuringWait));
        assert_eq!(rule("hash_ignored"), Ok(muster::Mutation::HashIgnored));
        assert!(rule("luck").unwrap_err().contains("choose gate, new, ids"));
    }
}
