//! The job and its legal moves.
//!
//! ```text
//!   Scheduled ──► Available ──► Running ──► Completed
//!       ▲  ▲           │         │ │ │
//!       │  └───────────┼─failed──┘ │ └────► Dead ───redrive──► Available
//!       │              │   lost────┘
//!       └─ delayed     └── cancel ────────► Cancelled ─redrive─► Available
//! ```
//!
//! A running job always has a holder and a lease; a finished one always has the time it ended. Stores enforce the
//! same with constraints, so that the database refuses what this module refuses.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use crate::error::Invalid;
use crate::id::{Fence, JobId, Kind, QueueName, UniqueKey, WorkerKey};
use crate::limits::Limits;
use crate::outcome::Retry;
use crate::retry::RetryPolicy;
use crate::time::{LeaseTime, WallTime};

/// Where a job is in its life. The numbers are what stores keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum State {
    /// Waits for its time: delayed, or retried after a failure or loss.
    Scheduled = 0,
    /// May be claimed now.
    Available = 1,
    /// Someone holds it under a lease.
    Running = 2,
    /// Done.
    Completed = 3,
    /// Called off.
    Cancelled = 4,
    /// Given up: out of attempts, refused by its handler, or a poison pill.
    Dead = 5,
}

impl State {
    /// All states, in the order of their numbers.
    pub const ALL: [State; 6] =
        [State::Scheduled, State::Available, State::Running, State::Completed, State::Cancelled, State::Dead];

    /// The state with this number.
    pub fn from_number(number: u8) -> Option<State> {
        Self::ALL.get(usize::from(number)).copied()
    }

    /// True for the states that only a re-drive leaves.
    pub const fn is_terminal(self) -> bool {
        matches!(self, State::Completed | State::Cancelled | State::Dead)
    }

    /// The legal moves, all of them.
    pub const fn may_become(self, next: State) -> bool {
        use State::*;
        matches!(
            (self, next),
            (Scheduled, Available | Cancelled)
                | (Available, Running | Cancelled)
                | (Running, Scheduled | Available | Completed | Cancelled | Dead)
                | (Dead | Cancelled, Available)
        )
    }

    /// The stored word.
    pub const fn word(self) -> &'static str {
        match self {
            State::Scheduled => "scheduled",
            State::Available => "available",
            State::Running => "running",
            State::Completed => "completed",
            State::Cancelled => "cancelled",
            State::Dead => "dead",
        }
    }

    /// The state with this word.
    pub fn from_word(word: &str) -> Option<State> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// A job as its store keeps it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Job {
    /// Identity.
    pub id: JobId,
    /// The queue it waits in.
    pub queue: QueueName,
    /// What sort of work it is.
    pub kind: Kind,
    /// The work itself, opaque to Tenure.
    pub payload: Bytes,
    /// Media type of the payload.
    pub content_type: Cow<'static, str>,
    /// Higher first.
    pub priority: i16,
    /// Where it is in its life.
    pub state: State,
    /// Not before this time, by the wall clock.
    pub run_at: WallTime,
    /// Counted starts. For people; may be rewound. Nothing compares it for safety.
    pub attempt: u32,
    /// Counted starts before a failing job is buried.
    pub max_attempts: u32,
    /// Losses in a row, without progress.
    pub lost: u32,
    /// Losses in a row before the job counts as a poison pill.
    pub max_lost: u32,
    /// The fence of the latest claim.
    pub fence: Fence,
    /// Who holds it, while running.
    pub holder: Option<WorkerKey>,
    /// Until when the holder is believed, while running.
    pub lease_until: Option<LeaseTime>,
    /// The holder was, or will be, told to stop; whatever ends the attempt ends in cancelled.
    pub cancel_requested: bool,
    /// Its handler must say that it gets on at least this often; being held by a live worker is not enough.
    pub heartbeat_timeout: Option<Duration>,
    /// Time limit of one attempt; the worker enforces it.
    pub timeout: Option<Duration>,
    /// The producer's own retry policy for this job.
    pub retry: Option<RetryPolicy>,
    /// Exclusive among the queue's live jobs.
    pub unique_key: Option<UniqueKey>,
    /// How long the unique key stays taken.
    pub unique_scope: UniqueScope,
    /// The fence of the last report that was accepted.
    pub reported_fence: Fence,
    /// When it was enqueued.
    pub enqueued_at: WallTime,
    /// When its latest attempt was claimed.
    pub started_at: Option<WallTime>,
    /// When it reached a terminal state.
    pub finished_at: Option<WallTime>,
    /// The latest error or loss.
    pub last_error: Option<String>,
    /// The handler's latest progress note.
    pub progress: Option<Bytes>,
    /// The handler's latest checkpoint, kept across attempts.
    pub checkpoint: Option<Bytes>,
    /// What the handler returned.
    pub result: Option<Bytes>,
    /// W3C trace context of the producer.
    pub traceparent: Option<String>,
}

