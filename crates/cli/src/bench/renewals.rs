//! The cost of one renewal in the registry alone: no network, no store, no clock. Under callgrind it counts instructions.

use std::hint::black_box;
use std::time::{Duration, Instant as Stopwatch};

use anyhow::{Context as _, Result};
use clap::Args as ClapArgs;
use lease::clock_rule::RateError;
use lease::digest::Digest;
use lease::message::{Answer, Change, Generation, Heartbeat, Profile, Token};
use lease::registry::{Enlisted, Input, Output as Order, Registry, Terms, Ticket};
use model::{Fence, Hold, Instant, JobId, Limits, Nonce, QueueName, RegistryId, WorkerKey};
use serde::Serialize;

use crate::exit::Exit;
use crate::output::Output;

#[derive(Debug, ClapArgs)]
pub(super) struct Args {
    /// Workers in the registry.
    #[arg(long, default_value_t = 10_000, value_parser = clap::value_parser!(u32).range(1..=10_000_000))]
    workers: u32,
    /// Jobs each of them has bound.
    #[arg(long, default_value_t = 100, value_parser = clap::value_parser!(u32).range(0..=100_000))]
    bound: u32,
    /// Heartbeats, in turn.
    #[arg(long, default_value_t = 1_000_000)]
    renewals: u64,
    /// Make each heartbeat and throw it away: what remains is the cost of the measurement itself.
    #[arg(long)]
    baseline: bool,
}

#[derive(Debug, Serialize)]
struct Results {
    workers: u32,
    bound: u32,
    renewals: u64,
    ns_per_renewal: f64,
    bytes_per_worker: u64,
}

pub(super) fn run(args: &Args, output: &Output) -> Result<Exit> {
    let before = resident()?;
    let mut fleet = Fleet::new(args.workers, args.bound);
    let grown = resident()?.saturating_sub(before);
    let began = Stopwatch::now();
    for turn in 0..args.renewals {
        let which = (turn % u64::from(args.workers)) as usize;
        let beat = fleet.next_beat(which);
        if args.baseline {
            drop(black_box(beat));
        } else {
            fleet.renew(which, beat);
        }
    }
    let took = began.elapsed();
    let results = Results {
        workers: args.workers,
        bound: args.bound,
        renewals: args.renewals,
        ns_per_renewal: took.as_nanos() as f64 / args.renewals.max(1) as f64,
        bytes_per_worker: grown.saturating_sub(fleet.own_bytes()) / u64::from(args.workers),
    };
    if output.is_json() {
        output.json(&results)?;
    } else {
        output.line(format_args!(
            "{} workers with {} bound jobs each: {:.0} ns and {} bytes per worker",
            results.workers, results.bound, results.ns_per_renewal, results.bytes_per_worker
        ))?;
    }
    Ok(Exit::Done)
}

/// A registry full of workers, and what each must say next.
struct Fleet {
    registry: Registry,
    now: Instant,
    members: Vec<Member>,
}

struct Member {
    key: WorkerKey,
    token: Token,
    digest: Digest,
}

impl Fleet {
    fn new(workers: u32, bound: u32) -> Self {
        let terms = Terms {
            registry: RegistryId(1),
            generation: Generation(1),
            lease_default: Limits::LEASE_DEFAULT,
            lease_min: Limits::LEASE_MIN,
            lease_max: Limits::WORKER_LEASE_MAX,
            rate_error: RateError::DEFAULT,
            verify_after: Duration::ZERO,
            registrations_per_second: u32::MAX,
            remember_ended: Duration::from_secs(600),
            durable: true,
            inherited_lease: Duration::ZERO,
        };
        let mut fleet =
            Fleet { registry: Registry::new(terms), now: Instant::from_millis(1), members: Vec::new() };
        fleet.registry.handle(fleet.now, Input::Restored(Vec::new()));
        for number in 0..workers {
            let key = WorkerKey::new(&format!("worker-{number:08}-4711-9f3a5c2e81d04b76"))
                .expect("letters and digits are a key");
            let holds: Vec<Hold> = (0..bound).map(|job| hold(number, job)).collect();
            let token = fleet.join(&key, &holds);
            fleet.members.push(Member { key, token, digest: holds.into_iter().collect() });
        }
        fleet
    }

