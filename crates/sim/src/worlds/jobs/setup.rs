//! What one world is made of: drawn from its seed, fixed for its life.

use std::time::Duration;

use lease::clock_rule::{RateError, Stopping, exclusive_lease_min};
use lease::ownership;
use model::QueueName;

use super::mutation::Mutation;
use super::workload::pace;
use crate::clock::DriftingClock;
use crate::faults::{Fault, Plan};
use crate::net::Node;
use crate::rng::Rng;

/// Servers over one store, each with a registry of its own.
pub(super) const SERVERS: usize = 3;
/// How long a beat makes a registry its server's; whoever sees none for so long takes it over.
pub(super) const OWNED_FOR: Duration = Duration::from_secs(5);
/// How often a server beats.
pub(super) const BEAT_EVERY: Duration = Duration::from_secs(1);
/// The shortest lease that registries grant here. Leases are short, so that minutes hold many of them.
pub(super) const LEASE_MIN: Duration = Duration::from_secs(2);
/// The longest lease that registries grant here.
pub(super) const LEASE_MAX: Duration = Duration::from_secs(20);
/// How far every clock may be off, and what the clock rule assumes, in parts per million.
pub(super) const DRIFT_MAX_PPM: u32 = 1_000;
/// The longest a process is stopped: longer than a lease.
pub(super) const PAUSE_MAX: Duration = Duration::from_secs(30);
/// The longest a process is away, unless it is lost.
pub(super) const DOWN_MAX: Duration = Duration::from_secs(20);
/// The longest lasting of any other fault.
pub(super) const TROUBLE_MAX: Duration = Duration::from_secs(25);
/// The longest a handler runs.
pub(super) const RUN_MAX: Duration = Duration::from_secs(180);
/// The longest delay before a failed or lost job is offered again, jitter included.
pub(super) const RETRY_MAX: Duration = Duration::from_secs(12);
/// How a worker without a guardian stops its handlers; it cannot be sure that it does.
const UNSURE: Stopping = Stopping { kill_wait: Duration::from_secs(2), safety: Duration::from_secs(1) };
/// The longest a worker waits between telling a job to stop and killing it.
pub(super) const KILL_WAIT_MAX: Duration = Duration::from_secs(5);
/// The longest that the kernel is given to end what was killed.
const SAFETY_MAX: Duration = Duration::from_secs(1);

/// One world's make-up.
#[derive(Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) mutation: Option<Mutation>,
    /// The only law that is asked, if not all are.
    pub(super) only_law: Option<&'static str>,
    /// How long things go wrong.
    pub(super) faults_last: Duration,
    pub(super) plan: Plan,
    /// Faults that go together strike, too.
    pub(super) corners: bool,
    pub(super) queues: Vec<QueueName>,
    /// Those among them of whose jobs at most one copy may run.
    pub(super) exclusive: Vec<QueueName>,
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
    /// How often, of one, an assignment that was sent before goes along with new ones.
    pub(super) stray_starts: f64,
    /// How often, of one, a handler that can be noticed wedges.
    pub(super) wedge: f64,
    /// How often, of one, a handler fails.
    pub(super) fail: f64,
    /// How often, of one, a handler inside a worker ends neither when it is told to nor when its task is aborted.
    pub(super) deaf: f64,
}

#[derive(Debug)]
pub(super) struct ServerSetup {
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
    pub(super) guard: Guard,
    pub(super) stopping: Stopping,
}

