//! The machine itself: one input at a time. What it promises is told in the module above; what it makes of answers is in
//! `answers`, what it sends in `frames`.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use bytes::Bytes;
use model::{Hold, Instant, Nonce, Outcome, Report, WorkerKey};
use muster::health::must_die;
use muster::{Health, SetId};

use super::bound::BoundSet;
use super::drain::Phase;
use super::farewell::Farewells;
use super::held::{Due, Held};
use super::instance::Instance;
use super::jobs::Jobs;
use super::kept::Kept;
use super::mutation::Mutation;
use super::pulse::Pulse;
use super::reports::Reports;
use super::stream::Stream;
use super::{Ended, Grant, Input, KeyEnd, Output, ReportAnswer, StopReason, Terms};
use crate::message::{Generation, Stop, StopOrder};
use crate::wellness::Wellness;

/// The part of a claim's own lease after which the job is bound even if no heartbeat is due, in percent.
const BIND_PERCENT: u32 = 20;

/// The ledger of one worker, over all its reconnects and keys.
#[derive(Debug)]
pub struct Ledger {
    pub(super) terms: Terms,
    pub(super) mutation: Option<Mutation>,
    pub(super) instance: Instance,
    pub(super) wellness: Wellness,
    /// `None` while there is no stream that was opened under the present key.
    pub(super) stream: Option<Stream>,
    pub(super) pulse: Pulse,
    pub(super) jobs: Jobs,
    pub(super) bound: BoundSet,
    pub(super) reports: Reports,
    pub(super) kept: Kept,
    pub(super) farewells: Farewells,
    pub(super) notes: BTreeMap<Hold, Bytes>,
    pub(super) phase: Phase,
    pub(super) is_drain_ordered: bool,
    /// Some of our jobs ended as [`Ended::Crashed`]. They stay bound until we leave.
    pub(super) has_crashed: bool,
    /// How late our deadlines are handled, smoothed.
    pub(super) lag: Duration,
    pub(super) outputs: VecDeque<Output>,
}

impl Ledger {
    /// The ledger of a process that starts: no stream, nothing held.
    pub fn new(terms: Terms, key: WorkerKey, nonce: Nonce) -> Self {
        Ledger {
            pulse: Pulse::new(terms.lease),
            terms,
            mutation: None,
            instance: Instance::new(key, nonce),
            wellness: Wellness::default(),
            stream: None,
            jobs: Jobs::default(),
            bound: BoundSet::new(nonce),
            reports: Reports::new(nonce),
            kept: Kept::new(nonce),
            farewells: Farewells::default(),
            notes: BTreeMap::new(),
            phase: Phase::Serving,
            is_drain_ordered: false,
            has_crashed: false,
            lag: Duration::ZERO,
            outputs: VecDeque::new(),
        }
    }

    /// The same with a deliberate bug.
    pub fn broken(terms: Terms, key: WorkerKey, nonce: Nonce, mutation: Mutation) -> Self {
        Ledger { mutation: Some(mutation), ..Ledger::new(terms, key, nonce) }
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        // First of all: a process that was stopped must not act on a lease that ended meanwhile.
        self.catch_up(now);
        match input {
            Input::Connected { generation } => self.connect(now, generation),
            Input::Disconnected => self.drop_stream(),
            Input::Rekeyed { key } => self.rekey(now, key),
            Input::Assigned(grant) => self.assign(now, grant),
            Input::HeartbeatAnswered { number, answer } => self.hear(now, number, answer),
            Input::Bound(holds) => self.confirm(now, &holds),
            Input::Stopped(stop) => self.obey(now, stop),
            Input::Finished { hold, ended, at } => self.finish(hold, ended, at.map_or(now, |at| at.min(now))),
            Input::ReportAnswered { hold, answer } => self.settle(now, hold, answer),
            Input::Noted { hold, note } => self.note(now, hold, note),
            Input::Beaten { hold } => self.jobs.sign(now, hold),
            Input::Drain { grace } => self.drain(now, grace),
            Input::Left => self.phase.left(),
            Input::Told(set) => self.keep_set(set),
            Input::Checked { asked_at, lease } => self.wellness.checked(asked_at, lease),
            Input::Forget(holds) => self.kept.forget(&holds, &self.reports),
        }
        self.advance_phase(now);
    }

