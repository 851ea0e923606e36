//! The machine: what comes in, what is due, what goes out. What an update does is in [`rounds`](super::rounds).

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::{Instant, Seat, WorkerKey};

use super::io::{Dismissal, Input, Output, Terms, TurnedAway};
use super::worker::Worker;
use crate::consensus::{Consensus, Member};
use crate::health::{Health, health};
use crate::mutation::Mutation;
use crate::seats::{About, Contest, contest};
use crate::set::{Identity, SetId, Version};

/// The machine. After each input or deadline, drain [`poll_output`](Self::poll_output) before the next.
#[derive(Clone, Debug)]
pub struct Muster {
    pub(super) terms: Terms,
    pub(super) mutation: Option<Mutation>,
    pub(super) consensus: Consensus,
    pub(super) members: BTreeMap<WorkerKey, Member>,
    pub(super) workers: BTreeMap<Member, Worker>,
    seats: BTreeMap<Seat, Member>,
    next_member: u32,
    pub(super) next_check: u64,
    pub(super) started: Instant,
    /// The latest time that was ever told; a clock that goes back stands still here.
    pub(super) now: Instant,
    /// When to look at everybody.
    pub(super) update_at: Instant,
    /// When to look whether somebody is permitted by now, earlier than that.
    pub(super) settle_at: Option<Instant>,
    /// When to tell the present set to all that do not know it.
    pub(super) push_at: Option<Instant>,
    /// Since when somebody is held back after the wait, and how long it was the last time.
    pub(super) unsettled_since: Option<Instant>,
    pub(super) time_to_agree: Option<Duration>,
    pub(super) outbox: VecDeque<Output>,
}

impl Muster {
    /// A scheduler that knows nobody. `now` must not be earlier than the moment from which on workers could reach it and no other.
    pub fn new(now: Instant, terms: Terms) -> Self {
        Self::build(now, terms, None)
    }

    /// One with a deliberate bug, to show that tests notice it.
    pub fn broken(now: Instant, terms: Terms, mutation: Mutation) -> Self {
        Self::build(now, terms, Some(mutation))
    }

    fn build(now: Instant, terms: Terms, mutation: Option<Mutation>) -> Self {
        let consensus = match mutation {
            Some(mutation) => Consensus::broken(terms.generation, terms.consensus, mutation),
            None => Consensus::new(terms.generation, terms.consensus),
        };
        Muster {
            mutation,
            consensus,
            members: BTreeMap::new(),
            workers: BTreeMap::new(),
            seats: BTreeMap::new(),
            next_member: 0,
            next_check: 0,
            started: now,
            now,
            update_at: now + terms.rules.update_every,
            settle_at: None,
            push_at: None,
            unsettled_since: None,
            time_to_agree: None,
            outbox: VecDeque::new(),
            terms,
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.advance(now);
        let version = self.consensus.version();
        match input {
            Input::Heard { key, about, echoed } => self.heard(key, about, echoed),
            Input::Echoed { key, id } => {
                if let Some(member) = self.member(&key) {
                    self.echoed(member, id);
                }
            }
            Input::Fetched { key } => self.fetched(&key),
            Input::Reconnected { key } => self.reconnected(&key),
            Input::Checked { key, number } => self.checked(&key, number),
            Input::Gone { key } => self.gone(&key),
        }
        self.after_changes(version);
    }

    /// Wake me then; a time that is past means now.
    pub fn next_deadline(&self) -> Option<Instant> {
        [Some(self.update_at), self.settle_at, self.push_at, self.wait_ends()].into_iter().flatten().min()
    }

    /// It is then.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.advance(now);
        let version = self.consensus.version();
        if self.consensus.is_waiting() {
            self.end_wait_by_time();
        }
        self.leave_wait();
        if self.update_at <= self.now {
            self.update();
        } else if self.settle_at.is_some_and(|at| at <= self.now) {
            self.settle();
        }
        self.after_changes(version);
        if self.push_at.is_some_and(|at| at <= self.now) {
            self.push();
        }
    }

