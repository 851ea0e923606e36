//! The command line: one file for each command.

mod completions;
mod doctor;
mod enqueue;
mod jobs;
mod migrate;
mod muster;
mod nodes;
mod queues;
mod serve;
mod servers;
mod sim;
mod version;
mod worker;
mod workers;

use clap::{Parser, Subcommand};

use crate::exit::Exit;
use crate::output::{Output, OutputArgs};
use crate::{bench, demo};

const ABOUT: &str = "Runs jobs on machines that fail, and always knows who holds each piece of work";

const EXAMPLES: &str = "\
Examples:
  tenure serve
  tenure worker --queue hello -- cat
  tenure enqueue hello '{\"name\":\"you\"}' --wait
  tenure jobs list --state dead

`tenure COMMAND --help` has more.

Exit codes: 0 done, 1 a promise or check failed, 2 usage, 3 cannot reach the server, 4 not
found, 5 refused.";

/// The whole command line.
#[derive(Debug, Parser)]
#[command(name = "tenure", version, about = ABOUT, after_help = EXAMPLES, max_term_width = 100)]
#[command(disable_help_subcommand = true)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) output: OutputArgs,
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What can be done.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    Serve(Box<serve::Args>),
    Worker(worker::Args),
    Enqueue(enqueue::Args),
    Jobs(jobs::Args),
    Queues(queues::Args),
    Workers(workers::Args),
    Servers(servers::Args),
    Nodes(nodes::Args),
    Muster(muster::Args),
    Migrate(migrate::Args),
    Doctor(doctor::Args),
    Bench(bench::Args),
    Sim(sim::Args),
    Demo(demo::Args),
    Completions(completions::Args),
    Version(version::Args),
    #[command(hide = true)]
    BenchWorker(bench::NoopArgs),
    #[command(hide = true)]
    DemoWorker(demo::worker::Args),
}

impl Command {
    /// Runs the command to its end.
    pub(crate) fn run(self, output: &Output) -> anyhow::Result<Exit> {
        match self {
            Command::Serve(args) => long_running(serve::run(*args, output)),
            Command::Worker(args) => worker::run(args, output),
            Command::Enqueue(args) => brief(enqueue::run(args, output)),
            Command::Jobs(args) => brief(jobs::run(args, output)),
            Command::Queues(args) => brief(queues::run(args, output)),
            Command::Workers(args) => brief(workers::run(args, output)),
            Command::Servers(args) => brief(servers::run(args, output)),
            Command::Nodes(args) => brief(nodes::run(args, output)),
            Command::Muster(args) => brief(muster::run(args, output)),
            Command::Migrate(args) => brief(migrate::run(args, output)),
            Command::Doctor(args) => brief(doctor::run(args, output)),
            Command::Bench(args) => brief(bench::run(args, output)),
            Command::Sim(args) => sim::run(&args, output),
            Command::Demo(args) => long_running(demo::run(args, output)),
            Command::Completions(args) => completions::run(&args, output),
            Command::Version(args) => version::run(&args, output),
            Command::BenchWorker(args) => bench::run_noop(args),
            Command::DemoWorker(args) => demo::worker::run(args),
        }
    }
}

/// For commands that serve many at once.
pub(crate) fn long_running(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_multi_thread().enable_all().build()?.block_on(command)
}

/// For commands that make a few calls, or wait most of the time: one thread, started in no time, and never woken by another one.
pub(crate) fn brief(command: impl Future<Output = anyhow::Result<Exit>>) -> anyhow::Result<Exit> {
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(command)
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    /// A longer line of it would be broken after a word or two.
    #[test]
    fn what_follows_the_options_in_help_fits_its_width() {
        fn check(command: &clap::Command) {
            let text = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let wide: Vec<&str> = text.lines().filter(|line| line.chars().count() > 100).collect();
            assert!(wide.is_empty(), "{}: {wide:?}", command.get_name());
            command.get_subcommands().for_each(check);
        }
        check(&Cli::command());
    }
}
