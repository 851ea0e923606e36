//! What workers, clients and operators say to a server, and how it answers them.

use lease::ledger::Transmit;
use lease::message::{Heartbeat, Leave, Profile};
use lease::registry::{self, Speaker, Ticket, WorkerState};
use model::{Hold, Nonce, WorkerKey};
use schedule::dispatch;
use store::Progress;

use super::super::call::Call;
use super::super::event::{Message, Told};
use super::super::laws::bind_undone::Changes;
use super::super::laws::renewed_on_mismatch;
use super::super::mutation::Mutation;
use super::heart::Heart;
use super::roll::{Roll, Waiting};
use super::sessions::Session;
use super::{Moment, ServerInput, Then};
use crate::net::{ConnectionId, Side};

impl Heart {
    /// Something happened.
    pub(super) fn hear(&mut self, moment: &mut Moment<'_, '_>, input: ServerInput) {
        match input {
            ServerInput::Heard(connection, message) => self.hear_worker(moment, connection, message),
            ServerInput::Broken(connection) => {
                self.hailing.remove(&connection);
                self.end_session(moment, connection);
            }
            ServerInput::Answered(registry, then, reply) => self.answered(moment, registry, then, reply),
            ServerInput::Enqueue(batch) => {
                let then = Then::Enqueued(Box::new(batch.clone()));
                moment.call(Call::Enqueue(batch), then);
            }
            ServerInput::Cancel(id) => moment.call(Call::Cancel(id), Then::Cancelled),
            ServerInput::Redrive(id) => moment.call(Call::Redrive(id), Then::Redriven),
            ServerInput::Kick(key) => {
                if let Some(ticket) = self.ticket(Waiting::default()) {
                    self.tell_registry(moment.now, registry::Input::Kick { ticket, key });
                }
            }
            ServerInput::Drain(key) => self.tell_registry(moment.now, registry::Input::Drain { key }),
            ServerInput::Stop(_) => self.go(moment),
        }
        self.act(moment);
    }

    /// Tells a worker something on a connection.
    pub(super) fn send(&mut self, moment: &mut Moment<'_, '_>, connection: ConnectionId, told: Told) {
        moment.outside.send(connection, Side::Acceptor, Message::Told(Box::new(told)));
    }

    /// Tells a worker something, if it is connected.
    pub(super) fn send_to(&mut self, moment: &mut Moment<'_, '_>, key: &WorkerKey, told: Told) {
        for session in self.sessions.of_key(key) {
            self.send(moment, session.connection, told.clone());
        }
    }

    /// The session cannot go on: its worker will connect again and say again what was not answered.
    pub(super) fn hang_up(&mut self, moment: &mut Moment<'_, '_>, connection: ConnectionId) {
        moment.outside.close(connection, Side::Acceptor);
        self.end_session(moment, connection);
    }

    /// A heartbeat of a worker that this registry may judge.
    pub(super) fn take_heartbeat(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        number: u64,
        beat: Heartbeat,
    ) {
        let now = moment.now;
        let key = beat.key.clone();
        let Some(roll) = &self.roll else { return };
        let waiting = Waiting {
            connection: Some(connection),
            number,
            changes: Changes::of(&beat),
            is_stranger: !roll.registry.knows(&key),
            by_owner: moment.outside.books.is_owner(roll.id, &key),
            ..Waiting::default()
        };
        let Some(ticket) = self.ticket(waiting) else { return };
        let Some(Roll { registry, .. }) = &mut self.roll else { return };
        let with_wrong_token = registry.worker(&key).filter(|view| beat.token != Some(view.token));
        let stalls = registry.stalls();
        registry.handle(now, registry::Input::Heartbeat { ticket, beat });
        // A stall of ours is made up for at the first word that we hear, whatever it is.
        if let Some(before) = with_wrong_token
            && registry.stalls() == stalls
            && let Some(after) = registry.worker(&key)
        {
            moment.outside.judge(renewed_on_mismatch::check(&key, before.expires, after.expires));
        }
    }

