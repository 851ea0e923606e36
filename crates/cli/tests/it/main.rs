//! The real binary, from the outside: what it does without a server, and what it promises when processes are killed and
//! frozen.

mod demo;
mod exec;
mod offline;
mod server_faults;
mod support;
mod talk;
mod trouble;
mod worker_faults;
mod worker_leases;
