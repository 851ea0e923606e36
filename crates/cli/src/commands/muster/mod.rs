//! `tenure muster`: why volatile queues wait after a start, and who may run their jobs.

mod report;
mod status;

use clap::Subcommand;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure muster status
  tenure muster status --watch
  tenure muster status --wait --timeout 30s && ./submit-everything";

/// Look at how volatile queues come back after a start
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Status(status::Args),
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    match args.command {
        Command::Status(args) => status::run(args, output).await,
    }
}
