//! `tenure sim`: the machines that ship, in a world of virtual time, under faults and laws.

mod chart;
mod findings;
mod jobs;
mod muster;
mod progress;
mod replay;
mod swim;

use clap::{Args as ClapArgs, Subcommand};

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure sim jobs --seeds 1000
  tenure sim jobs --seeds 100 --first-seed 5000 --json
  tenure sim jobs --mutation renew_on_mismatch
  tenure sim swim --seeds 500
  tenure sim swim --experiment detection --nodes 128,1000 --plot detection.svg
  tenure sim muster --seeds 1000
  tenure sim muster --model 2x2
  tenure sim replay --seed 42
  tenure sim replay --world swim --seed 42

Real machines in virtual time. `jobs`: servers over one store, workers, a network. `swim`: nodes
that watch each other. `muster`: one scheduler after another that keep no record, and their workers.
Each seed chooses its own faults (crashes, pauses, lost connections, clock
drift), and the laws are checked after every event. One seed always tells the same story.

Exit codes: 0 no law was broken, 1 one was, 2 usage.";

/// Simulate the whole system under faults, and check its laws
#[derive(Debug, ClapArgs)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: World,
}

#[derive(Debug, Subcommand)]
enum World {
    /// Jobs, worker leases and rescue: lost 0, stale writes accepted 0, healthy workers reaped 0, run twice 0
    #[command(
        after_help = "Examples:\n  tenure sim jobs --seeds 1000\n  tenure sim jobs --seeds 100 --first-seed 5000 --json\n  tenure sim jobs --mutation late_ack_accepted"
    )]
    Jobs(jobs::Args),
    /// Who is in the cluster: laws under faults, and how fast, how surely and at what cost deaths are noticed
    #[command(after_help = swim::EXAMPLES)]
    Swim(swim::Args),
    /// Volatile queues over restarts of their scheduler: run twice 0, lost 0; at random, or every course of events of a few
    #[command(after_help = muster::EXAMPLES)]
    Muster(muster::Args),
    /// One seed again, told event by event
    #[command(
        after_help = "Examples:\n  tenure sim replay --seed 42\n  tenure sim replay --seed 7 --minutes 5 --mutation late_ack_accepted | tail -50\n  tenure sim replay --world swim --seed 42"
    )]
    Replay(replay::Args),
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    match &args.command {
        World::Jobs(args) => jobs::run(args, output),
        World::Swim(args) => swim::run(args, output),
        World::Muster(args) => muster::run(args, output),
        World::Replay(args) => replay::run(args, output),
    }
}
