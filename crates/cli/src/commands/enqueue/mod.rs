//! `tenure enqueue`: one job, many copies of it, or a file of jobs.

mod batch;
mod payload;
mod source;

use std::path::PathBuf;
use std::time::Duration;

use model::{JobId, Kind, Limits, QueueName, RequestId, RetryPolicy, UniqueKey, WallTime};
use rpc::{convert, wire};
use worker::Client;

use self::batch::{Batches, Tally};
use self::source::Source;
use crate::connect::ServerArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::wait::{self, Waited};
use crate::{date, duration};

const EXAMPLES: &str = "\
Examples:
  tenure enqueue mail '{\"to\":\"ada@example.com\"}'
  tenure enqueue mail 'hello' --wait
  tenure enqueue reports --delay 10m --kind monthly --max-attempts 3 --retry fixed:60000
  tenure enqueue mail --file jobs.jsonl --request-id import-7
  seq 1000 | tenure enqueue numbers --file - --raw
  tenure enqueue load '{}' --count 100000

A line of --file is a job as POST /v1/jobs takes it, such as
{\"queue\":\"mail\",\"payload\":{\"to\":\"ada\"}}; what a line does not say is taken from the
flags. With --raw a line is a payload.

A run with --request-id can be repeated for 24 hours: what was enqueued before is not enqueued
again.

Exit codes: 0 done, 1 with --wait: a job died, was cancelled or did not end in time, 2 usage, 3
cannot reach the server, 5 refused.";

/// Add jobs to a queue
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue; it exists from its first job
    #[arg(required_unless_present = "file", value_parser = checked(QueueName::new))]
    queue: Option<String>,
    /// What the job is about, best as JSON; `-` reads stdin
    #[arg(conflicts_with = "file", allow_hyphen_values = true)]
    payload: Option<String>,
    /// What sort of work it is [default: default]
    #[arg(long, value_parser = checked(Kind::new))]
    kind: Option<String>,
    /// Media type of the payload [default: application/json if it is JSON, else text/plain]
    #[arg(long, value_name = "TYPE")]
    content_type: Option<String>,
    /// Higher first, from -32768 to 32767
    #[arg(long, allow_hyphen_values = true, default_value_t = 0)]
    priority: i16,
    /// Run it this much later
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, conflicts_with = "at")]
    delay: Option<Duration>,
    /// Run it not before this date: RFC 3339 (2031-05-04T09:30:00Z) or unix milliseconds
    #[arg(long, value_name = "DATE", value_parser = date::parse, allow_hyphen_values = true)]
    at: Option<WallTime>,
    /// Counted starts before a failing job is dead
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=i64::from(Limits::ATTEMPTS_MAX)))]
    max_attempts: Option<u32>,
    /// How often its handler must say that it gets on, beyond its worker being alive
    #[arg(long, value_name = "DURATION", value_parser = heartbeat_timeout, allow_hyphen_values = true)]
    heartbeat_timeout: Option<Duration>,
    /// Time limit of one attempt
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true)]
    timeout: Option<Duration>,
    /// How failures come back: GROWTH[:BASE_MS[:MAX_MS]], growth exponential, fixed or quadratic
    #[arg(long, value_name = "POLICY")]
    retry: Option<RetryPolicy>,
    /// Refuse a second live job with this key in the queue
    #[arg(long, value_name = "KEY", value_parser = checked(UniqueKey::new))]
    unique_key: Option<String>,
    /// Keep the unique key taken until the ended job is removed
    #[arg(long, requires = "unique_key")]
    unique_retained: bool,
    /// Makes repeating this run harmless for 24 hours
    #[arg(long, value_name = "ID", value_parser = checked(RequestId::new))]
    request_id: Option<String>,
    /// The job's id, a UUID [default: chosen by the server]
    #[arg(long, value_name = "UUID", conflicts_with_all = ["file", "count"])]
    id: Option<JobId>,
    /// Read jobs from this file, one on each line; `-` is stdin
    #[arg(long, value_name = "FILE")]
    file: Option<PathBuf>,
    /// Each line of the file is a payload, not a job
    #[arg(long, requires = "queue")]
    raw: bool,
    /// Enqueue this many copies
    #[arg(long, value_name = "N", conflicts_with = "file")]
    count: Option<u64>,
    /// Wait for the end and print the result
    #[arg(long)]
    wait: bool,
    /// Wait no longer than this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse, allow_hyphen_values = true, requires = "wait")]
    wait_timeout: Option<Duration>,
    #[command(flatten)]
    server: ServerArgs,
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    if args.raw && args.file.is_none() {
        return Err(Failure::usage(
            "--raw is about the lines of a file; add --file FILE, or leave --raw out",
        )
        .into());
    }
    let client = args.server.client()?;
    let template = args.template();
    let mut source = match &args.file {
        Some(path) => Source::open(path, args.raw, template)?,
        None => {
            let payload = payload::read(args.payload.as_deref())?;
            Source::copies(payload::fill(template, payload), args.count.unwrap_or(1))
        }
    };
    let is_single = args.file.is_none() && args.count.is_none();
    let mut batches = Batches::new(&client, output, args.request_id.clone(), source.total());
    if args.wait {
        batches.keep_ids();
    }
    let prints_ids = !args.wait && (is_single || output.is_json());
    let result = batches
        .send_all(&mut source, |answers| if prints_ids { print_answers(output, answers) } else { Ok(()) })
        .await;
    let tally = batches.finish();
    if let Err(error) = result {
        let is_plain = is_single || tally.accepted() == 0;
        return Err(if is_plain { error } else { error.context(tally.so_far()) });
    }
    tell(output, &tally, is_single);
    if args.wait {
        return wait_for_end(&client, output, &tally, args.wait_timeout, is_single).await;
    }
    if !is_single && !output.is_json() {
        output.line(tally.summary())?;
    }
    Ok(Exit::Done)
}

