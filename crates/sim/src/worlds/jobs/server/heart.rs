//! The heart of a server: one place that feeds the pure machines and does what they say.

use std::collections::BTreeMap;
use std::time::Duration;

use lease::message::{Generation, StopOrder};
use lease::registry::{self, Registry, Ticket};
use model::{HolderEnd, Instant, QueueName, RegistryId, WorkerKey};
use schedule::dispatch::{self, Dispatcher};
use schedule::upkeep::{self, Upkeep};
use store::Enlist;

use super::super::call::Call;
use super::super::event::{LeaveAnswer, Message, Told, answer_word};
use super::super::laws::bind_undone::{Acknowledged, Changes};
use super::super::mutation::Mutation;
use super::super::outside::Declared;
use super::super::setup::{LEASE_MAX, LEASE_MIN, Setup};
use super::sessions::Sessions;
use super::strays::Strays;
use super::{Moment, Then};
use crate::net::{ConnectionId, Side};
use crate::rng::Rng;

/// How often a server looks for work that another one made available.
const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// The lease of a worker that asks for none.
const LEASE_DEFAULT: Duration = Duration::from_secs(6);
/// How long ended workers are remembered.
const REMEMBER_ENDED: Duration = Duration::from_secs(60);

pub(super) struct Heart {
    pub(super) registry: Registry,
    pub(super) registry_id: RegistryId,
    pub(super) dispatcher: Dispatcher,
    pub(super) upkeep: Upkeep,
    pub(super) sessions: Sessions,
    pub(super) generation: Generation,
    /// Who waits for an answer of the registry.
    pub(super) tickets: BTreeMap<Ticket, Waiting>,
    pub(super) next_ticket: u64,
    /// The number of the last start that was sent.
    pub(super) last_start: u64,
    /// What the store must tell before we are whole, and when to ask it.
    pub(super) boot: Boot,
    pub(super) strays: Strays,
    pub(super) acknowledged: Acknowledged,
    queues: Vec<QueueName>,
    poll_at: Option<Instant>,
    /// The wall clock's steps that were noticed.
    wall_steps: u64,
}

/// Who waits for an answer.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    /// `None` for an operator.
    pub(super) connection: Option<ConnectionId>,
    /// Of the heartbeat.
    pub(super) number: u64,
    pub(super) changes: Changes,
    /// It waits on a connection of its own.
    pub(super) is_call: bool,
}

/// What is still to be read from the store after a start.
#[derive(Debug, Default)]
pub(super) struct Boot {
    pub(super) has_leases: bool,
    pub(super) has_roster: bool,
    /// When to ask for what is missing.
    pub(super) ask_at: Option<Instant>,
}

impl Heart {
    pub(super) fn new(index: usize, life: u32, setup: &Setup) -> Self {
        let registry_id = setup.servers[index].registry;
        // No two lives of any servers have the same one.
        let generation = Generation(u64::from(life) * 10 + index as u64 + 1);
        let terms = registry::Terms {
            registry: registry_id,
            generation,
            lease_default: LEASE_DEFAULT,
            lease_min: LEASE_MIN,
            lease_max: LEASE_MAX,
            rate_error: setup.rate_error(),
            registrations_per_second: setup.registrations_per_second,
            remember_ended: REMEMBER_ENDED,
        };
        let registry = match setup.mutation.and_then(Mutation::of_registry) {
            Some(mutation) => Registry::broken(terms, mutation),
            None => Registry::new(terms),
        };
        Heart {
            registry,
            registry_id,
            dispatcher: Dispatcher::new(),
            upkeep: Upkeep::new(),
            sessions: Sessions::new(setup.mutation),
            generation,
            tickets: BTreeMap::new(),
            next_ticket: 0,
            last_start: 0,
            boot: Boot { ask_at: Some(Instant::ZERO), ..Boot::default() },
            strays: Strays::new(Rng::stream(setup.seed, generation.0, "strays"), setup.stray_starts),
            acknowledged: Acknowledged::default(),
            queues: setup.queues.clone(),
            poll_at: Some(Instant::ZERO),
            wall_steps: 0,
        }
    }

    pub(super) fn registry(&self) -> &Registry {
        &self.registry
    }

