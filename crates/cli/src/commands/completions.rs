//! `tenure completions`: a completion script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use super::Cli;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure completions bash > ~/.local/share/bash-completion/completions/tenure
  tenure completions zsh > ~/.zfunc/_tenure
  tenure completions fish > ~/.config/fish/completions/tenure.fish";

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    // Into memory first: clap_complete panics when the reader of stdout goes away.
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "tenure", &mut script);
    output.bytes(&script)?;
    Ok(Exit::Done)
}
