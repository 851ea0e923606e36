//! `tenure queues`: what queues hold and how they are set.

use std::io;
use std::str::FromStr;
use std::time::Duration;

use clap::Subcommand;
use model::{Invalid, Limits, QueueName, RetryPolicy};
use rpc::{convert, wire};

use crate::connect::ServerArgs;
use crate::duration;
use crate::exit::Exit;
use crate::output::{Cell, Output, Tone};

const EXAMPLES: &str = "\
Examples:
  tenure queues list
  tenure queues pause mail
  tenure queues set mail --heartbeat-timeout 30s --max-attempts 3 --retry fixed:1000
  tenure queues set billing --exclusive
  tenure queues set thumbnails --volatile";

const LIST_EXAMPLES: &str = "\
Examples:
  tenure queues list
  tenure queues list --json | jq -r 'select(.paused).name'";

const PAUSE_EXAMPLES: &str = "\
Examples:
  tenure queues pause mail
  tenure queues pause mail reports

A paused queue takes jobs but offers none. What is running goes on.";

const RESUME_EXAMPLES: &str = "\
Examples:
  tenure queues resume mail";

const SET_EXAMPLES: &str = "\
Examples:
  tenure queues set mail --heartbeat-timeout 30s --max-attempts 3
  tenure queues set mail --retry exponential:1000:3600000
  tenure queues set mail --heartbeat-timeout default --max-attempts default --retry default
  tenure queues set billing --exclusive
  tenure queues set billing --exclusive=false
  tenure queues set thumbnails --volatile

`default` puts a setting back to the server's default. Jobs that bring their own settings keep
them.

In an exclusive queue two copies of a job never run at the same time, whatever dies or freezes.
Only workers that can stop a job for certain get its jobs (`tenure worker`, or an SDK worker with a
guardian, and a lease that fits). It counts for claims from now on: what runs already goes on as it
was started.

A volatile queue is exclusive, too, and nothing about its jobs is written to disk: clients remember
what they submitted, workers what they run. It belongs to one server, so PostgreSQL has none. A
queue changes between the two only while it has no live jobs.";

/// List, pause, resume and set queues
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// List queues with their counts
    #[command(after_help = LIST_EXAMPLES)]
    List {
        #[command(flatten)]
        server: ServerArgs,
    },
    /// Offer no more jobs of queues
    #[command(after_help = PAUSE_EXAMPLES)]
    Pause(Names),
    /// Offer the jobs of paused queues again
    #[command(after_help = RESUME_EXAMPLES)]
    Resume(Names),
    /// Change what applies to jobs that do not say otherwise
    #[command(after_help = SET_EXAMPLES)]
    Set(Set),
}

#[derive(Debug, clap::Args)]
struct Names {
    /// The queues
    #[arg(value_name = "NAME", required = true)]
    names: Vec<QueueName>,
    #[command(flatten)]
    server: ServerArgs,
}

#[derive(Debug, clap::Args)]
#[command(group = clap::ArgGroup::new("what").args(["heartbeat_timeout", "max_attempts", "retry", "exclusive", "volatile"]).required(true).multiple(true))]
struct Set {
    /// The queue
    name: QueueName,
    /// How often handlers must say that they get on, beyond their worker being alive
    #[arg(long, value_name = "DURATION|default", allow_hyphen_values = true)]
    heartbeat_timeout: Option<Setting<HeartbeatTimeout>>,
    /// Counted starts before a failing job is dead
    #[arg(long, value_name = "N|default", allow_hyphen_values = true)]
    max_attempts: Option<Setting<Attempts>>,
    /// How failures come back: GROWTH[:BASE_MS[:MAX_MS]], growth exponential, fixed or quadratic
    #[arg(long, value_name = "POLICY|default")]
    retry: Option<Setting<RetryPolicy>>,
    /// Never run two copies of one of its jobs at the same time
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    exclusive: Option<bool>,
    /// Keep nothing about its jobs on disk
    #[arg(long, value_name = "true|false", num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    volatile: Option<bool>,
    #[command(flatten)]
    server: ServerArgs,
}

/// A value, or back to the server's default.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Setting<T> {
    Default,
    Value(T),
}