    pub(super) fn next_deadline(&self) -> Option<Instant> {
        let machines =
            [self.registry.next_deadline(), self.dispatcher.next_deadline(), self.upkeep.next_deadline()];
        machines.into_iter().chain([self.poll_at, self.boot.ask_at]).flatten().min()
    }

    pub(super) fn handle_deadline(&mut self, moment: &mut Moment<'_, '_>) {
        let now = moment.now;
        if self.wall_steps != moment.outside.wall_steps {
            self.wall_steps = moment.outside.wall_steps;
            self.upkeep.handle(now, upkeep::Input::WallStepped);
        }
        if self.boot.ask_at.take_if(|at| *at <= now).is_some() {
            self.ask_what_is_missing(moment);
        }
        self.registry.handle_deadline(now);
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

    /// Does what the machines say, until they say nothing more.
    pub(super) fn act(&mut self, moment: &mut Moment<'_, '_>) {
        while let Some(output) = self.registry.poll_output() {
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
        match output {
            Output::Answer { ticket, key, answer } => {
                let Some(waiting) = self.tickets.remove(&ticket) else { return };
                moment.outside.stats.heartbeats += 1;
                moment.outside.tell(|| {
                    format!("registry {} answers {key}: {}", self.registry_id.0, answer_word(&answer))
                });
                if let lease::message::Answer::Ok(ack) = &answer {
                    self.acknowledged.heartbeat(&key, &waiting.changes, &self.registry);
                    let lost = ack.stops.iter().filter(|stop| stop.reason == StopOrder::Lost);
                    lost.for_each(|stop| self.acknowledged.forget(&key, stop.hold));
                    moment.outside.judge(self.acknowledged.check(&key, &self.registry));
                }
                if let Some(connection) = waiting.connection {
                    self.release_credits(moment, connection, &key);
                    let heartbeat = Some((waiting.number, answer));
                    self.send(moment, connection, Told { heartbeat, ..Told::default() });
                }
            }
            Output::Enlist { key, nonce, grant, profile } => {
                let registry = Some(self.registry_id);
                let worker = Enlist { key: key.clone(), nonce, registry, grant, name: profile.name };
                moment.call(Call::Enlist(worker), Then::Enlisted(key));
            }
            Output::Succeed { former, key, holds } => {
                moment.call(Call::Succeed { former, key: key.clone(), holds }, Then::Succeeded(key));
            }
            Output::Retire { key, end, counted, .. } => {
                moment.call(Call::Retire { key: key.clone(), end }, Then::Retired { key, counted });
            }
            Output::Check { key, holds } => {
                let lease = moment.outside.setup.verify_push;
                moment.call(Call::Renew { key: key.clone(), holds, lease }, Then::Checked(key));
            }
            Output::Bound { key, holds } => {
                holds.iter().for_each(|hold| self.acknowledged.early(&key, *hold));
                self.send_to(moment, &key, Told { bound: holds, ..Told::default() });
            }
            Output::Stop { key, stops } => {
                let lost = stops.iter().filter(|stop| stop.reason == StopOrder::Lost);
                lost.for_each(|stop| self.acknowledged.forget(&key, stop.hold));
                self.send_to(moment, &key, Told { stops, ..Told::default() });
            }
            Output::Ended { key, end } => self.ended(moment, key, end),
            Output::LeaveDone { ticket } => {
                let Some(waiting) = self.tickets.remove(&ticket) else { return };
                let Some(connection) = waiting.connection else { return };
                if waiting.is_call {
                    let answer = Message::LeaveAnswered(LeaveAnswer::Taken);
                    moment.outside.send(connection, Side::Acceptor, answer);
                } else {
                    self.send(moment, connection, Told { left: true, ..Told::default() });
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
        moment.outside.tell(|| format!("registry {} ends {key}: {}", self.registry_id.0, end.sentence()));
        self.acknowledged.ended(&key);
        for session in self.sessions.of_key(&key) {
            self.dispatcher.handle(moment.now, dispatch::Input::Left { session: session.id });
        }
        if end == HolderEnd::Expired {
            let lease = self.registry.worker(&key).map_or(LEASE_MAX, |view| view.lease);
            moment.outside.declared.push(Declared { key, lease, is_expiry: true });
        }
    }
}
