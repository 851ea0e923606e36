//! Laws of the upkeep machine over random histories: a small world with jobs that become due, workers that beat or
//! die, a server that freezes and a store that goes away.

use std::time::Duration;

use model::Instant;
use model::splitmix::SplitMix;

use super::{Duty, Input, Output, STALL_TICK, STALL_TOLERANCE, Upkeep};

const SEEDS: u64 = 1_000;
/// Times are milliseconds; the world moves in steps of this many.
const STEP: u64 = 25;
/// Faults happen up to here; from then on everything must come right.
const FAULTS_END: u64 = 60_000;
const END: u64 = 160_000;

struct World {
    rng: SplitMix,
    now: u64,
    upkeep: Upkeep,
    /// When the server is frozen.
    freezes: Vec<(u64, u64)>,
    /// When the store refuses everything.
    outages: Vec<(u64, u64)>,
    /// The run times of scheduled jobs.
    scheduled: Vec<u64>,
    running: Vec<Running>,
    /// What is on its way to the server, by time of arrival.
    inbox: Vec<(u64, Message)>,
    /// What the server asked of the store, by time of execution.
    asked: Vec<(u64, Output)>,
}

struct Running {
    id: u64,
    lease: u64,
    until: u64,
    /// The worker falls silent then; before, it beats three times per lease.
    dies_at: u64,
    /// The job is done then, if the worker still lives.
    ends_at: u64,
}

#[derive(Clone, Copy)]
enum Message {
    Tell(Input),
    Beat { id: u64 },
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix::new(seed);
        let mut spans = |longest: u64, count: u64| -> Vec<(u64, u64)> {
            let start = |rng: &mut SplitMix| 2_000 + rng.below(FAULTS_END - longest - 4_000);
            (0..rng.below(count))
                .map(|_| (start(&mut rng), 100 + rng.below(longest)))
                .map(|(at, long)| (at, at + long))
                .collect()
        };
        let freezes = spans(40_000, 3);
        let outages = spans(15_000, 3);
        let mut world = World {
            rng,
            now: 0,
            upkeep: Upkeep::new(),
            freezes,
            outages,
            scheduled: Vec::new(),
            running: Vec::new(),
            inbox: Vec::new(),
            asked: Vec::new(),
        };
        world.upkeep.handle(Instant::ZERO, Input::Started { longest_lease: None });
        world
    }

    fn run(&mut self) {
        while self.now < END {
            self.now += STEP;
            if self.now < FAULTS_END {
                self.outside_world();
            }
            self.running.retain(|job| self.now < job.ends_at || job.dies_at < job.ends_at);
            if is_within(&self.freezes, self.now) {
                continue;
            }
            // After a thaw the store may come to a request before or after the inbox is drained.
            if self.rng.percent(50) {
                self.execute();
                self.drain_inbox();
            } else {
                self.drain_inbox();
                self.execute();
            }
            self.start_what_is_due();
        }
        assert_eq!(self.scheduled, [] as [u64; 0], "due jobs were not promoted");
        assert_eq!(self.running.len(), 0, "jobs of dead workers were not taken back");
        let rest = self.upkeep.next_deadline().expect("retention goes on").since(instant(self.now));
        assert!(
            self.asked.is_empty() && rest > STALL_TICK * 4,
            "nothing is left to do, and yet there is a tick"
        );
    }

    /// Producers schedule jobs and workers claim some, through other parts of the server.
    fn outside_world(&mut self) {
        if is_within(&self.freezes, self.now) || is_within(&self.outages, self.now) {
            return;
        }
        if self.rng.below(1_000) < 8 {
            let after = self.rng.below(20_000);
            self.scheduled.push(self.now + after);
            self.post(Message::Tell(Input::RunDue { after: Duration::from_millis(after) }));
        }
        if self.rng.below(1_000) < 8 {
            let (id, lease) = (self.rng.next(), 3_000 + self.rng.below(22_000));
            let mut moment = || self.now + self.rng.below(40_000);
            let job = Running { id, lease, until: self.now + lease, dies_at: moment(), ends_at: moment() };
            let beats =
                (1..).map(|n| self.now + n * lease / 3).take_while(|at| *at < job.dies_at.min(job.ends_at));
            self.inbox.extend(beats.map(|at| (at, Message::Beat { id })));
            self.running.push(job);
            self.post(Message::Tell(Input::LeaseGranted { lease: Duration::from_millis(lease) }));
        }
    }

    fn drain_inbox(&mut self) {
        self.inbox.sort_by_key(|(at, _)| *at);
        let arrived = self.inbox.partition_point(|(at, _)| *at <= self.now);
        let messages: Vec<_> = self.inbox.drain(..arrived).collect();
        for (_, message) in messages {
            match message {
                Message::Tell(input) => self.tell(input),
                Message::Beat { id } => self.beat(id),
            }
        }
    }

    fn beat(&mut self, id: u64) {
        if let Some((begun, _)) = self.outages.iter().find(|(from, to)| (*from..*to).contains(&self.now)) {
            let lasted = Duration::from_millis(self.now - begun);
            return self.tell(Input::StoreStalled { lasted });
        }
        if let Some(job) = self.running.iter_mut().find(|job| job.id == id) {
            job.until = job.until.max(self.now + job.lease);
        }
    }

    /// The store comes to what was asked of it.
    fn execute(&mut self) {
        let now = self.now;
        let (due, later) = self.asked.drain(..).partition(|(at, _): &(u64, Output)| *at <= now);
        self.asked = later;
        for (_, output) in due {
            let answer = if is_within(&self.outages, now) {
                Input::Failed { duty: duty(&output) }
            } else {
                self.perform(output)
            };
            self.post(Message::Tell(answer));
        }
    }

    fn perform(&mut self, output: Output) -> Input {
        let now = self.now;
        match output {
            Output::Promote { limit } => {
                let before = self.scheduled.len();
                self.scheduled.retain(|run_at| *run_at > now);
                Input::Promoted { count: before - self.scheduled.len(), limit }
            }
            Output::Reap { not_after, .. } if instant(now) > not_after => Input::Failed { duty: Duty::Reap },
            Output::Reap { limit, .. } => {
                let (lost, kept): (Vec<_>, Vec<_>) = self.running.drain(..).partition(|job| job.until <= now);
                self.running = kept;
                for job in &lost {
                    assert!(job.dies_at < now, "at {now} a job was taken back from a worker that lives");
                }
                Input::ReapDone { found: lost.len(), limit }
            }
            Output::Purge { limit } => Input::PurgeDone { removed: 0, limit },
            Output::ExtendLeases { by } => {
                self.running.iter_mut().for_each(|job| job.until += by.as_millis() as u64);
                Input::Extended
            }
            Output::ReadDeadlines => {
                let span = |at: u64| Duration::from_millis(at.saturating_sub(now));
                Input::Deadlines {
                    next_run_in: self.scheduled.iter().min().copied().map(span),
                    next_lease_in: self.running.iter().map(|job| job.until).min().map(span),
                    longest_lease: self.running.iter().map(|job| Duration::from_millis(job.lease)).max(),
                }
            }
        }
    }

    fn start_what_is_due(&mut self) {
        let now = instant(self.now);
        if self.upkeep.next_deadline().is_some_and(|deadline| deadline <= now) {
            self.upkeep.handle_deadline(now);
        }
        while let Some(output) = self.upkeep.poll_output() {
            let is_under_way = |other: &Output| duty(other) == duty(&output);
            let mut answers = self.inbox.iter().filter_map(|(_, message)| answered_duty(message));
            assert!(!self.asked.iter().any(|(_, other)| is_under_way(other)), "two of {output:?}");
            assert!(!answers.any(|other| other == duty(&output)), "{output:?} before the first was answered");
            if let Output::Reap { .. } = output {
                self.check_no_stall_lately();
            }
            let at = self.now + self.rng.below(60);
            self.asked.push((at, output));
        }
    }

    /// Law: for one lease after a stall nothing is taken back.
    fn check_no_stall_lately(&self) {
        let tolerated = (STALL_TICK + STALL_TOLERANCE).as_millis() as u64 + 2 * STEP;
        for (from, to) in &self.freezes {
            let was_long = to - from > tolerated;
            // Only stalls that began under a lease that the machine knew of count.
            let knew = |job: &&Running| job.until - job.lease + 200 < *from && job.until > *from;
            let lease = self.running.iter().filter(knew).map(|job| job.lease).max().unwrap_or(0);
            let is_recent = (*to..to + lease).contains(&self.now);
            assert!(!(was_long && is_recent), "a rescue at {}, thawed at {to}", self.now);
        }
    }

    fn post(&mut self, message: Message) {
        let at = self.now + self.rng.below(60);
        self.inbox.push((at, message));
    }

    fn tell(&mut self, input: Input) {
        self.upkeep.handle(instant(self.now), input);
    }
}

