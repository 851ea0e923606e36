//! The `tenure` binary: reads the command line, runs one command, turns its end into an exit code.

mod bench;
mod commands;
mod config;
mod connect;
mod date;
mod demo;
mod duration;
mod exit;
mod fleet;
mod logging;
mod output;
mod signals;
mod storage;
mod wait;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Cli;
use crate::exit::Exit;
use crate::output::Output;

fn main() -> ExitCode {
    let cli = Cli::parse();
    let output = Output::new(cli.output);
    let exit = cli.command.run(&output).unwrap_or_else(|error| {
        if exit::is_closed_pipe(&error) {
            return Exit::Done;
        }
        output.error(format!("{error:#}"));
        Exit::of(&error)
    });
    exit.into()
}
