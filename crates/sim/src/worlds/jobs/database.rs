//! The store as servers see it: calls take time, fail before or after they were done, or wait out a stall.
//!
//! Behind it is the real memory store, shared by all servers, which does each call in one go at one moment. A call that is
//! under way when its server dies is still carried out: the statement had left. It is up to the store to refuse what a
//! registry that is gone has under way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use model::{Clock as _, Instant, Job, JobId, LeaseTime, QueuePatch, RegistryId, WallTime};
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
/// The longest a call or its answer takes on the worst of days: longer than a registry stays its owner's without a beat.
pub(super) const LATE_MAX: Duration = Duration::from_secs(8);
/// The longest that a server waits for a store that it cannot reach.
const TIMEOUT: Duration = Duration::from_secs(3);

/// A call failed; whether it was done, nobody knows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Unavailable;

/// A call on its way.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) asker: Asker,
    pub(super) call: Call,
    /// What the server does with the answer, if it has not had one.
    then: Option<Then>,
    fate: Fate,
}

/// Who asks the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Asker {
    pub(super) server: usize,
    /// In which life.
    pub(super) life: u32,
    /// The registry that it had then.
    pub(super) registry: Option<RegistryId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Done,
    Refused,
    AnswerLost,
    /// It is done after its asker was told that it failed.
    DoneTooLate,
}

/// When a call is carried out, and when its answer arrives if that is before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    pub(super) number: u64,
    pub(super) runs_at: Time,
    pub(super) answered_at: Option<Time>,
}

/// An answer on its way.
#[derive(Debug)]
pub(super) struct Answered {
    pub(super) asker: Asker,
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
    pending: BTreeMap<u64, Pending>,
    answered: BTreeMap<u64, Answered>,
    stalled_until: Time,
    slow: Window,
    errors: Window,
    lost_answers: Window,
    late: Window,
    /// By server: until when it cannot reach the store, and whether it is told so at once.
    cuts: Vec<Cut>,
}

