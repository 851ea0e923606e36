//! `tenure version`.

use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure version
  tenure version --json";

/// Print the version
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Version {
    version: &'static str,
    schema: u32,
    os: &'static str,
    arch: &'static str,
}

pub(crate) fn run(_: &Args, output: &Output) -> anyhow::Result<Exit> {
    let version = Version {
        version: env!("CARGO_PKG_VERSION"),
        schema: store_sqlite::migrations().last().map_or(0, |step| step.number),
        os: std::env::consts::OS,
        arch: std::env::consts::ARCH,
    };
    if output.is_json() {
        output.json(&version)?;
    } else {
        output.line(format_args!("tenure {}", version.version))?;
    }
    Ok(Exit::Done)
}