impl Job {
    /// The state as people know it: *retryable* is scheduled after a failure or loss.
    pub fn shown_state(&self) -> &'static str {
        match self.state {
            State::Scheduled if self.last_error.is_some() => "retryable",
            state => state.word(),
        }
    }
}

/// How long a unique key stays taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UniqueScope {
    /// While the job is not terminal.
    #[default]
    Live,
    /// Until retention removes the job.
    Retained,
}

/// When a new job may run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum When {
    /// At once.
    #[default]
    Now,
    /// This long after the store accepts it.
    After(Duration),
    /// Not before this date; a past one means at once.
    At(WallTime),
}

/// A job to be enqueued.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewJob {
    /// Identity, chosen by the client or by the server on its behalf.
    pub id: JobId,
    /// The queue, which exists from its first job.
    pub queue: QueueName,
    /// What sort of work it is.
    pub kind: Kind,
    /// The work itself.
    pub payload: Bytes,
    /// Media type of the payload.
    pub content_type: Cow<'static, str>,
    /// Higher first.
    pub priority: i16,
    /// When it may run.
    pub when: When,
    /// Overrides the queue's attempt limit.
    pub max_attempts: Option<u32>,
    /// Overrides the default loss limit.
    pub max_lost: Option<u32>,
    /// Overrides the queue's heartbeat timeout.
    pub heartbeat_timeout: Option<Duration>,
    /// Time limit of one attempt.
    pub timeout: Option<Duration>,
    /// Overrides the queue's retry policy.
    pub retry: Option<RetryPolicy>,
    /// Exclusive among the queue's live jobs.
    pub unique_key: Option<UniqueKey>,
    /// How long the unique key stays taken.
    pub unique_scope: UniqueScope,
    /// W3C trace context of the producer.
    pub traceparent: Option<String>,
}

impl NewJob {
    /// The media type assumed when the producer names none.
    pub const CONTENT_TYPE_DEFAULT: &'static str = "application/json";

    /// A job with defaults everywhere else.
    pub fn new(id: JobId, queue: QueueName, kind: Kind, payload: Bytes) -> Self {
        NewJob {
            id,
            queue,
            kind,
            payload,
            content_type: Cow::Borrowed(Self::CONTENT_TYPE_DEFAULT),
            priority: 0,
            when: When::Now,
            max_attempts: None,
            max_lost: None,
            heartbeat_timeout: None,
            timeout: None,
            retry: None,
            unique_key: None,
            unique_scope: UniqueScope::Live,
            traceparent: None,
        }
    }

    /// Refuses a job that breaks a limit.
    pub fn check(&self, limits: &Limits) -> Result<(), Invalid> {
        if self.payload.len() > limits.payload_bytes_max {
            return Err(Invalid::new(format!(
                "payload has {} bytes; at most {} are allowed (store large data elsewhere and enqueue a reference)",
                self.payload.len(),
                limits.payload_bytes_max
            )));
        }
        if self.content_type.len() > 128 {
            return Err(Invalid::new("content type has more than 128 bytes"));
        }
        if self.traceparent.as_ref().is_some_and(|trace| trace.len() > 256) {
            return Err(Invalid::new("traceparent has more than 256 bytes"));
        }
        if let When::After(delay) = self.when
            && delay > Limits::DELAY_MAX
        {
            return Err(Invalid::new(format!(
                "delay of {delay:?} is out of range; at most {:?} is allowed",
                Limits::DELAY_MAX
            )));
        }
        if let When::At(at) = self.when
            && at > Limits::RUN_AT_MAX
        {
            return Err(Invalid::new("run_at_ms is beyond the year 9999; give milliseconds since 1970"));
        }
        if let Some(timeout) = self.heartbeat_timeout {
            Limits::check_heartbeat_timeout(timeout)?;
        }
        if let Some(timeout) = self.timeout
            && (timeout.is_zero() || timeout > Limits::TIMEOUT_MAX)
        {
            return Err(Invalid::new(format!(
                "timeout of {timeout:?} is out of range; choose up to {:?}",
                Limits::TIMEOUT_MAX
            )));
        }
        if let Some(policy) = self.retry {
            policy.check()?;
        }
        for (what, number) in [("max attempts", self.max_attempts), ("max lost", self.max_lost)] {
            if number.is_some_and(|n| !(1..=Limits::ATTEMPTS_MAX).contains(&n)) {
                return Err(Invalid::new(format!(
                    "{what} is out of range; choose between 1 and {}",
                    Limits::ATTEMPTS_MAX
                )));
            }
        }
        Ok(())
    }
}

