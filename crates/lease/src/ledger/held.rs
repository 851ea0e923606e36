//! One job whose handler has not ended: how long it may run and be silent, why it was told to stop, what its end means.

use std::time::Duration;

use model::{Instant, Outcome, Retry};

use super::kill_clock::{Ending, KillClock};
use super::signs::Signs;
use super::{Ended, Grant, StopReason};

#[derive(Debug)]
pub(super) struct Held {
    is_exclusive: bool,
    timeout: Option<Duration>,
    heartbeat_timeout: Option<Duration>,
    /// When to tell the handler that it ran too long; gone once it was told.
    timeout_at: Option<Instant>,
    signs: Option<Signs>,
    stop: Option<StopReason>,
    ending: Ending,
}

/// What became due for a job.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// Tell the handler to stop.
    Stop(StopReason),
    /// End its task.
    Abort,
    /// End the process with it.
    Doom,
    /// Tell the server that it gets on.
    Sign,
}

impl Held {
    /// A job that was assigned; nothing counts before it has begun.
    pub(super) fn new(grant: &Grant) -> Self {
        Held {
            is_exclusive: grant.exclusive,
            timeout: grant.timeout,
            heartbeat_timeout: grant.heartbeat_timeout,
            timeout_at: None,
            signs: None,
            stop: None,
            ending: Ending::Open,
        }
    }

    /// Its handler starts now.
    pub(super) fn begin(&mut self, now: Instant) {
        self.timeout_at = self.timeout.map(|timeout| now + timeout);
        self.signs = self.heartbeat_timeout.map(|timeout| Signs::new(timeout, now));
    }

    /// Notes why the handler must stop; whether that is news. The first reason stays, but a loss overrides all. From the
    /// first one on an exclusive job has its end set, whatever its handler does; an ordinary one only if it showed that it
    /// does not end by itself.
    pub(super) fn stop(&mut self, now: Instant, reason: StopReason, clock: KillClock) -> bool {
        if self.is_exclusive || matches!(reason, StopReason::TimedOut | StopReason::Wedged) {
            self.ending.set(clock.abort_at(now, self.is_exclusive));
        }
        let is_news = match self.stop {
            None => true,
            Some(known) => reason == StopReason::Lost && known != StopReason::Lost,
        };
        if is_news {
            self.stop = Some(reason);
        }
        is_news
    }

    /// It is not ours any more, and its handler need not be told.
    pub(super) fn lose(&mut self) {
        self.stop = Some(StopReason::Lost);
    }

    /// Its task must be ended now.
    pub(super) fn abort(&mut self, now: Instant) {
        self.ending.hasten(now);
    }

    /// Takes its end back.
    pub(super) fn spare(&mut self) {
        self.ending = Ending::Open;
    }

    /// The handler's signs, if it must give any and someone is interested.
    pub(super) fn signs(&mut self) -> Option<&mut Signs> {
        if self.is_lost() { None } else { self.signs.as_mut() }
    }

    /// Tells what is due. Limits count for lost and cancelled jobs too: their handlers still take a slot.
    pub(super) fn check(&mut self, now: Instant, clock: KillClock, mut due: impl FnMut(Due)) {
        let ran_too_long = self.timeout_at.take_if(|at| *at <= now).is_some();
        let is_wedged = self.signs.as_mut().is_some_and(|signs| signs.wedge_if_silent(now));
        for (is_so, reason) in [(ran_too_long, StopReason::TimedOut), (is_wedged, StopReason::Wedged)] {
            if is_so && self.stop(now, reason, clock) {
                due(Due::Stop(reason));
            }
        }
        if self.ending.aborts(now, clock.doom_wait(self.is_exclusive)) {
            due(Due::Abort);
        }
        if self.ending.dooms(now) {
            due(Due::Doom);
        }
        if self.signs().is_some_and(|signs| signs.queue_if_due(now)) {
            due(Due::Sign);
        }
    }

    /// What to report, if anything. What a handler completed counts even when it was told to stop meanwhile; a failure
    /// after that is put down to the stop.
    pub(super) fn outcome(&self, ended: Ended, report_lost: bool) -> Option<Outcome> {
        if self.is_lost() && !report_lost {
            return None;
        }
        let failed = |error: String, retry| Outcome::Failed { error, retry };
        Some(match (ended, self.stop) {
            (Ended::Crashed, _) => return None,
            (Ended::Completed(result), _) => Outcome::Completed { result },
            (_, Some(StopReason::Draining | StopReason::LeaseOver)) => Outcome::HandedBack,
            (Ended::Failed { error, retry }, Some(StopReason::TimedOut)) => {
                failed(format!("{}: {error}", self.timed_out()), retry)
            }
            (Ended::Failed { error, .. }, Some(StopReason::Wedged)) => {
                failed(format!("{}: {error}", self.silent()), Retry::ByPolicy)
            }
            (Ended::Failed { error, retry }, _) => failed(error, retry),
            (Ended::Aborted, Some(StopReason::TimedOut)) => {
                failed(ended_by_us(self.timed_out()), Retry::ByPolicy)
            }
            (Ended::Aborted, Some(StopReason::Wedged)) => failed(ended_by_us(self.silent()), Retry::ByPolicy),
            (Ended::Aborted, _) => failed("the handler's task was ended".to_owned(), Retry::ByPolicy),
        })
    }

    pub(super) fn is_exclusive(&self) -> bool {
        self.is_exclusive
    }

    pub(super) fn is_lost(&self) -> bool {
        self.stop == Some(StopReason::Lost)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let wedge_at = self.signs.as_ref().and_then(Signs::wedge_at);
        let sign_at = self.signs.as_ref().filter(|_| !self.is_lost()).and_then(Signs::send_at);
        [self.timeout_at, self.ending.next_deadline(), wedge_at, sign_at].into_iter().flatten().min()
    }

    fn timed_out(&self) -> String {
        format!("timed out after {:?}", self.timeout.unwrap_or_default())
    }

    fn silent(&self) -> String {
        let silence = self.signs.as_ref().map(Signs::silence_max).unwrap_or_default();
        format!("no sign of progress for {silence:?}")
    }
}

fn ended_by_us(why: String) -> String {
    format!("{why}; the handler did not stop when told and was ended")
}
