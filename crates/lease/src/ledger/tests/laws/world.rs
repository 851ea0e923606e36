//! One worker's process, its handlers and its network, thrown about by dice.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use super::Tally;
use super::registry::{Desk, Row};
use model::HolderEnd;
use model::splitmix::SplitMix;
use muster::Health;

const SLOTS: u32 = 4;
/// Jobs of an exclusive queue have numbers from here on.
const EXCLUSIVE: u8 = 100;

/// A handler that runs.
struct Handler {
    exclusive: bool,
    /// The key it was started under.
    key: WorkerKey,
    /// When it was first told to stop.
    told_at: Option<Instant>,
}

/// What the server says, but for assignments.
enum Word {
    Answer(u64, Answer),
    Bound(Hold),
}

pub(super) struct World {
    dice: SplitMix,
    now_ms: u64,
    mutation: Option<Mutation>,
    ledger: Ledger,
    desk: Desk,
    /// On its way, with the time of its arrival.
    words: Vec<(u64, Word)>,
    is_connected: bool,
    credits: u32,
    starts: u64,
    fences: i64,
    running: BTreeMap<Hold, Handler>,
    /// Exclusive jobs that were neither started nor given up.
    waiting: BTreeSet<Hold>,
    /// Binds that the worker knows were taken.
    confirmed: BTreeSet<Hold>,
    /// Exclusive jobs that need not wait for that.
    at_once: BTreeSet<Hold>,
    keys: u64,
    loses: bool,
    pub(super) tally: Tally,
}

