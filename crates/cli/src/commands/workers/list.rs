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

const EXAMPLES: &str = "\
Examples:
  tenure workers list
  tenure workers list --queue mail
  tenure workers list --state inactive,left
  tenure workers list --json | jq -r 'select(.bound > 100) | .key'

States: active; unsynced (known from before the server's restart, not heard of since); stopping
(kicked, its exclusive jobs have not stopped yet); inactive and left (over; remembered for ten
minutes); pinging (no worker lease, only pings).";

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
    vec![
        (&worker.key).into(),
        Cell::state(&worker.state),
        Cell::cut(&worker.queues.join(",")),
        worker.bound.to_string().into(),
        format!("{}/{}", worker.free_slots, worker.slots).into(),
        worker.last_heartbeat_ago_ms.map_or_else(String::new, |ago| format!("{} ago", span(ago))).into(),
        if worker.lease_left_ms > 0 { span(worker.lease_left_ms) } else { String::new() }.into(),
        Cell::cut(&remark(worker)),
    ]
}

fn remark(worker: &wire::Worker) -> String {
    match worker.state.as_str() {
        _ if !worker.server.is_empty() => format!("at {}", worker.server),
        "active" if worker.draining => "draining".to_owned(),
        "active" if !worker.connected => "no stream".to_owned(),
        _ => worker.why.clone(),
    }
}

/// Milliseconds, for people.
pub(super) fn span(millis: i64) -> String {
    duration::show(Duration::from_millis(millis.unsigned_abs()))
}
