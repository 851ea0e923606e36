//! What a server has the store do, and what it makes of the answers.

use std::time::Duration;

use lease::ledger::ReportAnswer;
use lease::message::{Answer, Heartbeat, LaterReason, Leave, Profile, Stop, StopOrder};
use lease::ownership;
use lease::registry::{self, Enlisted, HoldStanding, Retired, Speaker};
use model::{Fence, Hold, Instant, Nonce, QueueName, RegistryId, State, WorkerKey};
use schedule::dispatch::{self, SessionId};
use schedule::upkeep::{self, Duty};
use store::{Cancelled, Deadlines, EnlistAnswer, EnqueueBatch, Finished, Redriven, Renewed};

use super::super::call::{Call, Reply};
use super::super::database::Unavailable;
use super::super::event::{Event, LeaveAnswer, Message, Told};
use super::Moment;
use super::charge::{Standing, TakeOver};
use super::heart::Heart;
use super::rescue::Pass;
use crate::net::{ConnectionId, Side};

/// When a client whose enqueue failed tries again.
const ENQUEUE_RETRY: Duration = Duration::from_secs(1);
/// When a worker comes back of whom it could not be said whose it is.
const LOOK_UP_RETRY: Duration = Duration::from_millis(500);
/// Renewals that take longer mean that holders could not be heard.
const STORE_STALL_MIN: Duration = Duration::from_secs(1);

/// What a server does with an answer of the store.
#[derive(Debug)]
pub(in super::super) enum Then {
    Founded { sent: Instant },
    BeatDone { sent: Instant },
    TakenOver(TakeOver),
    Restored(TakeOver),
    Resigned,
    Enqueued(Box<EnqueueBatch>),
    Cancelled,
    Redriven,
    Promoted { limit: usize },
    Claimed { session: SessionId, key: WorkerKey, asked: u32 },
    HandedBack { key: WorkerKey, holds: Vec<Hold> },
    Expired { limit: usize, not_after: Instant },
    Passed(Pass),
    Purged { limit: usize },
    Extended,
    Deadlines,
    Enlisted(WorkerKey),
    Succeeded(WorkerKey),
    Retired { key: WorkerKey, counted: bool },
    ReapedHolder(WorkerKey),
    Checked(WorkerKey),
    Reported { connection: ConnectionId, key: WorkerKey, holds: Vec<Hold> },
    Noted { connection: ConnectionId, holds: Vec<Hold> },
    Beaten { connection: ConnectionId, holds: Vec<Hold>, began: Instant },
    LookedUp { connection: ConnectionId, number: u64, beat: Box<Heartbeat> },
    OwnerFound { connection: ConnectionId, key: WorkerKey, nonce: Nonce, leave: Leave },
    Hailed { connection: ConnectionId, key: WorkerKey, nonce: Nonce, profile: Profile },
}

impl Then {
    /// Means something only to the registry for which the store was asked.
    fn is_of_a_registry(&self) -> bool {
        // Whoever was retired is over, so that anyone may take back what it held.
        matches!(
            self,
            Then::Expired { .. }
                | Then::Passed(_)
                | Then::Enlisted(_)
                | Then::Succeeded(_)
                | Then::Checked(_)
                | Then::LookedUp { .. }
                | Then::OwnerFound { .. }
        )
    }
}

impl Heart {
    /// Starts what upkeep wants done.
    pub(super) fn start_duty(&mut self, moment: &mut Moment<'_, '_>, output: upkeep::Output) {
        use upkeep::Output;
        let Some(registry) = moment.registry else {
            let duty = match output {
                Output::Promote { limit } => {
                    return moment.call(Call::Promote(limit), Then::Promoted { limit });
                }
                Output::Purge { limit } => return moment.call(Call::Purge(limit), Then::Purged { limit }),
                Output::Reap { .. } => Duty::Reap,
                Output::ExtendLeases { .. } => Duty::Extend,
                Output::ReadDeadlines => Duty::Read,
            };
            // Nobody is ours to judge or to spare.
            return self.upkeep.handle(moment.now, upkeep::Input::Failed { duty });
        };
        match output {
            Output::Promote { limit } => moment.call(Call::Promote(limit), Then::Promoted { limit }),
            Output::Reap { limit, not_after } => {
                moment.call(Call::Expired(registry, limit), Then::Expired { limit, not_after });
            }
            Output::Purge { limit } => moment.call(Call::Purge(limit), Then::Purged { limit }),
            Output::ExtendLeases { by } => moment.call(Call::Extend(registry, by), Then::Extended),
            Output::ReadDeadlines => moment.call(Call::Deadlines(registry), Then::Deadlines),
        }
    }

