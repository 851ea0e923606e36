//! The world itself: one event after another until all is done or a law is broken.

use std::collections::BTreeMap;
use std::time::Duration;

use muster::{Member, Version};

use super::books::Books;
use super::chaos::Heal;
use super::event::{Event, Fence, Instance, Life, Slot};
use super::laws::{indirect_never_exceeds_truth, job_lost, turnover_converges};
use super::scheduler::Scheduler;
use super::setup::{DOWN_MAX, RECONNECT_MAX, RUN_MAX, Setup, TROUBLE_MAX};
use super::stats::Stats;
use super::worker::Worker;
use crate::clock::{DriftingClock, SetClock};
use crate::law::{Verdict, Violation};
use crate::queue::Queue;
use crate::rng::Rng;
use crate::seeds::Outcome;
use crate::time::Time;
use crate::trace::Trace;

/// How often somebody looks whether all is done.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// The shortest that a message is under way.
const DELAY_MIN: Duration = Duration::from_micros(100);

/// One run of the world.
pub(super) struct World<'a> {
    pub(super) setup: Setup,
    pub(super) queue: Queue<Event>,
    pub(super) now: Time,
    pub(super) rng: Rng,
    trace: Trace<'a>,
    pub(super) wall: SetClock,
    /// The present life of the scheduler, or the last one.
    pub(super) life: Life,
    pub(super) scheduler: Option<Scheduler>,
    pub(super) workers: Vec<Worker>,
    pub(super) books: Books,
    /// The highest fence that each client has been told of.
    pub(super) clients: Vec<Fence>,
    /// When the worker in each slot was healthy for the first time.
    pub(super) healthy_at: BTreeMap<Slot, Time>,
    pub(super) stats: Stats,
    /// How much longer some messages take at present.
    pub(super) spike: Duration,
    pub(super) calm_since: Option<Time>,
    /// Since when everything that the last law asks for has been undisturbed.
    undisturbed_since: Option<(Life, Time)>,
    violation: Option<Violation>,
    is_done: bool,
}

impl<'a> World<'a> {
    pub(super) fn new(setup: Setup, trace: Trace<'a>) -> Self {
        let mut queue = Queue::new();
        queue.push(Time::ZERO, Event::SchedulerStarts);
        for (slot, worker) in setup.workers.iter().enumerate() {
            queue.push(Time::ZERO + worker.starts_at, Event::WorkerStarts(slot as Slot));
        }
        (0..setup.plan.faults().count())
            .for_each(|number| queue.push(Time::from_millis(1_000), Event::Fault(number)));
        let mut rng = Rng::stream(setup.seed, 0, "world");
        if setup.submit_every.is_some() {
            queue.push(Time::from_millis(50), Event::Submit);
        }
        if setup.labels_every.is_some() {
            queue.push(Time::from_millis(500), Event::CompareLabels);
        }
        if let Some(mean) = setup.scheduler_dies_every {
            queue.push(Time::ZERO + crate::faults::until_next(&mut rng, mean), Event::SchedulerDies);
        }
        queue.push(Time::ZERO + setup.faults_last, Event::Calm);
        World {
            workers: setup.workers.iter().map(|_| Worker::new()).collect(),
            queue,
            now: Time::ZERO,
            rng,
            trace,
            wall: SetClock::new(DriftingClock::TRUE),
            life: 0,
            scheduler: None,
            books: Books::default(),
            healthy_at: BTreeMap::new(),
            clients: vec![0; setup.clients as usize],
            stats: Stats { workers: setup.workers.len() as u64, ..Stats::default() },
            spike: Duration::ZERO,
            calm_since: None,
            undisturbed_since: None,
            violation: None,
            is_done: false,
            setup,
        }
    }

    /// Runs to the end.
    pub(super) fn run(mut self) -> Outcome<Stats> {
        while !self.is_done && self.violation.is_none() {
            self.step();
        }
        if let Some(violation) = self.violation.clone() {
            self.tell(|| format!("BROKEN {violation}"));
        }
        self.stats.events = self.trace.events();
        self.stats.virtual_time = self.now.since(Time::ZERO);
        self.stats.instances = self.books.instances.len() as u64;
        Outcome { stats: self.stats, hash: self.trace.hash(), at: self.now, violation: self.violation }
    }

    /// Runs until this moment.
    pub(super) fn run_until(&mut self, until: Time) {
        self.queue.push(until, Event::Look);
        while self.now < until {
            self.step();
        }
    }

