//! `tenure jobs show`: everything about one job, and why it waits if it does.

use model::{Clock, JobId, WallTime};
use rpc::wire;
use serde::Serialize;
use worker::Client;

use crate::connect::ServerArgs;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};
use crate::{date, duration};

/// Longest payload or result printed for people; --json has all of it.
const BODY_CHARS_MAX: usize = 2_000;

const EXAMPLES: &str = "\
Examples:
  tenure jobs show 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f
  tenure jobs show 0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f --json | jq .payload

Exit codes: 0 done, 2 usage, 3 cannot reach the server, 4 there is no such job.";

/// Show one job, and why it waits if it does
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The job
    #[arg(value_name = "ID")]
    id: JobId,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    let client = args.server.client()?;
    let job = client.get(wire::GetJobRequest { id: args.id.to_string() }).await?;
    let why = why_waiting(&job, queue_of(&client, &job).await?.as_ref(), clock::SystemClock.wall());
    if output.is_json() {
        output.json(&Shown { job: &job, waiting_because: why.as_deref() })?;
        return Ok(Exit::Done);
    }
    output.table(&[], rows(&job, why))?;
    Ok(Exit::Done)
}

/// The job as JSON, with the reason why it waits.
#[derive(Serialize)]
struct Shown<'a> {
    #[serde(flatten)]
    job: &'a wire::Job,
    waiting_because: Option<&'a str>,
}

/// The queue, which only matters while a job waits in it.
async fn queue_of(client: &Client, job: &wire::Job) -> anyhow::Result<Option<wire::Queue>> {
    if job.state != "available" {
        return Ok(None);
    }
    let queues = client.queues().await?.queues;
    Ok(queues.into_iter().find(|queue| queue.name == job.queue))
}

fn why_waiting(job: &wire::Job, queue: Option<&wire::Queue>, now: WallTime) -> Option<String> {
    let due = || {
        let at = WallTime::from_millis(job.run_at_ms);
        format!("due {} ({})", date::relative(at, now), date::show(at))
    };
    let name = &job.queue;
    match job.state.as_str() {
        "scheduled" => Some(format!("it is scheduled: {}", due())),
        "retryable" => Some(format!("its last attempt failed; the next one is {}", due())),
        "available" if queue.is_some_and(|queue| queue.paused) => {
            Some(format!("queue {name} is paused; resume it with `tenure queues resume {name}`"))
        }
        "available" if job.workers == Some(0) => Some(format!(
            "no connected worker serves queue {name}; start one with `tenure worker --queue {name} -- CMD`"
        )),
        "available" => {
            let available = queue.map_or(0, |queue| queue.available);
            Some(match job.workers {
                Some(workers) => format!(
                    "all {workers} workers of queue {name} are busy; {available} jobs are available in it"
                ),
                None => format!(
                    "no worker of queue {name} is connected to this server, only perhaps to others; {available} jobs are \
                     available in it"
                ),
            })
        }
        "running" if job.cancel_requested => {
            Some("it was cancelled; its holder has been told to stop".to_owned())
        }
        _ => None,
    }
}

fn rows(job: &wire::Job, why: Option<String>) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut add = |name: &str, value: Cell| rows.push(vec![Cell::toned(name, Tone::Dim), value]);
    let mut add_text = |name: &str, text: &str| {
        if !text.is_empty() {
            add(name, text.into());
        }
    };
    let at = |millis: i64| date::show(WallTime::from_millis(millis));
    let span = |millis: i64| duration::show(std::time::Duration::from_millis(millis.unsigned_abs()));
    add_text("id", &job.id);
    add_text("state", &job.state);
    add_text("waiting because", why.as_deref().unwrap_or_default());
    add_text("queue", &job.queue);
    add_text("kind", &job.kind);
    add_text("priority", &job.priority.to_string());
    add_text("attempt", &format!("{} of {}", job.attempt, job.max_attempts));
    if job.lost > 0 {
        add_text("lost", &format!("{} of {} in a row", job.lost, job.max_lost));
    }
    add_text("holder", &job.holder);
    if job.fence > 0 {
        add_text("fence", &job.fence.to_string());
    }
    add_text("heartbeat timeout", &job.heartbeat_timeout_ms.map(span).unwrap_or_default());
    add_text("timeout", &job.timeout_ms.map(span).unwrap_or_default());
    add_text("retry", &job.retry);
    add_text("unique key", &job.unique_key);
    add_text("enqueued", &at(job.enqueued_at_ms));
    add_text("run at", &at(job.run_at_ms));
    add_text("started", &job.started_at_ms.map(at).unwrap_or_default());
    add_text("finished", &job.finished_at_ms.map(at).unwrap_or_default());
    add_text("last error", &job.last_error);
    add_text("content type", &job.content_type);
    add_text("payload", &body(&job.payload));
    for (name, bytes) in
        [("progress", &job.progress), ("checkpoint", &job.checkpoint), ("result", &job.result)]
    {
        add_text(name, &bytes.as_deref().map(body).unwrap_or_default());
    }
    add_text("traceparent", &job.traceparent);
    rows
}

fn body(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else {
        return format!("{} bytes that are not text", bytes.len());
    };
    match text.char_indices().nth(BODY_CHARS_MAX) {
        None => text.trim_end().to_owned(),
        Some((end, _)) => format!("{}… ({} bytes; --json has all)", &text[..end], bytes.len()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn why(state: &str, workers: u32, paused: bool) -> Option<String> {
        let job = wire::Job {
            state: state.into(),
            queue: "mail".into(),
            run_at_ms: 1_080_000,
            workers: Some(workers),
            ..Default::default()
        };
        let queue = wire::Queue { name: "mail".into(), paused, available: 9, ..Default::default() };
        why_waiting(&job, Some(&queue), WallTime::from_millis(1_000_000))
    }

    #[test]
    fn a_waiting_job_says_why() {
        for (state, workers, paused, text) in [
            ("available", 3, true, "queue mail is paused; resume it with `tenure queues resume mail`"),
            ("available", 0, false, "no connected worker serves queue mail"),
            ("available", 3, false, "all 3 workers of queue mail are busy; 9 jobs are available in it"),
            ("scheduled", 0, false, "it is scheduled: due in 1m 20s (1970-01-01T00:18:00.000Z)"),
            ("retryable", 0, false, "its last attempt failed; the next one is due in 1m 20s"),
        ] {
            let why = why(state, workers, paused).expect(state);
            assert!(why.contains(text), "{why}");
        }
        assert_eq!(why("completed", 0, true), None);
    }
}