/// A server's way to the store is cut.
#[derive(Clone, Copy, Debug, Default)]
struct Cut {
    until: Time,
    /// Nobody says so: calls time out.
    is_silent: bool,
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
            Some(mutation) => MemoryStore::shared_broken(clock.clone(), mutation),
            None => MemoryStore::shared(clock.clone()),
        };
        Database {
            store,
            began: (clock.wall(), clock.monotonic()),
            clock,
            rng: Rng::stream(seed, 0, "store"),
            next: 0,
            pending: BTreeMap::new(),
            answered: BTreeMap::new(),
            stalled_until: Time::ZERO,
            slow: Window::default(),
            errors: Window::default(),
            lost_answers: Window::default(),
            late: Window::default(),
            cuts: vec![Cut::default(); SERVERS],
        }
    }

    /// Sends a call on its way.
    pub(super) fn call(&mut self, now: Time, asker: Asker, call: Call, then: Then) -> Sent {
        self.next += 1;
        let number = self.next;
        let cut = self.cuts[asker.server];
        if now < cut.until {
            self.pending.insert(number, Pending { asker, call, then: Some(then), fate: Fate::Refused });
            let waits = if cut.is_silent { TIMEOUT } else { Duration::ZERO };
            let runs_at = (now + waits).min(cut.until) + self.transit(now);
            return Sent { number, runs_at, answered_at: None };
        }
        let fate = if self.errors.strikes(now, &mut self.rng) {
            Fate::Refused
        } else if self.lost_answers.strikes(now, &mut self.rng) {
            if self.rng.chance(0.5) { Fate::AnswerLost } else { Fate::DoneTooLate }
        } else {
            Fate::Done
        };
        let at = now + self.transit(now);
        // What waited out a stall is done in any order.
        let at = if at < self.stalled_until { self.stalled_until + self.transit(now) } else { at };
        if fate == Fate::DoneTooLate {
            self.answered.insert(number, Answered { asker, then, reply: Err(Unavailable) });
            self.pending.insert(number, Pending { asker, call, then: None, fate });
            let runs_at = at + self.rng.span_of_any_size(Duration::from_millis(1), LATE_MAX);
            return Sent { number, runs_at, answered_at: Some(at) };
        }
        self.pending.insert(number, Pending { asker, call, then: Some(then), fate });
        Sent { number, runs_at: at, answered_at: None }
    }

    /// The time of a call has come. `None` if it is refused without being looked at.
    pub(super) fn arrive(&self, number: u64) -> Option<&Pending> {
        self.pending.get(&number).filter(|pending| pending.fate != Fate::Refused)
    }

    /// Sends the answer to a call on its way; when it arrives, unless it did before. No reply means that it was refused.
    pub(super) fn answer(&mut self, now: Time, number: u64, reply: Option<Reply>) -> Option<Time> {
        let Pending { asker, then, fate, .. } = self.pending.remove(&number).expect("a call runs once");
        let is_heard = fate == Fate::Done && now >= self.cuts[asker.server].until;
        let reply = reply.filter(|_| is_heard).ok_or(Unavailable);
        self.answered.insert(number, Answered { asker, then: then?, reply });
        Some(now + self.transit(now))
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

    /// Until then some calls and answers take very long, this often, of one.
    pub(super) fn be_late(&mut self, until: Time, often: f64) {
        self.late = Window { until, often };
    }

    /// Until then this server cannot reach the store; calls time out if nobody tells it.
    pub(super) fn cut(&mut self, server: usize, until: Time, is_silent: bool) {
        self.cuts[server] = Cut { until: until.max(self.cuts[server].until), is_silent };
    }

    /// From now on nothing is wrong.
    pub(super) fn heal(&mut self, now: Time) {
        self.stalled_until = self.stalled_until.min(now);
        self.slow = Window::default();
        self.errors = Window::default();
        self.lost_answers = Window::default();
        self.late = Window::default();
        self.cuts.fill(Cut::default());
    }

    fn transit(&mut self, now: Time) -> Duration {
        let max = if self.late.strikes(now, &mut self.rng) {
            LATE_MAX
        } else if self.slow.strikes(now, &mut self.rng) {
            SLOW_MAX
        } else {
            QUICK_MAX
        };
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
    use model::{Kind, NewJob, QueueName, WorkerKey};
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

    fn asker(server: usize) -> Asker {
        Asker { server, life: 1, registry: None }
    }

    /// Carries a call out as the world does; whether it was answered.
    fn carry_out(database: &mut Database, now: Time, server: usize, call: Call) -> bool {
        let sent = database.call(now, asker(server), call, Then::Cancelled);
        let Sent { number, runs_at, answered_at } = sent;
        let is_answered = |database: &mut Database| database.take_answer(number).reply.is_ok();
        let early = answered_at.map(|_| is_answered(database));
        let call = database.arrive(number).map(|it| it.call.clone());
        let reply = call.map(|call| database.run(runs_at, call));
        let late = database.answer(runs_at, number, reply).map(|_| is_answered(database));
        early.xor(late).expect("a call is answered once")
    }

    #[test]
    fn a_refused_call_is_not_done_and_a_lost_answer_is() {
        let (now, later) = (Time::from_millis(1), Time::from_millis(100_000));
        let is_there = |database: &Database| database.look_at(later, job_id(1)).is_some();
        let mut refusing = database();
        refusing.refuse(later, 1.0);
        assert!(!carry_out(&mut refusing, now, 0, enqueue()) && !is_there(&refusing));
        assert!(carry_out(&mut refusing, later, 0, enqueue()) && is_there(&refusing), "the trouble is over");
        for _ in 0..20 {
            let mut losing = database();
            losing.lose_answers(later, 1.0);
            assert!(!carry_out(&mut losing, now, 0, enqueue()) && is_there(&losing));
        }
    }

    #[test]
    fn some_of_what_failed_is_done_after_all() {
        let mut database = database();
        let until = Time::from_millis(100_000);
        database.lose_answers(until, 1.0);
        let sent: Vec<Sent> =
            (0..40).map(|_| database.call(Time::ZERO, asker(0), enqueue(), Then::Cancelled)).collect();
        let too_late = sent.iter().filter(|it| it.answered_at.is_some_and(|at| at < it.runs_at)).count();
        assert!((10..30).contains(&too_late), "{too_late} of 40");
    }

    #[test]
    fn nothing_happens_before_a_stall_is_over() {
        let mut database = database();
        let until = Time::from_millis(5_000);
        database.stall(until);
        let at = database.call(Time::ZERO, asker(0), enqueue(), Then::Cancelled).runs_at;
        assert!(at > until && at < until + QUICK_MAX * 2);
        database.heal(Time::from_millis(1));
        let at = database.call(Time::from_millis(1), asker(0), enqueue(), Then::Cancelled).runs_at;
        assert!(at < until);
    }

    #[test]
    fn who_is_cut_off_gets_nothing_done_and_others_do() {
        let mut database = database();
        let until = Time::from_millis(10_000);
        // What had left before is done, and not answered.
        let Sent { number, runs_at, .. } = database.call(Time::ZERO, asker(0), enqueue(), Then::Cancelled);
        database.cut(0, until, true);
        let call = database.arrive(number).expect("it had left").call.clone();
        let reply = database.run(runs_at, call);
        assert!(database.answer(runs_at, number, Some(reply)).is_some());
        assert!(database.take_answer(number).reply.is_err());
        let Sent { number, runs_at, .. } = database.call(runs_at, asker(0), enqueue(), Then::Cancelled);
        assert!(database.arrive(number).is_none() && runs_at > Time::ZERO + TIMEOUT && runs_at < until);
        assert!(carry_out(&mut database, Time::from_millis(1), 1, enqueue()));
        assert!(carry_out(&mut database, until, 0, enqueue()), "the way is free again");
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
