//! The other members, packed: ten thousand machines of ten thousand members each must fit into one simulator.
//!
//! Entries lie in a vector, found through an open-addressed index. All changes go through [`Table::change`], which keeps
//! the counts and the digest in step, so neither is ever computed over all members.

use model::Instant;
use model::splitmix::mix;

use crate::identity::{Epoch, Identity, Incarnation, NodeId, SharedInfo};
use crate::io::State;

/// What is always known about a member. Rare things (suspicions, flaps, rounds) are kept elsewhere.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    pub(crate) info: SharedInfo,
    pub(crate) since: Instant,
    pub(crate) id: NodeId,
    pub(crate) epoch: Epoch,
    pub(crate) incarnation: Incarnation,
    pub(crate) state: State,
    /// Dead, but it speaks: judged as unreliable.
    pub(crate) unreliable: bool,
    /// It is in the probing order.
    pub(crate) listed: bool,
}

/// All other members, gone ones included until they are forgotten.
#[derive(Debug)]
pub(crate) struct Table {
    entries: Vec<Entry>,
    /// One more than the place in `entries`, 0 where there is none; its length is a power of two.
    index: Vec<u32>,
    by_state: [usize; 5],
    digest: u64,
    /// A deliberate bug: the dead count too.
    digest_skips_death: bool,
}

impl Entry {
    pub(crate) fn identity(&self) -> Identity {
        Identity { id: self.id, epoch: self.epoch }
    }

    fn key(&self) -> (State, Identity, Incarnation) {
        (self.state, self.identity(), self.incarnation)
    }
}

impl Table {
    pub(crate) fn new(digest_skips_death: bool) -> Self {
        Table { entries: Vec::new(), index: vec![0; 8], by_state: [0; 5], digest: 0, digest_skips_death }
    }

    /// Switches a deliberate bug on, before anybody is taken in.
    pub(crate) fn skip_death_in_digest(&mut self, skip: bool) {
        self.digest_skips_death = skip;
    }

    /// Makes room for this many more at once.
    pub(crate) fn reserve(&mut self, more: usize) {
        self.entries.reserve_exact(more);
        let cells = ((self.entries.len() + more + 1) * 2).next_power_of_two();
        self.reindex(cells.max(self.index.len()));
    }

    pub(crate) fn get(&self, id: NodeId) -> Option<&Entry> {
        self.place(id).map(|place| &self.entries[place])
    }

    /// Takes in a node that is not here yet.
    pub(crate) fn insert(&mut self, entry: Entry) {
        debug_assert!(self.get(entry.id).is_none(), "a node has one entry");
        if (self.entries.len() + 1) * 2 > self.index.len() {
            self.reindex(self.index.len() * 2);
        }
        self.count(entry.key());
        let free = self.free_cell(entry.id);
        self.index[free] = self.entries.len() as u32 + 1;
        self.entries.push(entry);
    }

    /// Changes a node's entry, and says what it is now.
    pub(crate) fn change(&mut self, id: NodeId, change: impl FnOnce(&mut Entry)) -> Option<&Entry> {
        let place = self.place(id)?;
        self.uncount(self.entries[place].key());
        change(&mut self.entries[place]);
        self.count(self.entries[place].key());
        Some(&self.entries[place])
    }

    /// Forgets the nodes of which this is true, and says who they were.
    pub(crate) fn forget(&mut self, mut over: impl FnMut(&Entry) -> bool) -> Vec<Identity> {
        let mut forgotten = Vec::new();
        self.entries.retain(|entry| {
            let gone = over(entry);
            if gone {
                forgotten.push(entry.clone());
            }
            !gone
        });
        for entry in &forgotten {
            self.uncount(entry.key());
        }
        if !forgotten.is_empty() {
            self.reindex(self.index.len());
        }
        forgotten.iter().map(Entry::identity).collect()
    }

    /// All, in no particular (but always the same) order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn in_state(&self, state: State) -> usize {
        self.by_state[state as usize]
    }

    /// How many others count as members.
    pub(crate) fn present(&self) -> usize {
        self.in_state(State::Alive) + self.in_state(State::ProbeFailed) + self.in_state(State::Suspected)
    }

    /// The hash over all others that count as members.
    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    /// The hashes of the view by bucket.
    pub(crate) fn buckets(&self, count: usize) -> Vec<u64> {
        let mut buckets = vec![0; count];
        for entry in &self.entries {
            if self.counts_in_digest(entry.state) {
                buckets[bucket_of(entry.id, count)] ^= hash_of(entry.identity(), entry.incarnation);
            }
        }
        buckets
    }

    fn counts_in_digest(&self, state: State) -> bool {
        state.is_present() || self.digest_skips_death && state == State::Dead
    }

    fn count(&mut self, (state, node, incarnation): (State, Identity, Incarnation)) {
        self.by_state[state as usize] += 1;
        if self.counts_in_digest(state) {
            self.digest ^= hash_of(node, incarnation);
        }
    }

    fn uncount(&mut self, (state, node, incarnation): (State, Identity, Incarnation)) {
        self.by_state[state as usize] -= 1;
        if self.counts_in_digest(state) {
            self.digest ^= hash_of(node, incarnation);
        }
    }

    fn place(&self, id: NodeId) -> Option<usize> {
        let mask = self.index.len() - 1;
        let mut cell = mix(u64::from(id.0)) as usize & mask;
        loop {
            let place = (self.index[cell] as usize).checked_sub(1)?;
            if self.entries[place].id == id {
                return Some(place);
            }
            cell = (cell + 1) & mask;
        }
    }

    fn free_cell(&self, id: NodeId) -> usize {
        let mask = self.index.len() - 1;
        let mut cell = mix(u64::from(id.0)) as usize & mask;
        while self.index[cell] != 0 {
            cell = (cell + 1) & mask;
        }
        cell
    }

    fn reindex(&mut self, cells: usize) {
        self.index.clear();
        self.index.resize(cells, 0);
        for place in 0..self.entries.len() {
            let free = self.free_cell(self.entries[place].id);
            self.index[free] = place as u32 + 1;
        }
    }
}

/// What one member adds to a digest.
pub(crate) fn hash_of(node: Identity, incarnation: Incarnation) -> u64 {
    let who = mix(u64::from(node.id.0) << 32 | u64::from(node.epoch.0));
    mix(who ^ u64::from(incarnation.0).wrapping_mul(0x9e37_79b9_7f4a_7c15))
}

/// Which of `count` buckets (a power of two) a node is in.
pub(crate) fn bucket_of(id: NodeId, count: usize) -> usize {
    (mix(u64::from(id.0) ^ 0x6275_636b) as usize) & (count - 1)
}
