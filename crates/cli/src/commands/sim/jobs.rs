//! `tenure sim jobs`: jobs, worker leases and rescue.

use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use clap::Args as ClapArgs;
use clap::builder::PossibleValuesParser;
use serde::Serialize;
use sim::jobs::{Mutation, Options, Report, percentile, run as run_jobs};

use super::progress::bar;
use crate::duration;
use crate::exit::Exit;
use crate::output::Output;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// How many worlds
    #[arg(long, value_name = "K", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..=100_000_000))]
    seeds: u64,
    /// The first seed
    #[arg(long, value_name = "S", default_value_t = 1)]
    first_seed: u64,
    /// Threads [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
    #[command(flatten)]
    world: WorldArgs,
}

#[derive(Debug, ClapArgs)]
pub(super) struct WorldArgs {
    /// Virtual minutes of faults, before the calm in which everything must end
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=1_440))]
    minutes: u64,
    /// Put a deliberate bug into a machine, to see a law notice it
    #[arg(long, value_name = "NAME", value_parser = PossibleValuesParser::new(Mutation::ALL.map(Mutation::word)))]
    mutation: Option<String>,
}

impl WorldArgs {
    pub(super) fn options(&self) -> Options {
        let mutation = self.mutation.as_deref().and_then(Mutation::from_word);
        Options { minutes: self.minutes, mutation, ..Options::default() }
    }

    fn replay_command(&self, seed: u64) -> String {
        let mutation = self.mutation.as_ref().map(|word| format!(" --mutation {word}")).unwrap_or_default();
        format!("tenure sim replay --seed {seed} --minutes {}{mutation}", self.minutes)
    }
}

pub(super) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let options = Options {
        seeds: args.seeds,
        first_seed: args.first_seed,
        threads: args.threads,
        ..args.world.options()
    };
    let bar = bar(args.seeds, output);
    let began = Instant::now();
    let report = run_jobs(&options, |done, _| bar.set_position(done));
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
    Ok(exit(&report))
}

pub(super) fn exit(report: &Report) -> Exit {
    if report.failures.is_empty() { Exit::Done } else { Exit::Failed }
}

/// What `--json` prints.
#[derive(Debug, Serialize)]
struct Figures {
    seeds: u64,
    first_seed: u64,
    minutes: u64,
    mutation: Option<String>,
    failed: usize,
    failures: Vec<Failure>,
    trace_hash: String,
    events: u64,
    virtual_seconds: u64,
    wall_seconds: f64,
    jobs: u64,
    claims: u64,
    heartbeats: u64,
    faults: u64,
    lost: u64,
    stale_writes_accepted: u64,
    stale_writes_refused: u64,
    workers_expired: u64,
    healthy_workers_reaped: u64,
    holds_moved_to_a_new_key: u64,
    rescues: usize,
    rescue_ms_p50: Option<u64>,
    rescue_ms_p99: Option<u64>,
    undisturbed_rescue_ms_p99: Option<u64>,
    margin_ms_min: Option<f64>,
    exclusive_runs: u64,
    exclusive_overlap: u64,
    exclusive_to_the_unfit: u64,
    handovers: usize,
    handover_margin_min_ms: Option<f64>,
    handover_margin_p50_ms: Option<f64>,
    processes_left_behind: u64,
    crash_rescues: usize,
    crash_rescue_ms_p50: Option<f64>,
    crash_rescue_ms_p99: Option<f64>,
    take_overs: u64,
    take_over_ms_p99: Option<u64>,
    ownership_margin_ms_min: Option<f64>,
    redirects: u64,
    answers_without_exclusive_hold: u64,
}

#[derive(Debug, Serialize)]
struct Failure {
    seed: u64,
    law: String,
    what: String,
}

