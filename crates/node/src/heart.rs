//! The heart: feeds the pure machines and does what they say.
//!
//! What waits is always heard before timers fire, so that news which waited while we were stopped is heard before anyone is
//! judged by the clock.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt as _;
use lease::ownership;
use model::{Clock, QueueName, RegistryId};
use schedule::dispatch::{self, Dispatcher, SessionId};
use schedule::upkeep::{self, Duty, Upkeep};
use store::{Deadlines, News};
use tracing::{info, warn};

use crate::api::Api;
use crate::charge::Keeper;
use crate::event::{Event, Leases};
use crate::roll::Roll;
use crate::{charge_duties, duties, rounds};

/// Pause between tries to read the leases at the start.
const RETRY_START: Duration = Duration::from_millis(500);

/// Smaller changes are the clock being disciplined, not stepped.
const WALL_STEP_MIN: Duration = Duration::from_millis(500);

pub(crate) struct Heart {
    api: Arc<Api>,
    dispatcher: Dispatcher,
    upkeep: Upkeep,
    roll: Roll,
    keeper: Keeper,
    /// What the wall clock shows beyond the monotonic one; it changes only when someone steps the wall clock.
    wall_offset: i64,
    /// When the alarm rings, once it is set.
    pub(crate) alarm_at: Option<model::Instant>,
}

impl Heart {
    fn new(api: Arc<Api>) -> Self {
        let wall_offset = wall_offset(&*api.clock);
        let roll = Roll::new(Arc::clone(&api), RegistryId::ONLY);
        let keeper = Keeper::new(api.store.is_shared(), api.clock.monotonic());
        let (dispatcher, upkeep) = (Dispatcher::new(), Upkeep::new());
        Heart { api, dispatcher, upkeep, roll, keeper, wall_offset, alarm_at: None }
    }

    /// Hears what happened, then looks at the clock. What comes meanwhile waits its turn, or timers would starve.
    pub(crate) fn turn(&mut self, events: impl IntoIterator<Item = Event>) {
        self.watch_the_wall();
        for event in events {
            self.hear(event);
            self.act();
        }
        let now = self.now();
        self.dispatcher.handle_deadline(now);
        self.upkeep.handle_deadline(now);
        self.roll.handle_deadline(now);
        self.keeper.handle_deadline(now);
        self.act();
    }

    /// When to be woken, if that is before the alarm rings.
    pub(crate) fn nearer_alarm(&self) -> Option<model::Instant> {
        self.next_deadline().filter(|at| self.alarm_at.is_none_or(|set| *at < set))
    }

    /// When a machine wants to be told that time has passed.
    fn next_deadline(&self) -> Option<model::Instant> {
        let deadlines = [
            self.dispatcher.next_deadline(),
            self.upkeep.next_deadline(),
            self.roll.next_deadline(),
            self.keeper.next_deadline(),
        ];
        deadlines.into_iter().flatten().min()
    }

    /// On a store of our own we go on where the last life of this server ended. On one that others use too we begin with
    /// nothing, and are given what is nobody's.
    pub(crate) async fn begin(api: Arc<Api>) -> Self {
        let mut heart = Heart::new(api);
        let (longest_lease, workers) = heart.read_the_past().await;
        heart.keep(upkeep::Input::Started { longest_lease });
        heart.muster_if_volatile();
        if !heart.api.store.is_shared() {
            heart.roll.restore(heart.now(), workers);
        }
        heart
    }

    /// Volatile queues need a muster; without one nobody pays for it.
    fn muster_if_volatile(&mut self) {
        if self.api.store.has_volatile() {
            self.roll.muster(self.now());
        }
    }

    /// Scheduled jobs follow the wall clock: when it is stepped, their timers are set anew.
    fn watch_the_wall(&mut self) {
        let offset = wall_offset(&*self.api.clock);
        if (offset - self.wall_offset).abs() > WALL_STEP_MIN.as_millis() as i64 {
            warn!(by_ms = offset - self.wall_offset, "the wall clock was stepped; leases are not affected");
            self.wall_offset = offset;
            self.keep(upkeep::Input::WallStepped);
        }
    }

    /// The longest lease that was given out before we started, and the workers that were alive. Until the store can say,
    /// nobody is judged.
    async fn read_the_past(&self) -> (Option<Duration>, Vec<store::Enlist>) {
        let store = &self.api.store;
        loop {
            let past = async {
                let queues = store.queue_settings().await?;
                self.api.known_queues.learn(&queues, self.api.clock.monotonic());
                self.api.exclusive.load(queues);
                // We may be the first server after all of them were away: holders of no registry could not renew then.
                let registry = if store.is_shared() { RegistryId::default() } else { RegistryId::ONLY };
                let deadlines = store.deadlines(registry).await?;
                let workers = if store.is_shared() { Vec::new() } else { store.roster(registry).await? };
                Ok::<_, store::StoreError>((deadlines.longest_lease, workers))
            };
            match past.await {
                Ok(past) => return past,
                Err(error) => warn!(%error, "cannot read leases and workers; trying again"),
            }
            tokio::time::sleep(RETRY_START).await;
        }
    }

