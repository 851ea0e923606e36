//! The machine itself: one input at a time. What it promises is told in the module above.

use std::collections::{BTreeMap, VecDeque};

use model::Instant;

use super::family::{Demand, Family};
use super::keys::Keys;
use super::{FamilyId, Input, Mutation, Order, Output};
use crate::clock_rule::Stopping;

/// The guardian of one worker's process.
#[derive(Debug)]
pub struct Guardian {
    mutation: Option<Mutation>,
    stopping: Stopping,
    keys: Keys,
    /// All that are being started or may have someone left.
    families: BTreeMap<FamilyId, Family>,
    inside: Inside,
    worker: Worker,
    outputs: VecDeque<Output>,
}

/// Exclusive jobs inside the worker's own process.
#[derive(Debug, PartialEq, Eq)]
enum Inside {
    /// None.
    Clear,
    /// They live on the present key's lease.
    Busy,
    /// The key they were started under was given up: what is left of its lease is theirs.
    BusyUntil(Instant),
    /// The worker was killed for them.
    Killed,
}

#[derive(Debug, PartialEq, Eq)]
enum Worker {
    Alive,
    /// It ends properly: nothing is started for it any more, no leave is taken for it.
    Parting,
    Dead {
        at: Instant,
        /// It died properly.
        has_parted: bool,
        /// Someone was told that not all has stopped in time.
        has_warned: bool,
        /// Since when nothing runs.
        stopped_at: Option<Instant>,
    },
    /// Dead, and nothing is left to do.
    Over,
}

impl Default for Guardian {
    fn default() -> Self {
        Self::new()
    }
}

impl Guardian {
    /// The guardian of a worker that has not said anything yet.
    pub fn new() -> Self {
        Guardian {
            mutation: None,
            stopping: Stopping::DEFAULT,
            keys: Keys::default(),
            families: BTreeMap::new(),
            inside: Inside::Clear,
            worker: Worker::Alive,
            outputs: VecDeque::new(),
        }
    }

    /// The same with a deliberate bug.
    pub fn broken(mutation: Mutation) -> Self {
        Guardian { mutation: Some(mutation), ..Guardian::new() }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        // First of all: a process that was stopped must not start anything before it has ended what is over.
        self.enforce(now);
        match input {
            Input::Said(order) => self.obey(now, order),
            Input::WorkerDied => self.mourn(now),
            Input::Launched { family, runs } => self.launched(family, runs),
            Input::LeaderExited { family } => self.orphan(family),
            Input::Emptied { family } => self.bury(now, family),
            Input::LeaveAnswered { key, taken } => self.keys.answered(now, &key, taken, self.stopped_at()),
        }
        self.take_leave(now);
    }

    /// When to call [`Guardian::handle_deadline`].
    pub fn next_deadline(&self) -> Option<Instant> {
        let hold = self.keys.hold();
        let families = self.families.values();
        let family_at = families.filter_map(|family| family.next_deadline(self.stopping, hold)).min();
        let rule_at = [family_at, self.doom_at()].into_iter().flatten().min();
        let rule_at = rule_at.filter(|_| !self.has(Mutation::DeadlineIgnored));
        [rule_at, self.next_leave_at()].into_iter().flatten().min()
    }

