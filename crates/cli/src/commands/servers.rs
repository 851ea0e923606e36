//! `tenure servers`: who else uses the same store.

use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::Output;

const EXAMPLES: &str = "\
Examples:
  tenure servers
  tenure servers --json | jq -r .address

A server that keeps its data to itself is alone. On PostgreSQL there may be several:
each is in charge of some workers, and another one takes them over when it has not been heard for
five seconds.

Exit codes: 0 done, 2 usage, 3 cannot reach the server.";

/// List the servers that use the same store
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let servers = args.server.client()?.servers_seen().await?.servers;
    if output.is_json() {
        output.json_lines(&servers)?;
        return Ok(Exit::Done);
    }
    let rows = servers.iter().map(|server| {
        let remark = if server.answering { "answers you" } else { "" };
        vec![
            (&server.name).into(),
            (&server.address).into(),
            server.registry.to_string().into(),
            remark.into(),
        ]
    });
    output.table(&["NAME", "ADDRESS", "REGISTRY", ""], rows.collect())?;
    Ok(Exit::Done)
}