impl<T: FromStr<Err = Invalid>> FromStr for Setting<T> {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        if text == "default" { Ok(Setting::Default) } else { text.parse().map(Setting::Value) }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct HeartbeatTimeout(Duration);

impl FromStr for HeartbeatTimeout {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        duration::parse(text).and_then(Limits::check_heartbeat_timeout).map(HeartbeatTimeout)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Attempts(u32);

impl FromStr for Attempts {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let number = text.parse().ok().filter(|number| (1..=Limits::ATTEMPTS_MAX).contains(number));
        number.map(Attempts).ok_or_else(|| {
            Invalid::new(format!("{text:?} is not a number between 1 and {}", Limits::ATTEMPTS_MAX))
        })
    }
}

pub(crate) async fn run(args: Args, output: &Output) -> anyhow::Result<Exit> {
    match args.command {
        Command::List { server } => list(&server, output).await,
        Command::Pause(names) => set_paused(names, true, output).await,
        Command::Resume(names) => set_paused(names, false, output).await,
        Command::Set(set) => {
            let queue = set.server.client()?.set_queue(set.request()).await?;
            print_one(output, &queue)?;
            if set.exclusive == Some(true) && queue.workers == Some(0) {
                output.note(
                    "no connected worker can stop its jobs for certain; start one with `tenure worker --exclusive`",
                );
            }
            if set.exclusive.is_some() && queue.running > 0 {
                output.note(format_args!(
                    "{} running now keep the rules they were started under",
                    queue.running
                ));
            }
            Ok(Exit::Done)
        }
    }
}

async fn list(server: &ServerArgs, output: &Output) -> anyhow::Result<Exit> {
    let queues = server.client()?.queues().await?.queues;
    if output.is_json() {
        output.json_lines(&queues)?;
    } else if queues.is_empty() {
        output.note("there are no queues; one exists from its first job");
    } else {
        print(output, &queues)?;
    }
    Ok(Exit::Done)
}

async fn set_paused(names: Names, paused: bool, output: &Output) -> anyhow::Result<Exit> {
    let client = names.server.client()?;
    for name in names.names {
        let request =
            wire::SetQueueRequest { name: name.to_string(), paused: Some(paused), ..Default::default() };
        let queue = client.set_queue(request).await?;
        if output.is_json() {
            output.json(&queue)?;
            continue;
        }
        let waiting = queue.available + queue.scheduled;
        let word = if paused { "paused" } else { "resumed" };
        output.line(format_args!("{name} is {word}; {waiting} waiting, {} running", queue.running))?;
        if job_count(&queue) == 0 {
            output.note(format_args!("queue {name} has no jobs; is the name right?"));
        }
    }
    Ok(Exit::Done)
}

impl Set {
    /// The change as the wire spells it: 0 and "default" stand for the server's default.
    fn request(&self) -> wire::SetQueueRequest {
        wire::SetQueueRequest {
            name: self.name.to_string(),
            paused: None,
            exclusive: self.exclusive,
            volatile: self.volatile,
            heartbeat_timeout_ms: self.heartbeat_timeout.map(|timeout| match timeout {
                Setting::Default => 0,
                Setting::Value(HeartbeatTimeout(span)) => convert::millis(span),
            }),
            max_attempts: self.max_attempts.map(|attempts| match attempts {
                Setting::Default => 0,
                Setting::Value(Attempts(number)) => number,
            }),
            retry: match self.retry {
                None => String::new(),
                Some(Setting::Default) => "default".to_owned(),
                Some(Setting::Value(policy)) => policy.to_string(),
            },
        }
    }
}

fn job_count(queue: &wire::Queue) -> u64 {
    queue.scheduled + queue.available + queue.running + queue.completed + queue.cancelled + queue.dead
}

fn print_one(output: &Output, queue: &wire::Queue) -> io::Result<()> {
    if output.is_json() {
        return output.json(queue);
    }
    let timeout = queue.heartbeat_timeout_ms.map_or("none".to_owned(), |millis| duration::show(span(millis)));
    let attempts = queue.max_attempts.map_or("default".to_owned(), |number| number.to_string());
    let retry = if queue.retry.is_empty() { "default" } else { &queue.retry };
    let nature = nature(queue).map(|word| format!("{word}, ")).unwrap_or_default();
    output.line(format_args!(
        "{}: {nature}heartbeat timeout {timeout}, max attempts {attempts}, retry {retry}",
        queue.name
    ))
}

/// The table of queues, also used by `jobs stats`.
pub(crate) fn print(output: &Output, queues: &[wire::Queue]) -> io::Result<()> {
    let header = [
        "QUEUE",
        "AVAILABLE",
        "SCHEDULED",
        "RUNNING",
        "COMPLETED",
        "CANCELLED",
        "DEAD",
        "OLDEST",
        "WORKERS",
        "NOTE",
    ];
    output.table(&header, queues.iter().map(row).collect())
}

fn row(queue: &wire::Queue) -> Vec<Cell> {
    // The sum over all queues has no workers of its own.
    let unknown = if queue.name.starts_with('(') { "" } else { "-" };
    let note = if queue.paused {
        Cell::toned("paused", Tone::Mild)
    } else if queue.workers == Some(0) && queue.available > 0 {
        Cell::toned(if queue.exclusive { "no fit worker" } else { "no worker" }, Tone::Bad)
    } else {
        nature(queue).unwrap_or_default().into()
    };
    let dead = Cell::toned(queue.dead, if queue.dead > 0 { Tone::Bad } else { Tone::Plain });
    vec![
        (&queue.name).into(),
        queue.available.into(),
        queue.scheduled.into(),
        queue.running.into(),
        queue.completed.into(),
        queue.cancelled.into(),
        dead,
        queue.oldest_ms.map(|millis| duration::show(span(millis))).unwrap_or_default().into(),
        queue.workers.map_or_else(|| unknown.into(), Cell::from),
        note,
    ]
}

/// What sets it apart. A volatile queue is always exclusive, too.
fn nature(queue: &wire::Queue) -> Option<&'static str> {
    if queue.volatile {
        Some("volatile")
    } else if queue.exclusive {
        Some("exclusive")
    } else {
        None
    }
}

fn span(millis: i64) -> Duration {
    Duration::from_millis(millis.unsigned_abs())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_are_values_or_the_default() {
        assert_eq!("default".parse::<Setting<HeartbeatTimeout>>(), Ok(Setting::Default));
        assert_eq!("30s".parse(), Ok(Setting::Value(HeartbeatTimeout(Duration::from_secs(30)))));
        assert_eq!("3".parse(), Ok(Setting::Value(Attempts(3))));
        for bad in ["0s", "-1s", "30", "400d"] {
            assert!(bad.parse::<Setting<HeartbeatTimeout>>().is_err(), "{bad}");
        }
        for bad in ["0", "-1", "x", "1001"] {
            assert!(bad.parse::<Setting<Attempts>>().is_err(), "{bad}");
        }
    }
}
