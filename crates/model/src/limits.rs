//! Named maxima. What is larger is refused with a sentence; nothing is cut silently.

use std::time::Duration;

use crate::error::Invalid;
use crate::time::WallTime;

/// The limits a server enforces. The defaults suit most; an operator may lower or raise the sizes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Largest payload of one job, in bytes. Larger ones are refused.
    pub payload_bytes_max: usize,
    /// Largest result of one job, in bytes.
    pub result_bytes_max: usize,
    /// Largest checkpoint, in bytes.
    pub checkpoint_bytes_max: usize,
    /// Largest progress note, in bytes.
    pub progress_bytes_max: usize,
    /// Most jobs in one enqueue call.
    pub batch_jobs_max: usize,
    /// Most bytes in one enqueue call or one frame.
    pub batch_bytes_max: usize,
}

impl Limits {
    /// Longest error text kept; longer ones keep their last part, where the cause usually is.
    pub const ERROR_BYTES_MAX: usize = 4096;
    /// Shortest lease: three beats must fit in it.
    pub const LEASE_MIN: Duration = Duration::from_millis(500);
    /// Longest lease: a lost worker's jobs wait this long.
    pub const LEASE_MAX: Duration = Duration::from_secs(24 * 3600);
    /// The lease of a worker that asks for none, and of a job whose holder renews it itself.
    pub const LEASE_DEFAULT: Duration = Duration::from_secs(20);
    /// Longest delay of a scheduled job: ten years.
    pub const DELAY_MAX: Duration = Duration::from_secs(10 * 365 * 24 * 3600);
    /// The last date a job may be scheduled for: the end of the year 9999.
    pub const RUN_AT_MAX: WallTime = WallTime::from_millis(253_402_300_799_999);
    /// Longest time limit of one attempt: thirty days.
    pub const TIMEOUT_MAX: Duration = Duration::from_secs(30 * 24 * 3600);
    /// Counted starts of a job whose queue and producer say nothing.
    pub const ATTEMPTS_DEFAULT: u32 = 5;
    /// Most counted starts that may be asked for.
    pub const ATTEMPTS_MAX: u32 = 1000;
    /// Losses in a row, without progress, after which a job counts as a poison pill.
    pub const LOST_DEFAULT: u32 = 5;
    /// Most queues one worker may serve.
    pub const QUEUES_PER_WORKER_MAX: usize = 64;
    /// Most free slots one worker may offer.
    pub const SLOTS_MAX: u32 = 100_000;
    /// Most jobs one worker may hold, and most changes one heartbeat may carry.
    pub const BOUND_MAX: usize = 100_000;
    /// Longest lease a worker is granted; longer wishes are cut. A lost machine must not go unnoticed for a day.
    pub const WORKER_LEASE_MAX: Duration = Duration::from_secs(3600);
    /// How long a claim stands before the server asks whether its worker has the job.
    pub const VERIFY_AFTER: Duration = Duration::from_secs(30);
    /// How far the row of a bound job is pushed out each time it is asked about.
    pub const VERIFY_PUSH: Duration = Duration::from_secs(120);

    /// Refuses a lease that is too short to beat in or absurdly long.
    pub fn check_lease(lease: Duration) -> Result<Duration, Invalid> {
        Self::check_span("lease", lease)
    }

    /// Refuses a heartbeat timeout that no handler can keep, or that would never be noticed.
    pub fn check_heartbeat_timeout(timeout: Duration) -> Result<Duration, Invalid> {
        Self::check_span("heartbeat timeout", timeout)
    }

    fn check_span(what: &str, span: Duration) -> Result<Duration, Invalid> {
        if span < Self::LEASE_MIN || span > Self::LEASE_MAX {
            return Err(Invalid::new(format!(
                "{what} of {span:?} is out of range; choose between {:?} and {:?}",
                Self::LEASE_MIN,
                Self::LEASE_MAX
            )));
        }
        Ok(span)
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            payload_bytes_max: 1 << 20,
            result_bytes_max: 1 << 20,
            checkpoint_bytes_max: 256 << 10,
            progress_bytes_max: 4 << 10,
            batch_jobs_max: 10_000,
            batch_bytes_max: 8 << 20,
        }
    }
}
