//! `tenure demo`: real processes, real signals, and a verdict from the workers' own log.

mod verdict;
mod view;
pub(crate) mod worker;

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use ::worker::Client;
use anyhow::{Context as _, Result, bail};
use clap::Args as ClapArgs;
use clock::SystemClock;
use model::{Clock as _, JobId};
use rpc::wire;
use rustix::process::Signal;

use crate::effects;
use crate::exit::{Exit, Failure};
use crate::fleet::{Process, Server, this_program};
use crate::output::Output;
use crate::signals::unless_interrupted;
use verdict::{Fault, Verdict};
use view::View;

const QUEUE: &str = "demo";
const WORKERS: [&str; 3] = ["ann", "bob", "cyd"];
/// Who is killed and who is frozen.
const KILLED: usize = 1;
const FROZEN: usize = 2;
/// Short, so that a rescue is seen within seconds.
const LEASE: Duration = Duration::from_secs(2);
/// Past the lease, with room for its rescue to be seen.
const FREEZE: Duration = Duration::from_secs(5);
/// The whole demo's limit.
const PATIENCE: Duration = Duration::from_secs(50);

/// Watch jobs survive a SIGKILL and a freeze.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Starts a server on an embedded store, three workers and a thousand jobs; kills one worker, freezes another\npast its lease and wakes it again; then reads the workers' own logs and says which promises held.\n\nExamples:\n  tenure demo\n  tenure demo --json\n  tenure demo --keep ./demo-data"
)]
pub(crate) struct Args {
    /// How many jobs.
    #[arg(long, default_value_t = 1_000, value_parser = clap::value_parser!(u64).range(100..=5_000))]
    jobs: u64,
    /// Keep data and logs in this directory, which must not exist yet.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
}

/// Runs the demo; an error means that a promise was broken or the demo could not be run.
pub(crate) async fn run(args: Args, output: &Output) -> Result<Exit> {
    let temporary = tempfile::tempdir().context("cannot make a temporary directory")?;
    let home = match &args.keep {
        None => temporary.path(),
        Some(path) => {
            std::fs::create_dir(path).with_context(|| format!("cannot create {}", path.display()))?;
            path
        }
    };
    let performed = unless_interrupted(perform(&args, home, output));
    let verdict = match tokio::time::timeout(PATIENCE, performed).await {
        Ok(verdict) => verdict?,
        Err(_) => bail!("the demo did not end within {PATIENCE:?}; is this machine very busy?"),
    };
    let broken = verdict.broken();
    if output.is_json() {
        output.json(&verdict)?;
    } else {
        output.line(view::verdict(&verdict))?;
    }
    if broken.is_empty() { Ok(Exit::Done) } else { Err(Failure::failed(broken.join("; ")).into()) }
}

async fn perform(args: &Args, home: &Path, output: &Output) -> Result<Verdict> {
    let view = View::new(args.jobs, output.is_json() || output.is_quiet());
    let lease = format!("{}ms", LEASE.as_millis());
    let mut server = Server::start(&this_program()?, &home.join("data"), &["--lease", &lease]).await?;
    let client = Client::connect(&server.url)?;
    view.say(&format!(
        "server   listening on {} with its data in {}",
        server.url,
        home.join("data").display()
    ));

    let jobs = enqueue(&client, args.jobs).await?;
    view.say(&format!("jobs     {} enqueued and durable", jobs.len()));

    let logs: Vec<PathBuf> = WORKERS.iter().map(|name| home.join(format!("{name}.effects"))).collect();
    let exe = this_program()?;
    let mut workers = Vec::new();
    for (name, log) in WORKERS.iter().zip(&logs) {
        let log = log.to_str().context("the directory's name is not UTF-8")?;
        let mut process = Process::start(
            &exe,
            ["demo-worker", "--server", &server.url, "--queue", QUEUE, "--name", name, "--log", log],
            &home.join(format!("{name}.log")),
        )?;
        process.line().await?;
        workers.push(process);
    }
    view.say(&format!("workers  {} started, 8 slots each, lease {LEASE:?}", WORKERS.join(", ")));

    let mut faults = Vec::new();
    let mut frozen_at = None;
    loop {
        let queue =
            client.queues().await?.queues.into_iter().find(|queue| queue.name == QUEUE).unwrap_or_default();
        let done = queue.completed + queue.dead + queue.cancelled;
        view.update(&queue, &logs);
        // The faults come when a tenth and a fifth of the jobs are done, so that they hit the middle of the work.
        if faults.is_empty() && done >= args.jobs / 10 {
            faults.push(fault(&workers[KILLED], KILLED, Signal::KILL)?);
            view.mark(KILLED, "killed");
            view.say(&format!("SIGKILL  {}: its jobs come back when their leases end", WORKERS[KILLED]));
        } else if faults.len() == 1 && done >= args.jobs / 5 {
            faults.push(fault(&workers[FROZEN], FROZEN, Signal::STOP)?);
            frozen_at = Some(Instant::now());
            view.mark(FROZEN, "frozen");
            view.say(&format!("SIGSTOP  {}: frozen for {FREEZE:?}, past its leases", WORKERS[FROZEN]));
        }
        if frozen_at.is_some_and(|at| at.elapsed() >= FREEZE) {
            workers[FROZEN].signal(Signal::CONT)?;
            frozen_at = None;
            view.mark(FROZEN, "awake");
            view.say(&format!("SIGCONT  {}: awake, and wrong about what it holds", WORKERS[FROZEN]));
        }
        let woken = faults.len() == 2 && frozen_at.is_none();
        if woken && done == args.jobs {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let dead =
        client.queues().await?.queues.iter().find(|queue| queue.name == QUEUE).map_or(0, |queue| queue.dead);
    // Draining lets the woken worker report what it wrongly believes it holds, and be refused.
    for (number, process) in workers.iter_mut().enumerate() {
        if number != KILLED {
            process.signal(Signal::TERM)?;
        }
        process.ended().await?;
    }
    server.process.signal(Signal::TERM)?;
    server.process.ended().await?;
    view.finish();
    let logs = logs.iter().map(|log| effects::read(log)).collect::<Result<Vec<_>, _>>()?;
    Ok(Verdict::of(&jobs, dead as usize, &logs, &faults))
}

fn fault(process: &Process, worker: usize, signal: Signal) -> Result<Fault> {
    process.signal(signal)?;
    Ok(Fault { worker, nanos: SystemClock.monotonic().as_nanos() })
}

async fn enqueue(client: &Client, count: u64) -> Result<Vec<JobId>> {
    let job = |number| wire::NewJob {
        queue: QUEUE.to_owned(),
        kind: "work".to_owned(),
        payload: rpc::convert::payload(&format!("{{\"number\":{number}}}")),
        ..Default::default()
    };
    let request = wire::EnqueueRequest { jobs: (0..count).map(job).collect(), ..Default::default() };
    let response = client.enqueue(request).await?;
    response.jobs.iter().map(|job| Ok(job.id.parse::<JobId>()?)).collect()
}
