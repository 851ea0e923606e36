//! One worker, as the registry knows it.

use std::time::Duration;

use model::{Backoff, HolderEnd, Instant, Nonce, WorkerKey};

use super::bindings::Bindings;
use super::io::{Input, Restored, Ticket, WorkerState, WorkerView};
use super::mutation::Mutation;
use super::rules::Rules;
use super::succession::Succession;
use crate::clock_rule;
use crate::clock_watch::{ClockRate, ClockWatch};
use crate::message::{Ack, Answer, Heartbeat, Leave, Profile, Token};

/// A fleet of a million must fit: what a worker costs besides its key, its profile and its holds.
const _: () = assert!(size_of::<Entity>() <= 384);

/// One worker.
#[derive(Debug)]
pub(super) struct Entity {
    pub(super) nonce: Nonce,
    pub(super) stage: Stage,
    pub(super) token: Token,
    /// Granted last.
    pub(super) lease: Duration,
    /// The largest grant that the store knows: nothing larger is answered, so that a restart knows how long to wait.
    pub(super) durable_grant: Duration,
    /// The grant that the store is being told.
    pub(super) enlisting: Option<Duration>,
    /// When the heartbeat was read that got it, or, if it lives longer by a lease before, as if it had been read then.
    pub(super) renewed_at: Instant,
    /// Nothing of this worker is given away before. Only ever moves later.
    pub(super) expires: Instant,
    /// When its exclusive lease is over, if it was told so little: the registry was not ours for certain. Otherwise that is
    /// when its lease is over.
    pub(super) exclusive_until: Option<Instant>,
    /// The lease timer that counts.
    pub(super) lease_timer: Instant,
    pub(super) bindings: Bindings,
    /// A heartbeat that waits until a larger grant is durable.
    pub(super) waiting: Option<Box<(Ticket, Heartbeat)>>,
    pub(super) profile: Box<Profile>,
    /// `None` for one from before a restart that has not come back.
    pub(super) heard: Option<Heard>,
    pub(super) lag: Duration,
    /// How its clock runs, once it stamped a heartbeat.
    pub(super) clock: Option<Box<ClockWatch>>,
    pub(super) free_slots: u32,
    /// The highest start number that it received, or that its present stream left behind.
    pub(super) starts_seen: u64,
    pub(super) account: Account,
    pub(super) is_draining: bool,
    /// Exclusive binds stand, and it was not told because the registry was not ours for certain.
    pub(super) owes_bound: bool,
    /// How many new keys wait for its holds; the first that gets them ends it. It cannot expire meanwhile.
    pub(super) successors: u32,
}

/// Where it is in its life.
#[derive(Debug)]
pub(super) enum Stage {
    /// Being made durable.
    Joining(Box<Joining>),
    /// Alive.
    Active(Sync),
    /// Kicked, and it may run exclusive jobs: it ends when it says that they have stopped, or with its lease.
    Stopping,
    /// Over.
    Ended(Box<Ending>),
}

/// When it was heard of.
#[derive(Clone, Copy, Debug)]
pub(super) struct Heard {
    pub(super) first: Instant,
    pub(super) last: Instant,
}

/// How well we know what an active worker holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sync {
    /// Restored; its full set has not come.
    Awaited,
    /// Its full set has come, and rows are being asked.
    Checking,
    /// We know.
    Done,
}

/// Whether a worker has said all that it holds, for the first time in this life of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Account {
    /// Not that we know.
    Open,
    /// It has, but rows may still have to be asked.
    Given,
    /// It has, and whoever waits for that was told.
    Closed,
}

/// A heartbeat that is not answered yet: the first one, or one that found a former key alive after a restart of ours.
#[derive(Debug)]
pub(super) struct Joining {
    pub(super) ticket: Ticket,
    pub(super) beat: Heartbeat,
    /// Leaves and kicks that came meanwhile.
    pub(super) behind: Vec<Input>,
    pub(super) succession: Option<Succession>,
}

