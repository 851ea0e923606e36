//! `tenure enqueue`: one job, many copies of it, or a file of jobs.

mod batch;
mod payload;
mod source;
mod watched;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use model::{JobId, Kind, Limits, QueueName, RequestId, RetryPolicy, UniqueKey, WallTime};
use rpc::{convert, wire};
use worker::Client;

use self::batch::{Batches, Tally};
use self::source::Source;
use self::watched::Watched;
use crate::connect::ServerArgs;
use crate::exit::{Exit, Failure};
use crate::output::Output;
use crate::{date, duration};

const EXAMPLES: &str = "\
Examples:
  tenure enqueue mail '{\"to\":\"ada@example.com\"}'
  tenure enqueue mail 'hello' --wait
  tenure enqueue reports --delay 10m --kind monthly --max-attempts 3 --retry fixed:60000
  tenure enqueue mail --file jobs.jsonl --request-id import-7
  seq 1000 | tenure enqueue numbers --file - --raw
  tenure enqueue load '{}' --count 100000
  tenure enqueue thumbnails photo.jpg --wait

A line of --file is a job as POST /v1/jobs takes it, such as
{\"queue\":\"mail\",\"payload\":{\"to\":\"ada\"}}; what a line does not say is taken from the
flags. Bytes go into \"payload_base64\". With --raw a line is a payload.

A run with --request-id can be repeated for 24 hours: what was enqueued before is not enqueued
again.

A job of a volatile queue is forgotten with its server unless somebody remembers it: with --wait
this command does, and submits it again, under the same id, to a server that was started anew.

Exit codes: 0 done, 1 with --wait: a job died, was cancelled or did not end in time, 2 usage, 3
cannot reach the server, 5 refused.";

/// Add jobs to a queue
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// The queue; it exists from its first job
    #[arg(required_unless_present = "file", value_parser = checked(QueueName::new))]
    queue: Option<String>,
    /// What the job is about: JSON, text or any bytes, and each stays that; `-` reads stdin
    #[arg(conflicts_with = "file", allow_hyphen_values = true)]
    payload: Option<String>,
    /// What sort of work it is [default: default]
    #[arg(long, value_parser = checked(Kind::new))]
    kind: Option<String>,
    /// Media type of the payload [default: application/json if it is JSON, text/plain if it is text,
    /// else application/octet-stream]
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
            Source::copies(wire::NewJob { payload, ..template }, args.count.unwrap_or(1))
        }
    };
    let is_single = args.file.is_none() && args.count.is_none();
    let mut batches = Batches::new(&client, output, args.request_id.clone(), source.total());
    let mut watched = None;
    if args.wait {
        batches.keep_ids();
        // Whoever chooses the ids himself, or makes the run repeatable, keeps track himself.
        let is_kept = args.id.is_none() && args.request_id.is_none();
        watched = Some(Watched::new(&client, output, is_kept).await?);
    }
    let prints_ids = !args.wait && (is_single || output.is_json());
    let mut answered =
        |answers: &[wire::Enqueued]| if prints_ids { print_answers(output, answers) } else { Ok(()) };
    let mut send_all = async || {
        while let Some(job) = source.next()? {
            match &mut watched {
                Some(watched) if watched.keeps(&job) => watched.submit(job).await?,
                _ => batches.push(job, &mut answered).await?,
            }
        }
        batches.send(&mut answered).await
    };
    let result = send_all().await;
    let tally = batches.finish();
    if let Err(error) = result {
        let is_plain = is_single || tally.accepted() == 0;
        return Err(if is_plain { error } else { error.context(tally.so_far()) });
    }
    tell(&client, output, &tally, is_single).await;
    if let Some(watched) = watched {
        return watched.wait(&tally.ids, args.wait_timeout, is_single).await;
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
async fn tell(client: &Client, output: &Output, tally: &Tally, is_single: bool) {
    if is_single && tally.repeated > 0 {
        output.note("this request id was used before; nothing new was enqueued");
    } else if is_single && tally.duplicates > 0 {
        output.note("a job with this id or unique key is already there; nothing new was enqueued");
    }
    tell_unserved(client, output, &tally.unserved).await;
}

/// Says whom these queues wait for. A worker may be there and still not be given their jobs.
async fn tell_unserved(client: &Client, output: &Output, queues: &BTreeSet<String>) {
    if queues.is_empty() || output.is_quiet() {
        return;
    }
    // The jobs are enqueued, so whatever goes wrong now is not worth an error.
    let known = client.queues().await.map(|answer| answer.queues).unwrap_or_default();
    for queue in queues {
        let start = format!("start one with `tenure worker --queue {queue} -- CMD`");
        let known = known.iter().find(|known| known.name == *queue);
        output.note(match known.filter(|known| known.exclusive || known.volatile) {
            Some(known) => format!(
                "no connected worker can be given jobs of queue {queue}, which is {}: it takes one that can stop them \
                 for certain; {start}",
                if known.volatile { "volatile" } else { "exclusive" }
            ),
            None => format!("no connected worker serves queue {queue}; {start}"),
        });
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
