//! `tenure jobs cancel`.

use model::JobId;
use rpc::wire;

use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::{Cell, Output};

const EXAMPLES: &str = "\
Examples:
  tenure jobs cancel 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f
  tenure jobs list --queue mail --state available --all --json | jq -r .id |
    xargs tenure jobs cancel

A waiting job is cancelled at once; the holder of a running one is told to stop, and the job
ends when it has.

Exit codes: 0 all are cancelled or told to stop, 3 cannot reach the server, 4 one does not
exist, 5 one had ended.";

/// Call jobs off
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The jobs
    #[arg(value_name = "ID", required = true)]
    ids: Vec<JobId>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let ids = args.ids.iter().map(ToString::to_string).collect();
    let answers = client.cancel(wire::CancelRequest { ids }).await?.jobs;
    if output.is_json() {
        output.json_lines(&answers)?;
    } else {
        output
            .table(&[], answers.iter().map(|answer| vec![(&answer.id).into(), in_words(answer)]).collect())?;
    }
    Ok(exit_of(answers.iter().map(|answer| answer.answer.as_str())))
}

fn in_words(answer: &wire::CancelAnswer) -> Cell {
    match answer.answer.as_str() {
        "cancelled" => "cancelled".into(),
        "asked" => "running; its holder is told to stop".into(),
        "ended" => format!("not cancelled: it is {} already", answer.state).into(),
        "unknown" => "there is no such job".into(),
        other => other.into(),
    }
}

fn exit_of<'a>(answers: impl Iterator<Item = &'a str> + Clone) -> Exit {
    if answers.clone().any(|answer| answer == "unknown") {
        return Exit::NotFound;
    }
    if answers.clone().any(|answer| answer == "ended") { Exit::Refused } else { Exit::Done }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_answer_decides_the_exit_code() {
        assert_eq!(exit_of(["cancelled", "asked"].into_iter()), Exit::Done);
        assert_eq!(exit_of(["cancelled", "ended"].into_iter()), Exit::Refused);
        assert_eq!(exit_of(["ended", "unknown"].into_iter()), Exit::NotFound);
    }
}