    fn step(&mut self) {
        let (now, event) = self.queue.pop().expect("somebody always waits for something");
        self.now = now;
        self.happen(event);
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::SchedulerStarts => {
                self.note(&[1]);
                self.scheduler_starts();
            }
            Event::SchedulerDies => {
                self.note(&[2]);
                if self.calm_since.is_none() {
                    self.scheduler_dies_for_a_while();
                }
            }
            Event::SchedulerDiesOnce => {
                self.note(&[18]);
                if self.calm_since.is_none() {
                    self.scheduler_dies();
                }
            }
            Event::SchedulerWakes(life, number) => {
                self.note(&[3, number]);
                self.scheduler_wakes(life, number);
            }
            Event::LeaseOver(life, instance) => {
                self.note(&[4, u64::from(instance)]);
                self.lease_over(life, instance);
            }
            Event::WorkerStarts(slot) => {
                self.note(&[5, u64::from(slot)]);
                self.worker_starts(slot);
            }
            Event::Beat(slot, timer) => {
                self.note(&[6, u64::from(slot)]);
                self.beat(slot, timer);
            }
            Event::Connect(slot, timer) => {
                self.note(&[7, u64::from(slot)]);
                self.connect(slot, timer);
            }
            Event::Broken(slot, stream) => {
                self.note(&[8, u64::from(slot)]);
                self.broken(slot, stream);
            }
            Event::HoldOver(instance) => {
                self.note(&[9, u64::from(instance)]);
                self.hold_over(instance);
            }
            Event::RunEnds(instance, task, fence) => {
                self.note(&[10, u64::from(task), fence as u64]);
                self.run_ends(instance, task, fence);
            }
            Event::Stopped(instance) => {
                self.note(&[11, u64::from(instance)]);
                self.stopped(instance);
            }
            Event::ToScheduler(life, instance, stream, up) => {
                self.note(&[12, u64::from(instance)]);
                self.scheduler_hears(life, instance, stream, up);
            }
            Event::ToWorker(instance, stream, down) => {
                self.note(&[13, u64::from(instance)]);
                self.worker_hears(instance, stream, down);
            }
            Event::ClientConnects(client, life) => {
                self.note(&[14, u64::from(client)]);
                self.client_connects(client, life);
            }
            Event::Submit => {
                self.note(&[15]);
                self.submit();
            }
            Event::Fault(number) => {
                self.note(&[16, number as u64]);
                self.strike(number);
            }
            Event::Heal(heal) => {
                self.note(&[17]);
                self.heal(heal);
            }
            Event::CompareLabels => self.compare_labels(),
            Event::Calm => self.calm_down(),
            Event::Look => self.look(),
        }
    }

    /// Nothing new goes wrong from now on, except to those that never last, for a while.
    fn calm_down(&mut self) {
        self.calm_since = Some(self.now);
        self.spike = Duration::ZERO;
        for slot in 0..self.workers.len() as Slot {
            self.heal(Heal::Unblock(slot));
            self.heal(Heal::NoLag(slot));
            self.heal(Heal::Thaw(slot));
            self.queue.push(self.now, Event::WorkerStarts(slot));
        }
        self.queue.push(self.now, Event::SchedulerStarts);
        self.queue.push(self.now, Event::Look);
    }

    /// Whether all is well by now.
    fn look(&mut self) {
        let Some(since) = self.calm_since else { return };
        let calm = self.now.since(since);
        let bound = self.bound();
        self.judge(job_lost::check(&self.books, calm, bound));
        self.look_for_health();
        let settles = turnover_converges::bound(&self.setup.rules, self.setup.rate_error());
        let is_settled =
            calm > settles && self.longest_wait_for_health().is_none_or(|(_, wait)| wait < settles / 2);
        self.is_done = (self.books.open == 0 && is_settled) || calm > bound + settles;
        self.push_in(LOOK_EVERY, Event::Look);
    }

    /// Good workers become healthy in time. It counts from the last disturbance: a new scheduler, the end of its wait, the calm.
    fn look_for_health(&mut self) {
        let Some(scheduler) = self.scheduler.as_ref().filter(|it| !it.muster.is_waiting()) else {
            return self.undisturbed_since = None;
        };
        let life = scheduler.life;
        let (_, since) = *self.undisturbed_since.insert(match self.undisturbed_since {
            Some((same, since)) if same == life => (life, since),
            _ => (life, self.now),
        });
        let bound = turnover_converges::bound(&self.setup.rules, self.setup.rate_error());
        if let Some((instance, waited)) = self.longest_wait_for_health()
            && let Some(scheduler) = &self.scheduler
        {
            let terms = muster::consensus::Terms::default();
            let share = scheduler.sessions.len() / terms.batch_after_share as usize;
            let waits = turnover_converges::Waits {
                instance,
                since: since.max(self.now - waited),
                joins: &scheduler.joins,
                additions_max: share.max(self.setup.batch_after_min as usize),
            };
            let verdict = turnover_converges::check(&waits, self.now, bound, || self.held_back(instance));
            self.judge(verdict);
        }
    }

    /// What holds an instance back, in words.
    fn held_back(&self, instance: Instance) -> String {
        let Some(scheduler) = &self.scheduler else { return String::new() };
        let consensus = scheduler.muster.consensus();
        let member = scheduler.members.iter().find(|(_, it)| **it == instance).map(|(member, _)| *member);
        let Some(why) = member.and_then(|member| consensus.permits(member).err()) else {
            return "its health".to_owned();
        };
        let by = why.by().and_then(|by| scheduler.members.get(&by));
        format!("{why}, by instance {by:?}; {} queued", consensus.queued())
    }

    /// How long the last task may take after the faults.
    fn bound(&self) -> Duration {
        let rules = &self.setup.rules;
        // The last scheduler starts, its wait ends, and its workers become healthy.
        let starts = DOWN_MAX + self.setup.safe_wait() + RECONNECT_MAX * 2;
        let healthy = turnover_converges::bound(rules, self.setup.rate_error());
        // What nobody runs any more is known to be lost after a lease.
        let lost = self.setup.rate_error().longer(rules.lease) * 2 + TROUBLE_MAX;
        // Then everything that is wanted runs, on whoever is good.
        let good = self.setup.workers.iter().filter(|worker| !worker.is_looping);
        let slots: u32 = good.map(|worker| worker.slots).sum();
        self.loops_on_for()
            + starts
            + healthy
            + lost
            + RUN_MAX * (2 + self.books.tasks.len() as u32 / slots.max(1))
    }

    /// How long those that never last go on in the calm: others must become healthy beside them.
    pub(super) fn loops_on_for(&self) -> Duration {
        turnover_converges::bound(&self.setup.rules, self.setup.rate_error()) * 2
    }

    /// Compares every label with what is so.
    fn compare_labels(&mut self) {
        let Some(every) = self.setup.labels_every else { return };
        self.push_in(every, Event::CompareLabels);
        let Some(scheduler) = &self.scheduler else { return };
        let consensus = scheduler.muster.consensus();
        let held: BTreeMap<Member, Version> = scheduler
            .members
            .iter()
            .filter_map(|(member, instance)| {
                Some((*member, self.books.version_kept(*instance, scheduler.generation)?))
            })
            .collect();
        let labels: Vec<(Member, Version)> =
            scheduler.members.keys().filter_map(|it| Some((*it, consensus.label_of(*it)?))).collect();
        let verdict = labels.iter().try_for_each(|(member, label)| {
            indirect_never_exceeds_truth::check(*member, *label, scheduler.sets.required(*member, &held))
        });
        self.stats.labels += labels.len() as u64;
        self.judge(verdict);
    }

    /// A law was asked.
    pub(super) fn judge(&mut self, verdict: Verdict) {
        if let Err(violation) = verdict
            && self.violation.is_none()
            && self.setup.only_law.is_none_or(|law| law == violation.law)
        {
            self.violation = Some(violation);
        }
    }

    /// How long a message is under way.
    pub(super) fn delay(&mut self) -> Duration {
        let usual = self.rng.span(DELAY_MIN, self.setup.delay_max);
        if self.spike > Duration::ZERO && self.rng.chance(0.2) {
            usual + self.rng.span(DELAY_MIN, self.spike)
        } else {
            usual
        }
    }

    pub(super) fn push_in(&mut self, after: Duration, event: Event) {
        self.queue.push(self.now + after, event);
    }

    pub(super) fn tell(&mut self, text: impl FnOnce() -> String) {
        self.trace.tell(self.now, text);
    }

    /// How many events there were.
    pub(super) fn events(&self) -> u64 {
        self.trace.events()
    }

    fn note(&mut self, words: &[u64]) {
        self.trace.event(self.now, words);
    }
}