    /// The store answered what was asked while we had this registry.
    pub(super) fn answered(
        &mut self,
        moment: &mut Moment<'_, '_>,
        registry: Option<RegistryId>,
        then: Then,
        reply: Result<Reply, Unavailable>,
    ) {
        let is_outdated = then.is_of_a_registry() && registry != moment.registry;
        match reply {
            _ if is_outdated => self.outdated(moment.now, &then),
            Ok(reply) => self.done(moment, then, reply),
            Err(Unavailable) => self.failed(moment, then),
        }
    }

    /// That registry is not ours any more; whoever waited for this was sent away with it.
    fn outdated(&mut self, now: Instant, then: &Then) {
        if let Then::Expired { .. } | Then::Passed(_) = then {
            self.upkeep.handle(now, upkeep::Input::Failed { duty: Duty::Reap });
        }
    }

    fn done(&mut self, moment: &mut Moment<'_, '_>, then: Then, reply: Reply) {
        let now = moment.now;
        match (then, reply) {
            (Then::Founded { sent }, Reply::Found(registry)) => {
                let registry = Some(registry);
                self.ownership.handle(now, ownership::Input::Founded { sent, registry });
            }
            (Then::BeatDone { sent }, Reply::Beat(peers)) => self.beaten(now, sent, peers),
            (Then::TakenOver(attempt), Reply::TakeOver(workers)) => {
                self.taken_over(moment, attempt, Some(workers));
            }
            (Then::Restored(attempt), Reply::Roster(workers)) => {
                self.end_take_over(now, attempt, workers);
            }
            (Then::Resigned, Reply::Resign) => self.gone_at = Some(now),
            (Then::Enqueued(_), Reply::Enqueue(answer)) => {
                answer.jobs.iter().for_each(|job| moment.outside.books.acknowledged(job.id));
                moment.outside.stats.jobs += answer.jobs.len() as u64;
                self.ready(now, answer.ready);
                self.run_due(now, answer.next_run_in);
            }
            (Then::Cancelled, Reply::Cancel(Cancelled::Asked { hold, holder: key })) => {
                self.tell_registry(now, registry::Input::Cancel { key, hold });
            }
            (Then::Cancelled, Reply::Cancel(_)) => {}
            (Then::Redriven, Reply::Redrive(Redriven::Again(queue))) => self.ready(now, [queue]),
            (Then::Redriven, Reply::Redrive(_)) => {}
            (Then::Promoted { limit }, Reply::Promote(promoted)) => {
                self.ready(now, promoted.ready);
                self.upkeep.handle(now, upkeep::Input::Promoted { count: promoted.jobs.len(), limit });
            }
            (Then::Claimed { session, key, asked }, Reply::Claim(claimed)) => {
                let got = claimed.len() as u32;
                if got > 0 {
                    self.claimed(moment, session, key, claimed);
                }
                self.dispatcher.handle(now, dispatch::Input::ClaimDone { session, asked, got });
            }
            (Then::HandedBack { key, holds }, Reply::Finish(answers)) => {
                self.note_finished(now, &answers);
                self.settled(now, key, holds);
            }
            (Then::Expired { limit, not_after }, Reply::Expired(rows)) => {
                let pass = self.judge_rows(moment, rows, limit, not_after);
                self.go_on_with(moment, pass);
            }
            (Then::Passed(pass), Reply::Push(_)) => self.go_on_with(moment, pass),
            (Then::Passed(pass), Reply::Reap(reaped)) => {
                self.note_reaped(moment, &reaped);
                self.go_on_with(moment, pass);
            }
            (Then::Purged { limit }, Reply::Purge(removed)) => {
                self.upkeep.handle(now, upkeep::Input::PurgeDone { removed, limit });
            }
            (Then::Extended, Reply::Extend) => self.upkeep.handle(now, upkeep::Input::Extended),
            (Then::Deadlines, Reply::Deadlines(Deadlines { next_run_in, next_lease_in, longest_lease })) => {
                let deadlines = upkeep::Input::Deadlines { next_run_in, next_lease_in, longest_lease };
                self.upkeep.handle(now, deadlines);
            }
            (Then::Enlisted(key), Reply::Enlist(answer)) => {
                let answer = match answer {
                    EnlistAnswer::Known => Enlisted::Known,
                    EnlistAnswer::Terminal(end) => Enlisted::Terminal(end),
                    EnlistAnswer::Taken => Enlisted::Taken,
                    EnlistAnswer::Elsewhere(owner) => {
                        Enlisted::Elsewhere { address: self.peers.get(&owner).cloned() }
                    }
                    EnlistAnswer::Disowned => Enlisted::Trouble,
                };
                self.tell_registry(now, registry::Input::Enlisted { key, answer });
            }
            (Then::Succeeded(key), Reply::Succeed(moved)) => {
                self.tell_registry(now, registry::Input::Succeeded { key, moved: Some(moved) });
            }
            (Then::Retired { key, .. }, Reply::Retire(false)) => {
                self.tell_registry(now, registry::Input::Retired { key, answer: Retired::Refused });
            }
            (Then::Retired { key, counted }, Reply::Retire(true)) => {
                moment.call(Call::ReapHolder { key: key.clone(), counted }, Then::ReapedHolder(key));
            }
            (Then::ReapedHolder(key), Reply::Reap(reaped)) => {
                self.note_reaped(moment, &reaped);
                self.tell_registry(now, registry::Input::Retired { key, answer: Retired::Done });
            }
            (Then::Checked(key), Reply::Renew(renewed)) => {
                let standings = Some(renewed.into_iter().map(standing).collect());
                self.tell_registry(now, registry::Input::Checked { key, standings });
            }
            (Then::Reported { connection, key, holds }, Reply::Finish(answers)) => {
                self.reported(moment, connection, key, holds, &answers);
            }
            (Then::Noted { connection, holds }, Reply::Progress(accepted)) => {
                let lost = holds.into_iter().zip(accepted).filter(|(_, accepted)| !accepted);
                let stops = lost.map(|(hold, _)| Stop { hold, reason: StopOrder::Lost }).collect();
                self.stop(moment, connection, stops);
            }
            (Then::Beaten { connection, holds, began }, Reply::Renew(renewed)) => {
                self.note_store_pace(now, began);
                let stops =
                    holds.into_iter().zip(renewed).filter_map(|(hold, renewed)| match standing(renewed) {
                        HoldStanding::Held { cancelled: false, .. } => None,
                        HoldStanding::Held { .. } => Some(Stop { hold, reason: StopOrder::Cancelled }),
                        HoldStanding::Lost => Some(Stop { hold, reason: StopOrder::Lost }),
                    });
                self.stop(moment, connection, stops.collect());
            }
            (Then::LookedUp { connection, number, beat }, Reply::Worker(known)) => {
                let is_known = self.registry().is_some_and(|registry| registry.knows(&beat.key));
                let answer = match self.standing(now, known) {
                    Standing::Known => return self.take_heartbeat(moment, connection, number, *beat),
                    _ if is_known => return self.take_heartbeat(moment, connection, number, *beat),
                    Standing::Elsewhere(address) => Answer::NotOwner { address },
                };
                self.send(moment, connection, Told { heartbeat: Some((number, answer)), ..Told::default() });
            }
            (Then::Hailed { connection, key, nonce, profile }, Reply::Worker(known)) => {
                if !self.hailing.remove(&connection) {
                    return;
                }
                let here = self.registry().map_or(Speaker::Unknown, |registry| registry.speaker(&key, nonce));
                let on_record = known.map(|known| known.worker.nonce);
                let speaker =
                    if here == Speaker::Unknown { Speaker::by_record(nonce, on_record) } else { here };
                self.welcome(moment, connection, (key, nonce, profile), speaker);
            }
            (Then::OwnerFound { connection, key, nonce, leave }, Reply::Worker(known)) => {
                let is_known = self.registry().is_some_and(|registry| registry.knows(&key));
                match self.standing(now, known) {
                    Standing::Known => self.take_leave(moment, connection, key, nonce, leave),
                    _ if is_known => self.take_leave(moment, connection, key, nonce, leave),
                    Standing::Elsewhere(address) => {
                        let owner = address.and_then(|address| address.parse().ok());
                        let answer = Message::LeaveAnswered(LeaveAnswer::NotOwner(owner));
                        moment.outside.send(connection, Side::Acceptor, answer);
                    }
                }
            }
            (then, reply) => unreachable!("{then:?} was answered with {reply:?}"),
        }
    }

