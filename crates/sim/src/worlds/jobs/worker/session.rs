//! The driver of a ledger: connection, handlers and clock in; frames and handlers out.

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;
use lease::guardian::Order;
use lease::ledger::{self, Ended, KeyEnd, Ledger, Transmit};
use lease::message::{Answer, Leave, Profile};
use model::{Hold, Instant, Nonce, WorkerKey};

use super::super::books::shown as shown_hold;
use super::super::event::{Message, Told};
use super::super::guardian::GuardianId;
use super::super::laws::key_used_after_lapse::Proof;
use super::super::laws::{exclusive_to_the_unfit, started_twice_under_one_fence};
use super::super::mutation::Mutation;
use super::super::outside::{Death, Declared, HowDeclared, Outside};
use super::super::setup::{LEASE_MIN, server_node, worker_node};
use super::guard::Guard;
use super::handlers::{HandlerNews, Handlers};
use super::link::Link;
use super::partings::Partings;
use super::{GuardianNews, WorkerInput, draw_key};
use crate::clock::DriftingClock;
use crate::net::{ConnectionId, Side};
use crate::rng::Rng;

/// The longest a drain may take.
const GRACE_MAX: Duration = Duration::from_secs(10);

pub(super) struct Session {
    index: usize,
    ledger: Ledger,
    profile: Profile,
    link: Link,
    handlers: Handlers,
    guard: Guard,
    /// The jobs that are ours or may become so and of which at most one copy may run.
    exclusive: BTreeSet<Hold>,
    partings: Partings,
    /// When this process ends if the families have not ended with their guardian.
    doom_at: Option<Instant>,
    /// What we were granted last, or wish for.
    lease: Duration,
    /// The largest of these.
    largest: Duration,
    proof: Proof,
    is_gone: bool,
}

/// What a session can touch during one turn.
pub(super) struct Moment<'t, 'a> {
    pub(super) outside: &'t mut Outside<'a>,
    /// By the worker's own clock.
    pub(super) now: Instant,
    pub(super) clock: DriftingClock,
    pub(super) life: u32,
    pub(super) rng: &'t mut Rng,
    pub(super) keys_drawn: &'t mut u32,
}

impl Session {
    pub(super) fn new(
        index: usize,
        key: WorkerKey,
        nonce: Nonce,
        guardian: Option<GuardianId>,
        outside: &mut Outside<'_>,
    ) -> Self {
        let setup = &outside.setup;
        let worker = &setup.workers[index];
        let profile = Profile {
            name: format!("worker {index}"),
            queues: worker.queues.clone(),
            slots: worker.slots,
            version: String::new(),
            stop_within: worker.stop_within(),
            ..Profile::default()
        };
        let terms = ledger::Terms {
            profile: profile.clone(),
            lease: worker.lease,
            rate_error: setup.rate_error(),
            stopping: worker.stopping,
            report_lost: worker.report_lost,
        };
        let ledger = match setup.mutation.and_then(Mutation::of_ledger) {
            Some(mutation) => Ledger::broken(terms, key, nonce, mutation),
            None => Ledger::new(terms, key, nonce),
        };
        let stopping = worker.stopping;
        let mut session = Session {
            index,
            ledger,
            profile,
            link: Link::new(index),
            handlers: Handlers::new(index, worker.guard, guardian),
            guard: Guard::new(guardian),
            exclusive: BTreeSet::new(),
            partings: Partings::new(index),
            doom_at: None,
            lease: worker.lease,
            largest: worker.lease,
            proof: Proof::default(),
            is_gone: false,
        };
        session.guard.tell(outside, Order::Terms(stopping));
        session.guard.tell_key(outside, &session.ledger);
        session
    }

    pub(super) fn key(&self) -> &WorkerKey {
        self.ledger.key()
    }

    /// The worker has left, or must not go on.
    pub(super) fn is_gone(&self) -> bool {
        self.is_gone
    }

    /// The process is dead.
    pub(super) fn die(mut self, outside: &mut Outside<'_>) {
        self.handlers.die(outside);
        self.partings.abandon(outside);
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let ours = [self.link.next_deadline(self.lease), self.partings.next_deadline(), self.doom_at];
        self.ledger.next_deadline().into_iter().chain(ours.into_iter().flatten()).min()
    }

