//! Jobs in the order of a key, then of their ids.
//!
//! Ids that follow each other mostly have the same key: they were submitted, claimed or ended together. So neighbours are
//! kept together, 64 under one entry, and nearly all that is done here is done to an entry that is there.

use model::JobId;

use super::handy::{Handy, Vacant};

/// What an id has in common with its neighbours.
pub(super) type Block = (u64, u64);

/// How many neighbours there are in a block.
pub(super) const BLOCK: usize = u64::BITS as usize;

/// The block of an id, and its place therein.
pub(super) fn block_of(id: JobId) -> (Block, usize) {
    let [high, low] = id.halves();
    ((high, low / BLOCK as u64), low as usize % BLOCK)
}

/// The id at a place of a block.
fn id_at(block: Block, place: usize) -> JobId {
    let (high, low) = block;
    JobId::from_halves([high, low * BLOCK as u64 + place as u64])
}

/// A set of keys and ids, in their order.
#[derive(Debug)]
pub(super) struct JobSet<K> {
    /// Of each block which places are taken.
    blocks: Handy<(K, Block), u64>,
}

impl<K: Ord + Copy> JobSet<K> {
    pub(super) fn insert(&mut self, key: K, id: JobId) {
        let (block, place) = block_of(id);
        *self.blocks.at(&(key, block)) |= 1 << place;
    }

    pub(super) fn remove(&mut self, key: K, id: JobId) {
        let (block, place) = block_of(id);
        *self.blocks.at(&(key, block)) &= !(1 << place);
    }

    pub(super) fn first(&self) -> Option<(K, JobId)> {
        let ((key, block), places) = self.blocks.first()?;
        Some((*key, id_at(*block, places.trailing_zeros() as usize)))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.blocks.is_empty()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (K, JobId)> {
        let places = |places: u64| (0..BLOCK).filter(move |place| places & (1 << place) != 0);
        self.blocks
            .iter()
            .flat_map(move |((key, block), taken)| places(*taken).map(|place| (*key, id_at(*block, place))))
    }
}

impl<K> Default for JobSet<K> {
    fn default() -> Self {
        JobSet { blocks: Handy::default() }
    }
}

impl<K: Ord + Copy> Vacant for JobSet<K> {
    fn is_vacant(&self) -> bool {
        self.is_empty()
    }
}

/// Places of a block, or a number of things.
impl Vacant for u64 {
    fn is_vacant(&self) -> bool {
        *self == 0
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn it_is_the_ordered_set_of_what_was_inserted_and_not_removed() {
        let (mut jobs, mut model) = (JobSet::default(), BTreeSet::new());
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        for _ in 0..20_000 {
            // Near each other, and over every border between bytes.
            let number = (u128::from(below(2)) << 64) + (1 << 64) - 100 + u128::from(below(200));
            let (key, id) = (below(4), JobId::from_bytes(number.to_be_bytes()));
            if below(3) == 0 {
                jobs.insert(key, id);
                model.insert((key, id));
            } else {
                jobs.remove(key, id);
                model.remove(&(key, id));
            }
            assert_eq!(jobs.first(), model.first().copied());
            assert_eq!(jobs.is_empty(), model.is_empty());
        }
        assert!(jobs.iter().eq(model.iter().copied()));
        model.iter().for_each(|(key, id)| jobs.remove(*key, *id));
        assert!(jobs.is_empty(), "an empty block is not kept");
    }
}
