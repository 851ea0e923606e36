//! All rows, by id.
//!
//! Whoever asks for a job asks for its neighbours next: they were submitted, claimed or ended together. So the places of
//! neighbours are in one block, and the block that was found last is tried first.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::ops::{Bound, Index, RangeBounds};

use model::JobId;

use super::job_set::{BLOCK, Block, block_of};
use super::row::Row;
use super::slab::Slab;

/// The place of a job that is not here.
const NOWHERE: u32 = u32::MAX;

/// The rows.
#[derive(Default)]
pub(super) struct Jobs {
    blocks: BTreeMap<Block, u32>,
    places: Slab<Places>,
    rows: Slab<Row>,
    /// The block that was found last, if it is still there, and where.
    last: Cell<Option<(Block, u32)>>,
}

/// Where the rows of a block are.
struct Places {
    of: [u32; BLOCK],
    taken: usize,
}

impl Jobs {
    /// Enters a row that is not here yet.
    pub(super) fn insert(&mut self, row: Row) {
        let (block, place) = block_of(row.id);
        let number = self.find(block).unwrap_or_else(|| {
            let number = self.places.insert(Places { of: [NOWHERE; BLOCK], taken: 0 });
            self.blocks.insert(block, number);
            self.last.set(Some((block, number)));
            number
        });
        let places = &mut self.places[number];
        debug_assert!(places.of[place] == NOWHERE, "a job is entered once");
        places.of[place] = self.rows.insert(row);
        places.taken += 1;
    }

    pub(super) fn remove(&mut self, id: JobId) -> Option<Row> {
        let (block, place) = block_of(id);
        let number = self.find(block)?;
        let places = &mut self.places[number];
        let row = std::mem::replace(&mut places.of[place], NOWHERE);
        if row == NOWHERE {
            return None;
        }
        places.taken -= 1;
        if places.taken == 0 {
            self.places.remove(number);
            self.blocks.remove(&block);
            self.last.set(None);
        }
        Some(self.rows.remove(row))
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Row> {
        let row = self.row_of(id)?;
        Some(&mut self.rows[row])
    }

    pub(super) fn get(&self, id: JobId) -> Option<&Row> {
        self.row_of(id).map(|row| &self.rows[row])
    }

    pub(super) fn contains(&self, id: JobId) -> bool {
        self.row_of(id).is_some()
    }

    /// Those with these ids, in their order.
    pub(super) fn range(&self, ids: impl RangeBounds<JobId>) -> impl DoubleEndedIterator<Item = &Row> {
        let within = |bound: Bound<&JobId>| match bound {
            Bound::Included(id) | Bound::Excluded(id) => Bound::Included(block_of(*id).0),
            Bound::Unbounded => Bound::Unbounded,
        };
        let blocks = self.blocks.range((within(ids.start_bound()), within(ids.end_bound())));
        let rows = blocks.flat_map(|(_, number)| &self.places[*number].of);
        let rows = rows.filter(|row| **row != NOWHERE).map(|row| &self.rows[*row]);
        rows.filter(move |row| ids.contains(&row.id))
    }

    fn row_of(&self, id: JobId) -> Option<u32> {
        let (block, place) = block_of(id);
        Some(self.places[self.find(block)?].of[place]).filter(|row| *row != NOWHERE)
    }

    fn find(&self, block: Block) -> Option<u32> {
        match self.last.get() {
            Some((last, number)) if last == block => Some(number),
            _ => {
                let number = *self.blocks.get(&block)?;
                self.last.set(Some((block, number)));
                Some(number)
            }
        }
    }
}

impl Index<JobId> for Jobs {
    type Output = Row;

    fn index(&self, id: JobId) -> &Row {
        self.get(id).expect("only jobs that are here are looked at")
    }
}
