//! A registry's rules, as short as they can be told, and the rows of the jobs it gave away. It has no memory: after a
//! restart it gives nothing away before it knows who runs it, or nobody can.

use std::collections::{BTreeMap, BTreeSet};

use super::super::*;
use crate::clock_rule;
use crate::digest::Digest;
use crate::message::{Change, InactiveReason};
use model::HolderEnd;
use muster::set::Identity;
use muster::{SetHash, SetId, Version};

/// A worker as the registry knows it.
struct Entity {
    token: Option<Token>,
    expires: Instant,
    /// Of its exclusive jobs.
    exclusive_expires: Instant,
    bound: BTreeSet<Hold>,
    applied: u64,
    end: Option<HolderEnd>,
    /// It is from a life before, and has not said yet what it holds.
    is_awaited: bool,
}

/// Whose a job is.
pub(super) struct Row {
    pub(super) holder: WorkerKey,
    pub(super) exclusive: bool,
}

#[derive(Default)]
pub(super) struct Desk {
    entities: BTreeMap<WorkerKey, Entity>,
    /// Every job that runs, as far as anyone can know.
    pub(super) rows: BTreeMap<Hold, Row>,
    /// Exclusive claims that others may run by now.
    pub(super) handed_over: BTreeSet<Hold>,
    tokens: u64,
    /// It is not sure of its workers just now.
    pub(super) is_unsure: bool,
    /// How often it has started again.
    lives: u64,
    /// What may be running by the word of a life before, and until when.
    inherited: BTreeMap<Hold, Row>,
    pub(super) inherited_until: Instant,
    /// Who has said which set of workers it was told.
    in_a_set: BTreeSet<WorkerKey>,
}

impl Desk {
    pub(super) fn generation(&self) -> Generation {
        Generation(GENERATION.0 + self.lives)
    }

    /// A new life, which knows nothing. Whatever ran may still run, as long as the longest lease lasts.
    pub(super) fn restart(&mut self, now: Instant) {
        self.lives += 1;
        self.entities.clear();
        self.inherited.append(&mut self.rows);
        self.inherited_until = clock_rule::expires(now, now, LEASE, RateError::DEFAULT);
    }

    /// A worker says everything that it holds under this key, or what it goes on with of a former one: the rest does not run.
    fn adopt(&mut self, beat: &Heartbeat) {
        let former = beat.former.as_ref().map(|former| &former.key);
        let full = beat.full.as_ref().expect("a new life of the server hears everything");
        let is_its = |row: &Row| row.holder == beat.key || Some(&row.holder) == former;
        for (hold, row) in self.inherited.extract_if(.., |_, row| is_its(row)) {
            if full.contains(&hold) {
                self.rows.insert(hold, Row { holder: beat.key.clone(), ..row });
            } else {
                self.handed_over.insert(hold);
            }
        }
    }

    /// Whether it does not know yet what runs.
    pub(super) fn is_waiting(&self) -> bool {
        !self.inherited.is_empty()
    }

    /// A set of workers that this one is in, once all that runs is known.
    fn worker_set(&self, key: &WorkerKey) -> Option<SetId> {
        let (generation, version) = (self.generation(), Version(self.tokens));
        let hash = SetHash::default().with(Identity::of(key));
        (!self.is_waiting()).then_some(SetId { generation, version, hash })
    }

    /// Laws: a worker says only sets that it is in, and once it was told of one it always says one.
    fn check_set(&mut self, beat: &Heartbeat) {
        if let Some(set) = beat.worker_set {
            assert_eq!(set.hash, SetHash::default().with(Identity::of(&beat.key)), "{:?}", beat.key);
            self.in_a_set.insert(beat.key.clone());
        }
        let is_forgotten = beat.worker_set.is_none() && self.in_a_set.contains(&beat.key);
        assert!(!is_forgotten, "{:?} forgets its set", beat.key);
    }

    /// The registry's clock: what is over is taken back.
    pub(super) fn expire(&mut self, now: Instant) {
        if self.inherited_until <= now {
            self.handed_over.extend(std::mem::take(&mut self.inherited).into_keys());
        }
        let over: Vec<WorkerKey> = self
            .entities
            .iter()
            .filter(|(_, entity)| entity.expires <= now)
            .map(|(key, _)| key.clone())
            .collect();
        for key in over {
            self.entities.get_mut(&key).expect("it is known").end.get_or_insert(HolderEnd::Expired);
            self.take_back(&key, |_| true);
        }
        let unsure = self.entities.iter().filter(|(_, entity)| entity.exclusive_expires <= now);
        for key in unsure.map(|(key, _)| key.clone()).collect::<Vec<_>>() {
            self.take_back(&key, |row| row.exclusive);
        }
    }

    /// Its ordinary jobs are taken away at once, its exclusive ones when they have stopped.
    pub(super) fn kick(&mut self, key: &WorkerKey) {
        if let Some(entity) = self.entities.get_mut(key) {
            entity.end.get_or_insert(HolderEnd::Kicked);
            self.take_back(key, |row| !row.exclusive);
        }
    }

    /// Nothing of this key runs any more, it says.
    pub(super) fn leave(&mut self, key: &WorkerKey) {
        self.take_back(key, |_| true);
        let its = self.inherited.extract_if(.., |_, row| row.holder == *key);
        self.handed_over.extend(its.map(|(hold, _)| hold));
    }