impl Args {
    /// A job of what the flags say.
    fn template(&self) -> wire::NewJob {
        wire::NewJob {
            id: self.id.map(|id| id.to_string()).unwrap_or_default(),
            queue: self.queue.clone().unwrap_or_default(),
            kind: self.kind.clone().unwrap_or_default(),
            content_type: self.content_type.clone().unwrap_or_default(),
            priority: i32::from(self.priority),
            run_at_ms: self.at.map(WallTime::as_millis),
            delay_ms: self.delay.map(convert::millis),
            max_attempts: self.max_attempts,
            heartbeat_timeout_ms: self.heartbeat_timeout.map(convert::millis),
            timeout_ms: self.timeout.map(convert::millis),
            retry: self.retry.map(|policy| policy.to_string()).unwrap_or_default(),
            unique_key: self.unique_key.clone().unwrap_or_default(),
            unique_retained: self.unique_retained,
            ..Default::default()
        }
    }
}

fn print_answers(output: &Output, answers: &[wire::Enqueued]) -> anyhow::Result<()> {
    if output.is_json() {
        output.json_lines(answers)?;
    } else {
        let ids: String = answers.iter().map(|job| format!("{}\n", job.id)).collect();
        output.text(&ids)?;
    }
    Ok(())
}

/// Remarks that people need and programs find in the answer.
fn tell(output: &Output, tally: &Tally, is_single: bool) {
    if is_single && tally.repeated > 0 {
        output.note("this request id was used before; nothing new was enqueued");
    } else if is_single && tally.duplicates > 0 {
        output.note("a job with this id or unique key is already there; nothing new was enqueued");
    }
    for queue in &tally.unserved {
        output.note(format_args!(
            "no connected worker serves queue {queue}; start one with `tenure worker --queue {queue} -- CMD`"
        ));
    }
}

async fn wait_for_end(
    client: &Client,
    output: &Output,
    tally: &Tally,
    limit: Option<Duration>,
    is_single: bool,
) -> anyhow::Result<Exit> {
    let (mut completed, mut dead, mut cancelled) = (0, 0, 0);
    let waited = wait::for_all(client, output, &tally.ids, limit, |job| {
        match job.state.as_str() {
            "completed" => completed += 1,
            "dead" => dead += 1,
            _ => cancelled += 1,
        }
        if output.is_json() {
            output.json(&job)?;
        } else if is_single && job.state == "completed" {
            output.bytes(&payload::printable(job.result.unwrap_or_default()))?;
        } else if is_single {
            let why = if job.last_error.is_empty() { String::new() } else { format!(": {}", job.last_error) };
            output.error(format_args!("job {} is {}{why}", job.id, job.state));
        }
        Ok(())
    })
    .await?;
    if !is_single && !output.is_json() {
        output.line(format_args!("{completed} completed, {dead} dead, {cancelled} cancelled"))?;
    }
    match waited {
        Waited::TimedOut { left } => {
            let what = if left == 1 { "1 job has".to_owned() } else { format!("{left} jobs have") };
            Err(Failure::failed(format!("{what} not ended yet; look with `tenure jobs list`")).into())
        }
        Waited::Ended if dead + cancelled > 0 => Ok(Exit::Failed),
        Waited::Ended => Ok(Exit::Done),
    }
}

/// A parser that keeps the text if the model takes it, so that mistakes are found before anything is sent.
fn checked<T>(
    read: fn(&str) -> Result<T, model::Invalid>,
) -> impl Fn(&str) -> Result<String, model::Invalid> + Clone + Send + Sync + 'static
where
    T: 'static,
{
    move |text| read(text).map(|_| text.to_owned())
}

fn heartbeat_timeout(text: &str) -> Result<Duration, model::Invalid> {
    duration::parse(text).and_then(Limits::check_heartbeat_timeout)
}
