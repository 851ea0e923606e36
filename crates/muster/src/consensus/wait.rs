//! The initial wait: how a scheduler that knows nothing finds out that it has heard from everybody.
//!
//! It ends when nobody is NEW, everybody brought the same id from one scheduler before, and that id names exactly the workers
//! that are here; or when so much time has passed that whoever was not heard of has stopped. It never begins again.

use std::collections::{BTreeMap, BTreeSet};

use model::Generation;

use super::state::{Consensus, Member, Standing};
use crate::mutation::Mutation;
use crate::set::{SetHash, SetId};

/// How the wait ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum How {
    /// All that are here brought the id of exactly this set.
    Agreed,
    /// Whoever was not heard of has stopped by now.
    SafeWait,
    /// Somebody chose a shorter wait: tasks may run twice.
    Unsafe,
}

/// Whether the wait goes on, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// For these reasons; the safe wait ends all but [`Reason::New`].
    Waiting(Vec<Reason>),
    /// It is over, for good.
    Over {
        /// Why.
        how: How,
    },
}

/// What keeps a scheduler waiting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No worker was heard of yet.
    Nobody,
    /// What these run is not known yet.
    New {
        /// One of them.
        member: Member,
        /// How many they are.
        count: usize,
    },
    /// These belonged to no scheduler before, or none told them an id.
    NoId {
        /// One of them.
        member: Member,
        /// How many they are.
        count: usize,
    },
    /// These two brought different ids.
    IdsDiffer {
        /// One of them.
        one: Member,
        /// The other.
        other: Member,
    },
    /// All brought the same id, of another set than those who are here.
    OtherSet {
        /// How many workers that set has.
        expected: u32,
        /// How many are here.
        present: u32,
    },
}

/// Where the scheduler is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    Waiting(Waiting),
    Over(How),
}

impl Default for Phase {
    fn default() -> Self {
        Phase::Waiting(Waiting::default())
    }
}

/// An id in a form that has an order. The order means nothing.
type Sorted = (Generation, u64, SetHash);

/// What is known during the wait.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Waiting {
    /// What each present member brought.
    brought: BTreeMap<Member, Option<Sorted>>,
    /// How many brought what.
    counts: BTreeMap<Option<Sorted>, u32>,
    /// Whose tasks are not known. Who was heard of after the time was over can run none, and is not in here.
    new: BTreeSet<Member>,
    time_over: Option<How>,
}

impl Waiting {
    pub(super) fn joined(&mut self, member: Member, initial: Option<SetId>) {
        let initial = initial.map(|id| (id.generation, id.version.0, id.hash));
        self.brought.insert(member, initial);
        *self.counts.entry(initial).or_default() += 1;
        if self.time_over.is_none() {
            self.new.insert(member);
        }
    }

    pub(super) fn fetched(&mut self, member: Member) {
        self.new.remove(&member);
    }

    pub(super) fn lost(&mut self, member: Member) {
        self.new.remove(&member);
        let Some(initial) = self.brought.remove(&member) else { return };
        if let Some(count) = self.counts.get_mut(&initial) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&initial);
            }
        }
    }

    /// The members of the one set that all brought.
    fn agreed(&self) -> Option<SetHash> {
        let (id, _) = self.counts.first_key_value().filter(|_| self.counts.len() == 1)?;
        id.map(|(_, _, hash)| hash)
    }

    fn reasons(&self, present: SetHash) -> Vec<Reason> {
        let mut reasons = Vec::new();
        if self.brought.is_empty() {
            reasons.push(Reason::Nobody);
        }
        if let Some(&member) = self.new.first() {
            reasons.push(Reason::New { member, count: self.new.len() });
        }
        let mut without = self.brought.iter().filter(|(_, initial)| initial.is_none()).peekable();
        if let Some(&(&member, _)) = without.peek() {
            reasons.push(Reason::NoId { member, count: without.count() });
        }
        let mut with = self.brought.iter().filter_map(|(&member, initial)| Some((member, (*initial)?)));
        if let Some((one, id)) = with.next()
            && let Some((other, _)) = with.find(|(_, other)| *other != id)
        {
            reasons.push(Reason::IdsDiffer { one, other });
        }
        if let Some(agreed) = self.agreed().filter(|agreed| *agreed != present) {
            reasons.push(Reason::OtherSet { expected: agreed.count, present: present.count });
        }
        reasons
    }
}

impl Consensus {
    /// True until the wait is over.
    pub fn is_waiting(&self) -> bool {
        matches!(self.phase, Phase::Waiting(_))
    }

    /// Whether the wait goes on, and why. Looks at all members; for people.
    pub fn wait(&self) -> Wait {
        match &self.phase {
            Phase::Waiting(waiting) => Wait::Waiting(waiting.reasons(self.history.hash())),
            Phase::Over(how) => Wait::Over { how: *how },
        }
    }

    /// Leaves the wait if it is over. Cheap, so that a caller can look after every change.
    pub fn leave_wait(&mut self) -> Option<How> {
        let how = self.reason_to_leave()?;
        self.phase = Phase::Over(how);
        self.begin_alike();
        Some(how)
    }

    /// Nobody was told of any set before this one, so who came when no longer matters.
    fn begin_alike(&mut self) {
        let first = self.history.now();
        self.standings.clear();
        for (&member, entry) in &mut self.present {
            entry.first = first;
            entry.standing = Standing::Limbo(first);
            self.standings.insert((entry.standing, member));
        }
    }

    pub(super) fn time_over(&mut self, how: How) {
        if let Phase::Waiting(waiting) = &mut self.phase {
            waiting.time_over.get_or_insert(how);
        }
    }

    fn reason_to_leave(&self) -> Option<How> {
        let Phase::Waiting(waiting) = &self.phase else { return None };
        if !waiting.new.is_empty() && !self.broken_by(Mutation::NewIgnored) {
            return None;
        }
        let agreed = waiting.agreed();
        let is_this_set = agreed == Some(self.history.hash())
            || (agreed.is_some() && self.broken_by(Mutation::HashIgnored));
        if is_this_set { Some(How::Agreed) } else { waiting.time_over }
    }
}