impl Figures {
    fn of(report: &Report, args: &Args, took: Duration) -> Figures {
        let stats = &report.stats;
        let broken = |law: &str| report.failures.iter().filter(|it| it.violation.law == law).count() as u64;
        let millis = |spans: &[u64], percent| percentile(spans, percent).map(|span| span.as_millis() as u64);
        let exact =
            |spans: &[u64], percent| percentile(spans, percent).map(|span| span.as_micros() as f64 / 1e3);
        Figures {
            seeds: report.seeds,
            first_seed: args.first_seed,
            minutes: args.world.minutes,
            mutation: args.world.mutation.clone(),
            failed: report.failures.len(),
            failures: report
                .failures
                .iter()
                .map(|failure| Failure {
                    seed: failure.seed,
                    law: failure.violation.law.to_owned(),
                    what: failure.violation.what.clone(),
                })
                .collect(),
            trace_hash: format!("{:016x}", report.trace_hash),
            events: stats.events,
            virtual_seconds: stats.virtual_time.as_secs(),
            wall_seconds: (took.as_secs_f64() * 10.0).round() / 10.0,
            jobs: stats.jobs,
            claims: stats.claims,
            heartbeats: stats.heartbeats,
            faults: stats.faults,
            lost: broken("job_lost"),
            stale_writes_accepted: broken("stale_write_accepted"),
            stale_writes_refused: stats.stale_reports,
            workers_expired: stats.expired,
            healthy_workers_reaped: stats.healthy_reaped,
            holds_moved_to_a_new_key: stats.succeeded,
            rescues: stats.rescues.len(),
            rescue_ms_p50: millis(&stats.rescues, 50),
            rescue_ms_p99: millis(&stats.rescues, 99),
            undisturbed_rescue_ms_p99: millis(&stats.rescues_undisturbed, 99),
            margin_ms_min: stats.margin_min.map(|nanos| nanos as f64 / 1e6),
            exclusive_runs: stats.exclusive_runs,
            exclusive_overlap: broken("running_twice"),
            exclusive_to_the_unfit: broken("exclusive_to_the_unfit"),
            handovers: stats.handovers.len(),
            handover_margin_min_ms: exact(&stats.handovers, 0),
            handover_margin_p50_ms: exact(&stats.handovers, 50),
            processes_left_behind: broken("process_left_behind"),
            crash_rescues: stats.crash_rescues.len(),
            crash_rescue_ms_p50: exact(&stats.crash_rescues, 50),
            crash_rescue_ms_p99: exact(&stats.crash_rescues, 99),
            take_overs: stats.take_overs,
            take_over_ms_p99: millis(&stats.take_over_times, 99),
            ownership_margin_ms_min: stats.ownership_margin_min.map(|nanos| nanos as f64 / 1e6),
            redirects: stats.redirects,
            answers_without_exclusive_hold: stats.unsure_answers,
        }
    }

    fn for_people(&self) -> String {
        let millis = |span: Option<u64>| {
            span.map_or("none".to_owned(), |span| duration::show(Duration::from_millis(span)))
        };
        let exact = |span: Option<f64>| span.map_or("none".to_owned(), |millis| format!("{millis:.1} ms"));
        let virtual_time = duration::show(Duration::from_secs(self.virtual_seconds));
        [
            format!(
                "seeds                     {:>12}   (from {}, {} min of faults each)",
                self.seeds, self.first_seed, self.minutes
            ),
            format!("broken laws               {:>12}", self.failed),
            format!("jobs                      {:>12}", self.jobs),
            format!("jobs lost                 {:>12}", self.lost),
            format!(
                "stale writes accepted     {:>12}   ({} refused)",
                self.stale_writes_accepted, self.stale_writes_refused
            ),
            format!(
                "healthy workers reaped    {:>12}   ({} others)",
                self.healthy_workers_reaped, self.workers_expired
            ),
            format!(
                "rescue p50 / p99          {:>12}   ({} rescues; leases of 2 to 20 s)",
                format!("{} / {}", millis(self.rescue_ms_p50), millis(self.rescue_ms_p99)),
                self.rescues
            ),
            format!(
                "after a crash p50 / p99   {:>12}   ({} rescues by a guardian, nothing else being wrong)",
                format!("{} / {}", exact(self.crash_rescue_ms_p50), exact(self.crash_rescue_ms_p99)),
                self.crash_rescues
            ),
            format!(
                "exclusive jobs run twice  {:>12}   ({} runs; {} processes left behind)",
                self.exclusive_overlap, self.exclusive_runs, self.processes_left_behind
            ),
            format!(
                "hand-over margin          {:>12}   (least / p50 of {} hand-overs of exclusive jobs)",
                format!("{} / {}", exact(self.handover_margin_min_ms), exact(self.handover_margin_p50_ms)),
                self.handovers
            ),
            format!(
                "least margin of a lease   {:>12}",
                self.margin_ms_min.map_or("none".to_owned(), |margin| format!("{margin:.3} ms"))
            ),
            format!(
                "servers taken over        {:>12}   (p99 {} where nothing else was wrong; {} redirects)",
                self.take_overs,
                millis(self.take_over_ms_p99),
                self.redirects
            ),
            format!(
                "least ownership margin    {:>12}   ({} answers without exclusive hold)",
                exact(self.ownership_margin_ms_min),
                self.answers_without_exclusive_hold
            ),
            format!(
                "events                    {:>12}   ({virtual_time} of virtual time in {} s)",
                self.events, self.wall_seconds
            ),
            format!("trace                 {}", self.trace_hash),
        ]
        .join("\n")
    }
}
