//! Wire ↔ model. Nothing else in the project turns one into the other.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use model::{
    Fence, Hold, Invalid, Job, JobId, Kind, Limits, NewJob, Outcome, QueueName, QueuePatch, Report, Retry,
    RetryPolicy, State, UniqueKey, UniqueScope, WallTime, When, WorkerKey,
};
use store::{Cancelled, Claimed, Finished, JobFilter, Progress, QueueStats, Redriven};

use crate::json::{self, Content, Fault};
use crate::wire;

/// The kind of a job whose producer names none.
const KIND_DEFAULT: &str = "default";

// ── from the wire ───────────────────────────────────────────────────────────────────────────────────────────────

/// A job to enqueue; `fresh_id` is used when the producer chose none.
pub fn new_job(job: wire::NewJob, fresh_id: impl FnOnce() -> JobId) -> Result<NewJob, Invalid> {
    let when = match (job.run_at_ms, job.delay_ms) {
        (Some(_), Some(_)) => return Err(Invalid::new("give either run_at_ms or delay_ms, not both")),
        (Some(at), None) => When::At(WallTime::from_millis(at)),
        (None, Some(delay)) => When::After(span(delay, "delay_ms")?),
        (None, None) => When::Now,
    };
    let content_type = content_type(job.content_type, &job.payload)?;
    Ok(NewJob {
        id: if job.id.is_empty() { fresh_id() } else { job.id.parse()? },
        queue: QueueName::new(&job.queue)?,
        kind: kind(&job.kind)?,
        payload: job.payload,
        content_type,
        priority: i16::try_from(job.priority).map_err(|_| {
            Invalid::new(format!(
                "priority {} is out of range; choose between -32768 and 32767",
                job.priority
            ))
        })?,
        when,
        max_attempts: job.max_attempts,
        max_lost: job.max_lost,
        heartbeat_timeout: job.heartbeat_timeout_ms.map(|ms| span(ms, "heartbeat_timeout_ms")).transpose()?,
        timeout: job.timeout_ms.map(|ms| span(ms, "timeout_ms")).transpose()?,
        retry: non_empty(job.retry).map(|text| text.parse::<RetryPolicy>()).transpose()?,
        unique_key: non_empty(job.unique_key).map(|key| UniqueKey::new(&key)).transpose()?,
        unique_scope: if job.unique_retained { UniqueScope::Retained } else { UniqueScope::Live },
        traceparent: non_empty(job.traceparent),
    })
}

/// The content type of a payload. One that says JSON must be true, or no client could show the job.
fn content_type(named: String, payload: &[u8]) -> Result<Cow<'static, str>, Invalid> {
    let refused = |fault| {
        Invalid::new(match fault {
            Fault::NotJson => {
                format!("payload is not JSON, as its content type {named} says; name the right one, or none")
            }
            _ => format!(
                "payload {fault}; send it as bytes: payload_base64 in JSON, over gRPC content type \
                 application/octet-stream"
            ),
        })
    };
    if named.is_empty() {
        let guessed = Content::guess(payload).map_err(refused)?;
        return Ok(Cow::Borrowed(if guessed.is_empty() { NewJob::CONTENT_TYPE_DEFAULT } else { guessed }));
    }
    if Content::of_type(&named) == Content::Json && !payload.is_empty() {
        json::scan(payload).map_err(refused)?;
    }
    Ok(Cow::Owned(named))
}

/// A kind; "default" when empty.
pub fn kind(text: &str) -> Result<Kind, Invalid> {
    Kind::new(if text.is_empty() { KIND_DEFAULT } else { text })
}

/// A claim of a job.
pub fn hold(job: &str, fence: i64) -> Result<Hold, Invalid> {
    Ok(Hold { job: job.parse()?, fence: Fence::new(fence) })
}

