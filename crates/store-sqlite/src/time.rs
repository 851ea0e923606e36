//! The store's two times: dates from the wall clock, leases and fences from a clock of its own.
//!
//! The lease clock starts at the wall clock or at the highest time it ever used, whichever is later, and then follows
//! monotonic time only. So it never runs backwards: not when the wall clock is set back, not over a restart.

use std::sync::Arc;

use model::{Clock, Instant, LeaseTime, Limits, WallTime};

use crate::db::Db;
use crate::error::Trouble;
use crate::row;

const LEASE_CLOCK: &str = "SELECT value FROM meta WHERE name = 'lease_clock'";

const KEEP_LEASE_CLOCK: &str = "UPDATE meta SET value = ?1 WHERE name = 'lease_clock' AND value < ?1";

const LONGEST_LEASE: &str = "SELECT max(granted_us) FROM jobs WHERE state = 2";

/// ?1 from when, ?2 the shortest lease to give.
const ADOPT: &str = "
    UPDATE jobs SET lease_until = max(lease_until, ?1 + max(granted_us, ?2)), adopted = 1 WHERE state = 2";

pub(crate) const STATEMENTS: &[&str] = &[LEASE_CLOCK, KEEP_LEASE_CLOCK, LONGEST_LEASE, ADOPT];

/// The time of one verb.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    /// For dates: `run_at`, `finished_at` and the like.
    pub(crate) wall: WallTime,
    /// For leases and fences.
    pub(crate) lease: LeaseTime,
}

/// Where both times come from.
#[derive(Clone)]
pub(crate) struct StoreClock {
    clock: Arc<dyn Clock>,
    started_at: LeaseTime,
    started: Instant,
}

impl StoreClock {
    /// Starts the lease clock where the file says it may start.
    pub(crate) fn start(db: &Db, clock: Arc<dyn Clock>) -> Result<Self, Trouble> {
        let used: i64 = db.prepare(LEASE_CLOCK)?.query_row([], |row| row.get(0))?;
        let wall = LeaseTime::from_micros(clock.wall().as_millis().saturating_mul(1_000));
        let started_at = wall.max(LeaseTime::from_micros(used));
        Ok(StoreClock { started_at, started: clock.monotonic(), clock })
    }

    pub(crate) fn now(&self) -> Now {
        let running_for = self.clock.monotonic().since(self.started);
        Now { wall: self.clock.wall(), lease: self.started_at + running_for }
    }
}

/// Keeps the highest time the lease clock used.
pub(crate) fn keep_lease_clock(db: &Db, now: LeaseTime) -> Result<(), Trouble> {
    db.prepare(KEEP_LEASE_CLOCK)?.execute([now.as_micros()])?;
    Ok(())
}

/// Gives every running job a lease from now on, because nobody could renew while we were away: its own, but no less than
/// the longest of them all up to [`Limits::LEASE_DEFAULT`]. That is the time workers have to find us again. Without the
/// bound, one job with a lease of a day would keep all the others from being rescued for a day.
///
/// They are marked until their holders are heard of: a job that is lost with the mark on was lost by our absence.
pub(crate) fn adopt_running(db: &Db, now: LeaseTime) -> Result<(), Trouble> {
    let longest: Option<i64> = db.prepare(LONGEST_LEASE)?.query_row([], |row| row.get(0))?;
    if let Some(longest) = longest {
        // A tick more than a lease granted at this very moment: the whole of it must have passed.
        let from = now.as_micros() + 1;
        db.prepare(ADOPT)?.execute([from, longest.min(row::micros(Limits::LEASE_DEFAULT))])?;
    }
    keep_lease_clock(db, now)
}
