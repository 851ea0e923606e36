//! `tenure workers drain` and `tenure workers kick`.

use rpc::wire;

use super::show;
use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::Output;

const DRAIN_EXAMPLES: &str = "\
Examples:
  tenure workers drain build7-4711-9f3a5c2e81d04b76

The worker learns it with its next heartbeat. It keeps beating while it finishes, hands back what
does not finish within its grace, and ends. Attempts that are handed back do not count. The order
is kept in memory: a server that is restarted before that heartbeat has forgotten it.

Exit codes: 0 asked, 2 usage, 3 cannot reach the server, 4 there is no such worker, 5 it is over.";

const KICK_EXAMPLES: &str = "\
Examples:
  tenure workers kick build7-4711-9f3a5c2e81d04b76

Its jobs are offered again at once; the losses do not count. If the worker still runs, it is told
to stop them and comes back under a new key; one that was asked to drain goes. Until it has
stopped, a job may run twice: to be gentle, use `tenure workers drain`.

A worker with jobs of exclusive queues is told to stop, and what it holds is offered again when it
says that all has stopped, or when its lease is over; until then its state is stopping.

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 4 there is no such worker, 5 it is over.";

#[derive(Debug, clap::Args)]
#[command(after_help = DRAIN_EXAMPLES)]
pub(crate) struct DrainArgs {
    /// The worker's key
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(after_help = KICK_EXAMPLES)]
pub(crate) struct KickArgs {
    /// The worker's key
    #[arg(value_name = "KEY")]
    key: String,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn drain(args: DrainArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let worker = client.drain_worker(wire::DrainWorkerRequest { key: args.key }).await?;
    show::print(output, &worker)?;
    Ok(Exit::Done)
}

pub(crate) async fn kick(args: KickArgs, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let worker = client.kick_worker(wire::KickWorkerRequest { key: args.key }).await?;
    show::print(output, &worker)?;
    Ok(Exit::Done)
}