/// Several claims.
pub fn holds(holds: &[wire::Hold]) -> Result<Vec<Hold>, Invalid> {
    holds.iter().map(|h| hold(&h.job, h.fence)).collect()
}

/// Queue names, as a worker gives them.
pub fn queues(names: &[String]) -> Result<Vec<QueueName>, Invalid> {
    if names.is_empty() {
        return Err(Invalid::new("name at least one queue"));
    }
    if names.len() > Limits::QUEUES_PER_WORKER_MAX {
        return Err(Invalid::new(format!(
            "{} queues are too many for one worker; at most {} are allowed",
            names.len(),
            Limits::QUEUES_PER_WORKER_MAX
        )));
    }
    let mut queues = names.iter().map(|name| QueueName::new(name)).collect::<Result<Vec<_>, _>>()?;
    queues.sort();
    queues.dedup();
    Ok(queues)
}

/// How an attempt ended.
pub fn report(report: wire::Report, limits: &Limits) -> Result<Report, Invalid> {
    if report.result.len() > limits.result_bytes_max {
        return Err(Invalid::new(format!(
            "result has {} bytes; at most {} are allowed",
            report.result.len(),
            limits.result_bytes_max
        )));
    }
    let outcome = match report.outcome.as_str() {
        "completed" => Outcome::Completed { result: report.result },
        "failed" => {
            let retry = match report.retry_after_ms {
                None => Retry::ByPolicy,
                Some(ms) => Retry::After(span(ms, "retry_after_ms")?.min(Limits::DELAY_MAX)),
            };
            Outcome::Failed { error: report.error, retry }
        }
        "dead" => Outcome::Failed { error: report.error, retry: Retry::Never },
        "handed_back" => Outcome::HandedBack,
        other => {
            return Err(Invalid::new(format!(
                "outcome {other:?} is not one of completed, failed, dead, handed_back"
            )));
        }
    };
    Ok(Report { hold: hold(&report.job, report.fence)?, outcome })
}

/// A progress note.
pub fn progress(note: wire::ProgressNote, limits: &Limits) -> Result<Progress, Invalid> {
    for (what, bytes, bytes_max) in [
        ("progress note", &note.note, limits.progress_bytes_max),
        ("checkpoint", &note.checkpoint, limits.checkpoint_bytes_max),
    ] {
        if let Some(bytes) = bytes
            && bytes.len() > bytes_max
        {
            return Err(Invalid::new(format!(
                "{what} has {} bytes; at most {bytes_max} are allowed",
                bytes.len()
            )));
        }
    }
    Ok(Progress { hold: hold(&note.job, note.fence)?, note: note.note, checkpoint: note.checkpoint })
}

/// A filter over jobs. `retryable` stands for scheduled.
pub fn filter(queue: &str, kind: &str, states: &[String]) -> Result<JobFilter, Invalid> {
    let mut wanted = Vec::new();
    for word in states {
        let state = if word == "retryable" { Some(State::Scheduled) } else { State::from_word(word) };
        let state = state.ok_or_else(|| {
            Invalid::new(format!(
                "state {word:?} is not one of scheduled, available, running, retryable, completed, cancelled, dead"
            ))
        })?;
        if !wanted.contains(&state) {
            wanted.push(state);
        }
    }
    Ok(JobFilter {
        queue: optional(queue, QueueName::new)?,
        kind: optional(kind, Kind::new)?,
        states: wanted,
    })
}

/// A change of queue settings.
pub fn queue_patch(request: &wire::SetQueueRequest) -> Result<QueuePatch, Invalid> {
    let heartbeat_timeout = match request.heartbeat_timeout_ms {
        None => None,
        Some(0) => Some(None),
        Some(ms) => Some(Some(span(ms, "heartbeat_timeout_ms")?)),
    };
    let retry = match request.retry.as_str() {
        "" => None,
        "default" => Some(None),
        text => Some(Some(text.parse()?)),
    };
    let max_attempts = request.max_attempts.map(|n| (n > 0).then_some(n));
    QueuePatch {
        paused: request.paused,
        exclusive: request.exclusive,
        volatile: request.volatile,
        heartbeat_timeout,
        max_attempts,
        retry,
    }
    .check()
}

