//! What a job is like for those who run it: follows from its id alone, as if it were written in its payload.

use std::time::Duration;

use bytes::Bytes;
use model::{Growth, JobId, Kind, NewJob, QueueName, RetryPolicy, When};

use super::books::number;
use super::setup::{RUN_MAX, Setup};
use crate::rng::Rng;

/// One job's ways.
#[derive(Clone, Copy, Debug)]
pub(super) struct Nature {
    /// How long its handler runs if nothing happens.
    pub(super) runs: Duration,
    /// Time limit of one attempt.
    timeout: Option<Duration>,
    pub(super) heartbeat_timeout: Option<Duration>,
    /// When it may run, after it was enqueued.
    delay: Duration,
    max_lost: u32,
    max_attempts: u32,
}

impl Nature {
    /// What this job is like.
    pub(super) fn of(id: JobId, setup: &Setup) -> Self {
        let rng = &mut Rng::stream(setup.seed, number(id), "nature");
        let (millis, secs) = (Duration::from_millis, Duration::from_secs);
        let longest = if rng.chance(0.02) { RUN_MAX } else { setup.run_max };
        Nature {
            runs: rng.span_of_any_size(millis(1), longest),
            timeout: rng.chance(0.1).then(|| rng.span(secs(1), secs(60))),
            heartbeat_timeout: rng
                .chance(setup.beat_themselves)
                .then(|| rng.span_of_any_size(secs(1), secs(15))),
            delay: if rng.chance(0.1) { rng.span(millis(1), secs(20)) } else { Duration::ZERO },
            max_lost: rng.between(3, 50) as u32,
            max_attempts: rng.between(1, 8) as u32,
        }
    }

    /// The job as it is enqueued.
    pub(super) fn job(self, id: JobId, queue: QueueName, kind: Kind) -> NewJob {
        let retry = RetryPolicy {
            growth: Growth::Exponential,
            base: Duration::from_millis(200),
            delay_max: Duration::from_secs(10),
        };
        NewJob {
            when: if self.delay.is_zero() { When::Now } else { When::After(self.delay) },
            max_attempts: Some(self.max_attempts),
            max_lost: Some(self.max_lost),
            heartbeat_timeout: self.heartbeat_timeout,
            timeout: self.timeout,
            retry: Some(retry),
            ..NewJob::new(id, queue, kind, Bytes::new())
        }
    }

    /// A handler that wedges is noticed by its worker.
    pub(super) fn is_watched(self) -> bool {
        self.timeout.is_some() || self.heartbeat_timeout.is_some()
    }
}
