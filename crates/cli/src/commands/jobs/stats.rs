//! `tenure jobs stats`: the whole server at a glance.

use rpc::wire;

use crate::commands::queues;
use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure jobs stats
  tenure jobs stats --json | jq '.queues[] | {name, available, running}'";

/// Count jobs by state and queue
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let stats = args.server.client()?.stats().await?;
    if output.is_json() {
        output.json(&stats)?;
        return Ok(Exit::Done);
    }
    output.line(headline(&stats))?;
    if !stats.queues.is_empty() {
        output.line("")?;
        let mut rows = stats.queues.clone();
        rows.push(total(&stats.queues));
        queues::print(output, &rows)?;
    }
    Ok(Exit::Done)
}

fn headline(stats: &wire::StatsResponse) -> String {
    let workers = match stats.workers {
        1 => "1 worker".to_owned(),
        workers => format!("{workers} workers"),
    };
    format!("tenure {}, store {}, {workers} connected to this server", stats.version, stats.store)
}

fn total(queues: &[wire::Queue]) -> wire::Queue {
    let sum = |count: fn(&wire::Queue) -> u64| queues.iter().map(count).sum();
    wire::Queue {
        name: "(all)".to_owned(),
        scheduled: sum(|queue| queue.scheduled),
        available: sum(|queue| queue.available),
        running: sum(|queue| queue.running),
        completed: sum(|queue| queue.completed),
        cancelled: sum(|queue| queue.cancelled),
        dead: sum(|queue| queue.dead),
        oldest_ms: queues.iter().filter_map(|queue| queue.oldest_ms).max(),
        ..Default::default()
    }
}