    /// When to call [`Ledger::handle_deadline`]; then there may be a frame to send, too.
    pub fn next_deadline(&self) -> Option<Instant> {
        let pulse_at = self.stream.as_ref().and_then(|_| self.pulse.next_deadline());
        let bind_at = if self.may_speak() { self.bound.next_deadline() } else { None };
        let lease_at = [self.exclusive_stop_at(), self.lapse_at()].into_iter().flatten().min();
        let (job_at, phase_at) = (self.jobs.next_deadline(), self.phase.next_deadline());
        let deadlines = [pulse_at, bind_at, lease_at, job_at, phase_at, self.kept.next_deadline()];
        deadlines.into_iter().flatten().min()
    }

    /// The time named by [`Ledger::next_deadline`] has come. Harmless at any other time.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.measure_lag(now);
        self.catch_up(now);
        self.pulse.handle_deadline(now);
        self.bound.handle_deadline(now);
        self.kept.handle_deadline(now);
        if self.phase.stops_handlers(now) {
            self.stop_all(now, StopReason::Draining);
        }
        if self.phase.aborts_handlers(now) {
            self.jobs.abort_all(now);
            self.check_jobs(now);
        }
        self.advance_phase(now);
    }

    /// What to do next; ask until `None`, after every other call.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// The present key; of no use any more between [`Output::NewKey`] and [`Input::Rekeyed`].
    pub fn key(&self) -> &WorkerKey {
        self.instance.key()
    }

    /// Which process this is.
    pub fn nonce(&self) -> Nonce {
        self.instance.nonce()
    }

    /// Until when the present key may be used; `None` until its first heartbeat is acknowledged.
    pub fn hold_until(&self) -> Option<Instant> {
        self.instance.hold_until()
    }

    /// Until when exclusive jobs may run under the present key: never later than [`Ledger::hold_until`], earlier when answers
    /// did not vouch for them. What a guardian must be told.
    pub fn exclusive_hold_until(&self) -> Option<Instant> {
        self.instance.exclusive_until()
    }

    /// Whether a heartbeat of the present key was acknowledged.
    pub fn is_registered(&self) -> bool {
        self.instance.is_registered()
    }

    /// How we are by our own clock: by the rules by which the scheduler of volatile jobs judges us.
    pub fn health(&self, now: Instant) -> Health {
        self.wellness.health(now, self.lapse_at())
    }

    /// The jobs that are ours as far as we know: the handler runs or its end is not settled, and they are not lost.
    pub fn holds(&self) -> Vec<Hold> {
        self.bound.holds()
    }

    fn connect(&mut self, now: Instant, generation: Generation) {
        // A stream of a key that is over leads nowhere.
        if self.instance.is_over() {
            return;
        }
        self.drop_stream();
        if self.has(Mutation::SetForgottenWithServer) && !self.instance.is_known_to(generation) {
            self.instance.forget_set();
        }
        self.stream = Some(Stream::new(generation));
        self.wellness.belongs_to(generation);
        self.pulse.beat_at_once(now);
        self.jobs.sign_again(now);
        self.reports.send_all_again();
        self.kept.tell(generation);
    }

    pub(super) fn drop_stream(&mut self) {
        self.stream = None;
        self.pulse.rest();
        self.phase.stream_lost();
    }

    fn rekey(&mut self, now: Instant, key: WorkerKey) {
        let key = if self.has(Mutation::KeyReused) { self.instance.key().clone() } else { key };
        if self.instance.succeed(key) {
            self.drop_stream();
            self.wellness = Wellness::default();
            // Whoever was counted in that set was the key before.
            if !self.has(Mutation::SetSurvivesKey) {
                self.instance.forget_set();
            }
            self.pulse.follow(self.terms.lease);
            self.bound.start_over(now);
        }
    }

    fn assign(&mut self, now: Instant, grant: Grant) {
        let Some(stream) = &mut self.stream else { return };
        let is_current = stream.is_current(&grant.start, self.instance.key());
        if !is_current && self.mutation != Some(Mutation::StartsUnchecked) {
            return;
        }
        stream.take(&grant.start);
        let hold = grant.hold;
        let claims = self.jobs.claims_of(hold.job);
        let is_known = claims.last().is_some_and(|newest| *newest >= hold) || self.reports.contains(hold);
        if is_known || !self.instance.is_registered() {
            return;
        }
        let bind_by = now + grant.lease * BIND_PERCENT / 100;
        let is_unchecked = grant.at_once && self.has(Mutation::AtOnceUnchecked);
        let may_run = self.may_run_exclusive(now) && (!grant.at_once || self.is_well(now));
        if grant.exclusive && !may_run && !is_unchecked {
            self.bound.insert(hold, bind_by);
            return self.give_up(hold, StopReason::LeaseOver);
        }
        if self.phase != Phase::Serving {
            self.bound.insert(hold, bind_by);
            return self.reports.owe(hold, Outcome::HandedBack);
        }
        for older in claims {
            self.stop(now, older, StopReason::Lost);
        }
        let waits = grant.exclusive && !(grant.at_once && self.is_free_for(hold)) && !is_unchecked;
        self.bound.insert(hold, if waits { now } else { bind_by });
        if waits && !self.has(Mutation::StartsBeforeBound) {
            self.jobs.insert_waiting(hold, Held::new(&grant));
        } else {
            self.jobs.insert(now, hold, Held::new(&grant));
            self.outputs.push_back(Output::Start { hold });
        }
    }

    /// The server tells the present set of workers. It hears back at once what it is from now on: the sooner all have said the
    /// same, the shorter its next life must wait.
    pub(super) fn keep_set(&mut self, set: SetId) {
        if let Some(stream) = &mut self.stream
            && self.instance.keep_set(stream.generation(), set)
        {
            stream.owe_echo();
        }
    }

    pub(super) fn obey(&mut self, now: Instant, stop: Stop) {
        self.stop(
            now,
            stop.hold,
            match stop.reason {
                StopOrder::Cancelled => StopReason::Cancelled,
                StopOrder::Lost => StopReason::Lost,
                StopOrder::Silent => StopReason::Wedged,
            },
        );
    }

    pub(super) fn stop(&mut self, now: Instant, hold: Hold, reason: StopReason) {
        if self.jobs.is_waiting(hold) {
            let is_overlooked = self.has(Mutation::StartsStopped);
            return if is_overlooked { self.jobs.overlook(hold) } else { self.give_up(hold, reason) };
        }
        // A job that has ended here is not known any more: an order that crossed its report is ignored.
        if self.jobs.stop(now, hold, reason, self.kill_clock()) {
            if reason == StopReason::Lost {
                self.forget(hold);
            }
            self.outputs.push_back(Output::Stop { hold, reason });
        }
    }

    pub(super) fn stop_all(&mut self, now: Instant, reason: StopReason) {
        for hold in self.jobs.holds().collect::<Vec<_>>() {
            self.stop(now, hold, reason);
        }
    }

    fn drain(&mut self, now: Instant, grace: Duration) {
        self.phase.drain(now, grace, self.terms.stopping.kill_wait);
        self.give_up_waiting(StopReason::Draining);
    }

    fn finish(&mut self, hold: Hold, ended: Ended, at: Instant) {
        let Some(held) = self.jobs.remove(hold) else { return };
        self.has_crashed |= ended == Ended::Crashed && !held.is_lost();
        let exclusive_at = held.is_exclusive().then_some(at);
        let outcome = held.outcome(ended, self.terms.report_lost);
        if let Some(outcome) = &outcome {
            self.reports.owe(hold, outcome.clone());
        }
        self.outputs.push_back(Output::Ended { hold, outcome });
        self.farewells.ended(hold, exclusive_at);
        self.say_farewells();
    }

    fn settle(&mut self, now: Instant, hold: Hold, answer: ReportAnswer) {
        let server = self.stream.as_ref().map(Stream::generation);
        let Some(outcome) = self.reports.answered(hold) else {
            return self.kept.answered(hold, answer, server);
        };
        self.bound.remove(hold);
        self.kept.settle(now, Report { hold, outcome }, answer, server);
        self.outputs.push_back(match answer {
            ReportAnswer::Done => Output::Accepted { hold },
            ReportAnswer::Refused { current } => Output::Refused { hold, current },
        });
    }

    fn note(&mut self, now: Instant, hold: Hold, note: Bytes) {
        if self.jobs.is_live(hold) {
            self.notes.insert(hold, note);
            self.jobs.sign(now, hold);
        }
    }

    /// A job is not ours any more, although its handler may still have to wind down.
    pub(super) fn forget(&mut self, hold: Hold) {
        self.bound.remove(hold);
        self.notes.remove(&hold);
    }

    /// What the time alone has done to our jobs and our key.
    pub(super) fn catch_up(&mut self, now: Instant) {
        self.stop_exclusive_if_due(now);
        let is_over = must_die(now, self.lapse_at());
        if is_over {
            self.lapse(now);
        }
        self.check_jobs(now);
        if is_over {
            self.outputs.push_back(Output::NewKey { why: KeyEnd::Lapsed });
        }
    }

    /// Once the lease is over by our own clock, the key is never used again: the registry may give its jobs away.
    fn lapse(&mut self, now: Instant) {
        self.stop_all(now, StopReason::LeaseOver);
        self.disown_exclusive();
        self.farewells.owe_word(self.key().clone(), self.jobs.exclusive_running());
        self.instance.lapse();
        self.drop_stream();
        self.say_farewells();
    }

    fn check_jobs(&mut self, now: Instant) {
        let (clock, spares) = (self.kill_clock(), self.has(Mutation::NeverDooms));
        self.jobs.check(now, clock, |hold, due| match due {
            Due::Stop(reason) => self.outputs.push_back(Output::Stop { hold, reason }),
            Due::Abort => self.outputs.push_back(Output::Abort { hold }),
            Due::Doom if spares => {}
            Due::Doom => self.outputs.push_back(Output::Doom { hold }),
            Due::Sign => {}
        });
    }

    fn lapse_at(&self) -> Option<Instant> {
        if self.has(Mutation::LateAckAccepted) && self.pulse.is_waiting() {
            return None;
        }
        if self.has(Mutation::LapsesWithExclusiveHold) {
            return self.exclusive_hold_until();
        }
        self.instance.hold_until()
    }

    fn advance_phase(&mut self, now: Instant) {
        self.phase.advance(now, self.jobs.is_empty());
        // Nobody knows us, or there is no stream; and nothing to deliver: then there is nobody to take leave of.
        let has_nothing_to_say = self.jobs.is_empty() && self.reports.is_empty();
        let is_alone = !self.may_speak() && !self.pulse.is_waiting();
        if self.phase.ends(now, has_nothing_to_say && is_alone) {
            self.phase = Phase::Over;
            self.outputs.push_back(Output::Gone { unreported: self.reports.len() });
        }
    }

    fn measure_lag(&mut self, now: Instant) {
        if let Some(deadline) = self.next_deadline().filter(|deadline| *deadline <= now) {
            self.lag = (self.lag * 3 + now.since(deadline)) / 4;
        }
    }

    /// Whether more than heartbeats may be sent.
    pub(super) fn may_speak(&self) -> bool {
        self.stream.is_some() && self.instance.is_registered()
    }

    pub(super) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