impl World {
    pub(super) fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        World {
            dice: SplitMix::new(seed),
            now_ms: 0,
            mutation,
            ledger: Ledger { mutation, ..Ledger::new(terms(SLOTS), key("k0"), NONCE) },
            desk: Desk::default(),
            words: Vec::new(),
            is_connected: false,
            credits: 0,
            starts: 0,
            fences: 0,
            running: BTreeMap::new(),
            waiting: BTreeSet::new(),
            confirmed: BTreeSet::new(),
            at_once: BTreeSet::new(),
            keys: 0,
            loses: true,
            tally: Tally::default(),
        }
    }

    fn now(&self) -> Instant {
        at(self.now_ms)
    }

    pub(super) fn step(&mut self) {
        let is_stopped = self.loses && self.dice.percent(2);
        let until_ms = self.now_ms + self.dice.below(if is_stopped { 40_000 } else { 1_500 });
        // A process that was stopped may hear of anything before it comes to its deadlines.
        if !is_stopped {
            self.meet_deadlines(until_ms);
        }
        self.now_ms = until_ms;
        self.desk.expire(self.now());
        self.deliver();
        if self.loses && self.dice.percent(1) {
            self.restart_server();
        }
        if self.is_connected && self.dice.percent(10) {
            self.input(Input::Checked { asked_at: self.now(), lease: LEASE });
        }
        if self.dice.percent(if self.desk.is_unsure { 5 } else { 2 }) {
            self.desk.is_unsure = self.loses && !self.desk.is_unsure;
        }
        match self.dice.below(12) {
            0 if self.loses => self.toggle_connection(),
            1..6 => self.assign(),
            6..9 => self.finish(),
            9 if self.loses => self.take_away(),
            10 if self.loses => self.cancel(),
            11 if self.loses && self.dice.percent(50) => self.desk.kick(&self.ledger.key().clone()),
            _ => {}
        }
        self.send();
        self.check();
    }

    /// Each at its time, or within the millisecond after it.
    fn meet_deadlines(&mut self, until_ms: u64) {
        while let Some(at_ms) = self.ledger.next_deadline().map(|at| at.as_nanos().div_ceil(1_000_000))
            && at_ms <= until_ms
        {
            self.now_ms = self.now_ms.max(at_ms);
            self.desk.expire(self.now());
            self.ledger.handle_deadline(self.now());
            self.carry_out();
            self.check();
        }
    }

    fn input(&mut self, input: Input) {
        self.ledger.handle(self.now(), input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.ledger.poll_output() {
            match output {
                Output::Start { hold } => self.start(hold),
                Output::Stop { hold, reason } => {
                    let is_withheld = self.ledger.exclusive_hold_until() < self.ledger.hold_until();
                    self.tally.withheld += u32::from(reason == StopReason::LeaseOver && is_withheld);
                    self.tell(hold);
                }
                Output::Abort { hold } if self.dice.percent(40) => self.end(hold),
                Output::Ended { hold, .. } => {
                    self.waiting.remove(&hold);
                }
                Output::Doom { hold } => {
                    assert!(self.running.get(&hold).is_none_or(|handler| handler.exclusive));
                    self.tally.dooms += 1;
                    self.restart();
                }
                Output::Farewell { key, all_stopped, stopped_at, .. } => {
                    assert!(stopped_at <= self.now());
                    let counts = |handler: &Handler| all_stopped || handler.exclusive;
                    let left = self.running.iter().find(|(_, handler)| handler.key == key && counts(handler));
                    assert!(
                        left.is_none(),
                        "good-bye of {key:?} while {:?} runs",
                        left.map(|(hold, _)| hold)
                    );
                    self.tally.farewells += 1;
                    if all_stopped {
                        self.desk.leave(&key);
                    }
                }
                Output::NewKey { why } => {
                    self.tally.lapses += u32::from(why == KeyEnd::Lapsed);
                    let key = self.next_key();
                    self.ledger.handle(self.now(), Input::Rekeyed { key });
                    self.ledger.handle(self.now(), Input::Disconnected);
                    self.disconnect();
                }
                _ => {}
            }
        }
    }

    fn next_key(&mut self) -> WorkerKey {
        self.keys += 1;
        key(&format!("k{}", self.keys))
    }

    fn start(&mut self, hold: Hold) {
        let until = self.ledger.hold_until().expect("a start needs a lease");
        assert!(self.now() < until, "started {hold:?} without a lease");
        let exclusive =
            self.desk.rows.get(&hold).is_some_and(|row| row.exclusive) || self.waiting.contains(&hold);
        if exclusive {
            let until = self.ledger.exclusive_hold_until().expect("and an exclusive one needs a hold");
            let is_early = self.now() < Stopping::DEFAULT.stop_at(until);
            assert!(is_early, "started {hold:?} when it should stop");
            let is_at_once = self.at_once.contains(&hold);
            let may_start = is_at_once || self.confirmed.contains(&hold);
            assert!(may_start, "started {hold:?} before its bind was taken");
            assert!(!self.running.keys().any(|other| other.job == hold.job), "{hold:?} runs already");
            let strangers =
                self.running.values().filter(|other| other.exclusive && other.key != *self.ledger.key());
            assert_eq!(strangers.count(), 0, "{hold:?} runs beside exclusive jobs of a dead key");
            self.waiting.remove(&hold);
            self.tally.exclusive_starts += 1;
            self.tally.starts_at_once += u32::from(is_at_once);
            let is_well = self.ledger.health(self.now()) == Health::Healthy;
            assert!(is_well || !is_at_once, "started {hold:?} while it was not well");
        }
        self.running.insert(hold, Handler { exclusive, key: self.ledger.key().clone(), told_at: None });
    }

    /// The process ends with everything it runs; another one takes its place.
    fn restart(&mut self) {
        self.running.clear();
        self.waiting.clear();
        let key = self.next_key();
        self.ledger = Ledger { mutation: self.mutation, ..Ledger::new(terms(SLOTS), key, NONCE) };
        self.words.clear();
        self.disconnect();
    }

    /// The server ends, and another one takes its place that knows nothing.
    fn restart_server(&mut self) {
        self.tally.lives += 1;
        self.desk.restart(self.now());
        self.words.clear();
        self.disconnect();
        self.input(Input::Disconnected);
    }

    fn disconnect(&mut self) {
        self.is_connected = false;
        self.credits = 0;
    }

    fn toggle_connection(&mut self) {
        if self.is_connected {
            self.disconnect();
            self.input(Input::Disconnected);
        } else {
            self.is_connected = true;
            self.starts = 0;
            // What was on its way over the old stream is gone with it.
            self.words.retain(|(_, word)| matches!(word, Word::Answer(..)));
            self.input(Input::Connected { generation: self.desk.generation() });
        }
    }

    fn assign(&mut self) {
        let key = self.ledger.key().clone();
        if self.credits == 0 || !self.desk.is_alive(&key) {
            return;
        }
        let exclusive = self.dice.percent(50);
        let number = self.dice.below(8) as u8 + if exclusive { EXCLUSIVE } else { 0 };
        let hold = hold(number, self.fences + 1);
        let is_held = self.desk.rows.keys().any(|other| other.job == hold.job);
        if exclusive && (is_held || self.desk.is_waiting()) {
            return;
        }
        self.credits -= 1;
        self.starts += 1;
        self.fences += 1;
        // A claim of a job that runs elsewhere follows the end of that claim.
        self.desk.rows.retain(|other, _| other.job != hold.job);
        self.desk.rows.insert(hold, Row { holder: key.clone(), exclusive });
        let start = Start { generation: self.desk.generation(), key, number: self.starts };
        let at_once = exclusive && self.dice.percent(50);
        let grant =
            Grant { hold, lease: LEASE, timeout: None, heartbeat_timeout: None, exclusive, at_once, start };
        if exclusive {
            self.waiting.insert(hold);
        }
        if at_once {
            self.at_once.insert(hold);
        }
        self.input(Input::Assigned(grant));
        if !self.ledger.is_waiting(hold) {
            self.waiting.remove(&hold);
        }
    }

    /// Some handlers listen.
    fn tell(&mut self, hold: Hold) {
        let now = self.now();
        if self.dice.percent(30) {
            self.end(hold);
        } else if let Some(handler) = self.running.get_mut(&hold) {
            handler.told_at.get_or_insert(now);
        }
    }

    fn finish(&mut self) {
        let place = self.dice.below(SLOTS.into()) as usize;
        if let Some(hold) = self.running.keys().nth(place).copied() {
            self.end(hold);
        }
    }

    fn end(&mut self, hold: Hold) {
        if self.running.remove(&hold).is_some() {
            self.ledger.handle(
                self.now(),
                Input::Finished { hold, ended: Ended::Completed(Bytes::new()), at: None },
            );
        }
    }

    /// Someone else gets an ordinary job, for reasons of its own.
    fn take_away(&mut self) {
        let place = self.dice.below(8) as usize;
        let ordinary = self.desk.rows.iter().filter(|(_, row)| !row.exclusive);
        if let Some(hold) = ordinary.map(|(hold, _)| *hold).nth(place) {
            self.desk.rows.remove(&hold);
        }
    }

    fn cancel(&mut self) {
        let place = self.dice.below(8) as usize;
        if let Some(hold) = self.desk.rows.keys().nth(place).copied() {
            self.input(Input::Stopped(Stop { hold, reason: StopOrder::Cancelled }));
        }
    }

    fn send(&mut self) {
        loop {
            let until = self.ledger.hold_until();
            let frame = self.ledger.poll_transmit(self.now());
            self.carry_out();
            // A process that was doomed sends nothing any more.
            let Some(frame) = frame.filter(|_| self.is_connected) else { return };
            let only_heartbeat = Transmit { heartbeat: frame.heartbeat.clone(), ..Transmit::default() };
            match until {
                Some(until) => assert!(self.now() < until, "sent under a key that had lapsed: {frame:?}"),
                None => assert_eq!(frame, only_heartbeat, "the key is not registered"),
            }
            self.credits += frame.credits;
            for report in frame.reports {
                self.report(report.hold);
            }
            for bind in frame.binds {
                if !self.is_lost() && self.desk.bind(self.ledger.key(), bind) && !self.is_lost() {
                    self.arrives(Word::Bound(bind.hold));
                }
            }
            if let Some((number, beat)) = frame.heartbeat
                && !self.is_lost()
            {
                self.check_inheritance(&beat);
                let answer = self.desk.beat(self.now(), &beat);
                self.arrives(Word::Answer(number, answer));
            }
        }
    }

    fn arrives(&mut self, word: Word) {
        let delay_ms = self.dice.below(if self.loses { 6_000 } else { 50 });
        self.words.push((self.now_ms + delay_ms, word));
    }

    fn report(&mut self, hold: Hold) {
        if !self.is_lost() {
            let answer = self.desk.report(self.ledger.key(), hold);
            self.input(Input::ReportAnswered { hold, answer });
        }
    }

    fn deliver(&mut self) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.words).into_iter().partition(|(ms, _)| *ms <= self.now_ms);
        self.words = rest;
        for (_, word) in due {
            match word {
                Word::Answer(..) if self.is_lost() => {}
                Word::Answer(number, answer) => self.input(Input::HeartbeatAnswered { number, answer }),
                Word::Bound(hold) => {
                    self.confirmed.insert(hold);
                    self.input(Input::Bound(vec![hold]));
                }
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        self.loses && self.dice.percent(15)
    }

    fn check_inheritance(&self, beat: &Heartbeat) {
        let Some(_) = &beat.former else { return };
        let full = beat.full.as_ref().expect("a successor names everything");
        let bad = full.iter().find(|hold| self.running.get(hold).is_some_and(|handler| handler.exclusive));
        assert_eq!(bad, None, "an exclusive job that still runs is handed on");
    }

    fn check(&mut self) {
        let key = self.ledger.key();
        if let Some(until) = self.ledger.hold_until()
            && self.now() < until
            && !self.desk.knows(key)
        {
            assert!(until <= self.desk.inherited_until, "{key:?} outlives what a new server waits for");
        } else if let Some(until) = self.ledger.hold_until()
            && self.now() < until
        {
            let end = self.desk.end(key);
            assert!(end.is_none_or(|end| end == HolderEnd::Kicked), "{key:?} ended while its worker may act");
            assert!(
                until <= self.desk.expires(key),
                "{key:?} believes in its lease longer than its registry"
            );
            let exclusive = self.ledger.exclusive_hold_until();
            assert!(
                exclusive <= Some(self.desk.exclusive_expires(key)),
                "{key:?} was not vouched for so long"
            );
        }
        let (running, waiting) = (self.running.len(), self.waiting.len());
        let used = running + waiting + self.credits as usize;
        assert!(used <= SLOTS as usize, "{running} handlers, {waiting} waiting, {} credits", self.credits);
        for hold in self.ledger.holds() {
            let newer = self.ledger.holds().into_iter().any(|other| other.job == hold.job && other > hold);
            assert!(!newer || !self.running.contains_key(&hold), "{hold:?} runs beside its successor");
        }
        for (hold, handler) in self.running.iter().filter(|(_, handler)| handler.exclusive) {
            assert!(!self.desk.handed_over.contains(hold), "{hold:?} runs although it was given away");
            let is_overdue = handler.told_at.is_some_and(|at| at + Stopping::DEFAULT.within() < self.now());
            assert!(!is_overdue, "{hold:?} runs although it was told to stop long ago");
        }
    }

    /// Faults end: everything is heard of, and both sides agree.
    pub(super) fn heal(&mut self) {
        self.loses = false;
        self.desk.is_unsure = false;
        // A stream that loses what is sent over it breaks in the end.
        if self.is_connected {
            self.toggle_connection();
        }
        for _ in 0..60 {
            if !self.is_connected {
                self.toggle_connection();
            }
            self.step();
        }
        for _ in 0..60 {
            self.now_ms += 500;
            self.ledger.handle_deadline(self.now());
            self.carry_out();
            self.send();
            self.deliver();
            self.finish();
            self.carry_out();
        }
        let key = self.ledger.key();
        assert!(self.ledger.is_registered());
        assert_eq!(self.ledger.holds(), [], "everything was settled");
        assert!(!self.desk.has_bound(key), "and the registry was told");
        assert!(!self.desk.rows.values().any(|row| row.holder == *key), "no job is left behind");
    }
}
