//! The store's two times, both of them the database's: dates in milliseconds, leases and fences in microseconds.
//!
//! A store that was given a clock uses that one instead, for tests that turn time by hand. Its lease clock starts at the
//! wall clock and then follows monotonic time only.

use std::sync::Arc;

use model::{Clock, Instant, LeaseTime, WallTime};

/// Stands for the lease clock in the text of statements.
pub(crate) const LEASE_NOW: &str = "LEASE_NOW";
/// Stands for the wall clock in the text of statements.
pub(crate) const WALL_NOW: &str = "WALL_NOW";

/// A subquery is evaluated once per statement; the bare expression would be, for every row.
const DATABASE_LEASE_NOW: &str =
    "(SELECT (extract(epoch FROM pg_catalog.clock_timestamp()) * 1000000)::bigint)";
const DATABASE_WALL_NOW: &str =
    "(SELECT pg_catalog.floor(extract(epoch FROM pg_catalog.clock_timestamp()) * 1000)::bigint)";

/// Where both times come from.
#[derive(Clone)]
pub(crate) enum StoreClock {
    /// From the database, at each statement.
    Database,
    /// From a clock that was given, at each verb.
    Given {
        /// The clock.
        clock: Arc<dyn Clock>,
        /// Where the lease clock started.
        started_at: LeaseTime,
        /// When that was.
        started: Instant,
    },
}

/// The time of one verb, by a given clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now {
    wall: WallTime,
    lease: LeaseTime,
}

impl StoreClock {
    /// By this clock, or by the database's.
    pub(crate) fn new(clock: Option<Arc<dyn Clock>>) -> Self {
        match clock {
            None => StoreClock::Database,
            Some(clock) => StoreClock::Given {
                started_at: LeaseTime::from_micros(clock.wall().as_millis().saturating_mul(1_000)),
                started: clock.monotonic(),
                clock,
            },
        }
    }

    /// The time that the statements of one verb share; `None` if the database tells it.
    pub(crate) fn now(&self) -> Option<Now> {
        match self {
            StoreClock::Database => None,
            StoreClock::Given { clock, started_at, started } => {
                Some(Now { wall: clock.wall(), lease: *started_at + clock.monotonic().since(*started) })
            }
        }
    }
}

/// The statement with its words for time replaced.
pub(crate) fn fill_in(sql: &str, now: Option<Now>) -> String {
    let (lease, wall) = match now {
        None => (DATABASE_LEASE_NOW.to_owned(), DATABASE_WALL_NOW.to_owned()),
        Some(now) => {
            (format!("({}::bigint)", now.lease.as_micros()), format!("({}::bigint)", now.wall.as_millis()))
        }
    };
    sql.replace(LEASE_NOW, &lease).replace(WALL_NOW, &wall)
}

/// Whether a statement speaks of time at all.
pub(crate) fn tells_time(sql: &str) -> bool {
    sql.contains(LEASE_NOW) || sql.contains(WALL_NOW)
}
