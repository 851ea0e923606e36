//! Workers: they hold a lease by their own clock, keep the last set id, run tasks, and stop in time.

use std::collections::VecDeque;
use std::time::Duration;

use lease::clock_rule::{self, Stopping};
use lease::wellness::Wellness;
use model::{Generation, Instant};
use muster::{Health, SetId, set};

use super::event::{Down, Event, Fence, Instance, Life, Slot, Stream, Task, Up};
use super::laws::never_running_twice;
use super::mutation::Mutation;
use super::setup::{RECONNECT_MAX, RUN_MAX};
use super::world::World;
use crate::time::Time;

/// After so many heartbeat intervals without an answer a worker gives up its stream.
const UNANSWERED_MAX: u32 = 2;
/// The shortest time between two attempts to connect.
const RECONNECT_MIN: Duration = Duration::from_millis(100);
/// The longest that one who was told to die stays away.
const AWAY_MAX: Duration = Duration::from_secs(40);
/// The longest that a guardian takes to stop what a dead process left behind.
const GUARDIAN_MAX: Duration = Duration::from_millis(800);

/// A place for workers, with the one that is there now.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) process: Process,
    pub(super) instance: Instance,
    /// When its process started.
    pub(super) started: Time,
    /// Cut off from the scheduler.
    pub(super) is_blocked: bool,
    /// The stream it had when it was cut off brings nothing any more, even when it can be reached again.
    pub(super) dead_stream: Option<Stream>,
    /// How much longer everything takes, in both directions.
    pub(super) lag: Duration,
    /// The scheduler that it belongs to, and its life.
    belongs: Option<(Generation, Life)>,
    /// How it is by its own clock.
    wellness: Wellness,
    /// Its present stream, if it has one.
    stream: Option<Stream>,
    streams: Stream,
    beats: u64,
    /// When heartbeats without an answer were sent, by its own clock.
    unanswered: VecDeque<(u64, Instant)>,
    /// When the stream last brought an answer, or began.
    answered: Time,
    /// Results that nobody acknowledged.
    results: Vec<(Task, Fence)>,
    /// Its timers carry this number; others are late.
    timer: u32,
    /// What arrived while it was stopped.
    inbox: Vec<(Stream, Down)>,
    /// When the last message of each direction arrives: streams keep the order.
    up_at: Time,
    pub(super) down_at: Time,
}

/// A worker's process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Process {
    Down,
    Up,
    /// Stopped, until somebody continues it.
    Frozen,
}

impl Worker {
    pub(super) fn new() -> Self {
        Worker {
            process: Process::Down,
            instance: Instance::MAX,
            started: Time::ZERO,
            is_blocked: false,
            dead_stream: None,
            lag: Duration::ZERO,
            belongs: None,
            wellness: Wellness::default(),
            stream: None,
            streams: 0,
            beats: 0,
            unanswered: VecDeque::new(),
            answered: Time::ZERO,
            results: Vec::new(),
            timer: 0,
            inbox: Vec::new(),
            up_at: Time::ZERO,
            down_at: Time::ZERO,
        }
    }

    /// Whether what is sent on this stream now will arrive.
    pub(super) fn carries(&self, stream: Stream) -> bool {
        !self.is_blocked && self.dead_stream != Some(stream)
    }
}