/// The end of a worker.
#[derive(Debug)]
pub(super) struct Ending {
    /// How.
    pub(super) end: HolderEnd,
    /// When.
    pub(super) at: Instant,
    /// The latest moment at which it can have run anything.
    pub(super) stopped_by: Instant,
    /// That is by the clock rule, and its clock is not one that the rule allows for.
    pub(super) unproven: bool,
    /// It was declared over by its lease while it held exclusive jobs, and may still say when those had really stopped.
    pub(super) owes_word: bool,
    /// Some of these were volatile.
    pub(super) had_volatile: bool,
    /// Until it is durable.
    pub(super) farewell: Option<Farewell>,
}

/// An end that is being made durable.
#[derive(Debug, Default)]
pub(super) struct Farewell {
    /// Who waits for it.
    pub(super) tickets: Vec<Ticket>,
    pub(super) backoff: Backoff,
    /// The timer that counts.
    pub(super) retry_at: Option<Instant>,
}

impl Farewell {
    /// Nobody waits for it but perhaps this one.
    pub(super) fn for_ticket(ticket: Option<Ticket>) -> Self {
        Farewell { tickets: ticket.into_iter().collect(), ..Farewell::default() }
    }
}

impl Joining {
    /// A heartbeat that just came, of a worker that may go on with the holds of a former key.
    pub(super) fn new(ticket: Ticket, beat: Heartbeat, succession: Option<Succession>) -> Self {
        Joining { ticket, beat, behind: Vec::new(), succession }
    }
}

impl Entity {
    /// A worker that was just heard of for the first time.
    pub(super) fn joining(now: Instant, rules: &Rules, mut joining: Joining) -> Self {
        let profile = joining.beat.profile.take().unwrap_or_default();
        let nonce = joining.beat.nonce;
        Entity {
            profile: Box::new(profile),
            heard: Some(Heard { first: now, last: now }),
            ..Self::new(rules, nonce, Stage::Joining(Box::new(joining)))
        }
    }

    /// A worker from before a restart. Its token is new, so its first heartbeat finds a mismatch and sends everything.
    pub(super) fn restored(now: Instant, rules: &Rules, known: Restored) -> Self {
        let grace = rules.grace(now, known.grant);
        let expires = if rules.has(Mutation::RestartGraceSkipped) { now } else { grace };
        let token = Token { generation: rules.terms.generation, sequence: 1 };
        Entity {
            token,
            lease: known.grant,
            durable_grant: known.grant,
            renewed_at: now,
            expires,
            lease_timer: expires,
            profile: Box::new(Profile { name: known.name, ..Profile::default() }),
            ..Self::new(rules, known.nonce, Stage::Active(Sync::Awaited))
        }
    }

    /// A holder that never heartbeat and says that it is gone.
    pub(super) fn stranger(rules: &Rules, nonce: Nonce, ending: Ending) -> Self {
        Self::new(rules, nonce, Stage::Ended(Box::new(ending)))
    }

    fn new(rules: &Rules, nonce: Nonce, stage: Stage) -> Self {
        Entity {
            nonce,
            stage,
            // No answer carries sequence 0, so no garbage can match it.
            token: Token { generation: rules.terms.generation, sequence: 0 },
            lease: Duration::ZERO,
            durable_grant: Duration::ZERO,
            enlisting: None,
            renewed_at: Instant::ZERO,
            expires: Instant::ZERO,
            exclusive_until: None,
            lease_timer: Instant::ZERO,
            bindings: Bindings::new(rules.mutation),
            waiting: None,
            profile: Box::default(),
            heard: None,
            lag: Duration::ZERO,
            clock: None,
            free_slots: 0,
            starts_seen: 0,
            account: Account::Open,
            is_draining: false,
            owes_bound: false,
            successors: 0,
        }
    }

