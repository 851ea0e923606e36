//! `tenure nodes show`: everything one server knows about one node.

use rpc::wire;

use super::list::{remarks, span};
use super::state;
use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};

const EXAMPLES: &str = "\
Examples:
  tenure nodes show 3
  tenure nodes show 3 --json | jq .state

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 4 there is no such node, 5 the
server is in no cluster.";

/// Show one node: state, epoch, incarnation, addresses
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The node's number
    #[arg(value_name = "ID")]
    id: u32,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let node = args.server.client()?.node(wire::GetNodeRequest { id: args.id }).await?;
    print(output, &node)?;
    Ok(Exit::Done)
}

/// One node, whole.
pub(super) fn print(output: &Output, node: &wire::Node) -> std::io::Result<()> {
    if output.is_json() {
        return output.json(node);
    }
    let text = |text: &str| Cell::from(text);
    let remarks = remarks(node).join(", ");
    let all = [
        ("id", node.id.into()),
        ("state", state(node)),
        ("for", span(node.state_for_ms).into()),
        ("epoch", node.epoch.into()),
        ("incarnation", node.incarnation.into()),
        ("gossip", text(&node.address)),
        ("api", text(&node.api_address)),
        ("name", text(&node.name)),
        ("version", text(&node.version)),
        ("note", text(&remarks)),
    ];
    let rows = all.into_iter().filter(|(name, _)| *name != "note" || !remarks.is_empty());
    output.table(&[], rows.map(|(name, cell)| vec![Cell::toned(name, Tone::Dim), cell]).collect())
}
