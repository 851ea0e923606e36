//! Laws of the ledger over random histories: a small registry, a network that loses and delays answers, a process that
//! is stopped now and then.

use std::collections::{BTreeMap, BTreeSet};

use super::*;
use crate::clock_rule;
use crate::digest::Digest;
use crate::message::InactiveReason;
use model::HolderEnd;

const SEEDS: u64 = 500;
const STEPS: usize = 300;
const SLOTS: u32 = 4;

/// A generator whose seed tells the whole story (SplitMix64).
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

/// A worker as the registry knows it.
struct Entity {
    token: Option<Token>,
    expires: Instant,
    bound: BTreeSet<Hold>,
    applied: u64,
    is_ended: bool,
}

struct World {
    dice: Dice,
    now_ms: u64,
    ledger: Ledger,
    entities: BTreeMap<WorkerKey, Entity>,
    /// Whose every running job is.
    rows: BTreeMap<Hold, WorkerKey>,
    tokens: u64,
    /// Answers on their way: when they arrive, which heartbeat they are for.
    answers: Vec<(u64, u64, Answer)>,
    is_connected: bool,
    credits: u32,
    starts: u64,
    fences: i64,
    running: Vec<Hold>,
    keys: u64,
    loses: bool,
    lapses: u32,
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let ledger = Ledger::new(terms(SLOTS), key("k0"), NONCE);
        World {
            dice: Dice(seed),
            now_ms: 0,
            ledger: Ledger { mutation, ..ledger },
            entities: BTreeMap::new(),
            rows: BTreeMap::new(),
            tokens: 0,
            answers: Vec::new(),
            is_connected: false,
            credits: 0,
            starts: 0,
            fences: 0,
            running: Vec::new(),
            keys: 0,
            loses: true,
            lapses: 0,
        }
    }

    fn now(&self) -> Instant {
        at(self.now_ms)
    }

    fn step(&mut self) {
        let is_stopped = self.loses && self.dice.percent(2);
        self.now_ms += self.dice.below(if is_stopped { 40_000 } else { 1_500 });
        self.expire();
        // A process that was stopped may hear of anything before it comes to its deadlines.
        if !is_stopped {
            self.ledger.handle_deadline(self.now());
            self.carry_out();
        }
        self.deliver();
        match self.dice.below(10) {
            0 if self.loses => self.toggle_connection(),
            1..5 => self.assign(),
            5..8 => self.finish(),
            8 if self.loses => self.take_away(),
            _ => {}
        }
        self.send();
        self.check();
    }

    fn input(&mut self, input: Input) {
        self.ledger.handle(self.now(), input);
        self.carry_out();
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.ledger.poll_output() {
            match output {
                Output::Start { hold } => {
                    let is_allowed = self.ledger.hold_until().is_some_and(|until| self.now() < until);
                    assert!(is_allowed, "started {hold:?} without a lease");
                    self.running.push(hold);
                }
                Output::NewKey { why } => {
                    self.lapses += u32::from(why == KeyEnd::Lapsed);
                    self.keys += 1;
                    let key = key(&format!("k{}", self.keys));
                    self.ledger.handle(self.now(), Input::Rekeyed { key });
                    self.ledger.handle(self.now(), Input::Disconnected);
                    self.disconnect();
                }
                _ => {}
            }
        }
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
            self.input(Input::Connected { generation: GENERATION });
        }
    }

    /// The registry's clock: what is over is taken back.
    fn expire(&mut self) {
        let now = self.now();
        for (key, entity) in &mut self.entities {
            if !entity.is_ended && entity.expires <= now {
                entity.is_ended = true;
                self.rows.retain(|_, holder| holder != key);
            }
        }
    }

    fn assign(&mut self) {
        let key = self.ledger.key().clone();
        let is_alive = self.entities.get(&key).is_some_and(|entity| !entity.is_ended);
        if self.credits == 0 || !is_alive {
            return;
        }
        self.credits -= 1;
        self.starts += 1;
        self.fences += 1;
        let hold = hold(self.dice.below(8) as u8, self.fences);
        // A claim of a job that runs elsewhere follows the end of that claim.
        self.rows.retain(|other, _| other.job != hold.job);
        self.rows.insert(hold, key.clone());
        let start = Start { generation: GENERATION, key, number: self.starts };
        let binds_at_once = self.dice.percent(20);
        let grant =
            Grant { hold, lease: LEASE, timeout: None, heartbeat_timeout: None, binds_at_once, start };
        self.input(Input::Assigned(grant));
    }

    fn finish(&mut self) {
        if self.running.is_empty() {
            return;
        }
        let place = self.dice.below(self.running.len() as u64) as usize;
        let hold = self.running.swap_remove(place);
        self.input(Input::Finished { hold, ended: Ended::Completed(Bytes::new()) });
    }

    /// Someone else gets a job, for reasons of its own.
    fn take_away(&mut self) {
        let place = self.dice.below(8) as usize;
        if let Some(hold) = self.rows.keys().nth(place).copied() {
            self.rows.remove(&hold);
        }
    }

    fn send(&mut self) {
        loop {
            let until = self.ledger.hold_until();
            let frame = self.ledger.poll_transmit(self.now());
            self.carry_out();
            let Some(frame) = frame else { return };
            let only_heartbeat = Transmit { heartbeat: frame.heartbeat.clone(), ..Transmit::default() };
            match until {
                Some(until) => assert!(self.now() < until, "sent under a key that had lapsed: {frame:?}"),
                None => assert_eq!(frame, only_heartbeat, "the key is not registered"),
            }
            self.credits += frame.credits;
            for report in frame.reports {
                self.report(report.hold);
            }
            if let Some((number, beat)) = frame.heartbeat
                && !self.is_lost()
            {
                let answer = self.registry(&beat);
                let arrives_ms = self.now_ms + self.dice.below(if self.loses { 6_000 } else { 50 });
                self.answers.push((arrives_ms, number, answer));
            }
        }
    }

    fn report(&mut self, hold: Hold) {
        if self.is_lost() {
            return;
        }
        let is_held = self.rows.get(&hold) == Some(self.ledger.key());
        if is_held {
            self.rows.remove(&hold);
        }
        let answer =
            if is_held { ReportAnswer::Done } else { ReportAnswer::Refused { current: Fence::NONE } };
        self.input(Input::ReportAnswered { hold, answer });
    }

    fn deliver(&mut self) {
        let (due, rest): (Vec<_>, Vec<_>) =
            std::mem::take(&mut self.answers).into_iter().partition(|(ms, ..)| *ms <= self.now_ms);
        self.answers = rest;
        for (_, number, answer) in due {
            if !self.is_lost() {
                self.input(Input::HeartbeatAnswered { number, answer });
            }
        }
    }

    fn is_lost(&mut self) -> bool {
        self.loses && self.dice.percent(15)
    }

    /// The registry's rules, as short as they can be told.
    fn registry(&mut self, beat: &Heartbeat) -> Answer {
        if !self.entities.contains_key(&beat.key) {
            if beat.token.is_some() {
                return Answer::Inactive { why: InactiveReason::Unknown };
            }
            self.hand_on(beat);
            let entity = Entity {
                token: None,
                expires: Instant::ZERO,
                bound: BTreeSet::new(),
                applied: 0,
                is_ended: false,
            };
            self.entities.insert(beat.key.clone(), entity);
        }
        self.tokens += 1;
        let next = Token { generation: GENERATION, sequence: self.tokens };
        let now = self.now();
        let entity = self.entities.get_mut(&beat.key).expect("it is known by now");
        if entity.is_ended {
            return Answer::Inactive { why: InactiveReason::Ended(HolderEnd::Expired) };
        }
        if entity.token != beat.token {
            let token = entity.token.expect("only a new worker has none");
            return Answer::Mismatch { token, held: entity.expires > now, resync: false };
        }
        entity.token = Some(next);
        entity.expires = clock_rule::expires(entity.expires, now, LEASE, RateError::DEFAULT);
        for change in beat.binds.iter().filter(|change| change.change > entity.applied) {
            entity.bound.insert(change.hold);
        }
        for change in beat.unbinds.iter().filter(|change| change.change > entity.applied) {
            entity.bound.remove(&change.hold);
        }
        if let Some(full) = &beat.full {
            entity.bound = full.iter().copied().collect();
        }
        entity.applied = beat.change;
        let resync = beat.digest != entity.bound.iter().copied().collect::<Digest>();
        assert!(!resync, "no early bind is lost here, so the sets are always the same");
        let lost = entity.bound.iter().filter(|hold| self.rows.get(*hold) != Some(&beat.key));
        let stops = lost.map(|hold| Stop { hold: *hold, reason: StopOrder::Lost }).collect();
        Answer::Ok(Ack { token: next, lease: LEASE, stops, resync, drain: false })
    }

    /// What a lapsed key still holds moves to its successor.
    fn hand_on(&mut self, beat: &Heartbeat) {
        let Some(former) = &beat.former else { return };
        let Some(entity) = self.entities.get_mut(&former.key).filter(|entity| !entity.is_ended) else {
            return;
        };
        entity.is_ended = true;
        for (hold, holder) in &mut self.rows {
            if *holder == former.key && beat.full.as_ref().is_some_and(|full| full.contains(hold)) {
                *holder = beat.key.clone();
            }
        }
    }

    fn check(&mut self) {
        let key = self.ledger.key();
        if let Some(until) = self.ledger.hold_until()
            && self.now() < until
        {
            let entity = &self.entities[key];
            assert!(!entity.is_ended, "{key:?} was ended while its worker may act");
            assert!(until <= entity.expires, "{key:?} believes in its lease for longer than its registry");
        }
        let used = self.running.len() + self.credits as usize;
        assert!(used <= SLOTS as usize, "{} handlers and {} credits", self.running.len(), self.credits);
        for hold in self.ledger.holds() {
            let newer = self.ledger.holds().into_iter().any(|other| other.job == hold.job && other > hold);
            assert!(!newer || !self.running.contains(&hold), "{hold:?} runs beside its successor");
        }
    }

    /// Faults end: everything is heard of, and both sides agree.
    fn heal(&mut self) {
        self.loses = false;
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
        while !self.running.is_empty() {
            self.finish();
        }
        for _ in 0..40 {
            self.now_ms += 500;
            self.ledger.handle_deadline(self.now());
            self.carry_out();
            self.send();
            self.deliver();
        }
        let key = self.ledger.key();
        assert!(self.ledger.is_registered());
        assert_eq!(self.ledger.holds(), [], "everything was settled");
        assert!(self.entities[key].bound.is_empty(), "and the registry was told");
        assert!(!self.rows.values().any(|holder| holder == key), "no job is left behind");
    }
}

/// One history; how often the key lapsed in it, or an error if a law was broken.
fn run(seed: u64, mutation: Option<Mutation>) -> std::thread::Result<u32> {
    std::panic::catch_unwind(|| {
        let mut world = World::new(seed, mutation);
        for _ in 0..STEPS {
            world.step();
        }
        world.heal();
        world.lapses
    })
}

#[test]
fn random_histories_keep_the_laws() {
    let mut lapses = 0;
    for seed in 0..SEEDS {
        lapses += run(seed, None).unwrap_or_else(|_| panic!("seed {seed} breaks a law"));
    }
    assert!(lapses > SEEDS as u32, "the histories are too tame: {lapses} lapses");
}

#[test]
fn random_histories_notice_what_breaks_the_laws() {
    use Mutation::*;
    // The others need clocks that drift, or starts that are delayed beyond their stream.
    for mutation in [LateAckAccepted, DeltasClearedOnMismatch, StampAtReceive, KeyReused] {
        let is_noticed = (0..20).any(|seed| run(seed, Some(mutation)).is_err());
        assert!(is_noticed, "{mutation:?}");
    }
}