/// Who sees to it that a worker's jobs end with its lease.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Guard {
    /// Nobody: it cannot stop a job for certain.
    Nobody,
    /// A guardian that is the first process of a namespace. Jobs are families of processes in there and die with it; the
    /// worker's own process it cannot kill.
    Namespace,
    /// A guardian that can kill the worker. Jobs run inside the worker's process.
    Killer,
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
        let exclusive: Vec<QueueName> = queues.iter().filter(|_| rng.chance(0.6)).cloned().collect();
        let servers =
            (0..SERVERS).map(|_| ServerSetup { clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM) }).collect();
        // In some worlds all leases are short, and heartbeats often come at the last moment.
        let lease_max = *rng.pick(&[LEASE_MIN * 3 / 2, LEASE_MAX, LEASE_MAX]);
        let mut workers: Vec<WorkerSetup> =
            (0..rng.between(3, 7)).map(|_| WorkerSetup::draw(rng, &queues, lease_max)).collect();
        // No queue is without a worker that may serve it, whatever lease it has.
        workers[0].queues.clone_from(&queues);
        workers[0].be_fit(rng);
        // Half of the worlds ask about claims as seldom as servers do, half as often as their short leases suggest.
        let is_hasty = rng.chance(0.5);
        let maybe = |rng: &mut Rng, often: f64| if rng.chance(0.7) { often } else { 0.0 };
        let (run_max, batch_max) = (rng.span_of_any_size(secs(2), secs(100)), rng.between(1, 6));
        let slots = workers.iter().map(|worker| worker.slots).sum();
        Setup {
            seed,
            mutation,
            only_law: None,
            faults_last,
            plan: Plan::draw(&Fault::ALL, &mut Rng::stream(seed, 0, "plan"), secs(3), secs(240)),
            corners: false,
            queues,
            exclusive,
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
            stray_starts: maybe(rng, 0.1),
            wedge: maybe(rng, 0.1),
            fail: maybe(rng, 0.2),
            deaf: maybe(rng, 0.1),
        }
    }

    /// The same world where the clock rule is tightest: all jobs are exclusive and outlive their leases, clocks are as wrong
    /// as assumed and against us, the kernel gets hardly any time, and workers and servers are cut off all the time.
    pub(super) fn at_the_edge(mut self) -> Self {
        let worst = i64::from(DRIFT_MAX_PPM) * 1_000;
        let rng = &mut Rng::stream(self.seed, 0, "edge");
        let faults = [
            Fault::DelaySpikes,
            Fault::DelaySpikes,
            Fault::BlockOneWay,
            Fault::Block,
            Fault::Pause,
            Fault::StoreCut,
            Fault::StoreLate,
        ];
        self.exclusive.clone_from(&self.queues);
        // One believes for too long that its registry is its own; the others take it too early.
        self.servers.iter_mut().for_each(|server| server.clock = DriftingClock::new(Duration::ZERO, worst));
        self.servers[0].clock = DriftingClock::new(Duration::ZERO, -worst);
        for worker in &mut self.workers {
            worker.clock = DriftingClock::new(Duration::ZERO, -worst);
            worker.queues.clone_from(&self.queues);
            worker.guard = *rng.pick(&[Guard::Namespace, Guard::Killer]);
            worker.lease = LEASE_MAX;
            worker.stopping =
                Stopping { kill_wait: Duration::from_millis(10), safety: Duration::from_millis(4) };
        }
        // Where something goes wrong all the time, nothing that takes a lease goes wrong to its end.
        let mean = Duration::from_secs(*rng.pick(&[10, 60]));
        self.plan = Plan::of(&faults, mean);
        self.corners = true;
        self.run_max = RUN_MAX;
        self.enqueue_every = pace(self.run_max, self.batch_max, self.slots(), 0.6);
        self.lease_edits = 0.0;
        self.beat_themselves = 0.0;
        self
    }

    /// How many processes there are.
    pub(super) fn nodes(&self) -> u16 {
        (SERVERS + self.workers.len()) as u16
    }

    /// The registries' and ledgers' assumption.
    pub(super) fn rate_error(&self) -> RateError {
        RateError::ppm(DRIFT_MAX_PPM)
    }

    /// How servers own their registries.
    pub(super) fn ownership(&self) -> ownership::Terms {
        ownership::Terms { beat_every: BEAT_EVERY, owned_for: OWNED_FOR, rate_error: self.rate_error() }
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
        let lease = rng.span_of_any_size(LEASE_MIN, lease_max);
        let guard = *rng.pick(&[Guard::Nobody, Guard::Namespace, Guard::Namespace, Guard::Killer]);
        // Most fit the lease they ask for, but not every lease that they may be granted.
        let kill_wait_max = if rng.chance(0.8) { (lease / 4).min(KILL_WAIT_MAX) } else { KILL_WAIT_MAX };
        WorkerSetup {
            clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            slots: rng.between(1, 5) as u32,
            lease,
            queues: if serves_all { queues.to_vec() } else { vec![queues[first].clone()] },
            report_lost: rng.chance(0.3),
            guard,
            stopping: if guard == Guard::Nobody { UNSURE } else { stopping(rng, kill_wait_max, lease / 8) },
        }
    }

    /// Makes it one that may always be given exclusive jobs.
    fn be_fit(&mut self, rng: &mut Rng) {
        let within = LEASE_MIN * 2 / 5;
        if self.guard == Guard::Nobody {
            self.guard = Guard::Namespace;
        }
        self.stopping = stopping(rng, within / 2, within / 2);
        assert!(exclusive_lease_min(self.stopping.within()) <= LEASE_MIN, "it fits the shortest lease");
    }

    /// How long it takes at most to stop a job for certain, if it can.
    pub(super) fn stop_within(&self) -> Option<Duration> {
        (self.guard != Guard::Nobody).then(|| self.stopping.within())
    }
}

/// Waits up to these: short ones, too, so that the rule is tried where it is tightest.
fn stopping(rng: &mut Rng, kill_wait_max: Duration, safety_max: Duration) -> Stopping {
    Stopping {
        kill_wait: rng.span_of_any_size(Duration::from_millis(10), kill_wait_max),
        safety: rng.span_of_any_size(Duration::from_millis(4), safety_max.min(SAFETY_MAX)),
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
