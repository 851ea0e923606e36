//! The ledger's values on the wire: what this worker says, and what it understands of what the server says.
//!
//! `rpc::convert` reads what both sides need; this is the worker's half. A part of a frame that cannot be read is left
//! out with a warning: the rest of the frame still counts, and leases and fences keep the left-out part safe.

use model::{Fence, Hold, Invalid, Outcome, Report, Retry};
use rpc::convert;
use rpc::wire;

use crate::event::outcome_word;
use crate::ledger::{Answer, Grant, Input, Transmit};

/// A frame with these parts.
pub(crate) fn worker_frame(transmit: Transmit) -> wire::WorkerFrame {
    wire::WorkerFrame {
        hello: None,
        credits: transmit.credits,
        draining: transmit.draining,
        beat: transmit
            .beat
            .map(|(number, holds)| wire::Beat { number, holds: holds.into_iter().map(hold).collect() }),
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
        leave: transmit.leave.map(|all_stopped| wire::Leave { all_stopped }),
    }
}

/// What an assignment grants.
pub(crate) fn grant(assignment: &wire::Assignment) -> Option<Grant> {
    readable("assignment", || {
        Ok(Grant {
            hold: convert::hold(&assignment.job, assignment.fence)?,
            lease: convert::span(assignment.lease_ms, "lease_ms")?,
            timeout: assignment.timeout_ms.map(|ms| convert::span(ms, "timeout_ms")).transpose()?,
        })
    })
}

/// The answer to a beat.
pub(crate) fn beat_answer(answer: &wire::BeatAnswer) -> Input {
    let renewals = answer.renewals.iter().filter_map(|renewal| {
        readable("renewal", || {
            let hold = convert::hold(&renewal.job, renewal.fence)?;
            Ok((hold, convert::span(renewal.lease_ms, "lease_ms")?))
        })
    });
    Input::BeatAnswered { number: answer.number, renewals: renewals.collect() }
}

/// The answer to a report.
pub(crate) fn report_answer(answer: &wire::ReportAnswer) -> Option<Input> {
    readable("report answer", || {
        let hold = convert::hold(&answer.job, answer.fence)?;
        let answer = match answer.answer.as_str() {
            "done" | "already_done" => Answer::Done,
            "stale" => Answer::Refused { current: Fence::new(answer.current_fence) },
            // Whatever a newer server may say, it has dealt with the report: sending it again would not help.
            _ => Answer::Refused { current: Fence::NONE },
        };
        Ok(Input::ReportAnswered { hold, answer })
    })
}

/// An order to stop.
pub(crate) fn stop(stop: &wire::Stop) -> Option<Input> {
    readable("stop", || {
        let hold = convert::hold(&stop.job, stop.fence)?;
        match stop.reason.as_str() {
            "cancelled" => Ok(Input::CancelOrdered(hold)),
            "lost" => Ok(Input::Lost(hold)),
            other => Err(Invalid::new(format!("reason {other:?} is not known to this worker"))),
        }
    })
}

fn hold(hold: Hold) -> wire::Hold {
    wire::Hold { job: hold.job.to_string(), fence: hold.fence.get() }
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
