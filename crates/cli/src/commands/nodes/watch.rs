//! `tenure nodes watch`: who is there, and then what changes, as one server sees it.

use std::time::Duration;

use model::WallTime;
use rpc::wire;
use worker::{Client, ClientError, Events};

use super::tone;
use crate::connect::ServerArgs;
use crate::date;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};
use crate::signals::Signals;

/// Pause before watching again.
const AGAIN_PAUSE: Duration = Duration::from_secs(1);

const EXAMPLES: &str = "\
Examples:
  tenure nodes watch
  tenure nodes watch --json | jq 'select(.event == \"dead\")'
  tenure nodes watch --changes --count 1

Begins with everyone as of now (present). Ends with Ctrl-C. When the server goes away it is
watched again as soon as it, or another one of --server, is back.

Events of a node: joined, suspected, refuted, dead, left, changed, forgotten, full (not taken in).
Of the server itself: lonely, reunited, contradicted, expelled, rejoining, gone, ousted.";

/// Follow what changes in the cluster
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Only what changes, not who is there now
    #[arg(long)]
    changes: bool,
    /// End after this many lines
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let mut signals = Signals::catch()?;
    tokio::select! {
        result = follow(&args, output) => result?,
        () = signals.next() => {}
    }
    Ok(Exit::Done)
}

async fn follow(args: &Args, output: &Output) -> anyhow::Result<()> {
    let mut left = args.count.unwrap_or(u64::MAX);
    // Someone who mistyped the address should hear of it; later losses are borne.
    let client = args.server.client()?;
    let mut watch = client.watch_nodes().await?;
    output.note("following changes; Ctrl-C ends");
    while left > 0 {
        let ended = match watch.next().await {
            Ok(Some(event)) if args.changes && event.event == "present" => continue,
            Ok(Some(event)) => {
                print(output, &event)?;
                left -= 1;
                continue;
            }
            Ok(None) => "the server ended the stream".to_owned(),
            Err(error) => error.to_string(),
        };
        output.note(format_args!("{ended}; changes may have been missed"));
        watch = watch_again(&client).await?;
        output.note("following again");
    }
    Ok(())
}

async fn watch_again(client: &Client) -> Result<Events<wire::NodeEvent>, ClientError> {
    loop {
        tokio::time::sleep(AGAIN_PAUSE).await;
        match client.watch_nodes().await {
            Err(ClientError::Unreachable { .. }) => {}
            settled => return settled,
        }
    }
}

fn print(output: &Output, event: &wire::NodeEvent) -> std::io::Result<()> {
    if output.is_json() {
        return output.json(event);
    }
    let node = event.node.clone().unwrap_or_default();
    let tone = match event.event.as_str() {
        "suspected" | "lonely" | "contradicted" | "expelled" => Tone::Mild,
        "dead" | "ousted" => Tone::Bad,
        "joined" | "refuted" | "reunited" => Tone::Good,
        _ => tone(&node.state),
    };
    let row = vec![
        date::show(WallTime::from_millis(event.at_ms)).into(),
        // As wide as the longest event, so that lines of different times stay in line.
        Cell::toned(format_args!("{:12}", event.event), tone),
        format!("node {}", node.id).into(),
        format!("epoch {}", node.epoch).into(),
        format!("incarnation {}", node.incarnation).into(),
        (&node.address).into(),
        Cell::cut(&event.reason),
    ];
    output.table(&[], vec![row])
}
