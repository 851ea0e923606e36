//! `tenure nodes forget` and `tenure nodes leave`.

use rpc::wire;

use super::show;
use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::Output;

const FORGET_EXAMPLES: &str = "\
Examples:
  tenure nodes forget 3
  tenure nodes forget 3 --force

For a machine that does not come back: this start of it counts as gone for good on every node,
and is not contacted any more. A node that is alive is not forgotten without --force; it would
come back by itself at once, under a higher epoch.

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 4 there is no such node, 5 it is alive.";

const LEAVE_EXAMPLES: &str = "\
Examples:
  tenure nodes leave --server http://10.0.0.5:7117

The server tells the others that it goes, and goes on serving on its own until it is started
again. To stop it, send it SIGTERM: it leaves by itself.

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 5 the server is in no cluster.";

/// Declare a node gone for good, such as a machine that was scrapped
#[derive(Debug, clap::Args)]
#[command(after_help = FORGET_EXAMPLES)]
pub(crate) struct ForgetArgs {
    /// The node's number
    #[arg(value_name = "ID")]
    id: u32,
    /// Also if it is alive
    #[arg(long)]
    force: bool,
    #[command(flatten)]
    server: ServerArgs,
}

/// Make the server that answers leave its cluster
#[derive(Debug, clap::Args)]
#[command(after_help = LEAVE_EXAMPLES)]
pub(crate) struct LeaveArgs {
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn forget(args: ForgetArgs, output: &Output) -> anyhow::Result<Exit> {
    let node =
        args.server.client()?.forget_node(wire::ForgetNodeRequest { id: args.id, force: args.force }).await?;
    show::print(output, &node)?;
    Ok(Exit::Done)
}

pub(crate) async fn leave(args: LeaveArgs, output: &Output) -> anyhow::Result<Exit> {
    let node = args.server.client()?.leave_nodes().await?;
    show::print(output, &node)?;
    Ok(Exit::Done)
}
