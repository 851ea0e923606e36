//! `tenure worker`: runs a command for each job.

mod conditions;

use std::num::NonZeroU32;
use std::time::Duration;

use anyhow::Context;
use clap::ArgAction;
use model::QueueName;
use rustix::process::{DumpableBehavior, set_dumpable_behavior};
use tracing::{debug, error, info, warn};
use worker::guardian::Guardian;
use worker::{ANY_KIND, ExecRunner, KeyEnd, Summary, Worker, WorkerEvent, outcome_word};

use self::conditions::ConditionArgs;
use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::logging::{self, LogArgs};
use crate::output::Output;
use crate::signals::Signals;
use crate::stderr;

const EXAMPLES: &str = "\
Examples:
  tenure worker --queue hello -- cat
  tenure worker --queue mail --queue reports --concurrency 8 -- ./handle-job
  tenure worker --queue thumbs -- sh -c 'convert - -resize 200x200 png:-'
  tenure worker --queue thumbs --seat thumbs-1 -- ./handle-job
  tenure worker --queue build --user builder --env-clear --env CI=1 --env NPM_TOKEN -- ./build

The command gets the payload on stdin and, in its environment, TENURE_JOB_ID, TENURE_ATTEMPT,
TENURE_MAX_ATTEMPTS, TENURE_FENCE, TENURE_QUEUE, TENURE_KIND, TENURE_WORKER, TENURE_SERVER and
TENURE_LEASE_MS, and if the job has them TENURE_TIMEOUT_MS, TENURE_TRACEPARENT and TENURE_EXCLUSIVE.
What it prints on stdout is the job's result, the end of stderr its error. Its
exit code says how the job ended:
  0      completed
  65     dead now: trying again will not help
  75     failed, tried again later until the attempts are used up
  other  as 75, and so is an end by a signal

It inherits the worker's environment except TENURE_* and DATABASE_URL. Other secrets, such as
AWS_SECRET_ACCESS_KEY, are passed on: use --env-clear where the jobs must not have them, and
--env NAME for what they need. (--env NAME=VALUE can be read in the list of processes.) Set-user-ID
programs such as sudo gain nothing, unless --allow-new-privs is given. With --user the commands have
that user's groups and no capabilities, and cannot signal the worker or its guardian.

SIGTERM or Ctrl-C drains: no new jobs, those at work get the grace, what is left is handed back
unharmed. A second signal kills them and ends at once. The worker itself exits with 0, or with 1
if a job could not be reported.

A guardian, a small process beside the worker, starts the commands and outlives the worker: should
the worker die or freeze, it stops what is left and says so, and the jobs go on elsewhere at once.
It makes the worker fit for exclusive and volatile queues if the lease is long enough: at least 3
heartbeats (of a fifth of the lease each), the kill wait and the safety. --exclusive only makes sure
of it. As root it runs the commands in a PID
namespace of their own, where nothing survives it; --isolation groups leaves them among the
machine's other processes.";

/// Run a command for each job of some queues
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    work: WorkArgs,
    #[command(flatten)]
    conditions: ConditionArgs,
}

#[derive(Debug, clap::Args)]
struct WorkArgs {
    /// A queue to serve; several may be given
    #[arg(long, value_name = "QUEUE", required = true, action = ArgAction::Append)]
    queue: Vec<QueueName>,
    /// Jobs at the same time [default: the number of CPUs]
    #[arg(long, value_name = "N")]
    concurrency: Option<NonZeroU32>,
    /// How the worker is called by people [default: the host name]
    #[arg(long, value_name = "NAME")]
    name: Option<String>,
    /// How long the server believes this worker without hearing from it [default: the server's choice, 20s]
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    lease: Option<Duration>,
    /// Time from the order to stop to the end, kill wait included
    #[arg(long, value_name = "DURATION", default_value = "25s", value_parser = duration::parse, allow_hyphen_values = true)]
    grace: Duration,
    /// Time from asking a command to stop (SIGTERM) to its end; SIGKILL comes when a fifth of it is left
    #[arg(long, value_name = "DURATION", default_value = "5s", value_parser = duration::parse, allow_hyphen_values = true)]
    kill_wait: Duration,
    /// Time between SIGKILL and the end of the lease, for the kernel to end commands of exclusive queues
    #[arg(long, value_name = "DURATION", default_value = "1s", value_parser = duration::parse, allow_hyphen_values = true)]
    safety: Duration,
    /// The place it fills, one worker at a time: a newer one in the same place replaces it (for volatile queues)
    #[arg(long, value_name = "NAME")]
    seat: Option<String>,
    /// Refuse to start unless jobs of exclusive and volatile queues can be taken
    #[arg(long)]
    exclusive: bool,
    #[command(flatten)]
    server: ServerArgs,
    #[command(flatten)]
    log: LogArgs,
    /// What to run for each job
    #[arg(value_name = "CMD", last = true, required = true)]
    command: Vec<String>,
}

/// Starts the guardian, which needs a process without threads, and then the worker.
pub(crate) fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let Args { conditions, work } = args;
    logging::start(work.log, output);
    // The environment that this process was started with may have secrets in it. Jobs of the same user could read it in /proc.
    if let Err(error) = set_dumpable_behavior(DumpableBehavior::NotDumpable) {
        warn!(%error, "jobs of the same user may read this worker's memory and environment");
    }
    let guardian = Guardian::start_under(&conditions.conditions()?)?;
    stderr::start_thread().context("cannot start a thread")?;
    super::long_running(run_until_stopped(work, guardian, output))
}

