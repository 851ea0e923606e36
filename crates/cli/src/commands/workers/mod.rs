//! `tenure workers`: who is alive, what it holds, and making it go.

mod act;
mod list;
mod show;

use clap::Subcommand;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure workers list
  tenure workers show build7-4711-9f3a5c2e81d04b76
  tenure workers drain build7-4711-9f3a5c2e81d04b76
  tenure workers kick build7-4711-9f3a5c2e81d04b76";

/// Every state a worker is shown in.
const STATES: [&str; 6] = ["active", "unsynced", "stopping", "inactive", "left", "pinging"];

/// Look at workers, drain or kick them
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
    /// Ask a worker to take no more work, finish what it has, and leave
    Drain(act::DrainArgs),
    /// Declare a worker inactive now: its jobs go on elsewhere, its key is never used again
    Kick(act::KickArgs),
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(args) => list::run(args, output).await,
        Command::Show(args) => show::run(args, output).await,
        Command::Drain(args) => act::drain(args, output).await,
        Command::Kick(args) => act::kick(args, output).await,
    }
}
