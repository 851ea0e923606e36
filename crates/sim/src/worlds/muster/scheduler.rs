//! The scheduler: the machine that ships, and beside it what a server does: leases, answers, and the end of those who are silent.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use lease::clock_rule;
use model::{Generation, Instant, Seat};
use muster::{About, Dismissal, Health, Input, Member, Muster, Output, SetId, Terms, Unhealthy};

use super::books::instance_of;
use super::event::{Down, Event, Fence, Instance, Life, Stream, Task, Up};
use super::laws::{
    exit_is_one_way, held_back_worker_is_not_lost, latch_is_permanent, no_exit_before_all_runners_known,
};
use super::mutation::Mutation;
use super::sets::Sets;
use super::tasks::Entry;
use super::world::World;
use crate::time::Time;

/// One life of the scheduler.
#[derive(Debug)]
pub(super) struct Scheduler {
    pub(super) life: Life,
    pub(super) generation: Generation,
    pub(super) muster: Muster,
    pub(super) sessions: BTreeMap<Instance, Session>,
    /// Whose keys are over.
    gone: BTreeSet<Instance>,
    /// All tasks it knows of.
    pub(super) tasks: BTreeMap<Task, Entry>,
    /// Those that wait for a worker.
    pub(super) queue: VecDeque<Task>,
    /// Healthy workers with room.
    pub(super) ready: BTreeSet<Instance>,
    /// Clients that found it.
    pub(super) clients: BTreeSet<u32>,
    pub(super) fence_last: Fence,
    has_left: bool,
    started: Time,
    /// When it took in each newcomer, in order. One that was turned away holds nobody back.
    pub(super) joins: Vec<Time>,
    /// When the machine is woken, and the number of that wish.
    wake: Option<(Time, u64)>,
    wakes: u64,
    /// The sets that it made, and who is who in them; only where labels are compared.
    pub(super) sets: Sets,
    pub(super) members: BTreeMap<Member, Instance>,
}

/// What a scheduler knows of an instance.
#[derive(Debug)]
pub(super) struct Session {
    pub(super) stream: Stream,
    expires: Instant,
    /// Its lease is renewed.
    renews: bool,
    pub(super) is_healthy: bool,
    was_healthy: bool,
    /// What was sent to it or adopted from it, and on which stream.
    pub(super) tasks: Vec<(Task, Fence, Stream)>,
    pub(super) stamps: Stamps,
    /// When it was first heard of.
    first_heard: Time,
    checks: BTreeMap<u64, Instant>,
}

/// What happened to it, by the scheduler's clock.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stamps {
    pub(super) joined: Instant,
    pub(super) heard: Instant,
    pub(super) fetched: Option<Instant>,
    /// When the latest healthcheck that came back was sent.
    pub(super) checked: Option<Instant>,
}

