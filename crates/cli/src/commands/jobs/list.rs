//! `tenure jobs list`.

use model::{Clock, WallTime};
use rpc::wire;

use super::any_state;
use crate::connect::ServerArgs;
use crate::date;
use crate::exit::Exit;
use crate::output::{Cell, Output};

/// Jobs asked for by one call; servers give no more.
const PAGE_MAX: u64 = 1_000;

const EXAMPLES: &str = "\
Examples:
  tenure jobs list
  tenure jobs list --queue mail --state dead,retryable --limit 20
  tenure jobs list --all --json | jq -r .last_error | sort | uniq -c";

/// List jobs, newest first
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only jobs in this state; several may be given
    #[arg(long, value_name = "STATE", value_parser = any_state(), value_delimiter = ',')]
    state: Vec<String>,
    /// At most this many
    #[arg(long, value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(u64).range(1..))]
    limit: u64,
    /// All of them
    #[arg(long, conflicts_with = "limit")]
    all: bool,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let mut request = wire::ListJobsRequest {
        queue: args.queue.unwrap_or_default(),
        kind: args.kind.unwrap_or_default(),
        states: args.state,
        ..Default::default()
    };
    let mut left = if args.all { u64::MAX } else { args.limit };
    let mut shown = 0;
    loop {
        request.limit = left.min(PAGE_MAX) as u32;
        let page = client.list(request.clone()).await?;
        let count = page.jobs.len() as u64;
        print(output, page.jobs, shown == 0)?;
        shown += count;
        left = left.saturating_sub(count);
        if page.next_cursor.is_empty() {
            break;
        }
        if left == 0 {
            output.note("there may be more; see them with --limit N or --all");
            break;
        }
        request.cursor = page.next_cursor;
    }
    if shown == 0 {
        output.note("no job matches");
    }
    Ok(Exit::Done)
}

fn print(output: &Output, jobs: Vec<wire::Job>, with_header: bool) -> std::io::Result<()> {
    if output.is_json() {
        return output.json_lines(jobs);
    }
    if jobs.is_empty() {
        return Ok(());
    }
    let now = clock::SystemClock.wall();
    let header = ["ID", "STATE", "QUEUE", "KIND", "ATTEMPT", "WHEN", "NOTE"];
    let rows = jobs.iter().map(|job| row(job, now)).collect();
    output.table(if with_header { &header } else { &[] }, rows)
}

fn row(job: &wire::Job, now: WallTime) -> Vec<Cell> {
    vec![
        (&job.id).into(),
        Cell::state(&job.state),
        (&job.queue).into(),
        (&job.kind).into(),
        format!("{}/{}", job.attempt, job.max_attempts).into(),
        date::relative(WallTime::from_millis(moment(job)), now).into(),
        Cell::cut(&remark(job)),
    ]
}

/// The date that matters most in the job's state.
fn moment(job: &wire::Job) -> i64 {
    match job.state.as_str() {
        "scheduled" | "retryable" => job.run_at_ms,
        "running" => job.started_at_ms.unwrap_or(job.enqueued_at_ms),
        _ => job.finished_at_ms.unwrap_or(job.enqueued_at_ms),
    }
}

fn remark(job: &wire::Job) -> String {
    match job.state.as_str() {
        "running" if job.cancel_requested => format!("told to stop; held by {}", job.holder),
        "running" => format!("held by {}", job.holder),
        "completed" => String::new(),
        _ => job.last_error.clone(),
    }
}
