//! `tenure jobs tail`: changes of state as they happen.

use std::time::Duration;

use model::{Kind, QueueName, WallTime};
use rpc::wire;
use worker::{Client, ClientError};

use super::any_state;
use crate::connect::ServerArgs;
use crate::date;
use crate::exit::Exit;
use crate::output::{Cell, Output};
use crate::signals::Signals;

/// Pause before watching again.
const AGAIN_PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  tenure jobs tail
  tenure jobs tail --queue mail --json
  tenure jobs tail --state dead,retryable
  tenure jobs tail --count 10

Ends with Ctrl-C. When the server goes away it is watched again as soon as it is back.";

/// Follow the jobs' changes of state
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only jobs of this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<QueueName>,
    /// Only jobs of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<Kind>,
    /// Only changes to this state; several may be given
    #[arg(long, value_name = "STATE", value_parser = any_state(), value_delimiter = ',')]
    state: Vec<String>,
    /// End after this many changes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let mut signals = Signals::catch()?;
    tokio::select! {
        result = follow(&client, &args, output) => result?,
        () = signals.next() => {}
    }
    Ok(Exit::Done)
}

async fn follow(client: &Client, args: &Args, output: &Output) -> anyhow::Result<()> {
    let text = |name: Option<String>| name.unwrap_or_default();
    let request = wire::WatchRequest {
        queue: text(args.queue.as_ref().map(ToString::to_string)),
        kind: text(args.kind.as_ref().map(ToString::to_string)),
        states: args.state.clone(),
        ..Default::default()
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    // Someone who mistyped the address should hear of it; later losses are borne.
    let mut watch = client.watch(request.clone()).await?;
    output.note("following changes; Ctrl-C ends");
    while left > 0 {
        let ended = match watch.next().await {
            Ok(Some(event)) => {
                print(output, &event)?;
                left -= 1;
                continue;
            }
            Ok(None) => "the server ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        output.note(format_args!("{ended}; changes may have been missed"));
        watch = watch_again(client, &request).await?;
        output.note("following again");
    }
    Ok(())
}

async fn watch_again(client: &Client, request: &wire::WatchRequest) -> anyhow::Result<worker::Watch> {
    loop {
        tokio::time::sleep(AGAIN_PAUSE).await;
        match client.watch(request.clone()).await {
            Ok(watch) => return Ok(watch),
            Err(ClientError::Unreachable { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn print(output: &Output, event: &wire::JobEvent) -> std::io::Result<()> {
    if output.is_json() {
        return output.json(event);
    }
    let remark = match event.state.as_str() {
        "running" => format!("held by {}", event.holder),
        // What went wrong on the way does not matter any more.
        "completed" => String::new(),
        _ => event.error.clone(),
    };
    let row = vec![
        date::show(WallTime::from_millis(event.at_ms)).into(),
        (&event.id).into(),
        // As wide as the longest state, so that lines of different times stay in line.
        Cell::toned(format_args!("{:9}", event.state), crate::output::Tone::of_state(&event.state)),
        (&event.queue).into(),
        (&event.kind).into(),
        event.attempt.into(),
        Cell::cut(&remark),
    ];
    output.table(&[], vec![row])
}
