//! `tenure muster status`: once, again and again, or until the volatile queues are open.

use std::time::Duration;

use model::ErrorKind;
use rpc::wire;
use tokio::time::{Instant, sleep};
use worker::{Client, ClientError};

use super::report;
use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::signals::Signals;

/// How often --watch looks.
const LOOK: Duration = Duration::from_secs(1);
/// How often --wait looks.
const ASK: Duration = Duration::from_millis(100);
/// A server that was reached once may be away this long (a restart, say) before waiting without a limit fails.
const AWAY_MAX: Duration = Duration::from_secs(60);

const EXAMPLES: &str = "\
Examples:
  tenure muster status
  tenure muster status --json | jq -r '.workers[] | select(.health != \"healthy\") | .why'
  tenure muster status --watch
  tenure muster status --wait --timeout 30s && ./submit-everything

A server that has just started does not know what runs. Its volatile queues start nothing until
every worker that may run something has reported: all that agreed on one set of workers before
(about one heartbeat), or whoever comes within the safe wait, the longest lease and a second.

Health: new (what it runs is not known yet), unhealthy (held back, or not heard of in time), healthy
(may be given volatile jobs), must_die (renewed no more). SET is the version of the set that the
worker echoed last, NEEDS the one that it cannot do without.

Exit codes: 0 done, 1 with --wait: not open in time, 2 usage, 3 cannot reach the server.";

/// Why volatile queues still wait, and who may run their jobs
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// Look again every second; ends with Ctrl-C
    #[arg(long, conflicts_with = "wait")]
    watch: bool,
    /// Return when the volatile queues are open
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, requires = "wait")]
    timeout: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    if args.watch {
        let mut signals = Signals::catch()?;
        tokio::select! {
            result = watch(&client, output) => result?,
            () = signals.next() => {}
        }
        return Ok(Exit::Done);
    }
    let status =
        if args.wait { opened(&client, output, args.timeout).await? } else { client.muster_status().await? };
    report::print(output, &status)?;
    Ok(Exit::Done)
}

/// On a terminal always the present; elsewhere whatever changes.
async fn watch(client: &Client, output: &Output) -> anyhow::Result<()> {
    let mut away = Away::default();
    let mut last = None;
    loop {
        match client.muster_status().await {
            Ok(status) => {
                away.is_back();
                let lasting = report::without_times(status.clone());
                if output.is_redrawn() || last.as_ref() != Some(&lasting) {
                    output.clear()?;
                    report::print(output, &status)?;
                    last = Some(lasting);
                }
            }
            Err(error) => away.bear(output, error, None)?,
        }
        sleep(LOOK).await;
    }
}

/// Waits until the queues are open.
async fn opened(
    client: &Client,
    output: &Output,
    limit: Option<Duration>,
) -> anyhow::Result<wire::MusterStatus> {
    let deadline = limit.map(|limit| Instant::now() + limit);
    let mut away = Away::default();
    let mut why = None;
    loop {
        match client.muster_status().await {
            Ok(status) if !status.waiting => return Ok(status),
            Ok(status) => {
                away.is_back();
                if why.is_none() {
                    output.note(report::headline(&status));
                }
                why = Some(status.reasons);
            }
            Err(error) => away.bear(output, error, deadline)?,
        }
        if deadline.is_some_and(|deadline| Instant::now() > deadline) {
            let why = why.filter(|why| !why.is_empty()).map(|why| format!(": {}", why.join("; ")));
            return Err(Failure::failed(format!(
                "the volatile queues are not open yet{}",
                why.unwrap_or_default()
            ))
            .into());
        }
        sleep(ASK).await;
    }
}

/// A server that was reached once may be away for a while; someone who mistyped the address should hear of it at once.
#[derive(Default)]
struct Away {
    was_reached: bool,
    until: Option<Instant>,
}

impl Away {
    fn is_back(&mut self) {
        self.was_reached = true;
        self.until = None;
    }

    fn bear(&mut self, output: &Output, error: ClientError, deadline: Option<Instant>) -> anyhow::Result<()> {
        let may_pass = match &error {
            ClientError::Unreachable { .. } => true,
            ClientError::Api(api) => api.kind == ErrorKind::Unavailable,
        };
        if !may_pass || !self.was_reached {
            return Err(error.into());
        }
        let until = *self.until.get_or_insert_with(|| {
            output.note("lost the server; waiting for it to come back");
            deadline.unwrap_or_else(|| Instant::now() + AWAY_MAX)
        });
        if Instant::now() > until { Err(error.into()) } else { Ok(()) }
    }
}
