//! The store as servers see it: calls take time, fail before or after they were done, or wait out a stall.
//!
//! Behind it is the real memory store, which does each call in one go at one moment. A call that is under way when its
//! server dies is still carried out: the statement had left. Except for a registry's writes about its workers: a new life
//! takes the registry over before it reads who is in it, and what an earlier one still has under way is refused from then
//! on. Otherwise a retirement could come after the roster was read, and kill a worker that was just told that it lives.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::{Clock as _, Instant, Job, JobId, LeaseTime, QueuePatch, WallTime};
use store::{JobStore as _, MemoryStore};

use super::call::{Call, Reply};
use super::mutation::Mutation;
use super::server::Then;
use super::setup::{SERVERS, Setup};
use crate::clock::{DriftingClock, SetClock};
use crate::rng::Rng;
use crate::time::Time;

/// The longest a call or its answer takes on a good day.
const QUICK_MAX: Duration = Duration::from_millis(3);
/// The longest a call or its answer takes on a bad one; both together less than what a server makes up for.
const SLOW_MAX: Duration = Duration::from_millis(450);

/// A call failed; whether it was done, nobody knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unavailable;

/// A call on its way.
#[derive(Debug)]
pub(super) struct Pending {
    /// Which server asked, in which life.
    pub(super) server: usize,
    pub(super) life: u32,
    pub(super) call: Call,
    /// What the server does with the answer.
    pub(super) then: Then,
    fate: Fate,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    AnswerLost,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) server: usize,
    pub(super) life: u32,
    pub(super) then: Then,
    pub(super) reply: Result<Reply, Unavailable>,
}

/// The store with its troubles.
pub(super) struct Database {
    store: MemoryStore,
    clock: Arc<SetClock>,
    /// What both clocks showed at the beginning.
    began: (WallTime, Instant),
    rng: Rng,
    next: u64,
    /// By server: the life that owns its registry.
    owners: Vec<u32>,
    pending: BTreeMap<u64, Pending>,
    answered: BTreeMap<u64, Answered>,
    stalled_until: Time,
    slow: Window,
    errors: Window,
    lost_answers: Window,
}

/// A time during which something happens this often, of one.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    until: Time,
    often: f64,
}

impl Database {
    pub(super) fn new(setup: &Setup) -> Self {
        let database = Self::with(setup.seed, setup.store_clock, setup.mutation);
        for queue in &setup.exclusive {
            let patch = QueuePatch { exclusive: Some(true), ..QueuePatch::default() };
            ready(database.store.set_queue(queue, patch)).expect("the memory store never fails");
        }
        database
    }

    fn with(seed: u64, monotonic: DriftingClock, mutation: Option<Mutation>) -> Self {
        let clock = Arc::new(SetClock::new(monotonic));
        let store = match mutation.and_then(Mutation::of_store) {
            Some(mutation) => MemoryStore::broken(clock.clone(), mutation),
            None => MemoryStore::new(clock.clone()),
        };
        Database {
            store,
            began: (clock.wall(), clock.monotonic()),
            clock,
            rng: Rng::stream(seed, 0, "store"),
            next: 0,
            owners: vec![0; SERVERS],
            pending: BTreeMap::new(),
            answered: BTreeMap::new(),
            stalled_until: Time::ZERO,
            slow: Window::default(),
            errors: Window::default(),
            lost_answers: Window::default(),
        }
    }

    /// Sends a call on its way: its number, and when it is carried out.
    pub(super) fn call(
        &mut self,
        now: Time,
        server: usize,
        life: u32,
        call: Call,
        then: Then,
    ) -> (u64, Time) {
        let fate = if self.errors.strikes(now, &mut self.rng) {
            Fate::Refused
        } else if self.lost_answers.strikes(now, &mut self.rng) {
            Fate::AnswerLost
        } else {
            Fate::Done
        };
        self.next += 1;
        self.pending.insert(self.next, Pending { server, life, call, then, fate });
        let at = now + self.transit(now);
        // What waited out a stall is done in any order.
        (self.next, if at < self.stalled_until { self.stalled_until + self.transit(now) } else { at })
    }

    /// A server starts and takes its registry over.
    pub(super) fn take_over(&mut self, server: usize, life: u32) {
        self.owners[server] = life;
    }

    /// The time of a call has come. `None` if it is refused without being looked at.
    pub(super) fn arrive(&self, number: u64) -> Option<&Pending> {
        let pending = self.pending.get(&number).filter(|pending| pending.fate != Fate::Refused)?;
        let is_owner = pending.life == self.owners[pending.server];
        (is_owner || !pending.call.is_about_workers()).then_some(pending)
    }

    /// Sends the answer to a call on its way; when it arrives. No reply means that it was refused.
    pub(super) fn answer(&mut self, now: Time, number: u64, reply: Option<Reply>) -> Time {
        let Pending { server, life, then, fate, .. } =
            self.pending.remove(&number).expect("a call runs once");
        let reply = reply.filter(|_| fate == Fate::Done).ok_or(Unavailable);
        self.answered.insert(number, Answered { server, life, then, reply });
        now + self.transit(now)
    }

    /// The answer with this number arrives.
    pub(super) fn take_answer(&mut self, number: u64) -> Answered {
        self.answered.remove(&number).expect("an answer arrives once")
    }

    /// Does a call, now.
    pub(super) fn run(&self, now: Time, call: Call) -> Reply {
        self.clock.set(now);
        ready(call.run(&self.store)).expect("the memory store never fails")
    }

    /// A job as the store has it, outside of any call.
    pub(super) fn look_at(&self, now: Time, id: JobId) -> Option<Job> {
        self.clock.set(now);
        ready(self.store.get(id)).expect("the memory store never fails")
    }

