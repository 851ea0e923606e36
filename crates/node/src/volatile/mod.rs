//! Volatile queues: the muster of workers, beside the roll, and those who wait for the ends of their jobs.

mod ends;
mod mustering;
mod no_room;
mod numbers;
mod status;
pub(crate) mod submitting;

pub(crate) use ends::Ends;
pub(crate) use mustering::{Mustering, Order};
pub(crate) use no_room::NoRoom;
pub(crate) use numbers::MusterMetrics;
