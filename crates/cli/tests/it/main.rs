//! The real binary, from the outside: what it does without a server, and what it promises when processes are killed and
//! frozen.

mod addresses;
mod attacks;
mod backend;
mod browser;
mod cluster;
mod demo;
mod exclusive;
mod exclusive_inside;
mod exec;
mod fencing;
mod locked;
mod offline;
mod poison;
mod postgres;
mod proxy;
mod server_faults;
mod simulating;
mod support;
mod talk;
mod trouble;
mod unread_log;
mod usurper;
mod volatile;
mod worker_faults;
mod worker_leases;
