//! What one worker says it holds, and what we make of each: the bound set.
//!
//! Every change carries the worker's change counter. `applied` is the counter of the last heartbeat that was accepted, so
//! what is not later than that is a repeat. A bind that did not wait for a heartbeat is *early*: it is later than `applied`
//! until a heartbeat catches up, and neither a digest nor a full set of an older counter says anything about it.

mod exclusive;

use std::collections::{BTreeMap, BTreeSet};

use model::{Hold, Instant, Limits};

use super::checks::Checks;
use super::io::{HoldStanding, StartResult};
use super::mutation::Mutation;
use super::refused::Refused;
use super::stops::Stops;
use crate::digest::Digest;
use crate::message::{Change, Heartbeat, Stop, StopOrder};

/// What we make of a hold that a worker says it has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Standing {
    /// It stands.
    Held,
    /// The row is being asked.
    Checking,
    /// It does not stand; the worker is told until it lets go.
    Lost,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    change: u64,
    standing: Standing,
    /// The worker waits to hear that it stands.
    is_awaited: bool,
}

/// A claim that was granted.
#[derive(Clone, Copy, Debug)]
struct Record {
    /// The number of its start.
    start: u64,
    /// When it was about to be sent.
    sent_at: Instant,
}

/// How binds stand, as the worker must hear it.
#[derive(Debug, Default)]
pub(super) struct Findings {
    /// Binds that stand and that it waits for.
    pub(super) bound: Vec<Hold>,
    /// What must stop.
    pub(super) stops: Vec<Stop>,
}

/// The bound set of one worker, and the claims it was given and has not bound.
#[derive(Debug, Default)]
pub(super) struct Bindings {
    entries: BTreeMap<Hold, Entry>,
    /// The entries with a change later than `applied`, so that a digest of `applied` costs nothing when there are none.
    early: BTreeSet<(u64, Hold)>,
    /// Our own record of claims that were granted and not bound yet.
    records: BTreeMap<Hold, Record>,
    /// Of all entries.
    digest: Digest,
    applied: u64,
    /// How many entries are being checked.
    checking: u32,
    mutation: Option<Mutation>,
    rare: Option<Box<Rare>>,
}

/// What most workers lack most of the time.
#[derive(Debug, Default)]
struct Rare {
    stops: Stops,
    checks: Checks,
    refused: Refused,
    /// Those of the entries and records that are known to be exclusive.
    exclusive: BTreeSet<Hold>,
}