    fn hear_worker(&mut self, moment: &mut Moment<'_, '_>, connection: ConnectionId, message: Message) {
        match message {
            Message::Hello { key, nonce, profile } => {
                match self.registry().map(|registry| registry.speaker(&key, nonce)) {
                    None => moment.outside.close(connection, Side::Acceptor),
                    // Whom this registry does not know the store may.
                    Some(Speaker::Unknown) => {
                        self.hailing.insert(connection);
                        let call = Call::Worker(key.clone());
                        moment.call(call, Then::Hailed { connection, key, nonce, profile });
                    }
                    Some(speaker) => self.welcome(moment, connection, (key, nonce, profile), speaker),
                }
            }
            Message::Said(said) => {
                if let Some(session) = self.sessions.on(connection).cloned() {
                    let said = if session.may_speak { *said } else { only_signs_of_life(*said) };
                    self.hear_frame(moment, &session, said);
                }
            }
            Message::Leave { key, nonce, leave } => {
                match &self.roll {
                    Some(roll) if roll.registry.knows(&key) => {
                        self.take_leave(moment, connection, key, nonce, leave);
                    }
                    // Whom this registry does not know may belong to another one.
                    Some(_) => {
                        let call = Call::Worker(key.clone());
                        moment.call(call, Then::OwnerFound { connection, key, nonce, leave });
                    }
                    None => moment.outside.close(connection, Side::Acceptor),
                }
            }
            Message::Welcome { .. } | Message::Told(_) | Message::LeaveAnswered(_) => {
                unreachable!("servers say that")
            }
        }
    }

    /// Opens a session for a process that may have this key.
    pub(super) fn welcome(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        (key, nonce, profile): (WorkerKey, Nonce, Profile),
        speaker: Speaker,
    ) {
        let Some(generation) = self.roll.as_ref().map(Roll::generation) else {
            return moment.outside.close(connection, Side::Acceptor);
        };
        let believes_all = moment.outside.setup.mutation == Some(Mutation::AnyNonceSpeaks);
        if speaker == Speaker::Impostor && !believes_all {
            moment.outside.stats.usurpers_refused += 1;
            return moment.outside.close(connection, Side::Acceptor);
        }
        let may_speak = speaker == Speaker::Worker || believes_all;
        let session = self.sessions.open(connection, key, nonce, profile, may_speak);
        let queues = session.open_queues(&moment.outside.setup.exclusive);
        let joined = dispatch::Input::Joined { session: session.id, queues };
        self.dispatcher.handle(moment.now, joined);
        moment.outside.send(connection, Side::Acceptor, Message::Welcome { generation });
    }

    /// The parts of a frame, in the order that is safe: notes before reports of the same job.
    fn hear_frame(&mut self, moment: &mut Moment<'_, '_>, session: &Session, said: Transmit) {
        let (now, connection, key) = (moment.now, session.connection, &session.key);
        let Session { id, nonce, .. } = *session;
        if said.draining {
            // Before its hand-backs, which would otherwise come straight back to it.
            self.dispatcher.handle(now, dispatch::Input::Left { session: id });
        } else if said.credits > 0 {
            self.sessions.hold_back(connection, said.credits);
            self.release_credits(moment, connection, key);
        }
        if !said.notes.is_empty() {
            let holds = said.notes.iter().map(|(hold, _)| *hold).collect();
            let notes = said.notes.into_iter();
            let notes =
                notes.map(|(hold, note)| Progress { hold, note: Some(note), checkpoint: None }).collect();
            moment.call(Call::Progress { key: key.clone(), notes }, Then::Noted { connection, holds });
        }
        if !said.beats.is_empty() {
            let lease = moment.outside.setup.verify_push;
            let then = Then::Beaten { connection, holds: said.beats.clone(), began: now };
            moment.call(Call::Renew { key: key.clone(), holds: said.beats, lease }, then);
        }
        if !said.reports.is_empty() {
            let holds: Vec<Hold> = said.reports.iter().map(|report| report.hold).collect();
            let then = Then::Reported { connection, key: key.clone(), holds };
            moment.call(Call::Finish { key: key.clone(), reports: said.reports }, then);
        }
        if !said.binds.is_empty() {
            if let Some(roll) = &mut self.roll {
                said.binds.iter().for_each(|bind| roll.acknowledged.asked(*bind));
            }
            self.tell_registry(now, registry::Input::Bind { key: key.clone(), nonce, binds: said.binds });
        }
        if let Some((number, beat)) = said.heartbeat {
            self.hear_heartbeat(moment, connection, number, beat);
        }
        if let Some(leave) = said.leave
            && let Some(ticket) = self.ticket(Waiting { connection: Some(connection), ..Waiting::default() })
        {
            let words = Leave { all_stopped: leave.all_stopped, crashed: leave.crashed, ..Leave::default() };
            let (key, nonce) = (leave.key, leave.nonce);
            self.tell_registry(now, registry::Input::Leave { ticket, key, nonce, leave: words });
        }
    }