fn is_within(spans: &[(u64, u64)], now: u64) -> bool {
    spans.iter().any(|(from, to)| (*from..*to).contains(&now))
}

fn instant(at: u64) -> Instant {
    Instant::from_millis(at)
}

fn duty(output: &Output) -> Duty {
    match output {
        Output::Promote { .. } => Duty::Promote,
        Output::Reap { .. } => Duty::Reap,
        Output::Purge { .. } => Duty::Purge,
        Output::ExtendLeases { .. } => Duty::Extend,
        Output::ReadDeadlines => Duty::Read,
    }
}

fn answered_duty(message: &Message) -> Option<Duty> {
    match message {
        Message::Tell(Input::Promoted { .. }) => Some(Duty::Promote),
        Message::Tell(Input::ReapDone { .. }) => Some(Duty::Reap),
        Message::Tell(Input::PurgeDone { .. }) => Some(Duty::Purge),
        Message::Tell(Input::Extended) => Some(Duty::Extend),
        Message::Tell(Input::Deadlines { .. }) => Some(Duty::Read),
        Message::Tell(Input::Failed { duty }) => Some(*duty),
        _ => None,
    }
}

#[test]
fn living_workers_keep_their_jobs_and_dead_ones_lose_them_whatever_stalls() {
    for seed in 0..SEEDS {
        let story = std::panic::catch_unwind(|| World::new(seed).run());
        assert!(story.is_ok(), "seed {seed} breaks a law (see above)");
    }
}
