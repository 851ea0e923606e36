//! The state, and what changes it.

use std::collections::{BTreeMap, BTreeSet};

use model::Generation;

use super::history::{Departed, History, Step};
use super::turnover::Turnover;
use super::wait::{How, Phase};
use crate::mutation::Mutation;
use crate::set::{Identity, SetId, Version};

/// A worker's handle. The caller gives it and never uses it again for another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Member(pub u32);

/// What is agreed before the start.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Terms {
    /// So many additions in a row may prevent that everybody is permitted; further ones are queued. At least this many.
    pub batch_after_min: u32,
    /// At least one per so many members, too.
    pub batch_after_share: u32,
    /// The version of the empty set at the start; any will do.
    pub first_version: Version,
}

impl Default for Terms {
    fn default() -> Self {
        Terms { batch_after_min: 8, batch_after_share: 10, first_version: Version(0) }
    }
}

/// How much is known of what a member requires. In limbo is lower than any label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Standing {
    /// It has not echoed an id of this scheduler, so it may hold one of another. It will be told no version before this one.
    Limbo(Step),
    /// See [`labels`](super::labels).
    Label(Step),
}

/// A member that counts.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Entry {
    pub(super) identity: Identity,
    /// The first set with it that anybody can have been told.
    pub(super) first: Step,
    pub(super) echoed: Option<Step>,
    pub(super) standing: Standing,
}

/// The machine. After some changes, or from time to time, it wants an [`update`](Self::update).
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Consensus {
    pub(super) generation: Generation,
    pub(super) terms: Terms,
    pub(super) mutation: Option<Mutation>,
    pub(super) phase: Phase,
    pub(super) history: History,
    pub(super) present: BTreeMap<Member, Entry>,
    /// The standings of all that are present, the lowest first.
    pub(super) standings: BTreeSet<(Standing, Member)>,
    /// Who is present and was never permitted.
    pub(super) held_back: BTreeSet<Member>,
    pub(super) turnover: Turnover,
}

impl Consensus {
    /// A scheduler that has just started, in its wait.
    pub fn new(generation: Generation, terms: Terms) -> Self {
        Consensus {
            generation,
            terms,
            mutation: None,
            phase: Phase::default(),
            history: History::new(terms.first_version),
            present: BTreeMap::new(),
            standings: BTreeSet::new(),
            held_back: BTreeSet::new(),
            turnover: Turnover::default(),
        }
    }

    /// One with a deliberate bug, to show that tests notice it.
    pub fn broken(generation: Generation, terms: Terms, mutation: Mutation) -> Self {
        Consensus { mutation: Some(mutation), ..Self::new(generation, terms) }
    }

    /// A worker is heard of for the first time, with the id that it brings from another scheduler. Its running tasks are not
    /// known yet.
    pub fn join(&mut self, member: Member, identity: Identity, initial: Option<SetId>) {
        if self.is_known(member) {
            return;
        }
        if self.broken_by(Mutation::ExitReentered) && !self.is_waiting() {
            self.phase = Phase::default();
        }
        if self.must_queue() {
            self.turnover.queue.insert(member, identity);
            return;
        }
        let initial = initial.filter(|id| id.generation != self.generation);
        self.admit(member, identity);
        match &mut self.phase {
            Phase::Waiting(waiting) => waiting.joined(member, initial),
            Phase::Over(_) => self.turnover.additions += 1,
        }
    }