    /// The time named by [`Guardian::next_deadline`] has come. Harmless at any other time.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.enforce(now);
        self.take_leave(now);
    }

    /// What to do next; ask until `None`, after every other call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The clock rule: ends whatever has come to the end of its lease.
    fn enforce(&mut self, now: Instant) {
        if self.has(Mutation::DeadlineIgnored) {
            return;
        }
        let hold = self.keys.hold();
        for family in self.families.values_mut() {
            let due = family.due(now, self.stopping, hold);
            self.outputs.extend(family.ask(due, hold));
        }
        if self.doom_at().is_some_and(|at| at <= now) {
            self.inside = Inside::Killed;
            self.outputs.push_back(Output::KillWorker);
        }
    }

    fn obey(&mut self, now: Instant, order: Order) {
        match order {
            Order::Terms(stopping) => self.stopping = stopping,
            Order::Key { key, nonce } if self.keys.is_present(&key, nonce) => {}
            Order::Key { key, nonce } => {
                self.settle_all();
                self.keys.take(key, nonce);
            }
            Order::Hold { until } => self.keys.extend(until),
            Order::Lease { until } if self.has(Mutation::LeaseKeepsFamilies) => self.keys.extend(until),
            Order::Lease { until } => self.keys.extend_lease(until),
            Order::Launch { family, exclusive } => self.launch(now, family, exclusive),
            Order::Terminate { family } => self.ask(family, Demand::Terminate),
            Order::Kill { family } => self.ask(family, Demand::Kill),
            Order::Inside { exclusive } => self.enter(exclusive),
            Order::Bye => self.part(),
        }
    }

    /// The present key is given up: what was started under it lives on what is left of its lease.
    fn settle_all(&mut self) {
        let hold = self.keys.hold();
        for family in self.families.values_mut() {
            family.settle(hold);
        }
        if let (Inside::Busy, Some(hold)) = (&self.inside, hold) {
            self.inside = Inside::BusyUntil(hold);
        }
    }

    fn launch(&mut self, now: Instant, id: FamilyId, exclusive: bool) {
        let is_served = self.worker == Worker::Alive || self.has(Mutation::LaunchesAfterDeath);
        let is_in_time = self.keys.hold().is_some_and(|hold| now < self.stopping.stop_at(hold));
        if !is_served || exclusive && !is_in_time {
            return self.outputs.push_back(Output::Refused { family: id });
        }
        self.families.insert(id, Family::new(id, exclusive, self.keys.number()));
        self.outputs.push_back(Output::Launch { family: id });
    }

    fn launched(&mut self, id: FamilyId, runs: bool) {
        if !runs {
            self.families.remove(&id);
        } else if let Some(family) = self.families.get_mut(&id) {
            self.outputs.extend(family.started());
        }
    }

    fn ask(&mut self, id: FamilyId, demand: Demand) {
        let hold = self.keys.hold();
        if let Some(family) = self.families.get_mut(&id) {
            self.outputs.extend(family.ask(demand, hold));
        }
    }

    fn enter(&mut self, exclusive: bool) {
        if self.inside != Inside::Killed {
            self.inside = if exclusive { Inside::Busy } else { Inside::Clear };
        }
    }

    fn part(&mut self) {
        match &mut self.worker {
            Worker::Alive => self.worker = Worker::Parting,
            // Its last word was read after its death was noticed.
            Worker::Dead { has_parted, .. } => *has_parted = true,
            Worker::Parting | Worker::Over => {}
        }
    }

    fn mourn(&mut self, now: Instant) {
        let has_parted = match self.worker {
            Worker::Alive => false,
            Worker::Parting => true,
            Worker::Dead { .. } | Worker::Over => return,
        };
        self.worker = Worker::Dead { at: now, has_parted, has_warned: false, stopped_at: None };
        match std::mem::replace(&mut self.inside, Inside::Clear) {
            Inside::Clear => {}
            Inside::Busy => self.keys.exclusive_ended(now, Some(self.keys.number())),
            Inside::BusyUntil(_) | Inside::Killed => self.keys.exclusive_ended(now, None),
        }
        let hold = self.keys.hold();
        for family in self.families.values_mut() {
            self.outputs.extend(family.ask(Demand::Kill, hold));
        }
    }

    /// A family without its leader is not a job any more, but it is not gone either.
    fn orphan(&mut self, id: FamilyId) {
        self.ask(id, Demand::Kill);
        if self.has(Mutation::EndedBeforeEmpty) && self.families.contains_key(&id) {
            self.outputs.push_back(Output::Ended { family: id });
        }
    }

    /// Only what has run can have ended: a family that is being started counts until that was tried.
    fn bury(&mut self, now: Instant, id: FamilyId) {
        if self.families.get(&id).is_none_or(|family| !family.is_running()) {
            return;
        }
        let exclusive_under = self.families.remove(&id).and_then(|family| family.exclusive_under());
        if exclusive_under.is_some() {
            self.keys.exclusive_ended(now, exclusive_under);
        }
        let has_a_listener = matches!(self.worker, Worker::Alive | Worker::Parting);
        if has_a_listener && !self.has(Mutation::EndedBeforeEmpty) {
            self.outputs.push_back(Output::Ended { family: id });
        }
    }

    /// After the worker's death: says so as soon as nothing runs any more, and goes when that is heard.
    fn take_leave(&mut self, now: Instant) {
        let all_stopped = self.families.is_empty() || self.has(Mutation::LeavesBeforeEmpty);
        let Worker::Dead { at, has_parted, has_warned, stopped_at } = &mut self.worker else { return };
        if !all_stopped {
            if !*has_parted && !*has_warned && *at + self.stopping.kill_wait <= now {
                *has_warned = true;
                self.outputs.extend(self.keys.warn());
            }
            return;
        }
        let stopped_at = *stopped_at.get_or_insert(now);
        if !*has_parted {
            self.outputs.extend(self.keys.leave(now, stopped_at));
        }
        if *has_parted || self.keys.have_left() {
            self.worker = Worker::Over;
            self.outputs.push_back(Output::Exit);
        }
    }

    fn stopped_at(&self) -> Option<Instant> {
        match self.worker {
            Worker::Dead { stopped_at, .. } => stopped_at,
            Worker::Alive | Worker::Parting | Worker::Over => None,
        }
    }

    fn next_leave_at(&self) -> Option<Instant> {
        match self.worker {
            Worker::Dead { stopped_at: Some(_), .. } => self.keys.next_leave_at(),
            Worker::Dead { at, has_parted: false, has_warned: false, .. } => {
                Some(at + self.stopping.kill_wait)
            }
            Worker::Dead { .. } | Worker::Alive | Worker::Parting | Worker::Over => None,
        }
    }

    /// When the worker must be killed for the jobs inside it.
    fn doom_at(&self) -> Option<Instant> {
        let until = match self.inside {
            Inside::Clear | Inside::Killed => None,
            Inside::Busy => self.keys.hold(),
            Inside::BusyUntil(until) => Some(until),
        };
        until.map(|until| self.stopping.doom_at(until))
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
