//! The heart of a server: one place that feeds the pure machines and does what they say.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use lease::message::{Answer, StopOrder};
use lease::ownership::Ownership;
use lease::registry::{self, Registry};
use model::{HolderEnd, Instant, QueueName, RegistryId, WorkerKey};
use schedule::dispatch::{self, Dispatcher};
use schedule::upkeep::{self, Upkeep};
use store::Enlist;

use super::super::call::Call;
use super::super::event::{LeaveAnswer, Message, Told, answer_word};
use super::super::laws::{double_judge, two_owners};
use super::super::mutation::Mutation;
use super::super::outside::{Declared, HowDeclared};
use super::super::setup::{LEASE_MAX, Setup};
use super::roll::Roll;
use super::sessions::Sessions;
use super::strays::Strays;
use super::{Moment, Then};
use crate::net::{ConnectionId, Side};
use crate::rng::Rng;

/// How often a server looks for work that another one made available.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
pub(super) struct Heart {
    pub(super) index: usize,
    pub(super) ownership: Ownership,
    /// While a registry is ours.
    pub(super) roll: Option<Roll>,
    /// The addresses of all servers as last seen, by the registry they have.
    pub(super) peers: BTreeMap<RegistryId, String>,
    pub(super) dispatcher: Dispatcher,
    pub(super) upkeep: Upkeep,
    pub(super) sessions: Sessions,
    pub(super) next_ticket: u64,
    /// The number of the last start that was sent.
    pub(super) last_start: u64,
    pub(super) strays: Strays,
    /// When we are gone, once we were asked to go.
    pub(super) gone_at: Option<Instant>,
    /// Who said hello and waits for the store to say whose key that is.
    pub(super) hailing: BTreeSet<ConnectionId>,
    queues: Vec<QueueName>,
    poll_at: Option<Instant>,
    /// The wall clock's steps that were noticed.
    wall_steps: u64,
}

impl Heart {
    pub(super) fn new(index: usize, life: u32, now: Instant, setup: &Setup) -> Self {
        let ownership = match setup.mutation.and_then(Mutation::of_ownership) {
            Some(mutation) => Ownership::broken(now, setup.ownership(), mutation),
            None => Ownership::new(now, setup.ownership()),
        };
        let mut upkeep = Upkeep::new();
        upkeep.handle(now, upkeep::Input::Started { longest_lease: None });
        let strays = Rng::stream(setup.seed, u64::from(life) * 10 + index as u64, "strays");
        Heart {
            index,
            ownership,
            roll: None,
            peers: BTreeMap::new(),
            dispatcher: Dispatcher::new(),
            upkeep,
            sessions: Sessions::new(setup.mutation),
            next_ticket: 0,
            last_start: 0,
            strays: Strays::new(strays, setup.stray_starts),
            gone_at: None,
            queues: setup.queues.clone(),
            hailing: BTreeSet::new(),
            poll_at: Some(Instant::ZERO),
            wall_steps: 0,
        }
    }

    pub(super) fn registry(&self) -> Option<&Registry> {
        self.roll.as_ref().map(|roll| &roll.registry)
    }

    pub(super) fn registry_id(&self) -> Option<RegistryId> {
        self.roll.as_ref().map(|roll| roll.id)
    }

    /// Until when our registry is ours for certain.
    pub(super) fn owned_until(&self) -> Option<Instant> {
        self.roll.as_ref().map(|roll| roll.owned_until)
    }

    /// Whether we have gone, as we were asked to.
    pub(super) fn is_gone(&self, now: Instant) -> bool {
        self.gone_at.is_some_and(|at| at <= now)
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let ownership = self.ownership.next_deadline().filter(|_| self.gone_at.is_none());
        let registry = self.roll.as_ref().and_then(|roll| roll.registry.next_deadline());
        let machines = [ownership, registry, self.dispatcher.next_deadline(), self.upkeep.next_deadline()];
        machines.into_iter().chain([self.poll_at, self.gone_at]).flatten().min()
    }