    /// All that it runs is known.
    pub fn fetched(&mut self, member: Member) {
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.fetched(member);
        }
    }

    /// It says that it holds this id; whether that is news.
    pub fn echoed(&mut self, member: Member, id: SetId) -> bool {
        if id.generation != self.generation || self.is_waiting() {
            return false;
        }
        let Some(step) = self.history.step(id.version) else { return false };
        let is_news = |entry: &&mut Entry| entry.first <= step && entry.echoed < Some(step);
        let Some(entry) = self.present.get_mut(&member).filter(is_news) else { return false };
        entry.echoed = Some(step);
        self.raise(member, step);
        true
    }

    /// It is dead for good: its lease is over, it left with all stopped, or it confirmed its death.
    pub fn lost(&mut self, member: Member) {
        if self.turnover.queue.remove(&member).is_some() {
            return;
        }
        let Some(entry) = self.present.remove(&member) else { return };
        let removed = self.history.remove(entry.identity);
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.lost(member);
        }
        if let Standing::Label(label) = entry.standing {
            self.history.departed.insert(member, Departed { first: entry.first, removed, label });
        }
        self.held_back.remove(&member);
        if !self.broken_by(Mutation::MustDieCounts) {
            self.standings.remove(&(entry.standing, member));
        }
    }

    /// It is healthy from now on, and consensus has no more say in it.
    pub fn healthy(&mut self, member: Member) {
        self.held_back.remove(&member);
        if self.broken_by(Mutation::UnhealthyExcluded)
            && let Some(entry) = self.present.get(&member)
        {
            self.standings.insert((entry.standing, member));
        }
    }

    /// It is not healthy now. It counts all the same: it may run tasks, and hold an id that others must not agree with.
    pub fn unhealthy(&mut self, member: Member) {
        if self.broken_by(Mutation::UnhealthyExcluded)
            && let Some(entry) = self.present.get(&member)
        {
            self.standings.remove(&(entry.standing, member));
        }
    }

    /// Every worker that was never heard of has stopped whatever it ran.
    pub fn safe_wait_over(&mut self) {
        self.time_over(How::SafeWait);
    }

    /// Somebody chose not to wait for that.
    pub fn unsafe_wait_over(&mut self) {
        self.time_over(How::Unsafe);
    }

    /// One pass: looks whether the wait is over, raises labels, forgets what nobody can hold, notes who is permitted, and admits
    /// those who queue once all are.
    pub fn update(&mut self) {
        self.leave_wait();
        if self.is_waiting() {
            return;
        }
        self.propagate();
        self.history.prune(self.floor());
        self.note_permitted();
        self.admit_queue();
    }

    /// What to tell this member now. Nothing during the wait: what it holds from before may be needed by the next scheduler.
    pub fn current(&self, member: Member) -> Option<SetId> {
        let may_tell = !self.is_waiting() || self.broken_by(Mutation::IdsDuringWait);
        (may_tell && self.present.contains_key(&member)).then(|| self.set())
    }

    /// The present set.
    pub fn set(&self) -> SetId {
        SetId { generation: self.generation, version: self.version(), hash: self.history.hash() }
    }

    /// Its version.
    pub fn version(&self) -> Version {
        self.history.version(self.history.now())
    }

    /// The first version with it that anybody can have been told.
    pub fn first_of(&self, member: Member) -> Option<Version> {
        Some(self.history.version(self.present.get(&member)?.first))
    }

    /// The version that it last echoed.
    pub fn echo_of(&self, member: Member) -> Option<Version> {
        let echoed = self.present.get(&member)?.echoed?;
        Some(self.history.version(echoed))
    }

    /// Its label: no set of this scheduler that is older can agree and contain it. None while it is in limbo.
    pub fn label_of(&self, member: Member) -> Option<Version> {
        let label = match self.present.get(&member).map(|entry| entry.standing) {
            Some(Standing::Label(label)) => label,
            Some(Standing::Limbo(_)) => return None,
            None => self.history.departed.get(&member)?.label,
        };
        Some(self.history.version(label))
    }

    /// The members that count, in order.
    pub fn members(&self) -> impl Iterator<Item = Member> + '_ {
        self.present.keys().copied()
    }

    /// The members that were never permitted, in order.
    pub fn held_back(&self) -> impl Iterator<Item = Member> + '_ {
        self.held_back.iter().copied()
    }

    /// How many members are gone and still remembered.
    pub fn departed(&self) -> usize {
        self.history.departed.len()
    }

    pub(super) fn broken_by(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// A new version with this one.
    pub(super) fn admit(&mut self, member: Member, identity: Identity) {
        let first = self.history.add(identity);
        let standing = Standing::Limbo(first);
        self.present.insert(member, Entry { identity, first, echoed: None, standing });
        self.standings.insert((standing, member));
        self.held_back.insert(member);
    }

    /// The oldest version that a label points to or may yet point to.
    fn floor(&self) -> Step {
        let labelled = (Standing::Label(Step::default()), Member(0));
        [self.standings.first(), self.standings.range(labelled..).next()]
            .into_iter()
            .flatten()
            .map(|(Standing::Limbo(step) | Standing::Label(step), _)| *step)
            .min()
            .unwrap_or(self.history.now())
    }

    fn is_known(&self, member: Member) -> bool {
        self.present.contains_key(&member) || self.is_queued(member)
    }
}