impl World<'_> {
    /// A process starts, with a key that nobody has had.
    pub(super) fn worker_starts(&mut self, slot: Slot) {
        if self.worker(slot).process != Process::Down {
            return;
        }
        let now = self.now;
        self.worker_mut(slot).process = Process::Up;
        self.worker_mut(slot).started = now;
        self.begin_instance(slot);
        if self.setup.workers[slot as usize].is_looping {
            // It gets as far as saying hello, or a little farther.
            let lasts = self.rng.span_of_any_size(Duration::from_millis(5), Duration::from_secs(3));
            self.push_in(lasts, Event::Heal(super::chaos::Heal::LooperDies(slot)));
        }
    }

    /// A new key, without a past.
    fn begin_instance(&mut self, slot: Slot) {
        let instance = self.books.begin(slot);
        let worker = self.worker_mut(slot);
        worker.instance = instance;
        worker.belongs = None;
        worker.wellness = Wellness::default();
        worker.stream = None;
        worker.unanswered.clear();
        worker.results.clear();
        worker.inbox.clear();
        self.connect_soon(slot, Duration::ZERO);
    }

    /// A process dies. What it left behind is stopped by its guardian, which says so; or the whole machine is dark.
    pub(super) fn worker_dies(&mut self, slot: Slot, with_guardian: bool) {
        let worker = self.worker_mut(slot);
        if worker.process == Process::Down {
            return;
        }
        worker.process = Process::Down;
        worker.timer += 1;
        let instance = worker.instance;
        self.books.instance_mut(instance).is_over = true;
        self.tell(|| format!("worker {slot} dies, guardian {with_guardian}"));
        if with_guardian {
            let takes = self.rng.span(Duration::ZERO, GUARDIAN_MAX);
            self.push_in(takes, Event::Stopped(instance));
        } else {
            self.worker_mut(slot).stream = None;
            self.books.stop(instance);
        }
    }

    /// The guardian has stopped everything, and says so if it can.
    pub(super) fn stopped(&mut self, instance: Instance) {
        self.books.stop(instance);
        let slot = self.books.instance(instance).slot;
        if self.worker(slot).instance == instance {
            self.send_up(slot, Up::Left);
            self.worker_mut(slot).stream = None;
        }
    }

    /// It is cut off from the scheduler.
    pub(super) fn block(&mut self, slot: Slot) {
        let worker = self.worker_mut(slot);
        worker.is_blocked = true;
        worker.dead_stream = worker.stream;
    }

    pub(super) fn freeze(&mut self, slot: Slot) {
        if self.worker(slot).process == Process::Up {
            self.worker_mut(slot).process = Process::Frozen;
        }
    }

    pub(super) fn thaw(&mut self, slot: Slot) {
        if self.worker(slot).process != Process::Frozen {
            return;
        }
        self.worker_mut(slot).process = Process::Up;
        let instance = self.worker(slot).instance;
        // It looks at its clock before anything else.
        if self.books.instance(instance).is_over {
            self.begin_instance(slot);
            return;
        }
        for (stream, down) in std::mem::take(&mut self.worker_mut(slot).inbox) {
            if self.worker(slot).instance == instance {
                self.worker_hears(instance, stream, down);
            }
        }
        let worker = self.worker(slot);
        if worker.instance == instance && worker.process == Process::Up && worker.stream.is_some() {
            self.say_results(slot);
            self.beat_now(slot);
        }
    }

    /// Its stream is broken and it knows.
    pub(super) fn broken(&mut self, slot: Slot, stream: Stream) {
        if self.worker(slot).stream == Some(stream) {
            self.worker_mut(slot).stream = None;
            let after = self.rng.span(Duration::ZERO, RECONNECT_MIN);
            self.connect_soon(slot, after);
        }
    }

    /// Its stream is broken; it learns that soon, if it can.
    pub(super) fn break_stream(&mut self, slot: Slot) {
        if let Some(stream) = self.worker(slot).stream {
            let after = self.rng.span(Duration::ZERO, Duration::from_millis(50));
            self.push_in(after, Event::Broken(slot, stream));
        }
    }

    fn connect_soon(&mut self, slot: Slot, after: Duration) {
        let worker = self.worker_mut(slot);
        worker.timer += 1;
        let timer = worker.timer;
        self.push_in(after, Event::Connect(slot, timer));
    }

    /// Tries to connect: the scheduler says who it is, and gets a heartbeat at once.
    pub(super) fn connect(&mut self, slot: Slot, timer: u32) {
        let worker = self.worker(slot);
        if worker.timer != timer || worker.process == Process::Down {
            return;
        }
        let scheduler = self.scheduler.as_ref().map(|scheduler| (scheduler.generation, scheduler.life));
        let (Some(scheduler), Process::Up, false) = (scheduler, worker.process, worker.is_blocked) else {
            let after = self.rng.span(RECONNECT_MIN, RECONNECT_MAX);
            return self.connect_soon(slot, after);
        };
        let now = self.now;
        let worker = self.worker_mut(slot);
        worker.streams += 1;
        worker.stream = Some(worker.streams);
        // Each stream keeps its own order.
        worker.up_at = now;
        worker.down_at = now;
        worker.belongs = Some(scheduler);
        worker.wellness.belongs_to(scheduler.0);
        worker.unanswered.clear();
        worker.answered = now;
        self.beat_now(slot);
        self.say_results(slot);
    }

    /// Sends a heartbeat now, and the next ones from now on.
    fn beat_now(&mut self, slot: Slot) {
        let worker = self.worker_mut(slot);
        worker.timer += 1;
        let timer = worker.timer;
        self.beat(slot, timer);
    }

    /// Time for a heartbeat.
    pub(super) fn beat(&mut self, slot: Slot, timer: u32) {
        let (now, interval) = (self.now, self.setup.rules.heartbeat);
        let clock = self.setup.workers[slot as usize].clock;
        let worker = self.worker_mut(slot);
        if worker.timer != timer || worker.process != Process::Up {
            return;
        }
        let Some(stream) = worker.stream else { return };
        if now.since(worker.answered) > interval * UNANSWERED_MAX + interval / 2 {
            return self.broken(slot, stream);
        }
        worker.beats += 1;
        let (number, instance) = (worker.beats, worker.instance);
        // The stamp is taken before the heartbeat is sent.
        worker.unanswered.push_back((number, clock.shows(now)));
        let kept = self.books.instance(instance).kept;
        self.send_up(slot, Up::Beat(number, kept));
        let next = clock.when(clock.shows(now) + interval);
        self.queue.push(next, Event::Beat(slot, timer));
    }

    /// A message arrives.
    pub(super) fn worker_hears(&mut self, instance: Instance, stream: Stream, down: Down) {
        let slot = self.books.instance(instance).slot;
        let is_start = matches!(down, Down::Start(..));
        let takes_old = is_start && self.setup.is_broken_by(Mutation::OldStartsTaken);
        let worker = self.worker_mut(slot);
        if worker.instance != instance || worker.stream != Some(stream) && !takes_old {
            return;
        }
        match worker.process {
            Process::Down => return,
            Process::Frozen => return worker.inbox.push((stream, down)),
            Process::Up => {}
        }
        match down {
            Down::Answer(number, id) => self.answered(slot, number, id),
            Down::Tell(id) => self.keep(slot, id),
            Down::Fetch => {
                let running = self.books.instance(instance).runs.clone();
                let ended = self.worker(slot).results.clone();
                self.send_up(slot, Up::Running(running, ended));
            }
            Down::Check(number) => {
                let (now, lease) =
                    (self.setup.workers[slot as usize].clock.shows(self.now), self.setup.rules.lease);
                self.worker_mut(slot).wellness.checked(now, lease);
                self.send_up(slot, Up::Checked(number));
            }
            Down::Start(task, fence) => self.start(slot, task, fence),
            Down::Acknowledged(task, fence) => {
                self.worker_mut(slot).results.retain(|result| *result != (task, fence));
            }
            Down::Inactive | Down::Die => self.give_up(slot),
        }
    }

    fn answered(&mut self, slot: Slot, number: u64, id: Option<SetId>) {
        let now = self.now;
        let (lease, rate_error) = (self.setup.rules.lease, self.setup.rate_error());
        let clock = self.setup.workers[slot as usize].clock;
        let worker = self.worker_mut(slot);
        worker.answered = now;
        let Some(place) = worker.unanswered.iter().position(|(beat, _)| *beat == number) else { return };
        let (_, sent) = worker.unanswered.drain(..=place).next_back().expect("it was found");
        let hold_until = clock_rule::hold_until(sent, lease, rate_error);
        if hold_until <= clock.shows(now) {
            return;
        }
        worker.wellness.heard(sent, true);
        let instance = worker.instance;
        let book = self.books.instance_mut(instance);
        // One timer for each instance, set again when it is early.
        if book.hold_until.is_none() {
            self.queue.push(clock.when(hold_until), Event::HoldOver(instance));
        }
        book.hold_until = book.hold_until.max(Some(hold_until));
        if let Some(id) = id {
            self.keep(slot, id);
        }
    }

    /// Keeps the id if it is news, and says so at once.
    fn keep(&mut self, slot: Slot, told: SetId) {
        let worker = self.worker(slot);
        let (instance, Some((scheduler, _))) = (worker.instance, worker.belongs) else { return };
        let kept = &mut self.books.instance_mut(instance).kept;
        let now_kept = set::keep(*kept, scheduler, told);
        if *kept != now_kept {
            *kept = now_kept;
            self.send_up(slot, Up::Echo(told));
        }
    }

    fn start(&mut self, slot: Slot, task: Task, fence: Fence) {
        let instance = self.worker(slot).instance;
        if !self.may_start(slot) {
            self.stats.starts_refused += 1;
            return self.send_up(slot, Up::Refused(task, fence));
        }
        self.stats.starts += 1;
        self.tell(|| format!("worker {slot} instance {instance} starts task {task} fence {fence}"));
        let runner = self.books.started(instance, task, fence);
        self.judge(never_running_twice::check(task, (instance, fence), runner));
        let lasts = self.rng.span_of_any_size(Duration::from_millis(200), RUN_MAX);
        self.push_in(lasts, Event::RunEnds(instance, task, fence));
    }

    /// Whether it may be given work, by its own clock.
    fn may_start(&self, slot: Slot) -> bool {
        let shown = self.setup.workers[slot as usize].clock.shows(self.now);
        let worker = self.worker(slot);
        let hold_until = self.books.instance(worker.instance).hold_until;
        hold_until.is_some() && worker.wellness.health(shown, hold_until) == Health::Healthy
            || self.setup.is_broken_by(Mutation::HoldIgnored)
    }

    pub(super) fn run_ends(&mut self, instance: Instance, task: Task, fence: Fence) {
        if !self.books.ended(instance, task, fence) {
            return;
        }
        let slot = self.books.instance(instance).slot;
        let worker = self.worker_mut(slot);
        if worker.instance == instance && worker.process != Process::Down {
            worker.results.push((task, fence));
            if worker.process == Process::Up {
                self.send_up(slot, Up::Result(task, fence));
            }
        }
    }

    fn say_results(&mut self, slot: Slot) {
        for (task, fence) in self.worker(slot).results.clone() {
            self.send_up(slot, Up::Result(task, fence));
        }
    }

    /// The hold may be over: then everything stops, whether or not the process is awake, and the key is never used again.
    pub(super) fn hold_over(&mut self, instance: Instance) {
        let slot = self.books.instance(instance).slot;
        let clock = self.setup.workers[slot as usize].clock;
        if self.setup.is_broken_by(Mutation::HoldIgnored) {
            return;
        }
        let until = self.books.instance(instance).hold_until.expect("the timer was set for a hold");
        if clock.shows(self.now) < until {
            return self.queue.push(clock.when(until), Event::HoldOver(instance));
        }
        self.books.stop(instance);
        let was_over = std::mem::replace(&mut self.books.instance_mut(instance).is_over, true);
        if was_over {
            return;
        }
        self.tell(|| format!("worker {slot} instance {instance} stops: its hold is over"));
        self.stats.lapses += 1;
        if self.worker(slot).process == Process::Up {
            self.begin_instance(slot);
        }
    }

    /// Stops everything, which takes a while, says so, and comes back under another key later.
    fn give_up(&mut self, slot: Slot) {
        let worker = self.worker_mut(slot);
        worker.process = Process::Down;
        worker.timer += 1;
        let instance = worker.instance;
        self.books.instance_mut(instance).is_over = true;
        let takes = self.rng.span(Duration::ZERO, Stopping::DEFAULT.within());
        self.push_in(takes, Event::Stopped(instance));
        let after = self.rng.span(takes, AWAY_MAX);
        self.push_in(after, Event::WorkerStarts(slot));
    }

    fn send_up(&mut self, slot: Slot, up: Up) {
        let takes = self.delay() + self.worker(slot).lag;
        let now = self.now;
        let worker = self.worker_mut(slot);
        let Some((stream, (_, life))) = worker.stream.zip(worker.belongs) else { return };
        if !worker.carries(stream) {
            return;
        }
        worker.up_at = worker.up_at.max(now + takes);
        let (at, instance) = (worker.up_at, worker.instance);
        self.queue.push(at, Event::ToScheduler(life, instance, stream, up));
    }

    pub(super) fn worker(&self, slot: Slot) -> &Worker {
        &self.workers[slot as usize]
    }

    pub(super) fn worker_mut(&mut self, slot: Slot) -> &mut Worker {
        &mut self.workers[slot as usize]
    }

    /// Whether this instance is awake and nothing is wrong with it or its network.
    pub(super) fn is_well(&self, instance: Instance) -> bool {
        let book = self.books.instance(instance);
        let worker = self.worker(book.slot);
        let is_good = !self.setup.workers[book.slot as usize].is_looping;
        is_good && worker.instance == instance && worker.process == Process::Up && !worker.is_blocked
    }
}
