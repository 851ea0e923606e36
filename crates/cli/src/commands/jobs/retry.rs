//! `tenure jobs retry`: dead or cancelled jobs are offered again.

use clap::builder::PossibleValuesParser;
use model::JobId;
use rpc::wire;
use serde::Serialize;

use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::{Cell, Output};

/// Jobs that servers move by one call with a filter.
const MOVED_MAX: usize = 100_000;

const EXAMPLES: &str = "\
Examples:
  tenure jobs retry 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f
  tenure jobs retry --queue mail
  tenure jobs retry --state cancelled --kind monthly

Without ids every dead job that matches is retried; --state cancelled takes the cancelled ones
instead. Attempts start over; the fence goes on.

Exit codes: 0 done, 3 cannot reach the server, 4 one does not exist, 5 one is not dead or
cancelled, or its unique key is taken by another job now.";

/// Offer dead or cancelled jobs again
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
#[command(group = clap::ArgGroup::new("which").args(["ids", "queue", "kind", "state"]).required(true).multiple(true))]
pub(crate) struct Args {
    /// The jobs
    #[arg(value_name = "ID", conflicts_with_all = ["queue", "kind", "state"])]
    ids: Vec<JobId>,
    /// All that match in this queue
    #[arg(long, value_name = "QUEUE")]
    queue: Option<String>,
    /// All that match of this kind
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// All that match in this state; several may be given [default: dead]
    #[arg(long, value_name = "STATE", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(["dead", "cancelled"]))]
    state: Vec<String>,
    #[command(flatten)]
    server: ServerArgs,
}

/// What became of the jobs of a filter.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Counts {
    again: usize,
    key_taken: usize,
    not_ended: usize,
    unknown: usize,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let by_ids = !args.ids.is_empty();
    let request = wire::RetryRequest {
        ids: args.ids.iter().map(ToString::to_string).collect(),
        queue: args.queue.unwrap_or_default(),
        kind: args.kind.unwrap_or_default(),
        states: args.state,
    };
    let answers = client.retry(request).await?.jobs;
    let counts = Counts::of(&answers);
    match (by_ids, output.is_json()) {
        (true, true) => output.json_lines(&answers)?,
        (true, false) => {
            output.table(
                &[],
                answers.iter().map(|answer| vec![(&answer.id).into(), in_words(answer)]).collect(),
            )?;
        }
        (false, true) => output.json(&counts)?,
        (false, false) => output.line(counts.in_words())?,
    }
    if !by_ids && answers.len() >= MOVED_MAX {
        output.note("there may be more; run it again for the rest");
    }
    Ok(counts.exit())
}

impl Counts {
    fn of(answers: &[wire::RetryAnswer]) -> Self {
        let count = |word: &str| answers.iter().filter(|answer| answer.answer == word).count();
        Counts {
            again: count("again"),
            key_taken: count("key_taken"),
            not_ended: count("not_ended"),
            unknown: count("unknown"),
        }
    }

    fn in_words(self) -> String {
        let refused = self.key_taken + self.not_ended;
        let jobs = if self.again == 1 { "job" } else { "jobs" };
        let mut text = format!("retried {} {jobs}", self.again);
        if refused > 0 {
            text.push_str(&format!(
                ", refused {refused} (unique key taken by another job now, or not ended)"
            ));
        }
        text
    }

    fn exit(self) -> Exit {
        if self.unknown > 0 {
            Exit::NotFound
        } else if self.key_taken + self.not_ended > 0 {
            Exit::Refused
        } else {
            Exit::Done
        }
    }
}

fn in_words(answer: &wire::RetryAnswer) -> Cell {
    match answer.answer.as_str() {
        "again" => "available again".into(),
        "key_taken" => "refused: its unique key is taken by another job now".into(),
        "not_ended" => {
            format!("refused: it is {}; only dead or cancelled jobs can be retried", answer.state).into()
        }
        "unknown" => "there is no such job".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_decide_words_and_exit_code() {
        let counts = |words: &[&str]| {
            let answers: Vec<_> = words
                .iter()
                .map(|word| wire::RetryAnswer { answer: (*word).to_owned(), ..Default::default() })
                .collect();
            Counts::of(&answers)
        };
        assert_eq!(counts(&["again"]).in_words(), "retried 1 job");
        assert_eq!(counts(&["again", "again"]).exit(), Exit::Done);
        assert!(counts(&["again", "key_taken"]).in_words().contains("retried 1 job, refused 1"));
        assert_eq!(counts(&["again", "not_ended"]).exit(), Exit::Refused);
        assert_eq!(counts(&["unknown", "not_ended"]).exit(), Exit::NotFound);
    }
}
