//! Who holds what until when.
//!
//! Liveness costs one small heartbeat per worker, however many jobs it holds. Both ends of it are machines in here: the
//! [`registry`] judges workers by the server's clock, the [`ledger`] is the worker's side of the same agreement. The
//! [`clock_rule`] is what makes them agree: a worker always stops before its registry gives its work away.

pub mod clock_rule;
pub mod clock_watch;
pub mod digest;
pub mod guardian;
pub mod heed;
mod key_hash;
pub mod ledger;
pub mod message;
pub mod monitor;
pub mod ownership;
pub mod passive;
pub mod registry;
pub mod unsure;
pub mod wellness;
