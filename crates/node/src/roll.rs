//! The roll of workers: the registry machine, those who wait for its answers, and doing what it says. The muster stands beside
//! it: what the registry decides about workers, it hears.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use lease::clock_rule::RateError;
use lease::heed;
use lease::message::{Answer, Generation, Heartbeat, InactiveReason, LaterReason};
use lease::registry::{
    Input, Output, Registry, Restored, Row, StartResult, Terms, Ticket, Verdict, WorkerState,
};
use lease::unsure::Ladder;
use model::{HolderEnd, Instant, Limits, RegistryId, WorkerKey};
use muster::SetId;
use rpc::{lease_convert, wire};
use schedule::dispatch::{self, SessionId};
use store::Expired;
use tokio::sync::oneshot;
use tracing::{debug, error, info, warn};

use crate::api::Api;
use crate::event::{Grant, Leave, Left, Reply, RollEvent, Standing};
use crate::metrics::HandOver;
use crate::roll_duties::{self, Farewell};
use crate::rounds::{ASK_AGAIN, Judged};
use crate::sessions::Session;
use crate::volatile::{Mustering, Order};

/// How long ended workers are shown to people from memory; the store remembers them longer.
const REMEMBER_ENDED: Duration = Duration::from_secs(600);
/// How soon a worker comes back of whom it could not be said whose it is.
const LOOK_AGAIN: Duration = Duration::from_millis(500);
/// An answer that is owed for longer than this will not come: its worker has asked again since.
const WAIT_MAX: Duration = Duration::from_secs(60);

pub(crate) struct Roll {
    api: Arc<Api>,
    /// Which registry it is.
    id: RegistryId,
    registry: Registry,
    mustering: Mustering,
    /// Volatile jobs of which nobody can say yet whether they started.
    unsure: Ladder,
    last_ticket: u64,
    /// Who waits for an answer, oldest first.
    waiting: BTreeMap<Ticket, (Instant, Waiting)>,
}

enum Waiting {
    /// With the set id that it echoed.
    Heartbeat(Reply, Option<SetId>),
    Leave(oneshot::Sender<Left>),
    /// Nobody: we did it ourselves.
    Nobody,
}

impl Roll {
    pub(crate) fn new(api: Arc<Api>, id: RegistryId) -> Self {
        let registry = Registry::new(terms(&api, id));
        let mustering = Mustering::new(Arc::clone(&api));
        Roll {
            api,
            id,
            registry,
            mustering,
            unsure: Ladder::new(ASK_AGAIN),
            last_ticket: 0,
            waiting: BTreeMap::new(),
        }
    }

    /// There is a volatile queue: the muster begins with those who are here.
    pub(crate) fn muster(&mut self, now: Instant) {
        if self.mustering.is_awake() {
            return;
        }
        self.mustering.wake();
        // From now on no lease is longer than a later life would wait for.
        let lease_max = Mustering::lease_max(&self.api);
        self.registry.grant_at_most(lease_max);
        for worker in self.registry.workers() {
            let session = self.api.sessions.of_worker(&worker.key);
            if let Some(session) = session.as_ref().filter(|_| worker.lease > lease_max) {
                // Its heartbeats come too rarely to be told from silence. It comes back at once, for a shorter lease.
                session.close.cancel();
            }
            let is_concerned = session.is_some_and(|session| self.mustering.concerns(&session));
            if is_concerned && matches!(worker.state, WorkerState::Active | WorkerState::Unsynced) {
                self.mustering.heard(now, &worker.key, &worker.profile, None);
            }
            if worker.state == WorkerState::Active {
                self.mustering.synced(now, worker.key);
            }
        }
    }

    /// A new registry is ours, with nobody in it.
    pub(crate) fn begin(&mut self, now: Instant, id: RegistryId) {
        self.id = id;
        self.registry = Registry::new(terms(&self.api, id));
        self.registry.handle(now, Input::Restored(Vec::new()));
    }

    /// Our registry is ours for certain until then.
    pub(crate) fn owned_until(&mut self, now: Instant, until: Instant) {
        self.registry.handle(now, Input::OwnedUntil(until));
    }

    /// Workers of another registry are about to be ours; the store may say so before we know who they are.
    pub(crate) fn take_over_begun(&mut self, now: Instant, from: RegistryId) {
        self.registry.handle(now, Input::TakeOverBegun { from });
    }

