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
use verdict::{Fault, Jobs, Verdict};
use view::View;

const QUEUE: &str = "demo";
/// The queue in which no job may ever run beside itself, and its share of the jobs, one in so many.
const EXCLUSIVE: &str = "demo-exclusive";
const EXCLUSIVE_SHARE: u64 = 3;
/// Who serves which queues.
const WORKERS: [&str; 4] = ["ann", "bob", "cyd", "dov"];
const QUEUES: [&[&str]; WORKERS.len()] = [&[QUEUE, EXCLUSIVE], &[QUEUE, EXCLUSIVE], &[QUEUE], &[EXCLUSIVE]];
/// Who is killed; who is frozen past its lease and wakes as a zombie; who is frozen with exclusive jobs in hand, and never
/// wakes again, because its guardian sees to it.
const KILLED: usize = 1;
const FROZEN: usize = 2;
const CONDEMNED: usize = 3;
/// Short, so that a rescue is seen within seconds.
const LEASE: Duration = Duration::from_secs(2);
/// Past the lease, with room for its rescue to be seen.
const FREEZE: Duration = Duration::from_secs(5);
/// The whole demo's limit.
const PATIENCE: Duration = Duration::from_secs(50);

/// Watch jobs survive a SIGKILL and two freezes.
#[derive(Debug, ClapArgs)]
#[command(
    after_help = "Starts a server on an embedded store, four workers and a thousand jobs, a third of them in an\nexclusive queue; kills one worker, freezes two past their lease and wakes them again, as far as\ntheir guardians let them; then reads the workers' own logs and says which promises held.\n\nExamples:\n  tenure demo\n  tenure demo --json\n  tenure demo --keep ./demo-data"
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
    view.say(&format!(
        "jobs     {} enqueued and durable, {} of them exclusive",
        jobs.all.len(),
        jobs.exclusive.len()
    ));

    let logs: Vec<PathBuf> = WORKERS.iter().map(|name| home.join(format!("{name}.effects"))).collect();
    let exe = this_program()?;
    let mut workers = Vec::new();
    for ((name, queues), log) in WORKERS.iter().zip(QUEUES).zip(&logs) {
        let log = log.to_str().context("the directory's name is not UTF-8")?;
        let mut args = vec!["demo-worker", "--server", &server.url, "--name", name, "--log", log];
        args.extend(queues.iter().flat_map(|queue| ["--queue", *queue]));
        let mut process = Process::start(&exe, args, &home.join(format!("{name}.log")))?;
        process.line().await?;
        workers.push(process);
    }
    view.say(&format!("workers  {} started, 8 slots each, lease {LEASE:?}", WORKERS.join(", ")));

    let mut faults = Vec::new();
    let mut frozen_at = None;
    loop {
        let sum = sum(&client.queues().await?.queues);
        let done = sum.completed + sum.dead + sum.cancelled;
        view.update(&sum, &logs);
        // The faults come when a tenth and a fifth of the jobs are done, so that they hit the middle of the work.
        if faults.is_empty() && done >= args.jobs / 10 {
            faults.push(fault(&workers[KILLED], KILLED, Signal::KILL)?);
            view.mark(KILLED, "killed");
            view.say(&format!("SIGKILL  {}: its guardian stops what is left and says so", WORKERS[KILLED]));
        } else if faults.len() == 1 && done >= args.jobs / 5 {
            for worker in [FROZEN, CONDEMNED] {
                faults.push(fault(&workers[worker], worker, Signal::STOP)?);
                view.mark(worker, "frozen");
            }
            frozen_at = Some(Instant::now());
            view.say(&format!("SIGSTOP  {}: frozen for {FREEZE:?}, past its lease", WORKERS[FROZEN]));
            view.say(&format!(
                "SIGSTOP  {}: holds exclusive jobs, so its guardian must end it before its lease is over",
                WORKERS[CONDEMNED]
            ));
        }
        if frozen_at.is_some_and(|at| at.elapsed() >= FREEZE) {
            workers[FROZEN].signal(Signal::CONT)?;
            // Only a worker that its guardian forgot would still be there to hear this.
            workers[CONDEMNED].signal(Signal::CONT)?;
            frozen_at = None;
            view.mark(FROZEN, "awake");
            view.say(&format!("SIGCONT  {}: awake, and wrong about what it holds", WORKERS[FROZEN]));
        }
        let woken = faults.len() == 3 && frozen_at.is_none();
        if woken && done == args.jobs {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let dead = sum(&client.queues().await?.queues).dead;
    // Draining lets the woken worker report what it wrongly believes it holds, and be refused.
    for (number, process) in workers.iter_mut().enumerate() {
        if number != KILLED {
            // The condemned one is gone as a rule; then this reaches nobody.
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
    let nanos = SystemClock.monotonic().as_nanos();
    Ok(Fault { worker, nanos, is_crash: signal == Signal::KILL })
}

/// The counts of both queues together.
fn sum(queues: &[wire::Queue]) -> wire::Queue {
    queues.iter().fold(wire::Queue::default(), |sum, queue| wire::Queue {
        available: sum.available + queue.available,
        scheduled: sum.scheduled + queue.scheduled,
        running: sum.running + queue.running,
        completed: sum.completed + queue.completed,
        cancelled: sum.cancelled + queue.cancelled,
        dead: sum.dead + queue.dead,
        ..sum
    })
}

async fn enqueue(client: &Client, count: u64) -> Result<Jobs> {
    let set =
        wire::SetQueueRequest { name: EXCLUSIVE.to_owned(), exclusive: Some(true), ..Default::default() };
    client.set_queue(set).await?;
    let is_exclusive = |number: u64| number.is_multiple_of(EXCLUSIVE_SHARE);
    // Of different lengths, so that workers do not end all their jobs at once and have some in hand when a fault comes.
    let job = |number| wire::NewJob {
        queue: if is_exclusive(number) { EXCLUSIVE } else { QUEUE }.to_owned(),
        kind: "work".to_owned(),
        payload: rpc::convert::payload(&format!("{{\"work_ms\":{}}}", 50 + number * 37 % 100)),
        ..Default::default()
    };
    let request = wire::EnqueueRequest { jobs: (0..count).map(job).collect(), ..Default::default() };
    let response = client.enqueue(request).await?;
    let all = response.jobs.iter().map(|job| Ok(job.id.parse::<JobId>()?)).collect::<Result<Vec<_>>>()?;
    let exclusive = (0..).zip(&all).filter(|(number, _)| is_exclusive(*number)).map(|(_, id)| *id).collect();
    Ok(Jobs { all, exclusive })
}
