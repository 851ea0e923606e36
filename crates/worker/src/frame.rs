//! The ledger's values on the wire: what this worker says, and what it understands of what the server says.
//!
//! `rpc` reads and writes what both sides need; this is the worker's half. A part of a frame that cannot be read is left
//! out with a warning: the rest of the frame still counts, and leases and fences keep the left-out part safe.

use std::num::NonZeroU64;
use std::time::Duration;

use lease::ledger::{Grant, Input, ReportAnswer, Start, Transmit};
use lease::message::Generation;
use model::{Fence, Hold, Instant, Invalid, Outcome, Report, Retry, WorkerKey};
use rpc::convert;
use rpc::lease_convert;
use rpc::wire;

use crate::event::outcome_word;
use crate::healthcheck::Check;

/// A frame with these parts.
pub(crate) fn worker_frame(transmit: Transmit) -> wire::WorkerFrame {
    wire::WorkerFrame {
        hello: None,
        credits: transmit.credits,
        draining: transmit.draining,
        heartbeat: transmit.heartbeat.map(|(number, beat)| lease_convert::heartbeat_to_wire(number, &beat)),
        binds: transmit.binds.iter().map(lease_convert::change_to_wire).collect(),
        beats: transmit.beats.into_iter().map(lease_convert::hold_to_wire).collect(),
        reports: transmit.reports.into_iter().map(report).collect(),
        progress: transmit
            .notes
            .into_iter()
            .map(|(hold, note)| wire::ProgressNote {
                job: hold.job.to_string(),
                fence: hold.fence.get(),
                note: Some(note),
                checkpoint: None,
            })
            .collect(),
        // The stream says whose it is.
        leave: transmit
            .leave
            .map(|leave| wire::Leave { all_stopped: leave.all_stopped, crashed: leave.crashed }),
        worker_set: transmit.worker_set.map(lease_convert::set_to_wire),
        // The ledger knows nothing of healthchecks.
        checked: 0,
    }
}

/// What an assignment grants, to us under this key as a rule; `kind_timeout` is how often handlers of its kind must say that they
/// get on.
pub(crate) fn grant(
    assignment: &wire::Assignment,
    key: &WorkerKey,
    kind_timeout: Option<Duration>,
) -> Option<Grant> {
    readable("assignment", || {
        let is_ours = assignment.worker == key.as_str();
        let span = |ms: Option<i64>, what| ms.map(|ms| convert::span(ms, what)).transpose();
        let job_timeout = span(assignment.heartbeat_timeout_ms, "heartbeat_timeout_ms")?;
        Ok(Grant {
            hold: convert::hold(&assignment.job, assignment.fence)?,
            lease: convert::span(assignment.lease_ms, "lease_ms")?,
            timeout: span(assignment.timeout_ms, "timeout_ms")?,
            heartbeat_timeout: [job_timeout, kind_timeout].into_iter().flatten().min(),
            exclusive: assignment.exclusive,
            at_once: assignment.at_once,
            start: Start {
                generation: Generation(assignment.generation),
                key: if is_ours { key.clone() } else { convert::worker(&assignment.worker)? },
                number: assignment.start,
            },
        })
    })
}

/// The answer to a heartbeat.
pub(crate) fn heartbeat_answer(answer: &wire::HeartbeatAnswer) -> Option<Input> {
    readable("heartbeat answer", || {
        let (number, answer) = lease_convert::answer_from_wire(answer)?;
        Ok(Input::HeartbeatAnswered { number, answer })
    })
}

/// Early binds that stand.
pub(crate) fn bound(holds: &[wire::Hold]) -> Option<Input> {
    if holds.is_empty() {
        return None;
    }
    readable("bound", || Ok(Input::Bound(convert::holds(holds)?)))
}

/// Results that need not be kept any longer.
pub(crate) fn forget(holds: &[wire::Hold]) -> Option<Input> {
    if holds.is_empty() {
        return None;
    }
    readable("forget", || Ok(Input::Forget(convert::holds(holds)?)))
}

/// The present set of workers, told outside an answer to a heartbeat.
pub(crate) fn told(set: &wire::WorkerSet) -> Input {
    Input::Told(lease_convert::set_from_wire(set))
}

/// The healthcheck that a frame which came in now asks for, if any.
pub(crate) fn check(frame: &wire::ServerFrame, now: Instant) -> Option<Check> {
    let number = NonZeroU64::new(frame.check)?.get();
    readable("healthcheck", || {
        let lease = convert::span(frame.check_lease_ms, "check_lease_ms")?;
        Ok(Check { number, asked_at: now, lease })
    })
}

/// The answer to a report.
pub(crate) fn report_answer(answer: &wire::ReportAnswer) -> Option<Input> {
    readable("report answer", || {
        let hold = convert::hold(&answer.job, answer.fence)?;
        let answer = match answer.answer.as_str() {
            "done" | "already_done" => ReportAnswer::Done,
            "stale" => ReportAnswer::Refused { current: Fence::new(answer.current_fence) },
            // Whatever a newer server may say, it has dealt with the report: sending it again would not help.
            _ => ReportAnswer::Refused { current: Fence::NONE },
        };
        Ok(Input::ReportAnswered { hold, answer })
    })
}

/// An order to stop.
pub(crate) fn stop(stop: &wire::Stop) -> Option<Input> {
    readable("stop", || Ok(Input::Stopped(lease_convert::stop_from_wire(stop)?)))
}

fn report(report: Report) -> wire::Report {
    let Hold { job, fence } = report.hold;
    let outcome = outcome_word(&report.outcome).to_owned();
    let base = wire::Report { job: job.to_string(), fence: fence.get(), outcome, ..wire::Report::default() };
    match report.outcome {
        Outcome::Completed { result } => wire::Report { result, ..base },
        Outcome::HandedBack => base,
        Outcome::Failed { error, retry: Retry::After(delay) } => {
            wire::Report { error, retry_after_ms: Some(convert::millis(delay)), ..base }
        }
        Outcome::Failed { error, retry: Retry::ByPolicy | Retry::Never } => wire::Report { error, ..base },
    }
}

fn readable<T>(what: &'static str, read: impl FnOnce() -> Result<T, Invalid>) -> Option<T> {
    read().inspect_err(|error| tracing::warn!(what, %error, "the server sent something unreadable")).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The ledger refuses what is meant for the key before: it must hear whose it is.
    #[test]
    fn a_grant_says_whom_it_is_for() {
        let keys = ["w1", "w2"].map(|key| WorkerKey::new(key).unwrap());
        for key in &keys {
            let assignment = wire::Assignment {
                job: "01890a5d-ac96-774b-bcce-b302099a8057".into(),
                worker: key.to_string(),
                ..wire::Assignment::default()
            };
            let grant = grant(&assignment, &keys[0], None).expect("readable");
            assert_eq!(grant.start.key, *key);
        }
    }
}