    /// Takes a heartbeat that showed the right token: the lease runs anew, the changes apply.
    pub(super) fn accept(&mut self, now: Instant, rules: &Rules, beat: &mut Heartbeat) -> Ack {
        self.hear(now, beat);
        self.watch_clock(now, rules, beat);
        self.starts_seen = beat.starts_seen;
        let lease = rules.grant(beat.lease).min(self.durable_grant);
        if lease != self.lease {
            // A shorter one takes nothing back that a longer one before allows.
            self.renewed_at = self.renewed_at + self.lease - lease;
            self.lease = lease;
        }
        self.renewed_at = self.renewed_at.max(now);
        let exclusive_hold = rules.is_ours(now);
        self.exclusive_until =
            if exclusive_hold { None } else { Some(self.exclusive_until.unwrap_or(self.expires)) };
        self.expires = rules.expires(self.expires, now, self.lease);
        self.token.sequence += 1;
        let is_full = beat.full.is_some();
        self.bindings.apply(beat);
        if is_full && matches!(self.stage, Stage::Active(Sync::Awaited)) {
            self.stage = Stage::Active(Sync::Checking);
        }
        self.notice_sync();
        // A full set that is not what its own digest says would be no better the second time.
        let is_unknown =
            matches!(self.stage, Stage::Active(Sync::Awaited)) || self.bindings.differs_from(beat.digest);
        if self.account != Account::Closed {
            self.account = if is_unknown { Account::Open } else { Account::Given };
        }
        Ack {
            token: self.token,
            lease: self.lease,
            worker_set: None,
            exclusive_hold: exclusive_hold || rules.has(Mutation::ExclusiveHoldWhenNotOurs),
            stops: self.bindings.stops_page(),
            resync: is_unknown && !is_full,
            drain: self.is_draining,
        }
    }

    /// Answers a heartbeat that showed another token. Nothing is renewed, nothing applies: it may be an old one.
    pub(super) fn mismatch(&mut self, now: Instant, rules: &Rules, beat: &mut Heartbeat) -> Answer {
        self.hear(now, beat);
        if rules.has(Mutation::RenewOnMismatch) {
            self.expires = rules.expires(self.expires, now, self.durable_grant);
        }
        if rules.has(Mutation::DeltasClearedOnMismatch) {
            self.bindings.skip_to(beat.change);
        }
        Answer::Mismatch { token: self.token, held: self.expires > now, resync: !self.is_synced() }
    }

    /// True if the holds of a living former key move before this heartbeat is accepted: it says what must move, and nobody
    /// waits for the holds of this worker in turn.
    pub(super) fn may_succeed(&self, beat: &Heartbeat) -> bool {
        beat.full.is_some() && self.successors == 0
    }

    /// What a worker says for people.
    fn hear(&mut self, now: Instant, beat: &mut Heartbeat) {
        self.heard.get_or_insert(Heard { first: now, last: now }).last = now;
        self.lag = beat.lag;
        self.free_slots = beat.free_slots;
        if let Some(profile) = beat.profile.take() {
            *self.profile = profile;
        }
    }

    /// Its stamps say how its clock runs. Only of heartbeats that are taken: those that show another token may be old.
    fn watch_clock(&mut self, now: Instant, rules: &Rules, beat: &Heartbeat) {
        if beat.sent_at.is_some() {
            let watch = self.clock.get_or_insert_default();
            watch.taken(now, beat.sent_at, beat.answered_at, rules.terms.rate_error);
        }
    }

    /// How its clock runs, as far as that was measured.
    pub(super) fn clock_rate(&self) -> Option<ClockRate> {
        self.clock.as_ref().and_then(|watch| watch.rate())
    }

