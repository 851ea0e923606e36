//! All rows, by id.
//!
//! Whoever asks for a job asks for its neighbours next: they were submitted, claimed or ended together. So the places of
//! neighbours are in one block, and the block that was changed last is at hand.

use std::ops::{Bound, Index, RangeBounds};

use model::JobId;

use super::handy::{Handy, Vacant};
use super::job_set::{BLOCK, Block, block_of};
use super::row::Row;
use super::slab::Slab;

/// The place of a job that is not here.
const NOWHERE: u32 = u32::MAX;

/// The rows.
#[derive(Default)]
pub(super) struct Jobs {
    /// Boxed, since entries of a map are moved about.
    blocks: Handy<Block, Box<Places>>,
    rows: Slab<Row>,
}

/// Where the rows of a block are.
struct Places {
    of: [u32; BLOCK],
    taken: usize,
}

impl Jobs {
    /// Enters a row that is not here yet, and hands it out to be changed where it is: it is large.
    #[inline]
    pub(super) fn insert(&mut self, row: Row) -> &mut Row {
        let (block, place) = block_of(row.id);
        let places = self.blocks.at(&block);
        debug_assert!(places.of[place] == NOWHERE, "a job is entered once");
        let number = self.rows.insert(row);
        places.of[place] = number;
        places.taken += 1;
        &mut self.rows[number]
    }

    /// Removes a row that is here.
    pub(super) fn remove(&mut self, id: JobId) {
        let (block, place) = block_of(id);
        let places = self.blocks.at(&block);
        self.rows.remove(std::mem::replace(&mut places.of[place], NOWHERE));
        places.taken -= 1;
    }

    pub(super) fn get_mut(&mut self, id: JobId) -> Option<&mut Row> {
        let (block, place) = block_of(id);
        let row = self.blocks.at(&block).of[place];
        (row != NOWHERE).then(|| &mut self.rows[row])
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
        let rows = blocks.flat_map(|(_, places)| &places.of);
        let rows = rows.filter(|row| **row != NOWHERE).map(|row| &self.rows[*row]);
        rows.filter(move |row| ids.contains(&row.id))
    }

    fn row_of(&self, id: JobId) -> Option<u32> {
        let (block, place) = block_of(id);
        Some(self.blocks.get(&block)?.of[place]).filter(|row| *row != NOWHERE)
    }
}

impl Default for Places {
    fn default() -> Self {
        Places { of: [NOWHERE; BLOCK], taken: 0 }
    }
}

impl Vacant for Box<Places> {
    fn is_vacant(&self) -> bool {
        self.taken == 0
    }
}

impl Index<JobId> for Jobs {
    type Output = Row;

    fn index(&self, id: JobId) -> &Row {
        self.get(id).expect("only jobs that are here are looked at")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use bytes::Bytes;
    use model::{Kind, NewJob, QueueName, WallTime};

    use super::*;

    /// Ids near each other, in three places far apart.
    fn id(number: u64) -> JobId {
        let number = (u128::from(number % 3) << 64) + (1 << 64) - 50 + u128::from(number / 3);
        JobId::from_bytes(number.to_be_bytes())
    }

    fn row(id: JobId) -> Row {
        let mut new =
            NewJob::new(id, QueueName::new("q").unwrap(), Kind::new("k").unwrap(), Bytes::from_static(b"p"));
        Row::new(WallTime::from_millis(1), &mut new, 0, 1)
    }

    #[test]
    fn they_are_the_ordered_map_of_what_was_entered_and_not_removed() {
        let (mut jobs, mut model) = (Jobs::default(), BTreeSet::new());
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        for step in 0..10_000 {
            let one = id(below(600));
            assert_eq!(jobs.contains(one), model.contains(&one));
            assert_eq!(jobs.get(one).map(|row| row.id), model.get(&one).copied());
            // It fills up and empties in turn.
            match (step / 1_000 % 2 == 0, model.contains(&one)) {
                (true, false) => {
                    jobs.insert(row(one));
                    model.insert(one);
                    assert_eq!(jobs[one].id, one);
                }
                (false, true) => {
                    jobs.remove(one);
                    model.remove(&one);
                }
                (_, is_there) => assert_eq!(jobs.get_mut(one).is_some(), is_there),
            }
            if step % 100 == 0 {
                let (start, end) = (one, id(below(600)).max(one));
                let inclusive = jobs.range(start..=end).map(|row| row.id);
                assert!(inclusive.eq(model.range(start..=end).copied()));
                let above = (Bound::Excluded(start), Bound::Unbounded);
                assert!(jobs.range(above).map(|row| row.id).eq(model.range(above).copied()));
                let newest = jobs.range(..end).rev().map(|row| row.id);
                assert!(newest.eq(model.range(..end).rev().copied()));
            }
        }
        model.iter().for_each(|id| jobs.remove(*id));
        assert!(jobs.blocks.is_empty() && jobs.range(..).next().is_none(), "an empty block is not kept");
    }
}