    /// Our registry is another server's. Its workers find that out when they come back; until the next one is ours, everybody
    /// is put off.
    pub(crate) fn disown(&mut self) {
        self.id = RegistryId::default();
        self.registry = Registry::new(terms(&self.api, self.id));
        self.waiting.clear();
        self.api.pingers.forget_all();
        for session in self.api.sessions.all() {
            if session.is_leased() {
                session.close.cancel();
            }
        }
    }

    /// Workers known from before, or from another registry, as the store remembered them.
    pub(crate) fn restore(&mut self, now: Instant, workers: Vec<store::Enlist>) {
        let (pingers, workers): (Vec<_>, Vec<_>) = workers.into_iter().partition(|worker| worker.pings);
        self.api.pingers.restore(&pingers);
        if !workers.is_empty() {
            info!(workers = workers.len(), "workers known from before get their lease anew");
        }
        let restored = workers
            .into_iter()
            .map(|worker| Restored {
                key: worker.key,
                nonce: worker.nonce,
                grant: worker.grant,
                name: worker.name,
            })
            .collect();
        self.registry.handle(now, Input::Restored(restored));
    }

    pub(crate) fn hear(&mut self, now: Instant, event: RollEvent) {
        match event {
            RollEvent::Heartbeat { reply, beat } if self.is_a_stranger(&beat) => {
                tokio::spawn(roll_duties::look_up(Arc::clone(&self.api), reply, beat));
            }
            RollEvent::Heartbeat { reply, beat } => self.heartbeat(now, reply, beat),
            RollEvent::LookedUp { reply, beat, standing } => {
                let answer = match standing {
                    Standing::Nobodys => return self.heartbeat(now, reply, beat),
                    _ if self.registry.knows(&beat.key) => return self.heartbeat(now, reply, beat),
                    Standing::Ours(worker) => {
                        if self.api.charge.is_ours(worker.registry) {
                            self.restore(now, vec![*worker]);
                        }
                        return self.heartbeat(now, reply, beat);
                    }
                    Standing::Elsewhere { address } => Answer::NotOwner { address },
                    Standing::Unsure => {
                        Answer::Later { retry_after: LOOK_AGAIN, why: LaterReason::StoreTrouble }
                    }
                };
                let ticket = self.wait(now, Waiting::Heartbeat(reply, None));
                self.answer(now, ticket, &beat.key, answer);
            }
            RollEvent::TakenOver { from, by, workers } => {
                // Otherwise it was taken from us in turn.
                if self.api.charge.is_ours(by) {
                    self.restore(now, workers);
                    self.registry.handle(now, Input::TakeOverEnded { from });
                }
            }
            RollEvent::Leave { leave, done } => {
                let ticket = self.wait(now, Waiting::Leave(done));
                let input = match leave {
                    Leave::Own { key, nonce, words } => Input::Leave { ticket, key, nonce, leave: words },
                    Leave::Kicked { key } => Input::Kick { ticket, key },
                };
                self.registry.handle(now, input);
            }
            RollEvent::Told(input) => self.registry.handle(now, *input),
            RollEvent::Grant { grant, reply } => drop(reply.send(self.note(now, grant))),
            // Otherwise it was asked for by a registry that is not ours any more.
            RollEvent::Done { registry, input } => {
                if registry == self.id {
                    self.registry.handle(now, *input);
                }
            }
            RollEvent::Admit { reply } => drop(reply.send(self.registry.admit_new(now))),
            RollEvent::MaySpeak { key, nonce, reply } => {
                let state = self.registry.worker(&key).map(|view| view.state);
                let is_over = matches!(state, Some(WorkerState::Ended(_)));
                let _ = reply.send((self.registry.speaker(&key, nonce), is_over));
            }
            RollEvent::Show { key, jobs_max, reply } => {
                let view = self.registry.worker(&key);
                let _ = reply.send(view.map(|view| (view, self.registry.bound(&key, jobs_max))));
            }
            RollEvent::List { reply } => drop(reply.send(self.registry.workers())),
            RollEvent::Echoed { key, id } => self.mustering.echoed(now, key, id),
            RollEvent::Checked { key, number } => self.mustering.checked(now, key, number),
            RollEvent::Muster { reply } => drop(reply.send(self.mustering.status(now))),
        }
    }