    /// Registers a worker and binds its jobs.
    fn join(&mut self, key: &WorkerKey, holds: &[Hold]) -> Token {
        let queues = vec![QueueName::new("bench").expect("letters are a name")];
        let profile =
            Profile { name: "bench".to_owned(), queues, slots: holds.len() as u32, ..Profile::default() };
        let first = Heartbeat { profile: Some(profile), ..beat(key, None, Digest::default()) };
        self.registry.handle(self.now, Input::Heartbeat { ticket: Ticket(0), beat: first });
        while self.registry.poll_output().is_some() {}
        self.registry.handle(self.now, Input::Enlisted { key: key.clone(), answer: Enlisted::Known });
        let mut token = self.answer();
        if !holds.is_empty() {
            let start = holds.len() as u64;
            let granted =
                Input::Granted { key: key.clone(), holds: holds.to_vec(), exclusive: Vec::new(), start };
            self.registry.handle(self.now, granted);
            let binds = (1..).zip(holds).map(|(change, hold)| Change { hold: *hold, change }).collect();
            let change = holds.len() as u64;
            let bind = Heartbeat { binds, change, ..beat(key, Some(token), holds.iter().copied().collect()) };
            self.registry.handle(self.now, Input::Heartbeat { ticket: Ticket(0), beat: bind });
            token = self.answer();
        }
        token
    }

    fn next_beat(&mut self, which: usize) -> Heartbeat {
        self.now = self.now + Duration::from_micros(1);
        let member = &self.members[which];
        let change = u64::from(member.digest.count());
        Heartbeat { change, ..beat(&member.key, Some(member.token), member.digest) }
    }

    fn renew(&mut self, which: usize, beat: Heartbeat) {
        self.registry.handle(self.now, Input::Heartbeat { ticket: Ticket(0), beat });
        self.members[which].token = self.answer();
    }

    fn answer(&mut self) -> Token {
        match self.registry.poll_output() {
            Some(Order::Answer { answer: Answer::Ok(ack), .. }) => {
                assert!(!ack.resync && ack.stops.is_empty(), "the registry agrees with its workers");
                ack.token
            }
            other => panic!("a heartbeat with the right token is answered, not {other:?}"),
        }
    }

    /// What this program keeps beside the registry: it does not count. Keys are shared with it.
    fn own_bytes(&self) -> u64 {
        (self.members.capacity() * size_of::<Member>()) as u64
    }
}

fn beat(key: &WorkerKey, token: Option<Token>, digest: Digest) -> Heartbeat {
    Heartbeat {
        key: key.clone(),
        nonce: Nonce::new(7),
        token,
        lease: Limits::LEASE_DEFAULT,
        binds: Vec::new(),
        unbinds: Vec::new(),
        change: 0,
        digest,
        full: None,
        former: None,
        profile: None,
        free_slots: 1,
        lag: Duration::ZERO,
        sent_at: None,
        answered_at: None,
        starts_seen: 0,
        worker_set: None,
    }
}

fn hold(worker: u32, job: u32) -> Hold {
    let number = u128::from(worker) << 32 | u128::from(job);
    Hold { job: JobId::from_bytes(number.to_be_bytes()), fence: Fence::new(1_800_000_000_000_000) }
}

/// Memory of this process that is really there, in bytes.
fn resident() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/status").context("cannot read /proc/self/status")?;
    let line = text.lines().find_map(|line| line.strip_prefix("VmRSS:")).context("status has no VmRSS")?;
    let kilobytes: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kilobytes * 1024)
}
