//! The machine: what comes in, what is due, what goes out. How each input is judged is in the file of its name.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::time::Duration;

use model::{Hold, Instant, Nonce, RegistryId, WorkerKey};

use super::bindings::{Findings, Standing};
use super::entity::{Ending, Entity};
use super::io::{Input, Output, Terms, Ticket, WorkerView};
use super::mutation::Mutation;
use super::owned::Owned;
use super::rules::Rules;
use super::stall::StallWatch;
use super::throttle::Throttle;
use super::timers::{Due, Timer, Timers};
use crate::clock_watch::ClockRate;
use crate::key_hash::KeyHash;
use crate::message::Answer;

/// Most leaves and kicks that wait, for [`Input::Restored`], [`Input::OwnedUntil`] or [`Input::TakeOverEnded`]; more are answered
/// as if they changed nothing.
const POSTPONED_MAX: usize = 1_000;

/// Found in constant time; nothing depends on the order it iterates in.
type Workers = HashMap<WorkerKey, Box<Entity>, KeyHash>;

/// The machine. After each input or deadline, drain [`poll_output`](Self::poll_output) before the next.
#[derive(Debug)]
pub struct Registry {
    pub(super) rules: Rules,
    /// The store told who was alive.
    pub(super) is_restored: bool,
    pub(super) workers: Workers,
    /// How many are joining or active.
    pub(super) alive: usize,
    /// How many are active.
    pub(super) active: usize,
    /// Durable ends, oldest first, and when each is forgotten.
    pub(super) remembered: VecDeque<(Instant, WorkerKey)>,
    pub(super) throttle: Throttle,
    pub(super) timers: Timers,
    pub(super) watch: StallWatch,
    /// Leaves and kicks from before the store told who was alive, leaves of those who may be being taken over, and kicks from
    /// when the registry was not ours for certain.
    postponed: Vec<Input>,
    /// The processes that were asked to drain, the latest last. Whatever key they come back under, they stay asked.
    pub(super) drained: VecDeque<Nonce>,
    /// Leases that ran out when the registry was not ours for certain.
    pub(super) overdue: Vec<Due>,
    /// The registries whose workers are being taken over.
    pub(super) taking: BTreeSet<RegistryId>,
    pub(super) outbox: Outbox,
}

impl Registry {
    /// Knows nobody until [`Input::Restored`].
    pub fn new(terms: Terms) -> Self {
        Self::with(terms, None)
    }

    /// A registry with a deliberate bug, to show that tests notice it.
    pub fn broken(terms: Terms, mutation: Mutation) -> Self {
        Self::with(terms, Some(mutation))
    }

    fn with(terms: Terms, mutation: Option<Mutation>) -> Self {
        Registry {
            throttle: Throttle::new(terms.registrations_per_second),
            is_restored: false,
            workers: Workers::with_hasher(KeyHash::new(terms.generation.0)),
            rules: Rules { terms, mutation, owned: Owned::default() },
            alive: 0,
            active: 0,
            remembered: VecDeque::new(),
            timers: Timers::default(),
            watch: StallWatch::default(),
            postponed: Vec::new(),
            drained: VecDeque::new(),
            overdue: Vec::new(),
            taking: BTreeSet::new(),
            outbox: Outbox::default(),
        }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        self.notice_stall(now);
        match input {
            Input::Restored(known) => self.restore(now, known),
            Input::OwnedUntil(until) => self.owned_until(now, until),
            Input::TakeOverBegun { from } => _ = self.taking.insert(from),
            Input::TakeOverEnded { from } => self.take_over_ended(now, from),
            Input::Heartbeat { ticket, beat } => self.heartbeat(now, ticket, beat),
            Input::Bind { key, nonce, binds } => self.bind(now, &key, nonce, binds),
            Input::Leave { ticket, .. } | Input::Kick { ticket, .. } if !self.is_restored => {
                self.postpone(ticket, input);
            }
            Input::Kick { ticket, .. } if self.rules.suspends_judgement(now) => self.postpone(ticket, input),
            Input::Leave { ticket, ref key, .. } if self.may_be_about_to_know(key) => {
                self.postpone(ticket, input);
            }
            Input::Leave { ticket, key, nonce, leave } => self.leave(now, ticket, key, nonce, leave),
            Input::Kick { ticket, key } => self.kick(now, ticket, key),
            Input::Granted { key, holds, exclusive, start } => {
                self.granted(now, &key, holds, &exclusive, start);
            }
            Input::Settled { key, holds } => self.settled(&key, &holds),
            Input::Cancel { key, hold } => self.cancel(key, hold),
            Input::Drain { key } => self.drain(&key),
            Input::Enlisted { key, answer } => self.enlisted(now, key, answer),
            Input::Succeeded { key, moved } => self.succeeded(now, key, moved),
            Input::Retired { key, answer } => self.retired(now, key, answer),
            Input::Checked { key, standings } => self.checked(now, key, standings),
        }
    }

    /// Grants no longer lease than this from now on. What was promised before stands.
    pub fn grant_at_most(&mut self, lease_max: Duration) {
        self.rules.terms.lease_max = lease_max;
    }

    /// Takes a place at the door for new workers, for somebody new who does not heartbeat; or says when to come back.
    pub fn admit_new(&mut self, now: Instant) -> Result<(), Duration> {
        self.throttle.take(now)
    }

    /// How this worker's clock runs beside ours, as far as that was measured.
    pub fn clock_rate(&self, key: &WorkerKey) -> Option<ClockRate> {
        self.workers.get(key).and_then(|worker| worker.clock_rate())
    }

