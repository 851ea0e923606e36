//! Whom to probe next: a random order of all members, drawn while it is walked, so that a new pass costs nothing.
//!
//! Every member comes once in a pass, hence at most `2n − 1` probes after its last turn. Members who have gone stay in the
//! list until their turn comes; the caller drops them then.

use model::splitmix::SplitMix;

use crate::identity::NodeId;

/// The order. `ids[..walked]` had their turn in this pass.
#[derive(Debug, Default)]
pub(crate) struct Order {
    ids: Vec<NodeId>,
    walked: usize,
}

impl Order {
    /// Puts a newcomer at a random place of this pass, before or behind the present one.
    pub(crate) fn insert(&mut self, id: NodeId, random: &mut SplitMix) {
        self.ids.push(id);
        let last = self.ids.len() - 1;
        if random.index(self.ids.len()) < self.walked {
            self.ids.swap(self.walked, last);
            self.walked += 1;
        }
    }

    /// Mixes all. Only where neighbours must be strangers from the very beginning: each pass mixes as it goes.
    pub(crate) fn shuffle(&mut self, random: &mut SplitMix) {
        for last in (1..self.ids.len()).rev() {
            self.ids.swap(last, random.index(last + 1));
        }
    }

    /// Draws the next.
    pub(crate) fn next(&mut self, random: &mut SplitMix) -> Option<NodeId> {
        if self.walked >= self.ids.len() {
            self.walked = 0;
        }
        let left = self.ids.len() - self.walked;
        if left == 0 {
            return None;
        }
        let drawn = self.walked + random.index(left);
        self.ids.swap(self.walked, drawn);
        self.walked += 1;
        Some(self.ids[self.walked - 1])
    }

    /// Takes the one just drawn out of the order.
    pub(crate) fn drop_drawn(&mut self) {
        debug_assert!(self.walked > 0, "one was drawn");
        self.walked -= 1;
        self.ids.swap_remove(self.walked);
    }

    /// Up to `most` of them, one after the other from a random place. The order itself is random, so neighbours are too.
    pub(crate) fn walk_from_anywhere(
        &self,
        most: usize,
        random: &mut SplitMix,
    ) -> impl Iterator<Item = NodeId> + '_ {
        let start = random.index(self.ids.len());
        let (before, after) = self.ids.split_at(start);
        after.iter().chain(before).copied().take(most)
    }

    pub(crate) fn len(&self) -> usize {
        self.ids.len()
    }
}