    pub(super) fn handle_deadline(&mut self, moment: &mut Moment<'_, '_>) {
        let now = moment.now;
        if self.wall_steps != moment.outside.wall_steps {
            self.wall_steps = moment.outside.wall_steps;
            self.upkeep.handle(now, upkeep::Input::WallStepped);
        }
        self.ownership.handle_deadline(now);
        if let Some(roll) = &mut self.roll {
            roll.registry.handle_deadline(now);
        }
        self.dispatcher.handle_deadline(now);
        self.upkeep.handle_deadline(now);
        if self.poll_at.take_if(|at| *at <= now).is_some() {
            self.poll_at = Some(now + POLL_INTERVAL);
            self.ready(now, self.queues.clone());
        }
        self.act(moment);
    }

    /// These queues may have work.
    pub(super) fn ready(&mut self, now: Instant, queues: impl IntoIterator<Item = QueueName>) {
        for queue in queues {
            self.dispatcher.handle(now, dispatch::Input::Ready { queue });
        }
    }

    /// Tells the registry, if there is one.
    pub(super) fn tell_registry(&mut self, now: Instant, input: registry::Input) {
        if let Some(roll) = &mut self.roll {
            roll.registry.handle(now, input);
        }
    }

    /// Does what the machines say, until they say nothing more.
    pub(super) fn act(&mut self, moment: &mut Moment<'_, '_>) {
        while self.gone_at.is_none()
            && let Some(output) = self.ownership.poll_output()
        {
            self.own(moment, output);
        }
        while let Some(roll) = &mut self.roll
            && let Some(output) = roll.registry.poll_output()
        {
            self.obey_registry(moment, output);
        }
        while let Some(dispatch::Output::Claim { session, queues, limit }) = self.dispatcher.poll_output() {
            self.claim(moment, session, queues.to_vec(), limit);
        }
        while let Some(output) = self.upkeep.poll_output() {
            self.start_duty(moment, output);
        }
    }

