//! News on its way out: one update for each node, the least told and the most important first.
//!
//! A judgement as unreliable has a place of its own: the node it is about speaks, and its contradiction would otherwise
//! overtake the judgement and end it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

use crate::identity::NodeId;
use crate::message::{Status, UPDATE_BYTES_MAX, Update};

/// How much an update matters; the lower goes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Rank {
    /// A verdict, a contradiction, a leave.
    Verdict,
    /// A suspicion.
    Suspicion,
    /// A newcomer.
    Join,
}

/// Most updates in one datagram, however large datagrams may be.
const ITEMS_MAX: usize = 64;

/// What orders updates: how often told, how much it matters, newest first.
type Turn = (u32, Rank, Reverse<u64>, Slot);

/// One update for each.
type Slot = (NodeId, bool);

/// The queue.
#[derive(Debug, Default)]
pub(crate) struct Queue {
    updates: BTreeMap<Slot, (Turn, Update)>,
    turns: BTreeSet<Turn>,
    queued: u64,
}

impl Rank {
    /// What an update about a node already known is worth.
    pub(crate) fn of(status: Status) -> Self {
        if status == Status::Suspect { Rank::Suspicion } else { Rank::Verdict }
    }
}

impl Queue {
    /// Takes in an update; what was to be told about that node before is out of date.
    pub(crate) fn push(&mut self, update: Update, rank: Rank) {
        let slot = (update.node.id, update.status == Status::Unreliable);
        self.drop(slot);
        if update.status == Status::Left {
            self.drop((update.node.id, true));
        }
        self.queued += 1;
        let turn = (0, rank, Reverse(self.queued), slot);
        self.turns.insert(turn);
        self.updates.insert(slot, (turn, update));
    }

    fn drop(&mut self, slot: Slot) {
        if let Some((turn, _)) = self.updates.remove(&slot) {
            self.turns.remove(&turn);
        }
    }

    /// Adds the next updates to `updates`, as many as fit into `room` bytes; one told `most` times is done.
    pub(crate) fn take(&mut self, updates: &mut Vec<Update>, mut room: usize, most: u32) {
        if self.turns.is_empty() {
            return;
        }
        let mut taken = Vec::new();
        for turn in &self.turns {
            if room < UPDATE_BYTES_MAX || taken.len() == ITEMS_MAX {
                break;
            }
            let bytes = self.updates[&turn.3].1.bytes_max();
            // Whoever is named already has the better word.
            if bytes <= room && updates.iter().all(|said| said.node.id != turn.3.0) {
                room -= bytes;
                taken.push(*turn);
            }
        }
        for turn in taken {
            self.turns.remove(&turn);
            let Some(entry) = self.updates.get_mut(&turn.3) else { continue };
            updates.push(entry.1.clone());
            entry.0.0 += 1;
            if entry.0.0 >= most {
                self.updates.remove(&turn.3);
            } else {
                self.turns.insert(entry.0);
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.updates.len()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.updates.is_empty()
    }
}