/// A span of time in milliseconds that must not be negative.
pub fn span(millis: i64, what: &str) -> Result<Duration, Invalid> {
    u64::try_from(millis)
        .map(Duration::from_millis)
        .map_err(|_| Invalid::new(format!("{what} is {millis}; it must not be negative")))
}

/// An optional text: empty means none.
pub fn optional<T>(text: &str, read: impl FnOnce(&str) -> Result<T, Invalid>) -> Result<Option<T>, Invalid> {
    if text.is_empty() { Ok(None) } else { read(text).map(Some) }
}

fn non_empty(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

// ── to the wire ─────────────────────────────────────────────────────────────────────────────────────────────────

/// Milliseconds of a span, saturating.
pub fn millis(span: Duration) -> i64 {
    i64::try_from(span.as_millis()).unwrap_or(i64::MAX)
}

/// A job as people see it.
pub fn job(job: Job) -> wire::Job {
    wire::Job {
        id: job.id.to_string(),
        state: job.shown_state().to_owned(),
        queue: job.queue.to_string(),
        kind: job.kind.to_string(),
        payload: job.payload,
        content_type: job.content_type.into_owned(),
        priority: i32::from(job.priority),
        run_at_ms: job.run_at.as_millis(),
        attempt: job.attempt,
        max_attempts: job.max_attempts,
        lost: job.lost,
        max_lost: job.max_lost,
        fence: job.fence.get(),
        holder: text(job.holder),
        cancel_requested: job.cancel_requested,
        heartbeat_timeout_ms: job.heartbeat_timeout.map(millis),
        timeout_ms: job.timeout.map(millis),
        retry: text(job.retry),
        unique_key: text(job.unique_key),
        enqueued_at_ms: job.enqueued_at.as_millis(),
        started_at_ms: job.started_at.map(WallTime::as_millis),
        finished_at_ms: job.finished_at.map(WallTime::as_millis),
        last_error: job.last_error.unwrap_or_default(),
        progress: job.progress,
        checkpoint: job.checkpoint,
        result: job.result,
        traceparent: job.traceparent.unwrap_or_default(),
        workers: None,
    }
}

/// A claimed job as its worker gets it.
pub fn assignment(claimed: Claimed) -> wire::Assignment {
    wire::Assignment {
        job: claimed.hold.job.to_string(),
        fence: claimed.hold.fence.get(),
        attempt: claimed.attempt,
        max_attempts: claimed.max_attempts,
        queue: claimed.queue.to_string(),
        kind: claimed.kind.to_string(),
        payload: claimed.payload,
        content_type: claimed.content_type.into_owned(),
        priority: i32::from(claimed.priority),
        lease_ms: millis(claimed.lease),
        timeout_ms: claimed.timeout.map(millis),
        checkpoint: claimed.checkpoint,
        traceparent: claimed.traceparent.unwrap_or_default(),
        heartbeat_timeout_ms: claimed.heartbeat_timeout.map(millis),
        // For whoever claims by a single call; a stream says for whom each start is.
        generation: 0,
        worker: String::new(),
        start: 0,
        exclusive: claimed.exclusive,
        at_once: claimed.hold.job.is_volatile(),
    }
}

/// The answer to a report.
pub fn report_answer(hold: Hold, finished: &Finished) -> wire::ReportAnswer {
    let (answer, state, current_fence) = match finished {
        Finished::Done { state, .. } => ("done", state.word(), 0),
        Finished::AlreadyDone => ("already_done", "", 0),
        Finished::Stale { current } => ("stale", "", current.get()),
        Finished::Unknown => ("unknown", "", 0),
    };
    wire::ReportAnswer {
        job: hold.job.to_string(),
        fence: hold.fence.get(),
        answer: answer.to_owned(),
        state: state.to_owned(),
        current_fence,
    }
}

/// Tells a worker to stop.
pub fn stop(hold: Hold, reason: &str) -> wire::Stop {
    wire::Stop { job: hold.job.to_string(), fence: hold.fence.get(), reason: reason.to_owned() }
}

/// The answer to a cancel.
pub fn cancel_answer(id: JobId, cancelled: &Cancelled) -> wire::CancelAnswer {
    let (answer, state) = match cancelled {
        Cancelled::Now => ("cancelled", "cancelled"),
        Cancelled::Asked { .. } => ("asked", "running"),
        Cancelled::AlreadyEnded(state) => ("ended", state.word()),
        Cancelled::Unknown => ("unknown", ""),
    };
    wire::CancelAnswer { id: id.to_string(), answer: answer.to_owned(), state: state.to_owned() }
}

/// The answer to a re-drive.
pub fn retry_answer(id: JobId, redriven: &Redriven) -> wire::RetryAnswer {
    let (answer, state) = match redriven {
        Redriven::Again(_) => ("again", "available"),
        Redriven::KeyTaken => ("key_taken", ""),
        Redriven::NotEnded(state) => ("not_ended", state.word()),
        Redriven::Unknown => ("unknown", ""),
    };
    wire::RetryAnswer { id: id.to_string(), answer: answer.to_owned(), state: state.to_owned() }
}

/// A queue at a glance.
pub fn queue(stats: QueueStats, workers: Option<u32>) -> wire::Queue {
    let [scheduled, available, running, completed, cancelled, dead] = stats.counts;
    wire::Queue {
        name: stats.queue.to_string(),
        paused: stats.settings.paused,
        heartbeat_timeout_ms: stats.settings.heartbeat_timeout.map(millis),
        max_attempts: stats.settings.max_attempts,
        retry: text(stats.settings.retry),
        scheduled,
        available,
        running,
        completed,
        cancelled,
        dead,
        oldest_ms: stats.oldest.map(millis),
        workers,
        exclusive: stats.settings.exclusive,
        volatile: stats.settings.volatile,
    }
}

/// The name of a worker, checked.
pub fn worker(text: &str) -> Result<WorkerKey, Invalid> {
    WorkerKey::new(text)
}

fn text<T: ToString>(value: Option<T>) -> String {
    value.map(|value| value.to_string()).unwrap_or_default()
}

/// Bytes for a payload written as text.
pub fn payload(text: &str) -> Bytes {
    Bytes::copy_from_slice(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use model::ClientId;

    use super::*;

    fn claimed(job: JobId) -> Claimed {
        Claimed {
            hold: Hold { job, fence: Fence::new(3) },
            queue: QueueName::new("q").unwrap(),
            kind: Kind::new("k").unwrap(),
            payload: Bytes::new(),
            content_type: Cow::Borrowed(""),
            priority: 0,
            attempt: 1,
            max_attempts: 5,
            lease: Duration::from_secs(30),
            heartbeat_timeout: None,
            timeout: None,
            checkpoint: None,
            traceparent: None,
            exclusive: true,
            waited: Duration::ZERO,
        }
    }

    #[test]
    fn only_volatile_jobs_start_at_once() {
        let at = WallTime::from_millis(1_760_000_000_000);
        let volatile = [ClientId::new(at, 7).job(1), ClientId::unattended(at, 7).job(1)];
        for id in volatile {
            let sent = assignment(claimed(id));
            assert!(sent.at_once && sent.exclusive);
            assert_eq!(hold(&sent.job, sent.fence), Ok(Hold { job: id, fence: Fence::new(3) }));
        }
        let durable = assignment(claimed(JobId::v7(at, [7; 10])));
        assert!(!durable.at_once && durable.exclusive, "others wait for their bind");
    }
}
