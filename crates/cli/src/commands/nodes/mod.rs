//! `tenure nodes`: which servers form the cluster, who of them is alive, and making them go.

mod act;
mod key;
mod list;
mod show;
mod watch;

use clap::Subcommand;
use rpc::wire;

use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};

const EXAMPLES: &str = "\
Examples:
  tenure nodes key --out cluster.key
  tenure serve --node-id 1 --cluster-key-file cluster.key
  tenure serve --node-id 2 --cluster-key-file cluster.key --data other --listen 127.0.0.1:7217 \\
    --join 127.0.0.1:7118
  tenure nodes list
  tenure nodes watch

Every answer is what one server sees: the first of --server that can be reached.";

/// Look at the nodes of the cluster, make them leave, make keys
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    List(list::Args),
    Show(show::Args),
    Watch(watch::Args),
    Forget(act::ForgetArgs),
    Leave(act::LeaveArgs),
    Key(key::Args),
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(args) => list::run(args, output).await,
        Command::Show(args) => show::run(args, output).await,
        Command::Watch(args) => watch::run(args, output).await,
        Command::Forget(args) => act::forget(args, output).await,
        Command::Leave(args) => act::leave(args, output).await,
        Command::Key(args) => key::run(&args, output),
    }
}

/// The tone of a node's state.
fn tone(state: &str) -> Tone {
    match state {
        "alive" => Tone::Good,
        "probe_failed" | "suspected" => Tone::Mild,
        "dead" => Tone::Bad,
        "left" => Tone::Dim,
        _ => Tone::Plain,
    }
}

/// A node's state, in its tone.
fn state(node: &wire::Node) -> Cell {
    Cell::toned(&node.state, tone(&node.state))
}