impl Bindings {
    /// An empty set.
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Bindings { mutation, ..Self::default() }
    }

    /// Takes a heartbeat's changes: binds first, then unbinds, then the full set.
    pub(super) fn apply(&mut self, beat: &mut Heartbeat) {
        let before = self.applied;
        self.applied = before.max(beat.change);
        while self.early.first().is_some_and(|(change, _)| *change <= self.applied) {
            self.early.pop_first();
        }
        if beat.binds.is_empty() && beat.unbinds.is_empty() && beat.full.is_none() {
            return;
        }
        let is_new = |it: &&Change| it.change > before;
        let unbinds_first = self.has(Mutation::UnbindsBeforeBinds);
        if unbinds_first {
            beat.unbinds.iter().filter(is_new).for_each(|it| self.unbind(it.hold));
        }
        for it in beat.binds.iter().filter(is_new) {
            self.bind(it.hold, it.change, false);
        }
        if !unbinds_first {
            beat.unbinds.iter().filter(is_new).for_each(|it| self.unbind(it.hold));
        }
        if let Some(full) = beat.full.take() {
            self.replace(full);
        }
        self.trim();
    }

    /// A bind that did not wait for a heartbeat: how it stands. `None` if it is a repeat from before the last heartbeat of
    /// what the worker has let go of since: unbinding is final, so the repeat must not bring it back.
    pub(super) fn bind_early(&mut self, it: Change) -> Option<Standing> {
        let may_be_new = !self.is_repeat(it) || self.has(Mutation::UnbindNotFinal);
        (may_be_new || self.entries.contains_key(&it.hold)).then(|| self.bind(it.hold, it.change, true))
    }

    /// True if a heartbeat that was taken had this change already.
    pub(super) fn is_repeat(&self, it: Change) -> bool {
        it.change <= self.applied
    }

    /// These claims were granted, some of them exclusive, and are about to be sent, the last one with this start number.
    pub(super) fn record(&mut self, now: Instant, holds: Vec<Hold>, exclusive: &[Hold], last_start: u64) {
        let first = last_start.saturating_sub(holds.len() as u64) + 1;
        for (start, hold) in (first..).zip(holds) {
            // Without a record a bind is checked, so the maximum costs a question and nothing else.
            if self.records.len() < Limits::BOUND_MAX && !self.entries.contains_key(&hold) {
                self.records.insert(hold, Record { start, sent_at: now });
            }
        }
        for hold in exclusive {
            if self.records.contains_key(hold) || self.entries.contains_key(hold) {
                self.rare().exclusive.insert(*hold);
            }
        }
    }

    /// What is known of a start, when the worker has received all starts up to this number on its present stream.
    pub(super) fn start_result(&self, hold: Hold, starts_seen: u64) -> StartResult {
        match self.records.get(&hold) {
            _ if self.entries.contains_key(&hold) => StartResult::Started,
            // It has seen this one and does not say that it has the job; a number it has seen it never takes again.
            Some(record) if record.start <= starts_seen => StartResult::NotStarted,
            _ => StartResult::Unsure,
        }
    }

    /// True if this claim was granted, is not bound, and its start was sent after that time.
    pub(super) fn was_sent_after(&self, hold: Hold, time: Instant) -> bool {
        self.records.get(&hold).is_some_and(|record| record.sent_at > time)
    }

    /// These claims ended.
    pub(super) fn settle(&mut self, holds: &[Hold]) {
        for hold in holds {
            self.records.remove(hold);
            if !self.entries.contains_key(hold)
                && let Some(rare) = &mut self.rare
            {
                rare.stops.remove(*hold);
                rare.exclusive.remove(hold);
            }
        }
        self.trim();
    }

    /// Someone cancelled the job: the stop, if it is for this worker to stop it and it does not know better already.
    pub(super) fn cancel(&mut self, hold: Hold) -> Option<Stop> {
        let is_ours = match self.standing(hold) {
            Some(standing) => standing != Standing::Lost,
            None => self.records.contains_key(&hold),
        };
        is_ours.then(|| self.stop(hold, StopOrder::Cancelled))
    }

    /// The handler of this exclusive job gives no sign: the stop, unless the worker was told to stop it before.
    pub(super) fn silence(&mut self, hold: Hold) -> Option<Stop> {
        let was_told = self.rare.as_ref().is_some_and(|rare| rare.stops.contains(hold));
        (!was_told).then(|| self.stop(hold, StopOrder::Silent))
    }

    /// The row of this hold is being taken back: a later bind is lost. Says for when to set the timer that drops the mark,
    /// if none is set.
    pub(super) fn refuse(&mut self, now: Instant, hold: Hold) -> Option<Instant> {
        self.settle(&[hold]);
        if self.has(Mutation::RefusedMarkForgotten) {
            return None;
        }
        self.rare().refused.mark(now, hold)
    }

    /// The timer of the refused marks fired. Says for when to set it again, if marks are left.
    pub(super) fn sweep_refused(&mut self, now: Instant, at: Instant) -> Option<Instant> {
        let again = self.rare.as_mut()?.refused.sweep(now, at);
        self.trim();
        again
    }

    /// The hold does not stand any more: the stop.
    pub(super) fn lose(&mut self, hold: Hold) -> Stop {
        self.set_standing(hold, Standing::Lost);
        self.stop(hold, StopOrder::Lost)
    }

    /// The next chunk for the rows, if it may be asked now.
    pub(super) fn next_check(&mut self) -> Option<Vec<Hold>> {
        self.rare.as_mut()?.checks.next_chunk()
    }

    /// The rows answered. `None` if these are no answers to what was asked.
    pub(super) fn checked(&mut self, standings: &[HoldStanding]) -> Option<Findings> {
        let asked = self.rare.as_mut()?.checks.answered(standings.len())?;
        let mut findings = Findings::default();
        for (hold, said) in asked.into_iter().zip(standings) {
            // While the row was read it may have been unbound, or unbound and then refused when it was bound again.
            let Some(entry) = self.entries.get(&hold).copied() else { continue };
            if entry.standing != Standing::Checking {
                continue;
            }
            self.rare().checks.remove(hold);
            let HoldStanding::Held { cancelled, exclusive } = *said else {
                findings.stops.push(self.lose(hold));
                continue;
            };
            self.set_standing(hold, Standing::Held);
            if exclusive {
                self.rare().exclusive.insert(hold);
            }
            if entry.is_awaited || exclusive {
                findings.bound.push(hold);
            }
            if cancelled {
                findings.stops.push(self.stop(hold, StopOrder::Cancelled));
            }
        }
        self.trim();
        Some(findings)
    }

    /// The rows could not be asked: for when to set the timer.
    pub(super) fn check_failed(&mut self, now: Instant) -> Option<Instant> {
        let Bindings { entries, rare, .. } = self;
        rare.as_mut()?.checks.failed(now, |hold| entries.contains_key(hold))
    }

    /// The timer of the checks fired.
    pub(super) fn resume_checks(&mut self, at: Instant) {
        if let Some(rare) = &mut self.rare {
            rare.checks.resume(at);
            self.trim();
        }
    }

    /// The stops for one answer.
    pub(super) fn stops_page(&mut self) -> Vec<Stop> {
        let tells_once = self.has(Mutation::StopToldOnce);
        let Some(rare) = &mut self.rare else { return Vec::new() };
        let page = rare.stops.page();
        if tells_once {
            rare.stops.clear();
        }
        page
    }

    /// Counts changes up to this one as applied although they are not; only a deliberate bug does that.
    pub(super) fn skip_to(&mut self, change: u64) {
        self.applied = self.applied.max(change);
    }

    /// True if the worker's digest is not that of the same entries: those that are not later than the last heartbeat.
    pub(super) fn differs_from(&self, theirs: Digest) -> bool {
        let mut ours = self.digest;
        for (_, hold) in &self.early {
            ours.remove(*hold);
        }
        ours != theirs && !self.has(Mutation::DigestIgnored)
    }

    /// What we make of this hold; `None` if the worker does not say that it has it.
    pub(super) fn standing(&self, hold: Hold) -> Option<Standing> {
        self.entries.get(&hold).map(|entry| entry.standing)
    }

    /// Everything the worker says it holds, in the order of job ids.
    pub(super) fn holds(&self) -> impl Iterator<Item = Hold> {
        self.entries.keys().copied()
    }

    /// How many those are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether this claim was granted and is not bound yet.
    pub(super) fn is_recorded(&self, hold: Hold) -> bool {
        self.records.contains_key(&hold)
    }

    /// How many claims were granted and not bound yet.
    pub(super) fn recorded(&self) -> usize {
        self.records.len()
    }

    /// True when nothing is held and nothing is on its way.
    pub(super) fn is_idle(&self) -> bool {
        self.entries.is_empty() && self.records.is_empty()
    }

    /// True while a row is still to be asked about an entry.
    pub(super) fn is_checking(&self) -> bool {
        self.checking > 0
    }

    fn bind(&mut self, hold: Hold, change: u64, is_awaited: bool) -> Standing {
        if let Some(entry) = self.entries.get_mut(&hold) {
            entry.is_awaited |= is_awaited;
            return entry.standing;
        }
        let is_recorded = self.records.remove(&hold).is_some() || self.has(Mutation::BindNotChecked);
        if self.entries.len() >= Limits::BOUND_MAX {
            // More than anybody may hold: it gets no entry, and the worker hears that it must let go.
            self.stop(hold, StopOrder::Lost);
            self.rare().exclusive.remove(&hold);
            return Standing::Lost;
        }
        let standing = if self.is_refused(hold) {
            Standing::Lost
        } else if is_recorded {
            Standing::Held
        } else {
            Standing::Checking
        };
        self.entries.insert(hold, Entry { change, standing, is_awaited });
        self.digest.add(hold);
        if change > self.applied {
            self.early.insert((change, hold));
        }
        match standing {
            Standing::Held => {}
            Standing::Checking => {
                self.checking += 1;
                self.rare().checks.add(hold);
            }
            Standing::Lost => {
                self.stop(hold, StopOrder::Lost);
            }
        }
        if self.has(Mutation::BoundBeforeChecked) { Standing::Held } else { standing }
    }

    fn unbind(&mut self, hold: Hold) {
        self.records.remove(&hold);
        if let Some(rare) = &mut self.rare {
            rare.stops.remove(hold);
            rare.checks.remove(hold);
            rare.exclusive.remove(&hold);
        }
        if let Some(entry) = self.entries.remove(&hold) {
            self.digest.remove(hold);
            self.early.remove(&(entry.change, hold));
            self.checking -= u32::from(entry.standing == Standing::Checking);
        }
    }

    /// The set as of `applied` is this one.
    fn replace(&mut self, mut full: Vec<Hold>) {
        full.sort_unstable();
        let as_of = if self.has(Mutation::FullSetUndoesLaterBind) { u64::MAX } else { self.applied };
        let is_gone =
            |(hold, entry): &(&Hold, &Entry)| entry.change <= as_of && full.binary_search(hold).is_err();
        let gone: Vec<Hold> = self.entries.iter().filter(is_gone).map(|(hold, _)| *hold).collect();
        gone.into_iter().for_each(|hold| self.unbind(hold));
        if let Some(rare) = &mut self.rare {
            rare.stops.retain(|hold| self.entries.contains_key(hold) || self.records.contains_key(hold));
        }
        for hold in full {
            self.bind(hold, self.applied, false);
        }
    }

    fn stop(&mut self, hold: Hold, reason: StopOrder) -> Stop {
        self.rare().stops.add(hold, reason);
        Stop { hold, reason }
    }

    fn set_standing(&mut self, hold: Hold, standing: Standing) {
        if let Some(entry) = self.entries.get_mut(&hold) {
            self.checking -= u32::from(entry.standing == Standing::Checking);
            self.checking += u32::from(standing == Standing::Checking);
            entry.standing = standing;
        }
    }

    fn is_refused(&self, hold: Hold) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.refused.contains(hold))
    }

    fn rare(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Gives back the memory of what became empty: most workers are idle most of the time.
    fn trim(&mut self) {
        if self.entries.is_empty() {
            self.entries.clear();
        }
        if self.early.is_empty() {
            self.early.clear();
        }
        if self.records.is_empty() {
            self.records.clear();
        }
        let is_unused = |rare: &mut Box<Rare>| {
            let Rare { stops, checks, refused, exclusive } = &**rare;
            stops.is_empty() && checks.is_empty() && refused.is_empty() && exclusive.is_empty()
        };
        self.rare.take_if(is_unused);
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