    fn take_back(&mut self, key: &WorkerKey, applies: impl Fn(&Row) -> bool) {
        let rows = self.rows.iter().filter(|(_, row)| row.holder == *key && applies(row));
        for hold in rows.map(|(hold, _)| *hold).collect::<Vec<_>>() {
            self.rows.remove(&hold);
            self.handed_over.insert(hold);
        }
    }

    /// The end of a job, in its worker's words.
    pub(super) fn report(&mut self, key: &WorkerKey, hold: Hold) -> ReportAnswer {
        if self.is_held(key, hold) || self.inherited.contains_key(&hold) {
            self.rows.remove(&hold);
            self.inherited.remove(&hold);
            ReportAnswer::Done
        } else {
            ReportAnswer::Refused { current: Fence::NONE }
        }
    }

    /// Whether an early bind is taken.
    pub(super) fn bind(&mut self, key: &WorkerKey, bind: Change) -> bool {
        let is_held = self.is_held(key, bind.hold);
        let Some(entity) = self.entities.get_mut(key).filter(|entity| entity.end.is_none()) else {
            return false;
        };
        if bind.change > entity.applied {
            entity.bound.insert(bind.hold);
        }
        is_held
    }

    pub(super) fn beat(&mut self, now: Instant, beat: &Heartbeat) -> Answer {
        self.check_set(beat);
        self.tokens += 1;
        let next = Token { generation: self.generation(), sequence: self.tokens };
        if !self.entities.contains_key(&beat.key) {
            let is_from_before = beat.token.is_some_and(|token| token.generation != self.generation());
            if beat.token.is_some() && !is_from_before {
                return Answer::Inactive { why: InactiveReason::Unknown };
            }
            assert!(beat.full.is_some() && beat.profile.is_some(), "a new life hears everything: {beat:?}");
            if !is_from_before {
                self.hand_on(beat);
                self.adopt(beat);
            }
            let grace = clock_rule::expires(now, now, LEASE, RateError::DEFAULT);
            let expires = if is_from_before { grace } else { Instant::ZERO };
            let entity = Entity {
                token: is_from_before.then_some(next),
                expires,
                exclusive_expires: expires,
                bound: BTreeSet::new(),
                applied: 0,
                end: None,
                is_awaited: is_from_before,
            };
            self.entities.insert(beat.key.clone(), entity);
        }
        let entity = self.entities.get_mut(&beat.key).expect("it is known by now");
        if let Some(end) = entity.end {
            return Answer::Inactive { why: InactiveReason::Ended(end) };
        }
        if entity.token != beat.token {
            let token = entity.token.expect("only a new worker has none");
            return Answer::Mismatch { token, held: entity.expires > now, resync: entity.is_awaited };
        }
        if std::mem::take(&mut entity.is_awaited) {
            self.adopt(beat);
        }
        let worker_set = self.worker_set(&beat.key);
        let entity = self.entities.get_mut(&beat.key).expect("it is still known");
        entity.token = Some(next);
        entity.expires = clock_rule::expires(entity.expires, now, LEASE, RateError::DEFAULT);
        let exclusive_hold = !self.is_unsure;
        if exclusive_hold {
            entity.exclusive_expires = entity.expires;
        }
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
        assert!(!resync, "whatever is acknowledged was applied, so the sets are always the same");
        let bound: Vec<Hold> = entity.bound.iter().copied().collect();
        let lost = bound.into_iter().filter(|hold| !self.is_held(&beat.key, *hold));
        let stops = lost.map(|hold| Stop { hold, reason: StopOrder::Lost }).collect();
        Answer::Ok(Ack { token: next, lease: LEASE, exclusive_hold, stops, resync, drain: false, worker_set })
    }

    /// What a lapsed key still holds moves to its successor; what that does not name is taken back.
    fn hand_on(&mut self, beat: &Heartbeat) {
        let Some(former) = &beat.former else { return };
        let Some(entity) = self.entities.get_mut(&former.key).filter(|entity| entity.end.is_none()) else {
            return;
        };
        entity.end = Some(HolderEnd::Succeeded);
        for (hold, row) in &mut self.rows {
            if row.holder == former.key && beat.full.as_ref().is_some_and(|full| full.contains(hold)) {
                row.holder = beat.key.clone();
            }
        }
        self.take_back(&former.key, |_| true);
    }

    fn is_held(&self, key: &WorkerKey, hold: Hold) -> bool {
        self.rows.get(&hold).is_some_and(|row| row.holder == *key)
    }

    pub(super) fn is_alive(&self, key: &WorkerKey) -> bool {
        self.entities.get(key).is_some_and(|entity| entity.end.is_none())
    }

    pub(super) fn knows(&self, key: &WorkerKey) -> bool {
        self.entities.contains_key(key)
    }

    pub(super) fn expires(&self, key: &WorkerKey) -> Instant {
        self.entities[key].expires
    }

    pub(super) fn exclusive_expires(&self, key: &WorkerKey) -> Instant {
        self.entities[key].exclusive_expires
    }

    pub(super) fn end(&self, key: &WorkerKey) -> Option<HolderEnd> {
        self.entities[key].end
    }

    pub(super) fn has_bound(&self, key: &WorkerKey) -> bool {
        !self.entities[key].bound.is_empty()
    }
}