    /// Notes claims that are about to be sent: whether each of them was.
    pub(crate) fn note(&mut self, now: Instant, grant: Grant) -> Vec<bool> {
        let (key, holds) = (grant.key.clone(), grant.holds.clone());
        self.registry.handle(now, grant.into());
        holds.iter().map(|hold| self.registry.is_recorded(&key, *hold)).collect()
    }

    fn heartbeat(&mut self, now: Instant, reply: Reply, beat: Box<Heartbeat>) {
        let ticket = self.wait(now, Waiting::Heartbeat(reply, beat.worker_set));
        self.registry.handle(now, Input::Heartbeat { ticket, beat: *beat });
    }

    /// Not known here, but it was known somewhere: that our registry has never heard of it proves nothing.
    fn is_a_stranger(&self, beat: &Heartbeat) -> bool {
        self.api.store.is_shared() && beat.token.is_some() && !self.registry.knows(&beat.key)
    }

    pub(crate) fn next_deadline(&self) -> Option<Instant> {
        [self.registry.next_deadline(), self.mustering.next_deadline()].into_iter().flatten().min()
    }

    pub(crate) fn handle_deadline(&mut self, now: Instant) {
        self.registry.handle_deadline(now);
        self.mustering.handle_deadline(now);
        // Oldest first: tickets are in the order of time.
        while let Some(oldest) = self.waiting.first_entry()
            && now.since(oldest.get().0) >= WAIT_MAX
        {
            oldest.remove();
        }
    }

    /// Judges rows whose lease is over by what is known of their holders.
    pub(crate) fn judge(&mut self, now: Instant, expired: Vec<Expired>) -> Judged {
        let rows: Vec<Row> = expired
            .iter()
            .map(|row| Row {
                hold: row.hold,
                holder: row.holder.clone(),
                registry: row.registry,
                beats_itself: row.beats_itself,
                exclusive: row.exclusive,
                pings: self.api.pingers.is_alive(&row.holder),
            })
            .collect();
        let starts: Vec<StartResult> =
            rows.iter().map(|row| self.registry.start_result(&row.holder, row.hold)).collect();
        let verdicts = self.registry.verify(now, &rows);
        let mut judged = Judged { found: expired.len(), ..Judged::default() };
        for ((row, verdict), start) in expired.into_iter().zip(verdicts).zip(starts) {
            let is_unsure = verdict == Verdict::AskAgain;
            let pause = match row.hold.job.is_volatile() {
                true if is_unsure => self.unsure.next(row.hold),
                true => {
                    self.unsure.forget(row.hold);
                    ASK_AGAIN
                }
                false => ASK_AGAIN,
            };
            match verdict {
                Verdict::Push if row.timed_out && !row.exclusive => {
                    let worker = self.registry.worker(&row.holder);
                    let grace = self.api.worker_grace(worker.and_then(|worker| worker.profile.stop_within));
                    match self.api.tell_to_stop(now, row.hold, grace) {
                        heed::Verdict::Told => judged.ask_again.entry(grace).or_default().push(row),
                        heed::Verdict::Unheeded => judged.overdue.push(row),
                    }
                }
                Verdict::Push => judged.push.push(row),
                Verdict::AskAgain => judged.ask_again.entry(pause).or_default().push(row),
                Verdict::TakeBack => {
                    let (job_id, fence) = (row.hold.job, row.hold.fence);
                    info!(%job_id, %fence, worker = %row.holder, why = why_taken(start), "the job's lease is over");
                    judged.take_back.push(row);
                }
                Verdict::NotOurs => {}
            }
        }
        judged
    }

    /// Does what the registry and the muster say. Answers what dispatch must hear of it.
    pub(crate) fn act(&mut self, now: Instant) -> Vec<dispatch::Input> {
        let mut news = Vec::new();
        loop {
            self.act_for_registry(now, &mut news);
            let orders = self.mustering.act();
            if orders.is_empty() {
                return news;
            }
            for order in orders {
                match order {
                    Order::Dispatch(input) => news.push(input),
                    Order::Dismiss(key) => {
                        let ticket = self.wait(now, Waiting::Nobody);
                        self.registry.handle(now, Input::Kick { ticket, key });
                    }
                    Order::TurnAway(key) => self.registry.handle(now, Input::Drain { key }),
                }
            }
        }
    }