    fn hear(&mut self, event: Event) {
        use dispatch::Input as Dispatch;
        use upkeep::Input as Keep;
        match event {
            Event::Joined { session } => self.join(session),
            Event::QueueSet { queue } => {
                self.muster_if_volatile();
                self.reopen(queue);
            }
            Event::Credits { session, add } => self.dispatch(Dispatch::Credits { session, add }),
            Event::Left { session } => self.dispatch(Dispatch::Left { session }),
            Event::Ready { queues } => self.ready(queues),
            Event::RunDue { in_ } => self.keep(Keep::RunDue { after: in_ }),
            Event::LeasesGranted { leases } => self.granted(leases),
            Event::Claimed { session, asked, answer: Ok(granted) } => {
                self.granted(granted.leases);
                self.dispatch(Dispatch::ClaimDone { session, asked, got: granted.jobs });
                self.ready(granted.more);
            }
            Event::Claimed { session, asked, answer: Err(_) } => {
                self.dispatch(Dispatch::ClaimFailed { session, asked });
            }
            Event::Promoted { limit, answer: Ok((count, queues)) } => {
                self.ready(queues);
                self.keep(Keep::Promoted { count, limit });
            }
            Event::Promoted { answer: Err(_), .. } => self.keep(Keep::Failed { duty: Duty::Promote }),
            // Read before we or the store stood still: holders must be heard first, and nobody is told anything by such old news.
            Event::Expired { not_after, .. } if self.now() > not_after || !self.may_take_back() => {
                self.keep(Keep::Failed { duty: Duty::Reap });
            }
            Event::Expired { limit, not_after, answer: Ok(expired) } => {
                let judged = self.roll.judge(self.now(), expired);
                tokio::spawn(rounds::settle(Arc::clone(&self.api), judged, limit, not_after));
            }
            Event::Expired { answer: Err(_), .. } => self.keep(Keep::Failed { duty: Duty::Reap }),
            Event::Reaped { limit, answer: Ok(found) } => self.keep(Keep::ReapDone { found, limit }),
            Event::Reaped { answer: Err(_), .. } => self.keep(Keep::Failed { duty: Duty::Reap }),
            Event::Purged { limit, answer: Ok(removed) } => self.keep(Keep::PurgeDone { removed, limit }),
            Event::Purged { answer: Err(_), .. } => self.keep(Keep::Failed { duty: Duty::Purge }),
            Event::Extended { answer: Ok(_) } => self.keep(Keep::Extended),
            Event::Extended { answer: Err(_) } => self.keep(Keep::Failed { duty: Duty::Extend }),
            Event::Deadlines { answer: Ok(Deadlines { next_run_in, next_lease_in, longest_lease }) } => {
                self.keep(Keep::Deadlines { next_run_in, next_lease_in, longest_lease });
            }
            Event::Deadlines { answer: Err(_) } => self.keep(Keep::Failed { duty: Duty::Read }),
            Event::StoreStalled { for_ } => self.keep(Keep::StoreStalled { lasted: for_ }),
            Event::Roll(event) => self.roll.hear(self.now(), event),
            Event::Ownership(input) => self.keeper.handle(self.now(), input),
            Event::News(News::Missed) => {
                self.keep(Keep::LookAgain);
                self.reopen_all();
            }
            Event::News(_) => self.keep(Keep::LookAgain),
            Event::Resigning { done } => {
                self.keeper.handle(self.now(), ownership::Input::Resigning);
                self.act();
                // Whoever only pings is heard elsewhere from now on.
                self.api.pingers.forget_all();
                let _ = done.send(());
            }
        }
    }

    /// Does what the ownership of our registry asks for.
    fn own(&mut self, output: ownership::Output) {
        let (api, now) = (Arc::clone(&self.api), self.now());
        match output {
            ownership::Output::Found => drop(tokio::spawn(charge_duties::found(api))),
            ownership::Output::Begin { registry } => {
                info!(registry = registry.0, "this server has a registry of workers");
                api.charge.set_registry(Some(registry));
                self.roll.begin(now, registry);
                self.keep(upkeep::Input::LookAgain);
            }
            ownership::Output::Beat { registry } => drop(tokio::spawn(charge_duties::beat(api, registry))),
            ownership::Output::OwnedUntil(until) => self.roll.owned_until(now, until),
            ownership::Output::Disowned { registry } => {
                warn!(
                    registry = registry.0,
                    "another server took over our workers while we could not be heard; beginning anew"
                );
                api.metrics.disowned.inc();
                api.charge.set_registry(None);
                self.roll.disown();
            }
            ownership::Output::TakeOver { from, beats, by } => {
                self.roll.take_over_begun(now, from);
                drop(tokio::spawn(charge_duties::take_over(api, from, beats, by)));
            }
        }
    }

