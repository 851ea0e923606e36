//! `bench exec`: what the guardian costs. Short commands through `tenure worker` and, in the same run, through a worker that
//! starts them itself, as plainly as that can be done.

use std::path::Path;
use std::process::Stdio;
use std::time::Instant;

use anyhow::Result;
use bytes::Bytes;
use clap::Args as ClapArgs;
use rpc::wire;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::Serialize;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use worker::guardian::Isolation;
use worker::{Client, JobContext, JobError};

use super::{Bench, Home, QUEUE, bar, noop, stop};
use crate::exit::Exit;
use crate::fleet::{Process, Server, this_program};
use crate::output::Output;
use crate::signals::unless_interrupted;

/// How often a group that is not empty is looked at.
const LOOK: std::time::Duration = std::time::Duration::from_millis(2);

/// Commands per second with a guardian and without.
#[derive(Debug, ClapArgs)]
#[command(after_help = "Examples:\n  tenure bench exec\n  tenure bench exec --jobs 5000 --json")]
pub(super) struct Args {
    /// Jobs in each round.
    #[arg(long, default_value_t = 2_000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    jobs: u64,
    /// Rounds of each kind, in turn; the middle one counts.
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Commands at the same time [default: the number of CPUs, as for `tenure worker`]
    #[arg(long)]
    concurrency: Option<u32>,
    /// How the guarded commands are kept apart: auto, namespace or groups.
    #[arg(long, default_value = "auto")]
    isolation: Isolation,
    /// The command.
    #[arg(long, default_value = "true")]
    program: String,
}

#[derive(Debug, Serialize)]
struct Results {
    jobs: u64,
    rounds: u32,
    concurrency: u32,
    guarded_per_s: u64,
    plain_per_s: u64,
    /// Of the two above.
    ratio: f64,
}

pub(super) async fn run(args: &Args, output: &Output) -> Result<Exit> {
    let home = Home::new(None)?;
    let quiet = output.is_json() || output.is_quiet();
    let results = unless_interrupted(measure(args, home.path(), quiet)).await?;
    if output.is_json() {
        output.json(&results)?;
    } else {
        output.line(format_args!(
            "with a guardian   {:>7} commands/s\nwithout           {:>7} commands/s\nratio             {:>7.2}",
            results.guarded_per_s, results.plain_per_s, results.ratio
        ))?;
    }
    Ok(Exit::Done)
}

async fn measure(args: &Args, home: &Path, quiet: bool) -> Result<Results> {
    let server = Server::start(&this_program()?, &home.join("data"), &["--store", "memory"]).await?;
    let bar = bar(args.jobs * u64::from(args.rounds) * 2, quiet);
    let bench = Bench { clients: vec![Client::connect(&server.url)?], bar, forgets: false };
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get() as u32);
    let concurrency = args.concurrency.unwrap_or(cpus);
    let (mut guarded, mut plain) = (Vec::new(), Vec::new());
    for _ in 0..args.rounds {
        guarded.push(round(&bench, args, guarded_worker(args, concurrency, &server.url, home)?).await?);
        let spawn = ["--spawn", &args.program];
        let worker = noop::start(&server.url, concurrency, &spawn, &home.join("plain.log"))?;
        plain.push(round(&bench, args, worker).await?);
    }
    bench.bar.finish_and_clear();
    let (guarded_per_s, plain_per_s) = (middle(guarded), middle(plain));
    Ok(Results {
        jobs: args.jobs,
        rounds: args.rounds,
        concurrency,
        guarded_per_s,
        plain_per_s,
        ratio: (guarded_per_s as f64 / plain_per_s as f64 * 1_000.0).round() / 1_000.0,
    })
}

/// Jobs per second of one worker, which ends with the round.
async fn round(bench: &Bench, args: &Args, mut worker: Process) -> Result<u64> {
    bench.pause(true).await?;
    let job = wire::NewJob { queue: QUEUE.to_owned(), ..Default::default() };
    for batch in (0..args.jobs).step_by(1_000) {
        let jobs = vec![job.clone(); (args.jobs - batch).min(1_000) as usize];
        bench.client().enqueue(wire::EnqueueRequest { jobs, ..Default::default() }).await?;
    }
    bench.wait_for_workers().await?;
    let goal = bench.completed().await? + args.jobs;
    let began = Instant::now();
    bench.pause(false).await?;
    bench.wait_completed(goal).await?;
    let per_second = (args.jobs as f64 / began.elapsed().as_secs_f64()) as u64;
    stop(&mut worker).await?;
    Ok(per_second)
}

fn guarded_worker(args: &Args, concurrency: u32, server: &str, home: &Path) -> Result<Process> {
    let concurrency = concurrency.to_string();
    let flags = ["worker", "--server", server, "--queue", QUEUE, "--concurrency", &concurrency];
    let isolation = args.isolation.to_string();
    let more = ["--isolation", &isolation, "--log-level", "error", "--", &args.program];
    let flags = flags.into_iter().chain(more);
    Process::start(&this_program()?, flags, &home.join("guarded.log"))
}

fn middle(mut figures: Vec<u64>) -> u64 {
    figures.sort_unstable();
    figures[figures.len() / 2]
}

/// Runs a command as a handler without a guardian would to give it the same: the job's variables, its own group, payload
/// in, output out, exit code, and nobody of the group left.
pub(super) async fn spawn(program: &str, context: JobContext, payload: Bytes) -> Result<Bytes, JobError> {
    let failed = |error: std::io::Error| JobError::retry(error.to_string());
    let mut child = Command::new(program)
        .env("TENURE_JOB_ID", context.job_id().to_string())
        .env("TENURE_ATTEMPT", context.attempt().to_string())
        .env("TENURE_MAX_ATTEMPTS", context.max_attempts().to_string())
        .env("TENURE_FENCE", context.fence().to_string())
        .env("TENURE_QUEUE", context.queue())
        .env("TENURE_KIND", context.kind())
        .env("TENURE_WORKER", context.worker().as_str())
        .env("TENURE_SERVER", context.servers())
        .env("TENURE_LEASE_MS", context.lease().as_millis().to_string())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .map_err(failed)?;
    let group = child.id().and_then(|id| Pid::from_raw(id as i32));
    let (stdin, stdout, stderr) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let feed = async {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(&payload).await;
        }
    };
    let (mut result, mut error) = (Vec::new(), Vec::new());
    let read = async {
        if let Some(mut stdout) = stdout {
            let _ = stdout.read_to_end(&mut result).await;
        }
    };
    let read_error = async {
        if let Some(mut stderr) = stderr {
            let _ = stderr.read_to_end(&mut error).await;
        }
    };
    let (status, ..) = tokio::join!(child.wait(), feed, read, read_error);
    while group.is_some_and(|group| kill_process_group(group, Signal::KILL).is_ok()) {
        tokio::time::sleep(LOOK).await;
    }
    if status.map_err(failed)?.success() {
        Ok(result.into())
    } else {
        Err(JobError::retry(String::from_utf8_lossy(&error).into_owned()))
    }
}