    pub(super) fn handle_deadline(&mut self, moment: &mut Moment<'_, '_>) {
        self.ledger.handle_deadline(moment.now);
        self.carry_out(moment);
        self.is_gone |= self.doom_at.is_some_and(|at| at <= moment.now);
        if self.is_gone {
            return;
        }
        self.partings.handle_deadline(moment.outside, moment.now);
        if self.link.gives_up(moment.now, self.lease) {
            self.leave_server(moment);
        }
        if let Some(server) = self.link.wants_to_open(moment.now) {
            self.open(moment, server);
        }
    }

    pub(super) fn hear(&mut self, moment: &mut Moment<'_, '_>, input: WorkerInput) {
        match input {
            WorkerInput::Heard(connection, message) if self.partings.has(connection) => {
                self.partings.heard(moment.outside, moment.now, connection, &message);
            }
            WorkerInput::Broken(connection) if self.partings.has(connection) => {
                self.partings.broken(moment.outside, moment.now, connection);
            }
            WorkerInput::Heard(connection, message) => {
                if self.link.heard(moment.now, connection) {
                    self.hear_server(moment, message);
                }
            }
            WorkerInput::Broken(connection) => {
                if self.link.connection() == Some(connection) {
                    self.leave_server(moment);
                }
            }
            WorkerInput::Handler(hold, HandlerNews::Ends(number, end)) => {
                if let Some(ended) = self.handlers.ended(moment, hold, number, end) {
                    self.input(moment, ledger::Input::Finished { hold, ended, at: None });
                }
            }
            WorkerInput::Handler(hold, HandlerNews::Signs) => {
                if self.handlers.signed(moment, hold) {
                    let sign = match moment.rng.chance(0.3) {
                        true => ledger::Input::Noted { hold, note: Bytes::from_static(b"half of it") },
                        false => ledger::Input::Beaten { hold },
                    };
                    self.input(moment, sign);
                }
            }
            WorkerInput::Guardian(GuardianNews::Ended(family, end)) => {
                if let Some((hold, ended)) = self.handlers.family_ended(family, end) {
                    self.input(moment, ledger::Input::Finished { hold, ended, at: None });
                }
            }
            WorkerInput::Guardian(GuardianNews::Lost) => self.lose_guardian(moment),
            WorkerInput::Drain => self.drain(moment),
        }
    }

    /// Sends everything that can be said now.
    pub(super) fn transmit(&mut self, moment: &mut Moment<'_, '_>) {
        while let Some(connection) = self.link.up()
            && self.ledger.has_transmit(moment.now)
        {
            let key = self.key().clone();
            match self.ledger.poll_transmit(moment.now) {
                Some(transmit) => self.send(moment, connection, &key, transmit),
                // It may have noticed that its lease is over.
                None => return self.carry_out(moment),
            }
        }
    }

    fn send(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        key: &WorkerKey,
        mut said: Transmit,
    ) {
        moment.outside.judge(self.proof.check(moment.now, key, "sends a frame"));
        if let Some((number, beat)) = &mut said.heartbeat {
            self.proof.sent(moment.now, *number);
            // Somebody changes what the worker is configured to ask for.
            if moment.rng.chance(moment.outside.setup.lease_edits) {
                beat.lease = moment.rng.span(LEASE_MIN / 2, self.largest * 5 / 4);
            }
        }
        let server = self.link.server();
        moment.outside.tell(|| format!("{key} says to server {server}: {}", shown(&said)));
        moment.outside.send(connection, Side::Opener, Message::Said(Box::new(said)));
    }

    fn hear_server(&mut self, moment: &mut Moment<'_, '_>, message: Message) {
        match message {
            Message::Welcome { generation } => self.input(moment, ledger::Input::Connected { generation }),
            Message::Told(told) => self.hear_frame(moment, *told),
            _ => unreachable!("servers do not say that on a worker's stream"),
        }
    }

    fn hear_frame(&mut self, moment: &mut Moment<'_, '_>, told: Told) {
        // What was answered is booked before a heartbeat's answer can end the key that it was said under.
        for (hold, answer) in told.reports {
            self.input(moment, ledger::Input::ReportAnswered { hold, answer });
        }
        for stop in told.stops {
            self.input(moment, ledger::Input::Stopped(stop));
        }
        if !told.bound.is_empty() {
            self.input(moment, ledger::Input::Bound(told.bound));
        }
        if let Some((number, answer)) = told.heartbeat {
            self.hear_answer(moment, number, answer, told.by_owner);
        }
        for grant in told.assignments {
            if grant.exclusive {
                self.exclusive.insert(grant.hold);
            }
            self.input(moment, ledger::Input::Assigned(grant));
        }
        if told.left {
            self.input(moment, ledger::Input::Left);
        }
    }