    /// The latest by our clock that it can have stopped everything exclusive, as it says now. Its word may have waited somewhere
    /// for long, so that for how long that has been says less than when it was by its own clock.
    pub(super) fn stopped_at(&self, now: Instant, rules: &Rules, leave: &Leave) -> Instant {
        let said = now - leave.stopped_for;
        let placed = leave.stopped_at.zip(self.clock.as_ref());
        let placed = placed.and_then(|(at, watch)| watch.at_the_latest(at, rules.terms.rate_error));
        placed.map_or(said, |placed| placed.min(said))
    }

    /// A restored worker is as good as any once its full set was checked.
    pub(super) fn notice_sync(&mut self) {
        if matches!(self.stage, Stage::Active(Sync::Checking)) && !self.bindings.is_checking() {
            self.stage = Stage::Active(Sync::Done);
        }
    }

    /// A worker from a life before us that we have just heard of, and that is durable by now. It has as long to send everything
    /// as the largest lease that it can have been granted, by us or before.
    pub(super) fn receive(&mut self, now: Instant, rules: &Rules, beat: &mut Heartbeat) -> Answer {
        self.stage = Stage::Active(Sync::Awaited);
        self.token.sequence = 1;
        self.lease = self.durable_grant;
        self.renewed_at = now;
        self.expires = rules.grace(now, self.durable_grant.max(rules.terms.inherited_lease));
        self.mismatch(now, rules, beat)
    }

    /// True once, when all that it holds is known for the first time.
    pub(super) fn close_account(&mut self, rules: &Rules) -> bool {
        let is_known = self.is_synced() && !self.bindings.is_checking();
        let is_early = self.is_active() && rules.has(Mutation::SyncedBeforeChecked);
        let closes = self.account == Account::Given && (is_known || is_early);
        if closes {
            self.account = Account::Closed;
        }
        closes
    }

    /// The latest moment at which it can run anything: by the clock rule that is when its own clock ends its lease.
    pub(super) fn runs_until(&self, rules: &Rules) -> Instant {
        match self.heard {
            Some(_) => clock_rule::hold_until(self.renewed_at, self.lease, rules.terms.rate_error),
            // The life before granted that lease, at the latest just before it ended.
            None => self.renewed_at + self.lease,
        }
    }

    /// True if it has exclusive jobs, or may have some that we do not know of.
    pub(super) fn may_run_exclusive(&self) -> bool {
        !self.is_synced() || self.bindings.may_be_exclusive()
    }

    /// True if it may hear that exclusive binds stand: by our word its exclusive lease runs.
    pub(super) fn may_start(&self, now: Instant, rules: &Rules) -> bool {
        rules.is_ours(now) && self.exclusive_until.is_none_or(|until| until > now)
    }

    /// True for a holder that never heartbeat here: the store was never told of a grant.
    pub(super) fn is_stranger(&self) -> bool {
        self.durable_grant.is_zero()
    }

    /// True when we know what it holds.
    pub(super) fn is_synced(&self) -> bool {
        matches!(self.stage, Stage::Active(Sync::Done))
    }

    /// True while it lives.
    pub(super) fn is_active(&self) -> bool {
        matches!(self.stage, Stage::Active(_))
    }

    /// As people see it.
    pub(super) fn view(&self, key: &WorkerKey) -> WorkerView {
        WorkerView {
            key: key.clone(),
            state: match &self.stage {
                Stage::Joining(_) => WorkerState::Joining,
                Stage::Active(Sync::Done) => WorkerState::Active,
                Stage::Active(_) => WorkerState::Unsynced,
                Stage::Stopping => WorkerState::Stopping,
                Stage::Ended(ending) => WorkerState::Ended(ending.end),
            },
            profile: Profile::clone(&self.profile),
            lease: self.lease,
            expires: self.expires,
            first_heard: self.heard.map(|heard| heard.first),
            last_heard: self.heard.map(|heard| heard.last),
            bound: self.bindings.len(),
            assigned: self.bindings.recorded(),
            token: self.token,
            draining: self.is_draining,
            free_slots: self.free_slots,
            lag: self.lag,
            clock: self.clock_rate(),
        }
    }
}