    fn join(&mut self, id: SessionId) {
        if let Some(session) = self.api.sessions.get(id) {
            let queues = self.api.open_to(&session);
            self.dispatch(dispatch::Input::Joined { session: id, queues });
        }
    }

    /// Other sessions may serve this queue than before.
    fn reopen(&mut self, queue: QueueName) {
        let sessions = self.api.sessions.all().into_iter();
        for session in sessions.filter(|session| session.profile.queues.contains(&queue)) {
            let queues = self.api.open_to(&session);
            self.dispatch(dispatch::Input::Serves { session: session.id, queues });
        }
        self.ready(vec![queue]);
    }

    /// Anything may have changed.
    fn reopen_all(&mut self) {
        let sessions = self.api.sessions.all();
        let queues: BTreeSet<QueueName> =
            sessions.iter().flat_map(|session| session.profile.queues.iter().cloned()).collect();
        for session in sessions {
            let queues = self.api.open_to(&session);
            self.dispatch(dispatch::Input::Serves { session: session.id, queues });
        }
        self.ready(queues.into_iter().collect());
    }

    fn ready(&mut self, queues: Vec<QueueName>) {
        for queue in queues {
            self.dispatch(dispatch::Input::Ready { queue });
        }
    }

    /// The shortest lease sets the timer, the longest how long rescue pauses after a stall.
    fn granted(&mut self, leases: Leases) {
        for lease in leases {
            self.keep(upkeep::Input::LeaseGranted { lease });
        }
    }

    fn dispatch(&mut self, input: dispatch::Input) {
        self.dispatcher.handle(self.now(), input);
    }

    /// Not while holders wait for the store, nor before they have got that time back.
    fn may_take_back(&mut self) -> bool {
        let now = self.now();
        if let Some(lasted) = self.api.waiting.stalled_for(now) {
            self.keep(upkeep::Input::StoreStalled { lasted });
        }
        self.upkeep.may_take_back(now)
    }

    fn keep(&mut self, input: upkeep::Input) {
        self.upkeep.handle(self.now(), input);
    }

    /// Does what the machines say. A duty that takes time runs in a task of its own and answers with an event.
    fn act(&mut self) {
        while let Some(output) = self.keeper.poll_output() {
            self.own(output);
        }
        for news in self.roll.act(self.now()) {
            self.dispatch(news);
        }
        while let Some(dispatch::Output::Claim { session, queues, limit }) = self.dispatcher.poll_output() {
            self.claim(session, queues.to_vec(), limit);
        }
        while let Some(output) = self.upkeep.poll_output() {
            let api = Arc::clone(&self.api);
            match output {
                upkeep::Output::Promote { limit } => tokio::spawn(duties::promote(api, limit)),
                upkeep::Output::Reap { limit, not_after } => {
                    tokio::spawn(rounds::read(api, limit, not_after))
                }
                upkeep::Output::Purge { limit } => tokio::spawn(duties::purge(api, limit)),
                upkeep::Output::ExtendLeases { by } => tokio::spawn(duties::extend_leases(api, by)),
                upkeep::Output::ReadDeadlines => tokio::spawn(duties::read_deadlines(api)),
            };
        }
    }

    /// A store in memory answers at once. Then the jobs are on their way without a task, and without asking ourselves.
    fn claim(&mut self, session: SessionId, queues: Vec<QueueName>, limit: u32) {
        let api = Arc::clone(&self.api);
        let mut taking = Box::pin(duties::take(Arc::clone(&api), session, queues, limit));
        match taking.as_mut().now_or_never() {
            None => drop(tokio::spawn(duties::claim(api, taking))),
            Some(Err(event)) => self.hear(event),
            Some(Ok(taken)) => {
                let is_noted = match taken.is_to_be_noted() {
                    true => self.roll.note(self.now(), taken.grant()),
                    false => Vec::new(),
                };
                let mut delivering = Box::pin(duties::deliver(Arc::clone(&api), taken, is_noted));
                match delivering.as_mut().now_or_never() {
                    Some(event) => self.hear(event),
                    None => drop(tokio::spawn(async move { api.tell(delivering.await).await })),
                }
            }
        }
    }

    pub(crate) fn now(&self) -> model::Instant {
        self.api.clock.monotonic()
    }
}

fn wall_offset(clock: &dyn Clock) -> i64 {
    clock.wall().as_millis() - (clock.monotonic().as_nanos() / 1_000_000) as i64
}

#[cfg(test)]
mod tests;