    fn act_for_registry(&mut self, now: Instant, news: &mut Vec<dispatch::Input>) {
        while let Some(output) = self.registry.poll_output() {
            let api = Arc::clone(&self.api);
            match output {
                Output::Answer { ticket, key, answer } => news.extend(self.answer(now, ticket, &key, answer)),
                Output::LeaveDone { ticket } => {
                    if let Some((_, Waiting::Leave(done))) = self.waiting.remove(&ticket) {
                        let _ = done.send(Ok(()));
                    }
                }
                Output::LeaveLater { ticket, retry_after } => {
                    if let Some((_, Waiting::Leave(done))) = self.waiting.remove(&ticket) {
                        let _ = done.send(Err(retry_after));
                    }
                }
                Output::Synced { key } => self.mustering.synced(now, key),
                Output::Bound { key, holds } => {
                    let bound = holds.into_iter().map(lease_convert::hold_to_wire).collect();
                    self.tell(&key, wire::ServerFrame { bound, ..Default::default() });
                }
                Output::Stop { key, stops } => {
                    let stops = stops.iter().map(lease_convert::stop_to_wire).collect();
                    self.tell(&key, wire::ServerFrame { stops, ..Default::default() });
                }
                Output::Ended { key, end } => {
                    news.extend(self.end(&key, end).map(|session| dispatch::Input::Left { session }));
                }
                Output::Gone { key } => self.mustering.gone(now, key),
                Output::Enlist { key, nonce, grant, profile } => {
                    let worker = store::Enlist {
                        key,
                        nonce,
                        registry: self.id,
                        pings: false,
                        grant,
                        name: profile.name,
                    };
                    tokio::spawn(roll_duties::enlist(api, worker));
                }
                Output::Succeed { former, key, holds } => {
                    tokio::spawn(roll_duties::succeed(api, self.id, former, key, holds));
                }
                Output::Retire { key, stranger, end, counted, stopped_by, unproven } => {
                    let silent_since = self.registry.worker(&key).and_then(|worker| worker.last_heard);
                    let by = if unproven { HandOver::UNPROVEN } else { HandOver::of(end) };
                    let farewell =
                        Farewell { registry: self.id, stranger, end, counted, silent_since, stopped_by, by };
                    tokio::spawn(roll_duties::retire(api, key, farewell));
                }
                Output::LateWord { key, ended_at, stopped_at, volatile } => {
                    debug!(worker = %key, "a worker that was over says when it had stopped");
                    if volatile && stopped_at > ended_at {
                        self.api.metrics.muster.late_double_start();
                        error!(worker = %key, "DOUBLE START: volatile jobs ran on after they were given away");
                    }
                    self.api.metrics.hand_over(HandOver::LATE_WORD, stopped_at, ended_at);
                }
                Output::Check { key, holds } => {
                    tokio::spawn(roll_duties::check(api, self.id, key, holds));
                }
            }
        }
    }

    fn wait(&mut self, now: Instant, waiting: Waiting) -> Ticket {
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        self.waiting.insert(ticket, (now, waiting));
        ticket
    }

    /// Answers a heartbeat. The first one that is taken on a stream opens it for work.
    fn answer(
        &mut self,
        now: Instant,
        ticket: Ticket,
        key: &WorkerKey,
        mut answer: Answer,
    ) -> Vec<dispatch::Input> {
        self.api.metrics.count_heartbeat(&answer);
        if answer == (Answer::Inactive { why: InactiveReason::KeyTaken }) {
            self.api.metrics.key_conflicts.inc();
        }
        match &answer {
            Answer::Ok(_) => {}
            Answer::Inactive { why } => info!(worker = %key, why = why.sentence(), "heartbeat of a dead key"),
            Answer::Mismatch { .. } => debug!(worker = %key, "heartbeat with another token"),
            Answer::NotOwner { .. } => debug!(worker = %key, "heartbeat for another registry"),
            Answer::Later { why, .. } => {
                debug!(worker = %key, why = lease_convert::later_sentence(*why), "first heartbeat put off");
            }
        }
        let Some((_, Waiting::Heartbeat(reply, echoed))) = self.waiting.remove(&ticket) else {
            return Vec::new();
        };
        if let (Answer::Ok(ack), Reply::Stream { session, .. }) = (&mut answer, &reply)
            && self.mustering.concerns(session)
        {
            self.mustering.heard(now, key, &session.profile, echoed);
            if !session.is_leased() {
                self.mustering.reconnected(now, key.clone());
            }
            ack.worker_set = self.mustering.set_for(key);
        }
        match reply {
            Reply::Call(reply) => {
                let _ = reply.send(answer);
                Vec::new()
            }
            Reply::Stream { session, number } => {
                let was_leased = session.is_leased();
                let news = match &answer {
                    Answer::Ok(ack) => self.note_leased(now, &session, ack.lease),
                    _ => Vec::new(),
                };
                if !(was_leased && self.api.faults.drops_answer()) {
                    let mut heartbeat = lease_convert::answer_to_wire(number, &answer);
                    if heartbeat.drain {
                        session.why_sent_away().clone_into(&mut heartbeat.why);
                    }
                    let heartbeat = Some(heartbeat);
                    // A full outbox loses the answer: the worker asks again, and a mismatch puts it right.
                    session.offer(wire::ServerFrame { heartbeat, ..Default::default() });
                }
                // The registry knows whose key it is. One that it knows from a life before need not wait for its next heartbeat.
                if matches!(answer, Answer::Ok(_) | Answer::Mismatch { .. }) {
                    self.api.sessions.let_speak(&session);
                }
                news
            }
        }
    }

