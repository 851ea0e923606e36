//! `tenure workers list`.

use std::time::Duration;

use clap::builder::PossibleValuesParser;
use rpc::wire;

use super::STATES;
use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::Exit;
use crate::output::{Cell, Output};

/// Workers asked for by one call; servers give no more.
const PAGE_MAX: u32 = 1_000;

/// Shown for what is not known here.
const UNKNOWN: &str = "-";

const EXAMPLES: &str = "\
Examples:
  tenure workers list
  tenure workers list --queue mail
  tenure workers list --state inactive,left
  tenure workers list --json | jq -r 'select(.bound > 100) | .key'

States: active; unsynced (known from before the server's restart, not heard of since); stopping
(kicked, its exclusive jobs have not stopped yet); inactive and left (over; remembered for ten
minutes); pinging (no worker lease, only pings).

A worker of another server on the same database is shown with what the database knows of it, and
with a dash for the rest; --queue leaves it out.";

/// List workers that are alive
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only workers in this state; several may be given [default: those that are alive]
    #[arg(long, value_name = "STATE", value_parser = PossibleValuesParser::new(STATES), value_delimiter = ',')]
    state: Vec<String>,
    /// Only workers that serve this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let mut request = wire::ListWorkersRequest {
        states: args.state,
        queue: args.queue.unwrap_or_default(),
        limit: PAGE_MAX,
        cursor: String::new(),
    };
    let mut shown = 0;
    loop {
        let page = client.workers(request.clone()).await?;
        print(output, &page.workers, shown == 0)?;
        shown += page.workers.len();
        if page.next_cursor.is_empty() {
            break;
        }
        request.cursor = page.next_cursor;
    }
    if shown == 0 {
        output.note("no worker matches; start one with `tenure worker --queue QUEUE -- CMD`");
    }
    Ok(Exit::Done)
}

fn print(output: &Output, workers: &[wire::Worker], with_header: bool) -> std::io::Result<()> {
    if output.is_json() {
        return output.json_lines(workers);
    }
    if workers.is_empty() {
        return Ok(());
    }
    let header = ["KEY", "STATE", "QUEUES", "BOUND", "FREE", "LAST BEAT", "LEASE LEFT", "NOTE"];
    let rows = workers.iter().map(row).collect();
    output.table(if with_header { &header } else { &[] }, rows)
}

fn row(worker: &wire::Worker) -> Vec<Cell> {
    let is_ours = worker.server.is_empty();
    let unknown = if is_ours { "" } else { UNKNOWN };
    vec![
        (&worker.key).into(),
        Cell::state(&worker.state),
        if is_ours { Cell::cut(&worker.queues.join(",")) } else { UNKNOWN.into() },
        worker.bound.map_or_else(|| UNKNOWN.to_owned(), |bound| bound.to_string()).into(),
        free_slots(worker).into(),
        worker
            .last_heartbeat_ago_ms
            .map_or_else(|| unknown.to_owned(), |ago| format!("{} ago", span(ago)))
            .into(),
        match worker.lease_left_ms {
            Some(0) => String::new(),
            left => left.map_or_else(|| UNKNOWN.to_owned(), span),
        }
        .into(),
        Cell::cut(&remark(worker)),
    ]
}

fn free_slots(worker: &wire::Worker) -> String {
    match (worker.free_slots, worker.slots) {
        (Some(free), Some(slots)) => format!("{free}/{slots}"),
        _ => UNKNOWN.to_owned(),
    }
}

fn remark(worker: &wire::Worker) -> String {
    match worker.state.as_str() {
        _ if !worker.server.is_empty() => format!("at {}", worker.server),
        "active" if worker.draining == Some(true) => "draining".to_owned(),
        "active" if worker.connected == Some(false) => "no stream".to_owned(),
        _ => worker.why.clone(),
    }
}

/// Milliseconds, for people.
pub(super) fn span(millis: i64) -> String {
    duration::show(Duration::from_millis(millis.unsigned_abs()))
}
