//! What is promised when processes are killed and frozen holds on PostgreSQL as well; and what only holds there.

mod backend;
#[path = "../it/exclusive.rs"]
mod exclusive;
#[path = "../it/exclusive_inside.rs"]
mod exclusive_inside;
#[path = "../it/exec.rs"]
mod exec;
mod full_disk;
mod outages;
#[path = "../it/proxy.rs"]
mod proxy;
#[path = "../it/server_faults.rs"]
mod server_faults;
mod servers;
mod several_servers;
#[path = "../it/support.rs"]
mod support;
mod together;
#[path = "../it/worker_faults.rs"]
mod worker_faults;
#[path = "../it/worker_leases.rs"]
mod worker_leases;
