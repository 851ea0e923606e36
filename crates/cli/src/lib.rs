//! The `tenure` binary as a library, so that its tests can drive the same processes and read the same logs as `demo`
//! and `bench` do.

mod bench;
mod cluster;
mod commands;
mod config;
mod connect;
mod database;
mod date;
mod demo;
mod door;
mod duration;
pub mod effects;
mod exit;
pub mod fleet;
mod logging;
mod memory;
mod output;
mod past;
mod percentile;
mod secret_file;
mod signals;
mod size;
mod stderr;
mod storage;
mod terminal;
mod volatile;
mod wait;

use std::process::ExitCode;

use clap::Parser;

use crate::commands::Cli;
use crate::exit::Exit;
use crate::output::Output;

/// Reads the command line, runs one command, turns its end into an exit code. A guardian is this program, too.
pub fn main() -> ExitCode {
    worker::guardian::run_if_asked();
    let cli = Cli::parse();
    let output = Output::new(cli.output);
    let exit = cli.command.run(&output).unwrap_or_else(|error| {
        if exit::is_closed_pipe(&error) {
            return Exit::Done;
        }
        output.error(format!("{error:#}"));
        Exit::of(&error)
    });
    stderr::flush();
    exit.into()
}
