//! What strangers can send, by the thousand: nothing of it is answered as a defect of the server, hangs, or grows its memory beyond
//! what it was given, and an honest client is served throughout. Seeded. `TENURE_SOAK_ATTACKS=1` asks for the long forms.

mod crowds;
mod grpc;
mod honest;
mod http;

use std::time::Duration;

use rand::SeedableRng as _;
use rand::rngs::StdRng;

use crate::support::Fleet;

/// As long as an answer may take on a machine that is busy with attacks; only what hangs takes so long.
const PATIENCE: Duration = Duration::from_secs(100);

/// `long` in the long form.
fn size(short: usize, long: usize) -> usize {
    if std::env::var_os("TENURE_SOAK_ATTACKS").is_some() { long } else { short }
}

/// Where randomness comes from; says the seed.
fn seeded(what: &str) -> StdRng {
    let seed = std::env::var("TENURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(1);
    println!("{what}: TENURE_SEED={seed}");
    StdRng::seed_from_u64(seed)
}

/// Memory of the server that is really there, in bytes.
fn memory(fleet: &Fleet) -> u64 {
    let pid = fleet.server.process.pid().expect("it runs").as_raw_nonzero();
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).expect("it runs");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a size");
    let kilobytes: u64 = line.trim_end_matches("kB").trim().parse().expect("a number");
    kilobytes << 10
}