    /// What is to be done; drain until `None` after every input.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.pop_front()
    }

    /// True during the initial wait: nothing may be started.
    pub fn is_waiting(&self) -> bool {
        self.consensus.is_waiting()
    }

    /// The set id for the answer to this worker's heartbeat, if it is to be told one now.
    pub fn current_for(&self, key: &WorkerKey) -> Option<SetId> {
        self.consensus.current(self.member(key)?)
    }

    /// Whether this worker may be given volatile work now.
    pub fn may_run(&self, key: &WorkerKey) -> bool {
        let worker = self.member(key).and_then(|member| self.workers.get(&member));
        !self.is_waiting() && worker.is_some_and(|worker| worker.health == Health::Healthy)
    }

    /// The machine without time; for laws.
    pub fn consensus(&self) -> &Consensus {
        &self.consensus
    }

    /// This worker's handle in there.
    pub fn member(&self, key: &WorkerKey) -> Option<Member> {
        self.members.get(key).copied()
    }

    fn heard(&mut self, key: WorkerKey, about: About, echoed: Option<SetId>) {
        let Some(member) = self.member(&key) else { return self.join(key, about, echoed) };
        if let Some(worker) = self.workers.get_mut(&member) {
            worker.stamps.heard = Some(self.now);
        }
        match echoed {
            Some(id) => self.echoed(member, id),
            None => self.judge(member),
        }
    }

    /// One that was never heard before.
    fn join(&mut self, key: WorkerKey, about: About, initial: Option<SetId>) {
        let member = Member(self.next_member);
        self.next_member += 1;
        let turned_away = self.take_seat(member, &key, &about);
        let is_turned_away = turned_away.is_some();
        if let Some(why) = turned_away {
            self.outbox.push_back(Output::TurnAway { key: key.clone(), why });
            // During the wait it may be running something, and its heartbeat has just been answered: it counts until it is gone.
            if !self.is_waiting() || self.broken_by(Mutation::TurnedAwayIgnored) {
                return;
            }
        }
        self.consensus.join(member, Identity::of(&key), initial);
        self.outbox.push_back(Output::Fetch { key: key.clone() });
        self.members.insert(key.clone(), member);
        let mut worker = Worker::new(self.now, key, about);
        worker.stamps.is_dismissed = is_turned_away;
        self.workers.insert(member, worker);
    }

    /// Gives the newcomer the seat that it wants, or says why not.
    fn take_seat(&mut self, member: Member, key: &WorkerKey, about: &About) -> Option<TurnedAway> {
        let seat = about.seat.as_ref()?;
        if let Some(sitter) = self.seats.get(seat).copied()
            && let Some(worker) = self.workers.get(&sitter)
        {
            let sitter_health = health(self.now, &worker.stamps, &self.terms.rules);
            let by = worker.key.clone();
            match contest(about, &worker.about, sitter_health, self.terms.allow_bump_unhealthy) {
                Contest::Newcomer => self.dismiss(sitter, Dismissal::SeatTaken { by: key.clone() }),
                Contest::LaterStart => return Some(TurnedAway::LaterStart { by }),
                Contest::OtherMachine => return Some(TurnedAway::OtherMachine { by }),
            }
        }
        self.seats.insert(seat.clone(), member);
        None
    }

    fn echoed(&mut self, member: Member, id: SetId) {
        let is_news = self.consensus.echoed(member, id);
        if is_news && let Some(worker) = self.workers.get_mut(&member) {
            worker.told = worker.told.filter(|told| !id.version.is_newer_than(told.version)).or(Some(id));
            self.settle_soon();
        }
        self.judge(member);
    }

    fn fetched(&mut self, key: &WorkerKey) {
        let Some(member) = self.member(key) else { return };
        let is_first = |worker: &&mut Worker| worker.stamps.fetched.is_none();
        let Some(worker) = self.workers.get_mut(&member).filter(is_first) else { return };
        worker.stamps.fetched = Some(self.now);
        self.consensus.fetched(member);
        self.check_if_due(member);
        self.judge(member);
    }

    fn reconnected(&mut self, key: &WorkerKey) {
        let Some(member) = self.member(key) else { return };
        let Some(worker) = self.workers.get_mut(&member) else { return };
        if worker.check.take().is_some() {
            worker.check_sent = None;
            self.check_if_due(member);
        }
    }

    fn checked(&mut self, key: &WorkerKey, number: u64) {
        let Some(member) = self.member(key) else { return };
        let is_credited_late = self.broken_by(Mutation::CheckCreditedLate);
        let Some(worker) = self.workers.get_mut(&member) else { return };
        let Some(check) = worker.check.take_if(|check| check.number == number) else { return };
        worker.stamps.checked = Some(if is_credited_late { self.now } else { check.sent });
        self.judge(member);
    }

    fn gone(&mut self, key: &WorkerKey) {
        let Some(member) = self.members.remove(key) else { return };
        self.consensus.lost(member);
        let seat = self.workers.remove(&member).and_then(|worker| worker.about.seat);
        if let Some(seat) = seat.filter(|seat| self.seats.get(seat) == Some(&member)) {
            self.seats.remove(&seat);
        }
    }

    /// Renews it no more. It counts all the same.
    pub(super) fn dismiss(&mut self, member: Member, why: Dismissal) {
        let Some(worker) = self.workers.get_mut(&member).filter(|worker| !worker.stamps.is_dismissed) else {
            return;
        };
        worker.stamps.is_dismissed = true;
        self.outbox.push_back(Output::Dismiss { key: worker.key.clone(), why });
        self.judge(member);
        if self.broken_by(Mutation::BumpedForgotten) {
            self.consensus.lost(member);
        }
    }

    /// Looks whether the wait is over, and has a change of the set told soon.
    fn after_changes(&mut self, version_before: Version) {
        self.leave_wait();
        if self.is_waiting() && !self.broken_by(Mutation::IdsDuringWait) {
            return;
        }
        if self.consensus.version() != version_before {
            self.push_at.get_or_insert(self.now + self.terms.rules.push_after);
            self.settle_soon();
        }
    }

    /// If the wait is over, everybody is told at once, because a restart before they know waits in full.
    fn leave_wait(&mut self) {
        let Some(how) = self.consensus.leave_wait() else { return };
        self.outbox.push_back(Output::WaitOver { how, after: self.now.since(self.started) });
        self.push();
        self.settle_soon();
    }

    fn end_wait_by_time(&mut self) {
        let waited = self.now.since(self.started);
        if waited >= self.terms.safe_wait {
            self.consensus.safe_wait_over();
        } else if self.terms.unsafe_wait.is_some_and(|unsafe_wait| waited >= unsafe_wait) {
            self.consensus.unsafe_wait_over();
        }
    }

    /// When time may end the wait; `None` once it has done what it can.
    fn wait_ends(&self) -> Option<Instant> {
        let ends = [Some(self.terms.safe_wait), self.terms.unsafe_wait];
        let ends = ends.into_iter().flatten().map(|wait| self.started + wait);
        ends.filter(|end| self.is_waiting() && *end > self.now).min()
    }

    /// While somebody is held back, what was heard or changed may permit it.
    fn settle_soon(&mut self) {
        if self.consensus.held_back().next().is_some() {
            self.unsettled_since.get_or_insert(self.now);
            self.settle_at.get_or_insert(self.now + self.terms.rules.push_after);
        }
    }

    pub(super) fn broken_by(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