    fn hear_answer(&mut self, moment: &mut Moment<'_, '_>, number: u64, answer: Answer, by_owner: bool) {
        let key = self.key().clone();
        let was_taken = matches!(answer, Answer::Ok(_));
        let granted = match &answer {
            Answer::Ok(ack) => {
                let error = moment.outside.setup.rate_error();
                self.proof.acknowledged(moment.now, number, ack.lease, error)
            }
            _ => None,
        };
        if let Answer::Later { retry_after, .. } = answer {
            self.link.put_off(moment.now, retry_after);
        }
        self.input(moment, ledger::Input::HeartbeatAnswered { number, answer });
        // An answer that comes too late ends the key that it was for.
        if was_taken && *self.key() == key {
            self.link.is_served();
            let when = |until: Option<Instant>| until.map(|until| moment.clock.when(until));
            let book = moment.outside.books.key_mut(&key);
            book.answered_at = Some(moment.outside.now);
            book.exclusive_until = when(self.ledger.exclusive_hold_until());
            if by_owner {
                book.held_until = book.held_until.max(when(granted));
            }
        }
    }

    fn input(&mut self, moment: &mut Moment<'_, '_>, input: ledger::Input) {
        self.ledger.handle(moment.now, input);
        self.carry_out(moment);
    }

    /// Does what the ledger asks for.
    fn carry_out(&mut self, moment: &mut Moment<'_, '_>) {
        use ledger::Output;
        self.guard.tell_hold(moment.outside, &self.ledger);
        while !self.is_gone
            && let Some(output) = self.ledger.poll_output()
        {
            match output {
                Output::Start { hold } => {
                    let key = self.ledger.key();
                    let exclusive = self.exclusive.contains(&hold);
                    let can_stop = self.profile.stop_within.is_some();
                    let verdict = exclusive_to_the_unfit::check(hold, key, can_stop || !exclusive);
                    moment.outside.judge(verdict);
                    moment.outside.judge(self.proof.check(moment.now, key, "starts a job"));
                    let verdict = started_twice_under_one_fence::check(&mut moment.outside.books, hold, key);
                    moment.outside.judge(verdict);
                    moment.outside.stats.starts += 1;
                    self.handlers.start(moment, hold, key, exclusive);
                }
                Output::Stop { hold, .. } => self.handlers.stop(moment, hold),
                Output::Abort { hold } => self.handlers.abort(moment, hold),
                Output::Doom { hold } => self.doom(moment, hold),
                Output::Farewell { key, nonce, stopped_at, all_stopped } => {
                    let words = Leave {
                        all_stopped,
                        exclusive_stopped: true,
                        stopped_at: Some(stopped_at),
                        ..Leave::default()
                    };
                    self.partings.say(moment.outside, moment.now, key, nonce, (words, self.largest));
                }
                Output::Refused { .. } => moment.outside.stats.stale_reports += 1,
                Output::Ended { hold, .. } => {
                    self.exclusive.remove(&hold);
                }
                Output::Accepted { .. } => {}
                Output::NewKey { why } => {
                    let key = draw_key(self.index, moment.keys_drawn);
                    moment
                        .outside
                        .tell(|| format!("{} is over ({why:?}); {key} takes its place", self.ledger.key()));
                    let how = match why {
                        KeyEnd::Lapsed => HowDeclared::Lapsed,
                        KeyEnd::Inactive => HowDeclared::Told,
                    };
                    let over = Declared { key: self.key().clone(), lease: self.lease, how };
                    moment.outside.declared.push(over);
                    moment.outside.books.drew_key(&key, self.index, moment.life);
                    self.ledger.handle(moment.now, ledger::Input::Rekeyed { key: key.clone() });
                    if *self.key() == key {
                        self.proof = Proof::default();
                    }
                    self.guard.tell_key(moment.outside, &self.ledger);
                    self.reopen(moment, self.link.server());
                }
                Output::MoveTo { address } => {
                    moment.outside.stats.redirects += 1;
                    let owner = address.and_then(|address| address.parse().ok());
                    let connection = self.link.redirected(owner, moment.now, moment.rng);
                    self.disconnected(moment, connection);
                }
                Output::TryAnother => self.leave_server(moment),
                Output::Registered { lease } => {
                    self.lease = lease;
                    self.largest = self.largest.max(lease);
                }
                Output::DrainOrdered => self.drain(moment),
                Output::Gone { .. } => {
                    self.is_gone = true;
                    if self.handlers.is_empty() {
                        self.guard.tell(moment.outside, Order::Bye);
                    }
                }
            }
        }
    }

