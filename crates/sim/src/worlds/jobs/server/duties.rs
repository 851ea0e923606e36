//! What a server has the store do, and what it makes of the answers.

use std::time::Duration;

use lease::ledger::ReportAnswer;
use lease::message::{Answer, Heartbeat, LaterReason, Leave, Stop, StopOrder};
use lease::registry::{self, Enlisted, HoldStanding, Restored};
use model::{Fence, Hold, Instant, Nonce, QueueName, State, WorkerKey};
use schedule::dispatch::{self, SessionId};
use schedule::upkeep::{self, Duty};
use store::{Cancelled, Deadlines, EnlistAnswer, EnqueueBatch, Finished, KnownWorker, Redriven, Renewed};

use super::super::call::{Call, Reply};
use super::super::database::Unavailable;
use super::super::event::{Event, LeaveAnswer, Message, Told};
use super::Moment;
use super::heart::Heart;
use super::rescue::Pass;
use crate::net::{ConnectionId, Side};

/// Pause between tries to read from the store what a start needs.
const BOOT_RETRY: Duration = Duration::from_millis(500);
/// When a client whose enqueue failed tries again.
const ENQUEUE_RETRY: Duration = Duration::from_secs(1);
/// When a worker comes back whom the store could not be asked about.
const LOOK_UP_RETRY: Duration = Duration::from_secs(1);
/// Renewals that take longer mean that holders could not be heard.
const STORE_STALL_MIN: Duration = Duration::from_secs(1);

/// What a server does with an answer of the store.
#[derive(Debug)]
pub(in super::super) enum Then {
    Started,
    Restored,
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
}

impl Heart {
    /// Reads what a start needs and does not have yet.
    pub(super) fn ask_what_is_missing(&mut self, moment: &mut Moment<'_, '_>) {
        if !self.boot.has_leases {
            moment.call(Call::Deadlines, Then::Started);
        }
        if !self.boot.has_roster {
            moment.call(Call::Roster(self.registry_id), Then::Restored);
        }
    }

    /// Starts what upkeep wants done.
    pub(super) fn start_duty(&mut self, moment: &mut Moment<'_, '_>, output: upkeep::Output) {
        use upkeep::Output;
        match output {
            Output::Promote { limit } => moment.call(Call::Promote(limit), Then::Promoted { limit }),
            Output::Reap { limit, not_after } => {
                moment.call(Call::Expired(limit), Then::Expired { limit, not_after });
            }
            Output::Purge { limit } => moment.call(Call::Purge(limit), Then::Purged { limit }),
            Output::ExtendLeases { by } => moment.call(Call::Extend(by), Then::Extended),
            Output::ReadDeadlines => moment.call(Call::Deadlines, Then::Deadlines),
        }
    }

    /// The store answered.
    pub(super) fn answered(
        &mut self,
        moment: &mut Moment<'_, '_>,
        then: Then,
        reply: Result<Reply, Unavailable>,
    ) {
        match reply {
            Ok(reply) => self.done(moment, then, reply),
            Err(Unavailable) => self.failed(moment, then),
        }
    }

    fn done(&mut self, moment: &mut Moment<'_, '_>, then: Then, reply: Reply) {
        let now = moment.now;
        match (then, reply) {
            // Asked twice, because the other of the two failed.
            (Then::Started, _) if self.boot.has_leases => {}
            (Then::Restored, _) if self.boot.has_roster => {}
            (Then::Started, Reply::Deadlines(Deadlines { longest_lease, .. })) => {
                self.boot.has_leases = true;
                self.upkeep.handle(now, upkeep::Input::Started { longest_lease });
            }
            (Then::Restored, Reply::Roster(roster)) => {
                self.boot.has_roster = true;
                let known = roster.into_iter();
                let known =
                    known.map(|it| Restored { key: it.key, nonce: it.nonce, grant: it.grant, name: it.name });
                self.registry.handle(now, registry::Input::Restored(known.collect()));
            }
            (Then::Enqueued(_), Reply::Enqueue(answer)) => {
                answer.jobs.iter().for_each(|job| moment.outside.books.acknowledged(job.id));
                moment.outside.stats.jobs += answer.jobs.len() as u64;
                self.ready(now, answer.ready);
                self.run_due(now, answer.next_run_in);
            }
            (Then::Cancelled, Reply::Cancel(Cancelled::Asked { hold, holder: key })) => {
                self.registry.handle(now, registry::Input::Cancel { key, hold });
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
                };
                self.registry.handle(now, registry::Input::Enlisted { key, answer });
            }
            (Then::Succeeded(key), Reply::Succeed(moved)) => {
                self.registry.handle(now, registry::Input::Succeeded { key, moved: Some(moved) });
            }
            (Then::Retired { key, counted }, Reply::Retire) => {
                moment.call(Call::ReapHolder { key: key.clone(), counted }, Then::ReapedHolder(key));
            }
            (Then::ReapedHolder(key), Reply::Reap(reaped)) => {
                self.note_reaped(moment, &reaped);
                self.registry.handle(now, registry::Input::Retired { key, done: true });
            }
            (Then::Checked(key), Reply::Renew(renewed)) => {
                let standings = Some(renewed.into_iter().map(standing).collect());
                self.registry.handle(now, registry::Input::Checked { key, standings });
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
                match owner_elsewhere(known, self.registry_id) {
                    Some(address) => {
                        let answer = Answer::NotOwner { address: Some(address) };
                        self.send(
                            moment,
                            connection,
                            Told { heartbeat: Some((number, answer)), ..Told::default() },
                        );
                    }
                    None => self.take_heartbeat(moment, connection, number, *beat),
                }
            }
            (Then::OwnerFound { connection, key, nonce, leave }, Reply::Worker(known)) => {
                let owner = owner_elsewhere(known, self.registry_id).and_then(|it| it.parse::<usize>().ok());
                match owner {
                    Some(registry) => {
                        let answer = LeaveAnswer::NotOwner(registry - 1);
                        moment.outside.send(connection, Side::Acceptor, Message::LeaveAnswered(answer));
                    }
                    None => self.take_leave(moment, connection, key, nonce, leave),
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
            Then::Started | Then::Restored => self.boot.ask_at = Some(now + BOOT_RETRY),
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
                self.registry.handle(now, registry::Input::Enlisted { key, answer: Enlisted::Trouble });
            }
            Then::Succeeded(key) => {
                self.registry.handle(now, registry::Input::Succeeded { key, moved: None });
            }
            Then::Retired { key, .. } | Then::ReapedHolder(key) => {
                self.registry.handle(now, registry::Input::Retired { key, done: false });
            }
            Then::Checked(key) => {
                self.registry.handle(now, registry::Input::Checked { key, standings: None });
            }
            Then::Beaten { connection, began, .. } => {
                self.note_store_pace(now, began);
                self.hang_up(moment, connection);
            }
            Then::Reported { connection, .. }
            | Then::Noted { connection, .. }
            | Then::OwnerFound { connection, .. } => {
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
        self.registry.handle(now, registry::Input::Settled { key, holds });
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

/// The address of the server that judges this worker, if that is another one and the worker lives. A server's address
/// is the number of its registry.
fn owner_elsewhere(known: Option<KnownWorker>, ours: model::RegistryId) -> Option<String> {
    let known = known.filter(|known| known.ended.is_none())?;
    known.worker.registry.filter(|owner| *owner != ours).map(|owner| owner.0.to_string())
}
