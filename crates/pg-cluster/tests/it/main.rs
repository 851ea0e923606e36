//! Real clusters, treated as badly as machines treat them.

mod databases;
mod faults;
mod left_behind;
mod replication;
mod session;