async fn run_until_stopped(args: WorkArgs, guardian: Guardian, output: &Output) -> anyhow::Result<Exit> {
    let concurrency = args.concurrency.map_or_else(cpus, NonZeroU32::get);
    let runner = ExecRunner::new(args.command)?;
    let (guarded_by, protection) = (guardian.pid(), guardian.protection());
    let (tell_unfit, mut told_unfit) = tokio::sync::mpsc::unbounded_channel();
    let mut builder = Worker::builder(&args.server.server)
        .exec(ANY_KIND, runner)
        .concurrency(concurrency)
        .grace(args.grace)
        .kill_wait(args.kill_wait)
        .safety(args.safety)
        .guardian(guardian)
        .exclusive(args.exclusive)
        .on_event(move |event| {
            if let (true, WorkerEvent::ExclusiveUnfit { lease, needed }) = (args.exclusive, &event) {
                let _ = tell_unfit.send((*lease, *needed));
            }
            log(event);
        });
    for queue in &args.queue {
        builder = builder.queue(queue.as_str());
    }
    if let Some(name) = args.name {
        builder = builder.name(name);
    }
    if let Some(seat) = args.seat {
        builder = builder.seat(seat);
    }
    if let Some(lease) = args.lease {
        builder = builder.lease(lease);
    }
    let worker = builder.build()?;
    let queues: Vec<&str> = args.queue.iter().map(QueueName::as_str).collect();
    info!(worker = %worker.key(), queues = queues.join(","), concurrency, "worker started");
    let (namespace, cgroups) = (protection.namespace, protection.cgroups);
    info!(guardian = guarded_by, namespace, cgroups, "guardian started");
    for limit in protection.limits() {
        warn!(limit, "not covered by the guardian here");
    }
    // Even then the commands are killed first: they must not outlive the worker that would renew their leases.
    let shutdown = worker.shutdown();
    let stop = Signals::catch()?.drain_on_first(move || shutdown.abort());
    let mut unfit = None;
    let ordered = async {
        tokio::select! {
            () = stop.cancelled() => {}
            told = told_unfit.recv() => unfit = told,
        }
    };
    let summary = worker.run_until(ordered).await;
    tell(&summary, output)?;
    if let Some((lease, needed)) = unfit {
        return Err(Failure::failed(format!(
            "the server grants a lease of {lease:?}, which is too short for exclusive queues: ask for at least {needed:?} \
             (--lease), or shorten --kill-wait and --safety"
        ))
        .into());
    }
    // What could not be reported is not lost: the server offers it again when its lease is over.
    Ok(if summary.unreported + summary.still_running > 0 || summary.guardian_lost {
        Exit::Failed
    } else {
        Exit::Done
    })
}

fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |cpus| u32::try_from(cpus.get()).unwrap_or(u32::MAX))
}

/// One line of log for each event. It runs inside the worker's loop.
fn log(event: WorkerEvent) {
    match event {
        WorkerEvent::Connected { server } => info!(server, "connected"),
        WorkerEvent::Unreachable { why } => warn!(why, "cannot reach the server; trying again"),
        WorkerEvent::Disconnected { why } => warn!(why, "lost the server; jobs go on, reconnecting"),
        WorkerEvent::Registered { key, lease } => info!(worker = %key, ?lease, "registered"),
        WorkerEvent::NewKey { key, why: KeyEnd::Lapsed } => {
            warn!(worker = %key, "the server was not heard for a whole lease; registering under a new key");
        }
        WorkerEvent::NewKey { key, why: KeyEnd::Inactive } => {
            warn!(worker = %key, "the server declared this worker inactive; registering under a new key");
        }
        WorkerEvent::LeaseOver { job, fence } => {
            warn!(job_id = %job, %fence, "lease is over by our own clock; stopping the job");
        }
        WorkerEvent::Wedged { job, fence } => {
            warn!(job_id = %job, %fence, "no sign that the job gets on; stopping it");
        }
        WorkerEvent::Started { job, fence, attempt } => {
            info!(job_id = %job, %fence, attempt, "job started");
        }
        WorkerEvent::Finished { job, fence, outcome } => match &outcome {
            model::Outcome::Failed { error, .. } => {
                warn!(job_id = %job, %fence, outcome = outcome_word(&outcome), error, "job finished");
            }
            _ => info!(job_id = %job, %fence, outcome = outcome_word(&outcome), "job finished"),
        },
        WorkerEvent::Dropped { job, fence } => info!(job_id = %job, %fence, "lost job ended; not reported"),
        WorkerEvent::Refused { job, fence, current_fence } => {
            warn!(job_id = %job, %fence, %current_fence, "report refused: the job is someone else's now");
        }
        WorkerEvent::Lost { job, fence } => warn!(job_id = %job, %fence, "job lost; stopping it"),
        WorkerEvent::Cancelled { job, fence } => info!(job_id = %job, %fence, "job cancelled; stopping it"),
        WorkerEvent::TimedOut { job, fence } => {
            warn!(job_id = %job, %fence, "time limit is over; stopping the job");
        }
        WorkerEvent::GuardianLost => error!("the guardian is gone; this worker stops what it runs and ends"),
        WorkerEvent::Draining => info!("draining: no new jobs"),
        other => debug!(event = ?other, "worker event"),
    }
}

fn tell(summary: &Summary, output: &Output) -> std::io::Result<()> {
    let Summary { completed, failed, handed_back, lost, refused, unreported, still_running, guardian_lost } =
        *summary;
    info!(completed, failed, handed_back, lost, refused, "worker stopped");
    if unreported + still_running > 0 {
        error!(
            unreported,
            still_running, "some jobs could not be reported; the server takes them back by itself"
        );
    }
    if output.is_json() {
        output.json(&serde_json::json!({
            "completed": completed, "failed": failed, "handed_back": handed_back, "lost": lost,
            "refused": refused, "unreported": unreported, "still_running": still_running,
            "guardian_lost": guardian_lost,
        }))?;
    }
    Ok(())
}
