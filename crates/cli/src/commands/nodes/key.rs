//! `tenure nodes key`: a new key for a cluster.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use gossip_udp::Key;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure nodes key --out cluster.key
  tenure serve --node-id 1 --cluster-key-file cluster.key

A key file that other users can open is refused; --out makes one that they cannot.

To change keys without a restart, on all nodes before the next step: append the new key to the
file; move it to the first line; remove the old one. A running server reads its file again within
a few seconds, or at once on SIGHUP.";

/// Make a key that seals what nodes say to each other
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Write the key to a new file that only its owner can open, instead of printing it
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

#[derive(Serialize)]
struct Made {
    key: String,
}

#[derive(Serialize)]
struct Written<'a> {
    file: &'a Path,
}

pub(crate) fn run(args: &Args, output: &Output) -> anyhow::Result<Exit> {
    let key = Key::generate().to_hex();
    if let Some(path) = &args.out {
        write(path, &key).map_err(|error| cannot_write(path, &error))?;
        if output.is_json() {
            output.json(&Written { file: path })?;
        } else {
            output.note(format_args!("a new key is in {}", path.display()));
        }
    } else if output.is_json() {
        output.json(&Made { key })?;
    } else {
        output.line(key)?;
    }
    Ok(Exit::Done)
}

/// Never over a file that is there: it may hold the key of a running cluster.
fn write(path: &Path, key: &str) -> io::Result<()> {
    let mut file = File::options().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(format!("{key}\n").as_bytes())?;
    file.sync_all()
}

fn cannot_write(path: &Path, error: &io::Error) -> Failure {
    let path = path.display();
    Failure::failed(match error.kind() {
        io::ErrorKind::AlreadyExists => {
            format!("{path} is there already and stays as it is; choose another file, or remove it first")
        }
        _ => format!("cannot write a key to {path}: {error}"),
    })
}
