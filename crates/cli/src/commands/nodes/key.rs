//! `tenure nodes key`: a new key for a cluster.

use gossip_udp::Key;
use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  (umask 077; tenure nodes key > cluster.key)
  tenure serve --node-id 1 --cluster-key-file cluster.key

To change keys without a restart, on all nodes before the next step: append the new key to the
file; move it to the first line; remove the old one. A running server reads its file again within
a few seconds, or at once on SIGHUP.";

/// Make a key that seals what nodes say to each other
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {}

#[derive(Serialize)]
struct Made {
    key: String,
}

pub(crate) fn run(_: &Args, output: &Output) -> anyhow::Result<Exit> {
    let key = Key::generate().to_hex();
    if output.is_json() {
        output.json(&Made { key })?;
    } else {
        output.line(key)?;
    }
    Ok(Exit::Done)
}
