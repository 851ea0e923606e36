//! Things under small numbers, side by side in memory, without an allocation for each.

use std::ops::{Index, IndexMut};

/// How many things are allocated together.
const CHUNK: usize = u64::BITS as usize;
/// Room that is kept although nothing is in it, in chunks: things that come as fast as others go need none from elsewhere.
const IDLE_MAX: usize = 32;

/// Gives each thing a number, which is used again after it.
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have room.
    open: Vec<u32>,
    /// How many chunks are empty and keep their room.
    idle: usize,
}

struct Chunk<T> {
    things: Vec<Option<T>>,
    /// Which places are free again.
    free: u64,
}

impl<T> Slab<T> {
    #[inline]
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if self.open.is_empty() {
            self.open.push(self.chunks.len() as u32);
            self.chunks.push(Chunk::default());
        }
        let number = *self.open.last().expect("one was opened if there was none");
        let chunk = &mut self.chunks[number as usize];
        self.idle -= usize::from(chunk.is_idle());
        let place = chunk.insert(thing);
        if chunk.is_full() {
            self.open.pop();
        }
        number * CHUNK as u32 + place as u32
    }

    pub(super) fn remove(&mut self, number: u32) {
        let (number, place) = (number / CHUNK as u32, number as usize % CHUNK);
        let chunk = &mut self.chunks[number as usize];
        debug_assert!(chunk.things[place].is_some(), "only what is there is removed");
        if chunk.is_full() {
            self.open.push(number);
        }
        chunk.things[place] = None;
        chunk.free |= 1 << place;
        if chunk.is_idle() {
            if self.idle < IDLE_MAX {
                self.idle += 1;
            } else {
                *chunk = Chunk::default();
            }
        }
    }
}

impl<T> Chunk<T> {
    #[inline]
    fn insert(&mut self, thing: T) -> usize {
        if self.free == 0 {
            if self.things.is_empty() {
                self.things.reserve_exact(CHUNK);
            }
            self.things.push(Some(thing));
            return self.things.len() - 1;
        }
        let place = self.free.trailing_zeros() as usize;
        self.free &= self.free - 1;
        self.things[place] = Some(thing);
        place
    }

    fn is_full(&self) -> bool {
        self.things.len() == CHUNK && self.free == 0
    }

    /// Whether it has room, and all of it is free.
    fn is_idle(&self) -> bool {
        !self.things.is_empty() && self.free.count_ones() as usize == self.things.len()
    }
}

impl<T> Default for Chunk<T> {
    fn default() -> Self {
        Chunk { things: Vec::new(), free: 0 }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), open: Vec::new(), idle: 0 }
    }
}

impl<T> Index<u32> for Slab<T> {
    type Output = T;

    fn index(&self, number: u32) -> &T {
        let thing = &self.chunks[number as usize / CHUNK].things[number as usize % CHUNK];
        thing.as_ref().expect("only what is there is looked at")
    }
}

impl<T> IndexMut<u32> for Slab<T> {
    fn index_mut(&mut self, number: u32) -> &mut T {
        let thing = &mut self.chunks[number as usize / CHUNK].things[number as usize % CHUNK];
        thing.as_mut().expect("only what is there is changed")
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;

    #[test]
    fn what_is_there_has_a_number_of_its_own() {
        let (mut slab, mut model) = (Slab::default(), BTreeMap::new());
        let mut random = 1_u64;
        for step in 0..20_000_u64 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let grows = step % 2_000 < 1_000;
            if grows || model.is_empty() {
                assert_eq!(model.insert(slab.insert(step), step), None, "the number of another one");
            } else {
                let at = (random >> 33) as usize % model.len();
                let (number, thing) = model.iter().nth(at).map(|(number, thing)| (*number, *thing)).unwrap();
                assert_eq!(slab[number], thing);
                slab.remove(number);
                model.remove(&number);
            }
        }
        assert!(slab.chunks.len() <= 1_000_usize.div_ceil(CHUNK), "numbers are used again");
        model.into_keys().for_each(|number| slab.remove(number));
        assert!(slab.chunks.iter().all(|chunk| chunk.things.iter().all(Option::is_none)));
    }

    #[test]
    fn room_is_given_back_but_for_a_little() {
        let mut slab = Slab::default();
        for _ in 0..2 {
            let numbers: Vec<u32> = (0..100 * CHUNK).map(|thing| slab.insert(thing)).collect();
            assert_eq!((slab.chunks.len(), slab.idle), (100, 0));
            numbers.into_iter().for_each(|number| slab.remove(number));
            let with_room = slab.chunks.iter().filter(|chunk| chunk.things.capacity() > 0).count();
            assert_eq!((with_room, slab.idle), (IDLE_MAX, IDLE_MAX));
        }
    }
}