    /// A job cannot be stopped by any other means. If it runs inside, this process ends with it. A family dies with the
    /// guardian that did not end it; if that helps in time, there is nothing to end this process for.
    fn doom(&mut self, moment: &mut Moment<'_, '_>, hold: Hold) {
        let outside = &mut *moment.outside;
        outside.tell(|| format!("{} cannot end {}", self.ledger.key(), shown_hold(hold)));
        outside.stats.dooms += 1;
        if self.handlers.is_family(hold) {
            let wait = outside.setup.workers[self.index].stopping.safety / 4;
            self.doom_at.get_or_insert(moment.now + wait);
            outside.deaths.extend(self.guard.guardian().map(Death::OfGuardian));
        } else {
            self.is_gone = true;
        }
    }

    /// The guardian is gone, and all families with it: nothing can be stopped for certain any more, so this worker ends.
    fn lose_guardian(&mut self, moment: &mut Moment<'_, '_>) {
        self.doom_at = None;
        for hold in self.handlers.guardian_lost() {
            self.input(moment, ledger::Input::Finished { hold, ended: Ended::Aborted, at: None });
        }
        let grace = moment.outside.setup.workers[self.index].stopping.kill_wait;
        self.input(moment, ledger::Input::Drain { grace });
    }

    fn drain(&mut self, moment: &mut Moment<'_, '_>) {
        let grace = moment.rng.span_of_any_size(Duration::from_millis(10), GRACE_MAX);
        moment.outside.tell(|| format!("{} drains within {grace:?}", self.ledger.key()));
        self.ledger.handle(moment.now, ledger::Input::Drain { grace });
    }

    fn open(&mut self, moment: &mut Moment<'_, '_>, server: usize) {
        let connection = moment.outside.open(worker_node(self.index), server_node(server));
        let profile = self.profile.clone();
        let hello = Message::Hello { key: self.key().clone(), nonce: self.ledger.nonce(), profile };
        moment.outside.send(connection, Side::Opener, hello);
        self.link.opening(moment.now, connection);
    }

    /// Gives up on the present server.
    fn leave_server(&mut self, moment: &mut Moment<'_, '_>) {
        let connection = self.link.try_next(moment.now, moment.rng);
        self.disconnected(moment, connection);
    }

    /// Leaves the present stream for a new one to this server.
    fn reopen(&mut self, moment: &mut Moment<'_, '_>, server: usize) {
        let connection = self.link.go_to(server, moment.now);
        self.disconnected(moment, connection);
    }

    fn disconnected(&mut self, moment: &mut Moment<'_, '_>, connection: Option<ConnectionId>) {
        if let Some(connection) = connection {
            moment.outside.close(connection, Side::Opener);
            self.ledger.handle(moment.now, ledger::Input::Disconnected);
            self.carry_out(moment);
        }
    }
}

/// A frame, for people.
fn shown(said: &Transmit) -> String {
    let mut parts = Vec::new();
    if let Some((number, beat)) = &said.heartbeat {
        let full = beat.full.as_ref().map_or(String::new(), |full| format!(", all {} it holds", full.len()));
        parts.push(format!("heartbeat {number} (+{} -{}{full})", beat.binds.len(), beat.unbinds.len()));
    }
    let counts = [
        ("credits", said.credits as usize),
        ("binds", said.binds.len()),
        ("signs", said.beats.len()),
        ("reports", said.reports.len()),
        ("notes", said.notes.len()),
    ];
    parts
        .extend(counts.iter().filter(|(_, count)| *count > 0).map(|(what, count)| format!("{count} {what}")));
    parts.extend(said.draining.then(|| "draining".to_owned()));
    parts.extend(said.leave.as_ref().map(|leave| format!("leave, all stopped: {}", leave.all_stopped)));
    parts.join(", ")
}