impl World<'_> {
    pub(super) fn scheduler_starts(&mut self) {
        if self.scheduler.is_some() {
            return;
        }
        self.life += 1;
        let life = self.life;
        let generation = Generation(u64::from(life) << 20 | self.rng.below(1 << 20));
        let terms = Terms {
            rules: self.setup.rules,
            allow_bump_unhealthy: self.setup.allow_bump_unhealthy,
            consensus: muster::consensus::Terms {
                batch_after_min: self.setup.batch_after_min,
                first_version: muster::Version(self.rng.bits()),
                ..Default::default()
            },
            ..Terms::new(generation, self.setup.safe_wait())
        };
        let now = self.setup.scheduler_clock.shows(self.now);
        let muster = match self.setup.mutation.and_then(Mutation::of_machine) {
            Some(mutation) => Muster::broken(now, terms, mutation),
            None => Muster::new(now, terms),
        };
        self.scheduler = Some(Scheduler {
            life,
            generation,
            muster,
            sessions: BTreeMap::new(),
            gone: BTreeSet::new(),
            tasks: BTreeMap::new(),
            queue: VecDeque::new(),
            ready: BTreeSet::new(),
            clients: BTreeSet::new(),
            fence_last: 0,
            has_left: false,
            started: self.now,
            joins: Vec::new(),
            wake: None,
            wakes: 0,
            sets: Sets::default(),
            members: BTreeMap::new(),
        });
        self.tell(|| format!("scheduler {life} starts"));
        self.after_scheduler();
        for client in 0..self.setup.clients {
            let after = self.rng.span_of_any_size(Duration::from_millis(1), Duration::from_secs(5));
            self.push_in(after, Event::ClientConnects(client, life));
        }
    }

    /// It dies; those connected to it notice at once, or when they speak to it the next time.
    pub(super) fn scheduler_dies(&mut self) {
        let is_noticed = self.rng.chance(0.8);
        self.scheduler_ends(is_noticed);
    }

    pub(super) fn scheduler_ends(&mut self, is_noticed: bool) {
        let Some(scheduler) = self.scheduler.take() else { return };
        self.stats.restarts += 1;
        self.tell(|| format!("scheduler {} dies", scheduler.life));
        if is_noticed {
            (0..self.workers.len() as u32).for_each(|slot| self.break_stream(slot));
        }
    }

    pub(super) fn scheduler_wakes(&mut self, life: Life, number: u64) {
        let now = self.setup.scheduler_clock.shows(self.now);
        let Some(scheduler) = self.scheduler.as_mut().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        if scheduler.wake.take_if(|(_, wish)| *wish == number).is_some() {
            scheduler.muster.handle_deadline(now);
            self.after_scheduler();
        }
    }

    /// A message arrives.
    pub(super) fn scheduler_hears(&mut self, life: Life, instance: Instance, stream: Stream, up: Up) {
        let now = self.setup.scheduler_clock.shows(self.now);
        let Some(scheduler) = &mut self.scheduler else { return };
        if scheduler.life != life {
            // Its machine does not know this stream any more, and says so.
            let after = self.delay();
            return self.push_in(after, Event::Broken(self.books.instance(instance).slot, stream));
        }
        let key = self.books.instance(instance).key.clone();
        if scheduler.gone.contains(&instance) {
            return self.send_down(instance, stream, Down::Inactive);
        }
        match up {
            Up::Beat(number, echoed) => self.heard(instance, stream, number, echoed),
            Up::Echo(id) => scheduler.muster.handle(now, Input::Echoed { key, id }),
            Up::Running(running, ended) => self.running(instance, stream, &running, &ended),
            Up::Checked(number) => {
                if let Some(session) = scheduler.sessions.get_mut(&instance)
                    && let Some(sent) = session.checks.remove(&number)
                {
                    session.stamps.checked = session.stamps.checked.max(Some(sent));
                }
                scheduler.muster.handle(now, Input::Checked { key, number });
            }
            Up::Result(task, fence) => self.result(instance, task, fence),
            Up::Refused(task, fence) => self.refused(instance, task, fence),
            Up::Left => self.gone(instance),
        }
        self.after_scheduler();
    }

    fn heard(&mut self, instance: Instance, stream: Stream, number: u64, echoed: Option<SetId>) {
        let now = self.setup.scheduler_clock.shows(self.now);
        let true_now = self.now;
        let (lease, rate_error) = (self.setup.rules.lease, self.setup.rate_error());
        let Some(scheduler) = &mut self.scheduler else { return };
        self.stats.heartbeats += 1;
        let mut is_new = false;
        let session = scheduler.sessions.entry(instance).or_insert_with(|| {
            is_new = true;
            Session::new(now, true_now, stream)
        });
        // What was sent on an earlier stream may not have arrived.
        let is_unsure = session.stream < stream && session.tasks.iter().any(|(.., sent)| *sent < stream);
        session.stream = session.stream.max(stream);
        session.stamps.heard = now;
        if session.renews && (is_new || self.setup.mutation != Some(Mutation::LeasesNeverRenewed)) {
            session.expires = clock_rule::expires(session.expires, now, lease, rate_error);
        }
        if is_new {
            let over = self.setup.scheduler_clock.when(session.expires);
            self.queue.push(over, Event::LeaseOver(scheduler.life, instance));
        }
        let book = self.books.instance(instance);
        let about = About {
            seat: self.setup.workers[book.slot as usize]
                .seat
                .map(|seat| Seat::new(&format!("s{seat}")).expect("a seat")),
            host: format!("host-{}", book.slot),
            started_us: self.workers[book.slot as usize].started.as_nanos() / 1_000,
        };
        let key = book.key.clone();
        // Whoever judges leases answers before anybody else is asked.
        let answer =
            if session.renews { Down::Answer(number, scheduler.muster.current_for(&key)) } else { Down::Die };
        scheduler.muster.handle(now, Input::Heard { key: key.clone(), about, echoed });
        if is_new && let Some(member) = scheduler.muster.member(&key) {
            scheduler.members.insert(member, instance);
            scheduler.joins.push(true_now);
        }
        self.send_down(instance, stream, answer);
        self.take_outputs();
        if is_unsure && !self.setup.is_broken_by(Mutation::UnsureForgotten) {
            self.send_down(instance, stream, Down::Fetch);
        }
    }

    /// The lease of an instance may be over.
    pub(super) fn lease_over(&mut self, life: Life, instance: Instance) {
        let clock = self.setup.scheduler_clock;
        let Some(scheduler) = self.scheduler.as_ref().filter(|scheduler| scheduler.life == life) else {
            return;
        };
        let Some(session) = scheduler.sessions.get(&instance) else { return };
        if clock.shows(self.now) < session.expires {
            return self.queue.push(clock.when(session.expires), Event::LeaseOver(life, instance));
        }
        self.stats.expired += 1;
        self.gone(instance);
        self.after_scheduler();
    }

    /// It runs nothing any more, for certain and for good.
    fn gone(&mut self, instance: Instance) {
        let now = self.setup.scheduler_clock.shows(self.now);
        let Some(scheduler) = &mut self.scheduler else { return };
        scheduler.gone.insert(instance);
        scheduler.ready.remove(&instance);
        let session = scheduler.sessions.remove(&instance);
        let key = self.books.instance(instance).key.clone();
        scheduler.muster.handle(now, Input::Gone { key });
        self.tell(|| format!("instance {instance} is gone"));
        for (task, fence, _) in session.into_iter().flat_map(|session| session.tasks) {
            self.not_there(instance, task, fence);
        }
    }

    /// Does what the machine wants, asks the laws, and sees to it that the machine is woken.
    pub(super) fn after_scheduler(&mut self) {
        self.take_outputs();
        self.dispatch();
        let now = self.now;
        let clock = self.setup.scheduler_clock;
        let Some(scheduler) = &mut self.scheduler else { return };
        let (has_left, is_waiting) = (scheduler.has_left, scheduler.muster.is_waiting());
        if self.setup.labels_every.is_some() {
            scheduler.sets.note(scheduler.muster.consensus());
        }
        if let Some(deadline) = scheduler.muster.next_deadline() {
            let at = clock.when(deadline).max(now);
            if scheduler.wake.is_none_or(|(planned, _)| at < planned) {
                scheduler.wakes += 1;
                scheduler.wake = Some((at, scheduler.wakes));
                let event = Event::SchedulerWakes(scheduler.life, scheduler.wakes);
                self.queue.push(at, event);
            }
        }
        let life = self.life;
        self.judge(exit_is_one_way::check(life, has_left, is_waiting));
    }

    fn take_outputs(&mut self) {
        while let Some(output) = self.scheduler.as_mut().and_then(|scheduler| scheduler.muster.poll_output())
        {
            self.carry_out(output);
        }
    }

    fn carry_out(&mut self, output: Output) {
        let now = self.setup.scheduler_clock.shows(self.now);
        match output {
            Output::Fetch { key } => self.send(instance_of(&key), Down::Fetch),
            Output::Check { key, number } => {
                let instance = instance_of(&key);
                if let Some(session) = self.session_mut(instance) {
                    session.checks.insert(number, now);
                }
                self.send(instance, Down::Check(number));
            }
            Output::Tell { key, id } => self.send(instance_of(&key), Down::Tell(id)),
            Output::Health { key, health } => self.health(instance_of(&key), health),
            Output::Dismiss { key, why } => {
                let instance = instance_of(&key);
                let rules = self.setup.rules;
                self.tell(|| format!("{key} is dismissed: {why:?}"));
                if let Dismissal::Overdue(_) = why
                    && let Some(session) = self.session_mut(instance)
                {
                    let stamps = session.stamps;
                    self.judge(held_back_worker_is_not_lost::check(instance, now, &stamps, &rules));
                }
                self.stop_renewing(instance);
            }
            Output::TurnAway { key, why } => {
                self.tell(|| format!("{key} is turned away: {why:?}"));
                self.stats.turned_away += 1;
                self.stop_renewing(instance_of(&key));
            }
            Output::WaitOver { how, after } => {
                let Some(scheduler) = &mut self.scheduler else { return };
                scheduler.has_left = true;
                let (life, waited) = (scheduler.life, self.now.since(scheduler.started));
                self.stats.note_wait(how, waited);
                self.tell(|| format!("scheduler {life} waits no longer: {how:?} after {after:?}"));
                self.check_exit();
            }
        }
    }

    /// All that runs must be known to a scheduler that leaves its wait.
    fn check_exit(&mut self) {
        let Some(scheduler) = &self.scheduler else { return };
        let knows = |instance| {
            scheduler.sessions.get(&instance).is_some_and(|session| session.stamps.fetched.is_some())
        };
        let stranger = self.books.runners().find(|(instance, _)| !knows(*instance));
        let life = self.life;
        self.judge(no_exit_before_all_runners_known::check(life, stranger));
    }

    fn health(&mut self, instance: Instance, health: Health) {
        let true_now = self.now;
        let is_well = self.is_well(instance);
        self.tell(|| format!("instance {instance} is {health:?}"));
        let Some(session) = self.session_mut(instance) else { return };
        let (was_healthy, since) = (session.was_healthy, true_now.since(session.first_heard));
        let is_healthy = health == Health::Healthy;
        session.is_healthy = is_healthy;
        session.was_healthy |= is_healthy;
        if is_healthy {
            self.healthy_at.entry(self.books.instance(instance).slot).or_insert(true_now);
        }
        if is_healthy && !was_healthy && is_well {
            self.stats.healthy_after.push(since.as_nanos() as u64);
            self.strike_now();
        }
        let is_held_back = health == Health::Unhealthy(Unhealthy::HeldBack);
        self.judge(latch_is_permanent::check(instance, was_healthy, is_held_back));
        self.note_ready(instance);
    }

    fn stop_renewing(&mut self, instance: Instance) {
        if let Some(session) = self.session_mut(instance) {
            session.renews = false;
        }
        self.send(instance, Down::Die);
    }

    pub(super) fn session_mut(&mut self, instance: Instance) -> Option<&mut Session> {
        self.scheduler.as_mut()?.sessions.get_mut(&instance)
    }

    /// On the latest stream that it was heard on.
    pub(super) fn send(&mut self, instance: Instance, down: Down) {
        if let Some(stream) = self.session_mut(instance).map(|session| session.stream) {
            self.send_down(instance, stream, down);
        }
    }

    fn send_down(&mut self, instance: Instance, stream: Stream, down: Down) {
        let slot = self.books.instance(instance).slot;
        let takes = self.delay() + self.worker(slot).lag;
        let now = self.now;
        let worker = self.worker_mut(slot);
        if !worker.carries(stream) {
            return;
        }
        worker.down_at = worker.down_at.max(now + takes);
        let at = worker.down_at;
        self.queue.push(at, Event::ToWorker(instance, stream, down));
    }

    /// How long it has been known and held back, or not looked at yet, although nothing is wrong with it: the longest one.
    pub(super) fn longest_wait_for_health(&self) -> Option<(Instance, Duration)> {
        let scheduler = self.scheduler.as_ref()?;
        let waiting = scheduler
            .sessions
            .iter()
            .filter(|(instance, session)| !session.was_healthy && session.renews && self.is_well(**instance));
        let waits = waits_of(waiting, self.now);
        waits.max_by_key(|(_, wait)| *wait)
    }
}

fn waits_of<'a>(
    sessions: impl Iterator<Item = (&'a Instance, &'a Session)>,
    now: Time,
) -> impl Iterator<Item = (Instance, Duration)> {
    sessions.map(move |(instance, session)| (*instance, now.since(session.first_heard)))
}

impl Session {
    fn new(now: Instant, first_heard: Time, stream: Stream) -> Self {
        Session {
            stream,
            expires: Instant::ZERO,
            renews: true,
            is_healthy: false,
            was_healthy: false,
            tasks: Vec::new(),
            stamps: Stamps { joined: now, heard: now, fetched: None, checked: None },
            first_heard,
            checks: BTreeMap::new(),
        }
    }
}
