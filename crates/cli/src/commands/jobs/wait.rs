//! `tenure jobs wait`.

use std::time::Duration;

use model::JobId;

use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::{Exit, Failure};
use crate::output::{Cell, Output};
use crate::wait::{self, Waited};

const EXAMPLES: &str = "\
Examples:
  tenure jobs wait 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f
  tenure jobs wait --timeout 5m $(cat ids.txt) && echo all done

Exit codes: 0 all completed, 1 one died, was cancelled or did not end in time, 3 cannot reach
the server, 4 there is no such job.";

/// Wait until jobs have ended
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The jobs
    #[arg(value_name = "ID", required = true)]
    ids: Vec<JobId>,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let ids: Vec<String> = args.ids.iter().map(ToString::to_string).collect();
    let mut all_completed = true;
    let waited = wait::for_all(&client, output, &ids, args.timeout, |job| {
        all_completed &= job.state == "completed";
        if output.is_json() {
            output.json(&job)?;
        } else {
            let row = vec![(&job.id).into(), Cell::state(&job.state), Cell::cut(&job.last_error)];
            output.table(&[], vec![row])?;
        }
        Ok(())
    })
    .await?;
    match waited {
        Waited::TimedOut { left } => {
            let what = if left == 1 { "1 job has".to_owned() } else { format!("{left} jobs have") };
            Err(Failure::failed(format!("{what} not ended in time")).into())
        }
        Waited::Ended if all_completed => Ok(Exit::Done),
        Waited::Ended => Ok(Exit::Failed),
    }
}
