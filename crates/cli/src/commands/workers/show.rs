//! `tenure workers show`: everything about one worker, and why it is over if it is.

use rpc::wire;

use super::list::span;
use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};

/// Bound jobs printed for people; --json has more.
const JOBS_SHOWN_MAX: usize = 20;

const EXAMPLES: &str = "\
Examples:
  tenure workers show build7-4711-9f3a5c2e81d04b76
  tenure workers show build7-4711-9f3a5c2e81d04b76 --json | jq -r '.jobs[].job'

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 4 there is no such worker.";

/// Show one worker: lease, last beat, bound jobs, and why it is over if it is
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The worker's key
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let worker = client.worker(wire::GetWorkerRequest { key: args.key }).await?;
    print(output, &worker)?;
    Ok(Exit::Done)
}

/// One worker, whole.
pub(super) fn print(output: &Output, worker: &wire::Worker) -> std::io::Result<()> {
    if output.is_json() {
        return output.json(worker);
    }
    output.table(&[], rows(worker))
}

/// Whether it gets exclusive jobs, and if not, why.
fn exclusive(worker: &wire::Worker) -> String {
    match (worker.exclusive, worker.stop_within_ms) {
        (None, _) => String::new(),
        (Some(true), within) => format!("yes, stops one within {}", span(within.unwrap_or_default())),
        (Some(false), Some(within)) => {
            format!("no, its lease is too short to stop one within {}", span(within))
        }
        (Some(false), None) => "no, it cannot stop one for certain".to_owned(),
    }
}

fn yes_or_no(known: bool) -> String {
    if known { "yes" } else { "no" }.to_owned()
}

/// A count that is worth a line.
fn counted(count: Option<u32>) -> String {
    count.filter(|count| *count > 0).map(|count| count.to_string()).unwrap_or_default()
}

fn rows(worker: &wire::Worker) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut add = |name: &str, text: String| {
        if !text.is_empty() {
            rows.push(vec![Cell::toned(name, Tone::Dim), text.as_str().into()]);
        }
    };
    let is_over = ["inactive", "left"].contains(&worker.state.as_str());
    add("key", worker.key.clone());
    add("name", worker.name.clone());
    add("state", worker.state.clone());
    add("because", worker.why.clone());
    add("connected", worker.connected.map(yes_or_no).unwrap_or_default());
    add("queues", worker.queues.join(", "));
    if let (Some(free), Some(slots @ 1..)) = (worker.free_slots, worker.slots) {
        add("free slots", format!("{free} of {slots}"));
    }
    add("version", worker.version.clone());
    add("exclusive jobs", exclusive(worker));
    add("lease", if worker.lease_ms > 0 { span(worker.lease_ms) } else { String::new() });
    if !is_over {
        add("lease left", worker.lease_left_ms.map(span).unwrap_or_default());
        add("draining", if worker.draining == Some(true) { "yes" } else { "" }.to_owned());
    }
    let ago = |millis: i64| format!("{} ago", span(millis));
    if let Some(last) = worker.last_heartbeat_ago_ms {
        add("last beat", ago(last));
    }
    if let Some(first) = worker.first_heartbeat_ago_ms {
        add("first beat", ago(first));
    }
    if let (Some(min), Some(max)) = (worker.clock_ppm_min, worker.clock_ppm_max) {
        let off = if worker.clock_off { "; this is too far off for exclusive jobs" } else { "" };
        add("clock", format!("{min:+} to {max:+} ppm beside the server's{off}"));
    }
    if let Some(lag @ 1..) = worker.lag_ms {
        add("loop lag", span(lag));
    }
    add("token", worker.token.clone());
    add("assigned", counted(worker.assigned));
    add("bound", worker.bound.map(|bound| bound.to_string()).unwrap_or_default());
    for hold in worker.jobs.iter().take(JOBS_SHOWN_MAX) {
        add("", format!("{} (fence {})", hold.job, hold.fence));
    }
    let bound = worker.bound.unwrap_or_default() as usize;
    if bound > JOBS_SHOWN_MAX {
        add("", format!("… {} more", bound - JOBS_SHOWN_MAX));
    }
    rows
}