    /// A leave by a call of its own, of a worker that this registry may judge.
    pub(super) fn take_leave(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        key: WorkerKey,
        nonce: Nonce,
        leave: Leave,
    ) {
        let waiting = Waiting { connection: Some(connection), is_call: true, ..Waiting::default() };
        if let Some(ticket) = self.ticket(waiting) {
            self.tell_registry(moment.now, registry::Input::Leave { ticket, key, nonce, leave });
        }
    }

    /// Only a worker that our registry has as alive is given jobs: another one's we could not vouch for. Servers wait for
    /// a heartbeat on the very stream; here its lease is believed before, so that starts cross with what it says next.
    pub(super) fn release_credits(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        key: &WorkerKey,
    ) {
        if !self.sessions.on(connection).is_some_and(|session| session.may_speak) {
            return;
        }
        let Some(view) = self.registry().and_then(|registry| registry.worker(key)) else { return };
        if !matches!(view.state, WorkerState::Active | WorkerState::Unsynced) {
            return;
        }
        self.note_leased(moment, connection, view.lease);
        if let Some((session, add)) = self.sessions.release(connection).filter(|(_, add)| *add > 0) {
            self.dispatcher.handle(moment.now, dispatch::Input::Credits { session, add });
        }
    }

    /// Whom this registry does not know may belong to another one, if it was ever known to anybody.
    fn hear_heartbeat(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        number: u64,
        beat: Heartbeat,
    ) {
        let is_stranger = beat.token.is_some() && !self.registry().is_some_and(|it| it.knows(&beat.key));
        if !is_stranger || moment.outside.setup.mutation == Some(Mutation::StrangersAreDead) {
            return self.take_heartbeat(moment, connection, number, beat);
        }
        let call = Call::Worker(beat.key.clone());
        moment.call(call, Then::LookedUp { connection, number, beat: Box::new(beat) });
    }

    fn end_session(&mut self, moment: &mut Moment<'_, '_>, connection: ConnectionId) {
        if let Some(session) = self.sessions.close(connection) {
            self.dispatcher.handle(moment.now, dispatch::Input::Left { session: session.id });
        }
    }

    fn ticket(&mut self, waiting: Waiting) -> Option<Ticket> {
        self.next_ticket += 1;
        let ticket = Ticket(self.next_ticket);
        self.roll.as_mut()?.tickets.insert(ticket, waiting);
        Some(ticket)
    }
}

/// What may be taken of a process before anybody knows whether it has its key: its credits wait. A worker says nothing else
/// before it is known.
fn only_signs_of_life(said: Transmit) -> Transmit {
    let Transmit { credits, heartbeat, binds, .. } = said;
    Transmit { credits, heartbeat, binds, ..Transmit::default() }
}