    /// The store could not say; whether it did anything, nobody knows.
    fn failed(&mut self, moment: &mut Moment<'_, '_>, then: Then) {
        let now = moment.now;
        let keep = |heart: &mut Heart, duty| heart.upkeep.handle(now, upkeep::Input::Failed { duty });
        match then {
            Then::Founded { sent } => {
                self.ownership.handle(now, ownership::Input::Founded { sent, registry: None });
            }
            Then::BeatDone { .. } => self.ownership.handle(now, ownership::Input::BeatFailed),
            Then::TakenOver(attempt) | Then::Restored(attempt) => self.taken_over(moment, attempt, None),
            Then::Resigned => self.gone_at = Some(now),
            // The client is told, and tries again.
            Then::Enqueued(batch) => {
                let again = moment.outside.now + ENQUEUE_RETRY;
                moment.outside.queue.push(again, Event::EnqueueAgain(batch));
            }
            Then::Cancelled | Then::Redriven | Then::HandedBack { .. } => {}
            Then::Promoted { .. } => keep(self, Duty::Promote),
            Then::Claimed { session, asked, .. } => {
                self.dispatcher.handle(now, dispatch::Input::ClaimFailed { session, asked });
            }
            Then::Expired { .. } | Then::Passed(_) => keep(self, Duty::Reap),
            Then::Purged { .. } => keep(self, Duty::Purge),
            Then::Extended => keep(self, Duty::Extend),
            Then::Deadlines => keep(self, Duty::Read),
            Then::Enlisted(key) => {
                self.tell_registry(now, registry::Input::Enlisted { key, answer: Enlisted::Trouble });
            }
            Then::Succeeded(key) => {
                self.tell_registry(now, registry::Input::Succeeded { key, moved: None });
            }
            Then::Retired { key, .. } | Then::ReapedHolder(key) => {
                self.tell_registry(now, registry::Input::Retired { key, answer: Retired::Trouble });
            }
            Then::Checked(key) => {
                self.tell_registry(now, registry::Input::Checked { key, standings: None });
            }
            Then::Beaten { connection, began, .. } => {
                self.note_store_pace(now, began);
                self.hang_up(moment, connection);
            }
            Then::Reported { connection, .. }
            | Then::Noted { connection, .. }
            | Then::OwnerFound { connection, .. }
            | Then::Hailed { connection, .. } => {
                self.hailing.remove(&connection);
                self.hang_up(moment, connection);
            }
            Then::LookedUp { connection, number, .. } => {
                let answer = Answer::Later { retry_after: LOOK_UP_RETRY, why: LaterReason::StoreTrouble };
                self.send(moment, connection, Told { heartbeat: Some((number, answer)), ..Told::default() });
            }
        }
    }

