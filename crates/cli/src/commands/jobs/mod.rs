//! `tenure jobs`: look at jobs, wait for them, call them off, offer them again.

mod cancel;
mod list;
mod retry;
mod show;
mod stats;
mod tail;
mod wait;

use clap::Subcommand;
use clap::builder::PossibleValuesParser;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure jobs list --queue mail --state dead
  tenure jobs show 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f
  tenure jobs tail
  tenure jobs retry --queue mail
  tenure jobs stats";

/// Every state a job is shown in.
const STATES: [&str; 7] =
    ["scheduled", "available", "running", "retryable", "completed", "cancelled", "dead"];

/// Look at jobs, wait for them, cancel or retry them
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
    Wait(wait::Args),
    Tail(tail::Args),
    Cancel(cancel::Args),
    Retry(retry::Args),
    Stats(stats::Args),
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    match args.command {
        Command::List(args) => list::run(args, output).await,
        Command::Show(args) => show::run(args, output).await,
        Command::Wait(args) => wait::run(args, output).await,
        Command::Tail(args) => tail::run(args, output).await,
        Command::Cancel(args) => cancel::run(args, output).await,
        Command::Retry(args) => retry::run(args, output).await,
        Command::Stats(args) => stats::run(args, output).await,
    }
}

fn any_state() -> PossibleValuesParser {
    PossibleValuesParser::new(STATES)
}
