//! A queue's own settings: what applies to its jobs when the producer says nothing.

use std::time::Duration;

use crate::error::Invalid;
use crate::limits::Limits;
use crate::retry::RetryPolicy;

/// The settings of one queue. `None` means the server's default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueueSettings {
    /// A paused queue takes jobs but offers none. Durable.
    pub paused: bool,
    /// Two copies of one of its jobs never run at the same time: only workers that can stop a job for certain get them, and
    /// nobody else gets one before it has stopped.
    pub exclusive: bool,
    /// Nothing about its jobs is written to a store: clients keep what they submitted and submit it again when the server's
    /// generation changes. Exclusive, whatever `exclusive` says.
    pub volatile: bool,
    /// Handlers of its jobs must say that they get on at least this often; being held by a live worker is not enough.
    pub heartbeat_timeout: Option<Duration>,
    /// Counted starts before a failing job is buried.
    pub max_attempts: Option<u32>,
    /// How failed jobs come back.
    pub retry: Option<RetryPolicy>,
}

/// A change to some of a queue's settings. `None` leaves a setting as it is; `Some(None)` puts it back to the default.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueuePatch {
    /// Pause or resume.
    pub paused: Option<bool>,
    /// Exclusive or ordinary, for claims from now on. Those that were made before stay as they were.
    pub exclusive: Option<bool>,
    /// Volatile or durable; only while the queue has no live jobs.
    pub volatile: Option<bool>,
    /// New heartbeat timeout.
    pub heartbeat_timeout: Option<Option<Duration>>,
    /// New attempt limit.
    pub max_attempts: Option<Option<u32>>,
    /// New retry policy.
    pub retry: Option<Option<RetryPolicy>>,
}

impl QueuePatch {
    /// Refuses settings out of range.
    pub fn check(self) -> Result<Self, Invalid> {
        if let Some(Some(timeout)) = self.heartbeat_timeout {
            Limits::check_heartbeat_timeout(timeout)?;
        }
        if let Some(Some(policy)) = self.retry {
            policy.check()?;
        }
        if let Some(Some(attempts)) = self.max_attempts
            && !(1..=Limits::ATTEMPTS_MAX).contains(&attempts)
        {
            return Err(Invalid::new(format!(
                "max attempts of {attempts} is out of range; choose between 1 and {}",
                Limits::ATTEMPTS_MAX
            )));
        }
        Ok(self)
    }

    /// The settings after this change.
    pub fn apply(&self, settings: &QueueSettings) -> QueueSettings {
        QueueSettings {
            paused: self.paused.unwrap_or(settings.paused),
            exclusive: self.exclusive.unwrap_or(settings.exclusive),
            volatile: self.volatile.unwrap_or(settings.volatile),
            heartbeat_timeout: self.heartbeat_timeout.unwrap_or(settings.heartbeat_timeout),
            max_attempts: self.max_attempts.unwrap_or(settings.max_attempts),
            retry: self.retry.unwrap_or(settings.retry),
        }
    }
}