    /// What the store's lease clock shows now: it begins at the wall clock's date and then counts monotonic time only.
    pub(super) fn lease_clock(&self, now: Time) -> LeaseTime {
        self.clock.set(now);
        let (wall, monotonic) = self.began;
        LeaseTime::from_micros(wall.as_millis() * 1_000) + self.clock.monotonic().since(monotonic)
    }

    /// From now on the wall clock is off by this much.
    pub(super) fn step_wall(&self, by_ms: i64) {
        self.clock.step_wall(by_ms);
    }

    /// Nothing is carried out before.
    pub(super) fn stall(&mut self, until: Time) {
        self.stalled_until = self.stalled_until.max(until);
    }

    /// Until then calls and answers take long this often, of one.
    pub(super) fn slow_down(&mut self, until: Time, often: f64) {
        self.slow = Window { until, often };
    }

    /// Until then calls are refused this often, of one.
    pub(super) fn refuse(&mut self, until: Time, often: f64) {
        self.errors = Window { until, often };
    }

    /// Until then answers to calls that were carried out are lost this often, of one.
    pub(super) fn lose_answers(&mut self, until: Time, often: f64) {
        self.lost_answers = Window { until, often };
    }

    /// From now on nothing is wrong.
    pub(super) fn heal(&mut self, now: Time) {
        self.stalled_until = self.stalled_until.min(now);
        self.slow = Window::default();
        self.errors = Window::default();
        self.lost_answers = Window::default();
    }

    fn transit(&mut self, now: Time) -> Duration {
        let max = if self.slow.strikes(now, &mut self.rng) { SLOW_MAX } else { QUICK_MAX };
        self.rng.span_of_any_size(Duration::from_micros(100), max)
    }
}

impl Window {
    fn strikes(&self, now: Time, rng: &mut Rng) -> bool {
        now < self.until && rng.chance(self.often)
    }
}

/// What a future of the memory store gives: it is ready at its first poll.
fn ready<T>(future: impl Future<Output = T>) -> T {
    future.now_or_never().expect("the memory store never waits")
}

#[cfg(test)]
mod tests {
    use model::{HolderEnd, Kind, NewJob, QueueName, WorkerKey};
    use store::{Claim, EnqueueBatch};

    use super::super::books::job_id;
    use super::*;

    fn database() -> Database {
        Database::with(1, DriftingClock::TRUE, None)
    }

    fn enqueue() -> Call {
        let (queue, kind) = (QueueName::new("q").expect("valid"), Kind::new("k").expect("valid"));
        let jobs = vec![NewJob::new(job_id(1), queue, kind, bytes::Bytes::new())];
        Call::Enqueue(EnqueueBatch { request_id: None, jobs })
    }

    /// Carries a call out as the world does; whether it was answered.
    fn carry_out(database: &mut Database, now: Time, life: u32, call: Call) -> bool {
        let (number, at) = database.call(now, 0, life, call, Then::Cancelled);
        let reply = database.arrive(number).map(|it| it.call.clone()).map(|call| database.run(at, call));
        database.answer(at, number, reply);
        database.take_answer(number).reply.is_ok()
    }

    #[test]
    fn a_refused_call_is_not_done_and_a_lost_answer_is() {
        let (now, later) = (Time::from_millis(1), Time::from_millis(1_000));
        let is_there = |database: &Database| database.look_at(later, job_id(1)).is_some();
        let mut refusing = database();
        refusing.refuse(later, 1.0);
        assert!(!carry_out(&mut refusing, now, 0, enqueue()) && !is_there(&refusing));
        assert!(carry_out(&mut refusing, later, 0, enqueue()) && is_there(&refusing), "the trouble is over");
        let mut losing = database();
        losing.lose_answers(later, 1.0);
        assert!(!carry_out(&mut losing, now, 0, enqueue()) && is_there(&losing));
    }

    #[test]
    fn nothing_happens_before_a_stall_is_over() {
        let mut database = database();
        let until = Time::from_millis(5_000);
        database.stall(until);
        let (_, at) = database.call(Time::ZERO, 0, 0, Call::Deadlines, Then::Started);
        assert!(at > until && at < until + QUICK_MAX * 2);
        database.heal(Time::from_millis(1));
        let (_, at) = database.call(Time::from_millis(1), 0, 0, Call::Deadlines, Then::Started);
        assert!(at < until);
    }

    #[test]
    fn an_earlier_life_writes_nothing_about_workers() {
        let mut database = database();
        let key = WorkerKey::new("w").expect("valid");
        let retire = || Call::Retire { key: key.clone(), end: HolderEnd::Expired };
        database.take_over(0, 2);
        assert!(!carry_out(&mut database, Time::ZERO, 1, retire()));
        assert!(carry_out(&mut database, Time::ZERO, 2, retire()));
        assert!(carry_out(&mut database, Time::ZERO, 1, enqueue()), "other statements had left");
    }

    #[test]
    fn the_lease_clock_is_the_stores() {
        let drifting = DriftingClock::new(Duration::from_secs(7), 1_000_000);
        let mut database = Database::with(1, drifting, None);
        assert!(carry_out(&mut database, Time::ZERO, 0, enqueue()));
        database.step_wall(86_400_000);
        let now = Time::from_millis(60_000);
        let claim = Claim {
            holder: WorkerKey::new("w").expect("valid"),
            queues: vec![QueueName::new("q").expect("valid")],
            limit: 1,
            bytes_max: 1,
            lease: Duration::from_secs(3),
            exclusive: false,
        };
        database.run(now, Call::Claim(claim));
        let row = database.look_at(now, job_id(1)).expect("it is there");
        assert_eq!(row.lease_until, Some(database.lease_clock(now) + Duration::from_secs(3)));
    }
}