    fn obey_registry(&mut self, moment: &mut Moment<'_, '_>, output: registry::Output) {
        use registry::Output;
        let Some(roll) = &mut self.roll else { return };
        match output {
            Output::Answer { ticket, key, answer } => {
                let Some(mut waiting) = roll.tickets.remove(&ticket) else { return };
                // Whoever is new has been made ours since its heartbeat was read.
                waiting.by_owner |= waiting.is_stranger && moment.outside.books.is_owner(roll.id, &key);
                moment.outside.stats.heartbeats += 1;
                moment
                    .outside
                    .tell(|| format!("registry {} answers {key}: {}", roll.id.0, answer_word(&answer)));
                match &answer {
                    Answer::Ok(ack) => {
                        roll.acknowledged.heartbeat(&key, &waiting.changes, &roll.registry);
                        let lost = ack.stops.iter().filter(|stop| stop.reason == StopOrder::Lost);
                        lost.for_each(|stop| roll.acknowledged.forget(&key, stop.hold));
                        moment.outside.judge(roll.acknowledged.check(&key, &roll.registry));
                        moment.outside.stats.unsure_answers += u64::from(!ack.exclusive_hold);
                        if ack.exclusive_hold {
                            moment.outside.judge(two_owners::check_extension(
                                &key,
                                roll.id,
                                waiting.by_owner,
                            ));
                        }
                    }
                    // That we know nothing of it counts only if we are the ones who must know.
                    Answer::Inactive { .. } if waiting.is_stranger => {
                        let owner = moment.outside.books.owner_of(&key);
                        moment.outside.judge(double_judge::check(&key, owner, Some(roll.id)));
                    }
                    _ => {}
                }
                if let Some(connection) = waiting.connection {
                    if matches!(answer, Answer::Ok(_) | Answer::Mismatch { .. }) {
                        self.sessions.let_speak(connection);
                    }
                    self.release_credits(moment, connection, &key);
                    let heartbeat = Some((waiting.number, answer));
                    let told = Told { heartbeat, by_owner: waiting.by_owner, ..Told::default() };
                    self.send(moment, connection, told);
                }
            }
            Output::Enlist { key, nonce, grant, profile } => {
                let name = profile.name;
                let worker = Enlist { key: key.clone(), nonce, registry: roll.id, pings: false, grant, name };
                moment.call(Call::Enlist(worker), Then::Enlisted(key));
            }
            Output::Succeed { former, key, holds } => {
                moment.call(Call::Succeed { former, key: key.clone(), holds }, Then::Succeeded(key));
            }
            Output::Retire { key, stranger, end, counted, .. } => {
                let call = Call::Retire { key: key.clone(), stranger, end, by: roll.id };
                moment.call(call, Then::Retired { key, counted });
            }
            Output::Check { key, holds } => {
                let lease = moment.outside.setup.verify_push;
                moment.call(Call::Renew { key: key.clone(), holds, lease }, Then::Checked(key));
            }
            Output::Bound { key, holds } => {
                let books = &moment.outside.books;
                let is_exclusive = holds.iter().any(|hold| books.job(hold.job).is_exclusive);
                let is_owner = books.is_owner(roll.id, &key);
                let verdict = two_owners::check_extension(&key, roll.id, is_owner || !is_exclusive);
                moment.outside.judge(verdict);
                holds.iter().for_each(|hold| roll.acknowledged.early(&key, *hold));
                self.send_to(moment, &key, Told { bound: holds, ..Told::default() });
            }
            Output::Stop { key, stops } => {
                let lost = stops.iter().filter(|stop| stop.reason == StopOrder::Lost);
                lost.for_each(|stop| roll.acknowledged.forget(&key, stop.hold));
                self.send_to(moment, &key, Told { stops, ..Told::default() });
            }
            Output::Ended { key, end } => self.ended(moment, key, end),
            Output::Synced { .. } | Output::Gone { .. } => {}
            Output::LeaveDone { ticket } => {
                let Some(waiting) = roll.tickets.remove(&ticket) else { return };
                let Some(connection) = waiting.connection else { return };
                if waiting.is_call {
                    let answer = Message::LeaveAnswered(LeaveAnswer::Taken);
                    moment.outside.send(connection, Side::Acceptor, answer);
                } else {
                    self.send(moment, connection, Told { left: true, ..Told::default() });
                }
            }
            // As a call that is answered by an error: it is made again.
            Output::LeaveLater { ticket, .. } => {
                let connection = roll.tickets.remove(&ticket).and_then(|waiting| waiting.connection);
                if let Some(connection) = connection {
                    moment.outside.close(connection, Side::Acceptor);
                }
            }
            Output::LateWord { .. } => {}
        }
    }

    /// A worker has this lease: it may be given work of other queues than before, perhaps.
    pub(super) fn note_leased(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        lease: Duration,
    ) {
        if let Some(session) = self.sessions.note_leased(connection, lease) {
            let queues = session.open_queues(&moment.outside.setup.exclusive);
            let serves = dispatch::Input::Serves { session: session.id, queues };
            self.dispatcher.handle(moment.now, serves);
        }
    }

    fn ended(&mut self, moment: &mut Moment<'_, '_>, key: WorkerKey, end: HolderEnd) {
        let Some(roll) = &mut self.roll else { return };
        moment.outside.tell(|| format!("registry {} ends {key}: {}", roll.id.0, end.sentence()));
        roll.acknowledged.ended(&key);
        let lease = roll.registry.worker(&key).map_or(LEASE_MAX, |view| view.lease);
        for session in self.sessions.of_key(&key) {
            self.dispatcher.handle(moment.now, dispatch::Input::Left { session: session.id });
        }
        if end == HolderEnd::Expired {
            moment.outside.declared.push(Declared { key, lease, how: HowDeclared::Expired });
        }
    }
}
