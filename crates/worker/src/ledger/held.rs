//! One job whose handler has not ended: until when it is ours, how long it may run, why it was told to stop.

use std::time::Duration;

use model::{Instant, Outcome, Retry};

use super::{Ended, Grant, StopReason};

/// The part of a lease that a fresh assignment is trusted for, in percent: the claim happened before it arrived.
const FRESH_PERCENT: u32 = 90;

#[derive(Debug)]
pub(super) struct Held {
    lease: Duration,
    hold_until: Instant,
    timeout: Option<Duration>,
    /// When to tell the handler that it ran too long; gone once it was told.
    timeout_at: Option<Instant>,
    /// When to end the task that was told so.
    abort_at: Option<Instant>,
    stop: Option<StopReason>,
}

/// What became due for a job.
pub(super) enum Due {
    Stop(StopReason),
    Abort,
}

impl Held {
    /// A job that starts `now` and arrived here not before `arrival`.
    pub(super) fn new(grant: &Grant, now: Instant, arrival: Instant) -> Self {
        Held {
            lease: grant.lease,
            hold_until: arrival + grant.lease * FRESH_PERCENT / 100,
            timeout: grant.timeout,
            timeout_at: grant.timeout.map(|timeout| now + timeout),
            abort_at: None,
            stop: None,
        }
    }

    /// The lease runs from the moment the beat was sent. A lost job stays lost.
    pub(super) fn renew(&mut self, sent_at: Instant, lease: Duration) {
        self.lease = lease;
        self.hold_until = self.hold_until.max(sent_at + lease);
    }

    /// Notes why the handler must stop; whether that is news. The first reason stays, but a loss overrides all.
    pub(super) fn stop(&mut self, reason: StopReason) -> bool {
        let is_news = match self.stop {
            None => true,
            Some(known) => reason == StopReason::Lost && known != StopReason::Lost,
        };
        if is_news {
            self.stop = Some(reason);
        }
        is_news
    }

    /// Tells what is due. A timeout counts for lost and cancelled jobs too: their handlers still take a slot.
    pub(super) fn check(&mut self, now: Instant, kill_wait: Duration, mut due: impl FnMut(Due)) {
        if self.stop.is_none() && self.is_over(now) {
            self.stop(StopReason::LeaseOver);
            due(Due::Stop(StopReason::LeaseOver));
        }
        if self.timeout_at.is_some_and(|at| at <= now) {
            self.timeout_at = None;
            self.abort_at = Some(now + kill_wait);
            if self.stop(StopReason::TimedOut) {
                due(Due::Stop(StopReason::TimedOut));
            }
        }
        if self.abort_at.is_some_and(|at| at <= now) {
            self.abort_at = None;
            due(Due::Abort);
        }
    }

    /// What to report, if anything. What a handler completed counts even when it was told to stop meanwhile; a failure
    /// after that is put down to the stop.
    pub(super) fn outcome(&self, ended: Ended, report_lost: bool) -> Option<Outcome> {
        if !self.is_live() && !report_lost {
            return None;
        }
        Some(match (ended, self.stop) {
            (Ended::Completed(result), _) => Outcome::Completed { result },
            (_, Some(StopReason::Draining | StopReason::LeaseOver)) => Outcome::HandedBack,
            (Ended::Failed { error, retry }, Some(StopReason::TimedOut)) => {
                Outcome::Failed { error: format!("{}: {error}", self.timed_out()), retry }
            }
            (Ended::Failed { error, retry }, _) => Outcome::Failed { error, retry },
            (Ended::Aborted, Some(StopReason::TimedOut)) => Outcome::Failed {
                error: format!("{}; the handler did not stop when told and was ended", self.timed_out()),
                retry: Retry::ByPolicy,
            },
            (Ended::Aborted, _) => {
                Outcome::Failed { error: "the handler's task was ended".to_owned(), retry: Retry::ByPolicy }
            }
        })
    }

    pub(super) fn lease(&self) -> Duration {
        self.lease
    }

    /// Whether it may still be ours.
    pub(super) fn is_live(&self) -> bool {
        self.stop != Some(StopReason::Lost)
    }

    /// Whether the lease that we can prove is over.
    pub(super) fn is_over(&self, now: Instant) -> bool {
        self.hold_until <= now
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let hold_until = self.stop.is_none().then_some(self.hold_until);
        [hold_until, self.timeout_at, self.abort_at].into_iter().flatten().min()
    }

    fn timed_out(&self) -> String {
        format!("timed out after {:?}", self.timeout.unwrap_or_default())
    }
}