/// The error text of a job whose holder fell silent.
pub const LOST_REASON: &str = "its worker was lost";

/// Where a failed or lost job goes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Offered again at once.
    Again,
    /// Offered again after this delay.
    Later(Duration),
    /// Buried.
    Bury,
}

/// Where a job goes after its `attempt`-th counted start failed.
pub fn after_failure(
    attempt: u32,
    max_attempts: u32,
    retry: Retry,
    policy: RetryPolicy,
    fence: Fence,
) -> Ending {
    match retry {
        Retry::Never => Ending::Bury,
        _ if attempt >= max_attempts => Ending::Bury,
        Retry::After(delay) => Ending::Later(delay),
        Retry::ByPolicy => Ending::Later(policy.delay(attempt, fence)),
    }
}

/// Where a job goes after its `lost`-th loss in a row (this one included). The first comes back at once, later ones
/// with backoff; at `max_lost` the job is a poison pill.
pub fn after_loss(lost: u32, max_lost: u32, policy: RetryPolicy, fence: Fence) -> Ending {
    if lost >= max_lost {
        Ending::Bury
    } else if lost <= 1 {
        Ending::Again
    } else {
        Ending::Later(policy.delay(lost - 1, fence))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terminal_states_are_left_only_by_redrive() {
        for state in State::ALL.into_iter().filter(|state| state.is_terminal()) {
            let next: Vec<State> = State::ALL.into_iter().filter(|next| state.may_become(*next)).collect();
            let expected: &[State] = if state == State::Completed { &[] } else { &[State::Available] };
            assert_eq!(next, expected, "{state:?}");
        }
        assert!(!State::Scheduled.may_become(State::Running), "a job is promoted before it is claimed");
    }

    #[test]
    fn words_and_numbers_round_trip() {
        for state in State::ALL {
            assert_eq!(State::from_word(state.word()), Some(state));
            assert_eq!(State::from_number(state as u8), Some(state));
        }
        assert_eq!(State::from_number(6), None);
    }

    #[test]
    fn failures_retry_until_the_limit_and_never_means_never() {
        let policy = RetryPolicy::default();
        let end = |attempt, retry| after_failure(attempt, 3, retry, policy, Fence::new(7));
        assert_eq!(end(1, Retry::ByPolicy), Ending::Later(policy.delay(1, Fence::new(7))));
        assert_eq!(end(2, Retry::After(Duration::from_secs(9))), Ending::Later(Duration::from_secs(9)));
        assert_eq!(end(3, Retry::ByPolicy), Ending::Bury);
        assert_eq!(end(3, Retry::After(Duration::from_secs(9))), Ending::Bury);
        assert_eq!(end(1, Retry::Never), Ending::Bury);
    }

    #[test]
    fn losses_come_back_at_once_then_later_then_never() {
        let policy = RetryPolicy::default();
        let end = |lost| after_loss(lost, 5, policy, Fence::new(7));
        assert_eq!(end(1), Ending::Again);
        assert_eq!(end(2), Ending::Later(policy.delay(1, Fence::new(7))));
        assert_eq!(end(4), Ending::Later(policy.delay(3, Fence::new(7))));
        assert_eq!(end(5), Ending::Bury);
    }

    #[test]
    fn oversized_and_out_of_range_jobs_are_refused() {
        let limits = Limits { payload_bytes_max: 4, ..Limits::default() };
        let job = NewJob::new(
            JobId::v7(WallTime::from_millis(1), [1; 10]),
            QueueName::new("q").unwrap(),
            Kind::new("k").unwrap(),
            Bytes::from_static(b"1234"),
        );
        assert_eq!(job.check(&limits), Ok(()));
        let refused = |change: fn(&mut NewJob)| {
            let mut job = job.clone();
            change(&mut job);
            job.check(&limits).expect_err("must be refused")
        };
        assert!(refused(|job| job.payload = Bytes::from_static(b"12345")).0.contains("at most 4"));
        assert!(
            refused(|job| job.heartbeat_timeout = Some(Duration::from_millis(1)))
                .0
                .contains("heartbeat timeout")
        );
        assert!(
            refused(|job| job.heartbeat_timeout = Some(Duration::from_secs(10 * 365 * 86_400)))
                .0
                .contains("heartbeat timeout")
        );
        assert!(refused(|job| job.timeout = Some(Duration::ZERO)).0.contains("timeout"));
        assert!(refused(|job| job.max_attempts = Some(0)).0.contains("max attempts"));
        assert!(refused(|job| job.when = When::After(Duration::MAX)).0.contains("delay"));
    }
}