    /// A session's worker has this lease: it may be given work, and perhaps of other queues than before.
    fn note_leased(&self, now: Instant, session: &Arc<Session>, lease: Duration) -> Vec<dispatch::Input> {
        let mut news = Vec::new();
        let was_mustered = session.is_mustered();
        let longest = Mustering::inherited_lease(&self.api);
        let is_promised_more = self.registry.is_promised_more(now, &session.worker, longest);
        if session.set_promised_more(is_promised_more) && is_promised_more && self.mustering.concerns(session)
        {
            info!(worker = %session.worker, "no volatile jobs for this worker before its longer lease from before is over");
        }
        session.set_mustered(self.mustering.may_run(&session.worker));
        let is_clock_off = self.note_clock(session);
        let (add, is_fitness_news) = self.api.sessions.note_leased(session, lease, is_clock_off);
        if is_fitness_news || was_mustered != session.is_mustered() {
            let queues = self.api.open_to(session);
            news.push(dispatch::Input::Serves { session: session.id, queues });
        }
        if add > 0 {
            news.push(dispatch::Input::Credits { session: session.id, add });
        }
        news
    }

    /// Whether a session's worker has a clock that is off; counts and says when that shows.
    fn note_clock(&self, session: &Session) -> bool {
        let rate = self.registry.clock_rate(&session.worker);
        let is_off = rate.is_some_and(|rate| rate.is_off);
        if session.set_clock_off(is_off) {
            let (worker, rate) = (&session.worker, rate.unwrap_or_default());
            if is_off {
                self.api.metrics.clocks_off.inc();
                warn!(%worker, ppm_min = rate.ppm_min, ppm_max = rate.ppm_max,
                    "the clocks of this worker and this server run at different rates; it gets no exclusive jobs");
            } else {
                info!(%worker, "the clock of this worker runs as this server's does again");
            }
        }
        is_off
    }

    fn tell(&self, key: &WorkerKey, frame: wire::ServerFrame) {
        if let Some(session) = self.api.sessions.of_worker(key) {
            session.offer(frame);
        }
    }

    /// Ends the session of a worker that is over. One that left by itself still waits for our word on that.
    fn end(&self, key: &WorkerKey, end: HolderEnd) -> Option<SessionId> {
        info!(worker = %key, why = end.sentence(), "worker is over");
        let session = self.api.sessions.of_worker(key)?;
        if !end.is_left() {
            session.close.cancel();
        }
        Some(session.id)
    }
}

fn terms(api: &Api, registry: RegistryId) -> Terms {
    Terms {
        registry,
        generation: Generation(api.generation),
        lease_default: api.config.lease_default,
        lease_min: Limits::LEASE_MIN,
        lease_max: Limits::WORKER_LEASE_MAX,
        rate_error: RateError::DEFAULT,
        verify_after: api.config.verify_after,
        registrations_per_second: api.config.registrations_per_second,
        remember_ended: REMEMBER_ENDED,
        durable: api.store.is_durable(),
        inherited_lease: Mustering::inherited_lease(api),
    }
}

/// Why a job is taken back whose row lease is over, for people.
fn why_taken(start: StartResult) -> &'static str {
    match start {
        StartResult::Started => "its handler gave no sign",
        StartResult::NotStarted => "its worker received it and does not have it",
        StartResult::Unsure => "nobody says that it arrived",
    }
}

#[cfg(test)]
mod tests;