    fn reported(
        &mut self,
        moment: &mut Moment<'_, '_>,
        connection: ConnectionId,
        key: WorkerKey,
        holds: Vec<Hold>,
        answers: &[Finished],
    ) {
        self.note_finished(moment.now, answers);
        let reports = holds.iter().zip(answers).map(|(hold, answer)| {
            let answer = match answer {
                Finished::Done { .. } | Finished::AlreadyDone => ReportAnswer::Done,
                Finished::Stale { current } => ReportAnswer::Refused { current: *current },
                Finished::Unknown => ReportAnswer::Refused { current: Fence::NONE },
            };
            (*hold, answer)
        });
        let reports = reports.collect();
        self.settled(moment.now, key, holds);
        self.send(moment, connection, Told { reports, ..Told::default() });
    }

    fn settled(&mut self, now: Instant, key: WorkerKey, holds: Vec<Hold>) {
        self.tell_registry(now, registry::Input::Settled { key, holds });
    }

    fn note_finished(&mut self, now: Instant, answers: &[Finished]) {
        for answer in answers {
            if let Finished::Done { state, queue, due_in, .. } = answer {
                self.offered(now, *state, queue, *due_in);
            }
        }
    }

    /// A job is offered again, or will be.
    pub(super) fn offered(
        &mut self,
        now: Instant,
        state: State,
        queue: &QueueName,
        due_in: Option<Duration>,
    ) {
        if state == State::Available {
            self.ready(now, [queue.clone()]);
        }
        self.run_due(now, due_in);
    }

    fn run_due(&mut self, now: Instant, due_in: Option<Duration>) {
        if let Some(after) = due_in {
            self.upkeep.handle(now, upkeep::Input::RunDue { after });
        }
    }

    fn stop(&mut self, moment: &mut Moment<'_, '_>, connection: ConnectionId, stops: Vec<Stop>) {
        if !stops.is_empty() {
            self.send(moment, connection, Told { stops, ..Told::default() });
        }
    }

    fn note_store_pace(&mut self, now: Instant, began: Instant) {
        let lasted = now.since(began);
        if lasted > STORE_STALL_MIN {
            self.upkeep.handle(now, upkeep::Input::StoreStalled { lasted });
        }
    }
}

fn standing(renewed: Renewed) -> HoldStanding {
    match renewed {
        Renewed::Held { cancel, exclusive, .. } => HoldStanding::Held { cancelled: cancel, exclusive },
        Renewed::Lost => HoldStanding::Lost,
    }
}
