//! Labels: what each member requires, directly or through others, as one version.
//!
//! A member's label is a lower bound on the version of any set of this scheduler that could ever agree and contains it. It
//! begins as the version that the member echoed, because a worker never goes back. It rises to the highest label in the set it
//! points to: whoever is in that set must be in the agreeing one too and brings its own bound along, or it has gone, and then the
//! agreeing set is later than its removal, and so later than anything its label said. That is why labels may be read
//! through those who are gone.
//!
//! One pass moves every label by one such step, which is usually all it takes. The highest label of each set is found by a
//! sweep over the history beside the members in the order of their labels: O((members + changes) · log members).

use std::collections::BTreeMap;

use super::history::Step;
use super::state::{Consensus, Member, Standing};
use crate::mutation::Mutation;

impl Consensus {
    /// One pass.
    pub(super) fn propagate(&mut self) {
        // All that there is to know, in the ordinary case.
        if self.standings.first().is_none_or(|(lowest, _)| *lowest == Standing::Label(self.history.now())) {
            return;
        }
        let mut raised = self.raised();
        // In the order of the maps, which is many times faster for a large fleet; so is one new index.
        raised.sort_unstable();
        for (member, label) in raised {
            if let Some(entry) = self.present.get_mut(&member) {
                entry.standing = Standing::Label(label);
            } else if let Some(gone) = self.history.departed.get_mut(&member) {
                gone.label = label;
            }
        }
        let standing_of = |member| self.present.get(&member).map(|entry| entry.standing);
        self.standings = std::mem::take(&mut self.standings)
            .into_iter()
            .map(|(before, member)| (standing_of(member).unwrap_or(before), member))
            .collect();
    }

    /// A member echoed this version: raises its label, or gives it its first.
    pub(super) fn raise(&mut self, member: Member, label: Step) {
        let Some(entry) = self.present.get_mut(&member) else { return };
        let raised = entry.standing.max(Standing::Label(label));
        let before = std::mem::replace(&mut entry.standing, raised);
        if before != raised && self.standings.remove(&(before, member)) {
            self.standings.insert((raised, member));
        }
    }

    /// The labels that are too low, and what they may rise to.
    fn raised(&self) -> Vec<(Member, Step)> {
        if self.broken_by(Mutation::TellingIsEnough) {
            return self.present.keys().map(|member| (*member, self.history.now())).collect();
        }
        let mut sweep = Sweep::default();
        for (&member, entry) in &self.present {
            if let Standing::Label(label) = entry.standing {
                sweep.joins.push((entry.first, label));
                sweep.labels.push((label, member));
            }
        }
        for (&member, gone) in &self.history.departed {
            sweep.joins.push((gone.first, gone.label));
            sweep.leaves.push((gone.removed, gone.label));
            sweep.labels.push((gone.label, member));
        }
        if self.broken_by(Mutation::StrangersRaiseLabels) {
            sweep.joins.iter_mut().for_each(|(first, _)| *first = Step::default());
        }
        sweep.run()
    }
}

/// One walk over the history.
#[derive(Default)]
struct Sweep {
    /// Who comes: the first set with it, and its label.
    joins: Vec<(Step, Step)>,
    /// Who goes: the first set without it, and its label.
    leaves: Vec<(Step, Step)>,
    /// Whose label points where.
    labels: Vec<(Step, Member)>,
}

impl Sweep {
    fn run(mut self) -> Vec<(Member, Step)> {
        self.joins.sort_unstable();
        self.leaves.sort_unstable();
        self.labels.sort_unstable();
        let (mut joins, mut leaves) = (self.joins.into_iter().peekable(), self.leaves.into_iter().peekable());
        let mut there = Multiset::default();
        let mut raised = Vec::new();
        for (step, member) in self.labels {
            while let Some((_, label)) = joins.next_if(|(first, _)| *first <= step) {
                there.add(label);
            }
            while let Some((_, label)) = leaves.next_if(|(removed, _)| *removed <= step) {
                there.remove(label);
            }
            if let Some(highest) = there.highest().filter(|highest| *highest > step) {
                raised.push((member, highest));
            }
        }
        raised
    }
}

/// The labels of those who are in the set that the walk has reached.
#[derive(Default)]
struct Multiset(BTreeMap<Step, u32>);

impl Multiset {
    fn add(&mut self, label: Step) {
        *self.0.entry(label).or_default() += 1;
    }

    fn remove(&mut self, label: Step) {
        if let Some(count) = self.0.get_mut(&label) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&label);
            }
        }
    }

    fn highest(&self) -> Option<Step> {
        self.0.last_key_value().map(|(label, _)| *label)
    }
}
