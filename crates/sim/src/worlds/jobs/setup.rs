//! What one world is made of: drawn from its seed, fixed for its life.

use std::time::Duration;

use lease::clock_rule::RateError;
use model::{QueueName, RegistryId};

use super::mutation::Mutation;
use super::workload::pace;
use crate::clock::DriftingClock;
use crate::faults::{Fault, Plan};
use crate::net::Node;
use crate::rng::Rng;

/// Servers over one store, each with a registry of its own.
pub(super) const SERVERS: usize = 2;
/// The shortest lease that registries grant here. Leases are short, so that minutes hold many of them.
pub(super) const LEASE_MIN: Duration = Duration::from_secs(2);
/// The longest lease that registries grant here.
pub(super) const LEASE_MAX: Duration = Duration::from_secs(20);
/// How far every clock may be off, and what the clock rule assumes, in parts per million.
pub(super) const DRIFT_MAX_PPM: u32 = 1_000;
/// The longest a process is stopped: longer than a lease.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest a process is away.
pub(super) const DOWN_MAX: Duration = Duration::from_secs(20);
/// The longest lasting of any other fault.
pub(super) const TROUBLE_MAX: Duration = Duration::from_secs(25);
/// The longest a handler runs.
pub(super) const RUN_MAX: Duration = Duration::from_secs(180);
/// The longest delay before a failed or lost job is offered again, jitter included.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(12);
/// A handler that is told to stop and does not is ended after this long.
pub(super) const KILL_WAIT: Duration = Duration::from_secs(2);

/// One world's make-up.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) mutation: Option<Mutation>,
    /// How long things go wrong.
    pub(super) faults_last: Duration,
    pub(super) plan: Plan,
    pub(super) queues: Vec<QueueName>,
    pub(super) servers: Vec<ServerSetup>,
    pub(super) workers: Vec<WorkerSetup>,
    pub(super) store_clock: DriftingClock,
    pub(super) registrations_per_second: u32,
    /// How long a claim stands before its worker is asked about.
    pub(super) verify_after: Duration,
    /// How far the row of a bound job is pushed out.
    pub(super) verify_push: Duration,
    /// The mean time between batches of new jobs.
    pub(super) enqueue_every: Duration,
    pub(super) batch_max: u64,
    /// The mean time between an operator's doings.
    pub(super) operate_every: Duration,
    /// The longest run of most jobs.
    pub(super) run_max: Duration,
    /// How often, of one, a heartbeat asks for another lease than the worker's own.
    pub(super) lease_edits: f64,
    /// How often, of one, a job has a heartbeat timeout.
    pub(super) beat_themselves: f64,
    /// How often, of one, a job is bound at once.
    pub(super) bind_at_once: f64,
    /// How often, of one, an assignment that was sent before goes along with new ones.
    pub(super) stray_starts: f64,
    /// How often, of one, a handler that can be noticed wedges.
    pub(super) wedge: f64,
    /// How often, of one, a handler fails.
    pub(super) fail: f64,
}

#[derive(Debug)]
pub(super) struct ServerSetup {
    pub(super) registry: RegistryId,
    pub(super) clock: DriftingClock,
}

#[derive(Debug)]
pub(super) struct WorkerSetup {
    pub(super) clock: DriftingClock,
    pub(super) slots: u32,
    pub(super) lease: Duration,
    pub(super) queues: Vec<QueueName>,
    /// It reports jobs that it knows to have lost, too.
    pub(super) report_lost: bool,
}

impl Setup {
    pub(super) fn draw(seed: u64, faults_last: Duration, mutation: Option<Mutation>) -> Self {
        let mut rng = Rng::stream(seed, 0, "setup");
        let rng = &mut rng;
        let secs = Duration::from_secs;
        let queues: Vec<QueueName> = ["mail", "video", "bills"][..rng.between(1, 3) as usize]
            .iter()
            .map(|name| QueueName::new(name).expect("a valid name"))
            .collect();
        let servers = (1..=SERVERS)
            .map(|number| ServerSetup {
                registry: RegistryId(number as u32),
                clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            })
            .collect();
        // In some worlds all leases are short, and heartbeats often come at the last moment.
        let lease_max = *rng.pick(&[LEASE_MIN * 3 / 2, LEASE_MAX, LEASE_MAX]);
        let mut workers: Vec<WorkerSetup> =
            (0..rng.between(3, 7)).map(|_| WorkerSetup::draw(rng, &queues, lease_max)).collect();
        // No queue is without a worker.
        workers[0].queues.clone_from(&queues);
        // Half of the worlds ask about claims as seldom as servers do, half as often as their short leases suggest.
        let is_hasty = rng.chance(0.5);
        let maybe = |rng: &mut Rng, often: f64| if rng.chance(0.7) { often } else { 0.0 };
        let (run_max, batch_max) = (rng.span_of_any_size(secs(2), secs(100)), rng.between(1, 6));
        let slots = workers.iter().map(|worker| worker.slots).sum();
        Setup {
            seed,
            mutation,
            faults_last,
            plan: Plan::draw(&Fault::ALL, &mut Rng::stream(seed, 0, "plan"), secs(3), secs(240)),
            queues,
            servers,
            workers,
            store_clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            registrations_per_second: *rng.pick(&[1, 5, 1_000]),
            verify_after: if is_hasty { rng.span(secs(2), secs(8)) } else { model::Limits::VERIFY_AFTER },
            verify_push: if is_hasty { rng.span(secs(3), secs(20)) } else { model::Limits::VERIFY_PUSH },
            enqueue_every: pace(run_max, batch_max, slots, rng.between(20, 70) as f64 / 100.0),
            batch_max,
            operate_every: rng.span_of_any_size(secs(2), secs(60)),
            run_max,
            lease_edits: maybe(rng, 0.4),
            beat_themselves: *rng.pick(&[0.0, 0.2, 0.2, 1.0]),
            bind_at_once: maybe(rng, 0.8),
            stray_starts: maybe(rng, 0.1),
            wedge: maybe(rng, 0.1),
            fail: maybe(rng, 0.2),
        }
    }

    /// How many processes there are.
    pub(super) fn nodes(&self) -> u16 {
        (SERVERS + self.workers.len()) as u16
    }

    /// The registries' and ledgers' assumption.
    pub(super) fn rate_error(&self) -> RateError {
        RateError::ppm(DRIFT_MAX_PPM)
    }

    /// All slots of all workers.
    pub(super) fn slots(&self) -> u32 {
        self.workers.iter().map(|worker| worker.slots).sum()
    }
}

impl WorkerSetup {
    fn draw(rng: &mut Rng, queues: &[QueueName], lease_max: Duration) -> Self {
        let first = rng.below(queues.len() as u64) as usize;
        let serves_all = rng.chance(0.7);
        WorkerSetup {
            clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            slots: rng.between(1, 5) as u32,
            lease: rng.span_of_any_size(LEASE_MIN, lease_max),
            queues: if serves_all { queues.to_vec() } else { vec![queues[first].clone()] },
            report_lost: rng.chance(0.3),
        }
    }
}

/// The node of a server.
pub(super) fn server_node(index: usize) -> Node {
    Node(index as u16)
}

/// The node of a worker.
pub(super) fn worker_node(index: usize) -> Node {
    Node((SERVERS + index) as u16)
}

/// The worker at a node; `None` for a server's node.
pub(super) fn worker_at(node: Node) -> Option<usize> {
    usize::from(node.0).checked_sub(SERVERS)
}