    /// Wake me then; a time that is past means now.
    pub fn next_deadline(&self) -> Option<Instant> {
        let forget_at = self.remembered.front().map(|(at, _)| *at);
        [self.watch.next_tick(), self.timers.next(), forget_at].into_iter().flatten().min()
    }

    /// It is then: judges who is due.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.notice_stall(now);
        self.watch.tick(now);
        while let Some(due) = self.timers.pop_due(now) {
            self.fire(now, due);
        }
        self.forget_ended(now);
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outbox.outputs.pop_front()
    }

    /// True if this worker is known here, ended ones included while they are remembered. With several servers on one store, the
    /// store must be asked about the others before we are: one that it says is ours and alive was taken over, and is told by
    /// [`Input::Restored`] first.
    pub fn knows(&self, key: &WorkerKey) -> bool {
        self.workers.contains_key(key)
    }

    /// One worker, ended ones included while they are remembered.
    pub fn worker(&self, key: &WorkerKey) -> Option<WorkerView> {
        self.workers.get(key).map(|worker| worker.view(key))
    }

    /// All workers, by key, ended ones included while they are remembered.
    pub fn workers(&self) -> Vec<WorkerView> {
        let mut views: Vec<WorkerView> = self.workers.iter().map(|(key, worker)| worker.view(key)).collect();
        views.sort_unstable_by(|a, b| a.key.cmp(&b.key));
        views
    }

    /// What this worker says it holds, in the order of job ids, at most `limit`: also what is still being checked, and what
    /// it was told to stop and has not let go of yet.
    pub fn bound(&self, key: &WorkerKey, limit: usize) -> Vec<Hold> {
        self.workers.get(key).map(|worker| worker.bindings.holds().take(limit).collect()).unwrap_or_default()
    }

    /// True if this worker lives, says that it has this hold, and the hold stands.
    pub fn is_bound(&self, key: &WorkerKey, hold: Hold) -> bool {
        self.workers.get(key).is_some_and(|worker| worker.bindings.standing(hold) == Some(Standing::Held))
    }

    /// True if this worker may go on for longer than this lease from now on without hearing from us, because a longer one was
    /// promised to it before.
    pub fn is_promised_more(&self, now: Instant, key: &WorkerKey, lease: Duration) -> bool {
        self.workers.get(key).is_some_and(|worker| worker.expires > self.rules.grace(now, lease))
    }

    /// How many workers live, unsynced ones included.
    pub fn active_count(&self) -> usize {
        self.active
    }

    /// How often we stood still ourselves, and gave every worker that time back.
    pub fn stalls(&self) -> u64 {
        self.watch.stalls()
    }

    fn postpone(&mut self, ticket: Ticket, input: Input) {
        if self.postponed.len() < POSTPONED_MAX {
            self.postponed.push(input);
        } else {
            self.outbox.leave_done(ticket);
        }
    }

    /// What waited may happen now, or wait again for something else.
    pub(super) fn handle_postponed(&mut self, now: Instant) {
        for input in std::mem::take(&mut self.postponed) {
            self.handle(now, input);
        }
    }

    fn fire(&mut self, now: Instant, due: Due) {
        match due.timer {
            Timer::Lease => self.lease_due(now, due),
            Timer::Retire => self.retire_due(due),
            Timer::Check => self.check_due(due),
            Timer::Succeed => self.succeed_due(now, due),
            Timer::Unmark => self.unmark_due(now, due),
        }
    }
}

/// What goes out, in order.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    outputs: VecDeque<Output>,
    /// Who is owed word that its exclusive binds stand, as soon as the registry is ours for certain.
    pub(super) withheld: Vec<WorkerKey>,
}

impl Outbox {
    pub(super) fn push(&mut self, output: Output) {
        self.outputs.push_back(output);
    }

    pub(super) fn answer(&mut self, ticket: Ticket, key: WorkerKey, answer: Answer) {
        self.push(Output::Answer { ticket, key, answer });
    }

    pub(super) fn leave_done(&mut self, ticket: Ticket) {
        self.push(Output::LeaveDone { ticket });
    }

    /// Answers a leave or kick of a worker that is over, once that is durable.
    pub(super) fn leave_done_with(&mut self, ending: &mut Ending, ticket: Ticket) {
        match &mut ending.farewell {
            Some(farewell) => farewell.tickets.push(ticket),
            None => self.leave_done(ticket),
        }
    }

    /// Tells a worker at once how its binds stand. Stops come first, so that nothing starts only to be stopped.
    pub(super) fn tell(&mut self, key: &WorkerKey, findings: Findings) {
        if !findings.stops.is_empty() {
            self.push(Output::Stop { key: key.clone(), stops: findings.stops });
        }
        if !findings.bound.is_empty() {
            self.push(Output::Bound { key: key.clone(), holds: findings.bound });
        }
    }

    /// Says that all that this worker holds is known, when that is news.
    pub(super) fn synced(&mut self, key: &WorkerKey, worker: &mut Entity, rules: &Rules) {
        if worker.close_account(rules) {
            self.push(Output::Synced { key: key.clone() });
        }
    }

    /// Asks the rows about the next of this worker's binds that we have no record of, if there are any.
    pub(super) fn check(&mut self, key: &WorkerKey, worker: &mut Entity) {
        if let Some(holds) = worker.bindings.next_check() {
            self.push(Output::Check { key: key.clone(), holds });
        }
    }
}
