//! Things under small numbers, side by side in memory, without an allocation for each.

use std::ops::{Index, IndexMut};

/// How many things are allocated together. Their room is given back when all of them are gone.
const CHUNK: usize = 64;

/// Gives each thing a number, which is used again after it.
pub(super) struct Slab<T> {
    chunks: Vec<Chunk<T>>,
    /// The chunks that have room.
    open: Vec<u32>,
}

struct Chunk<T> {
    things: Vec<Option<T>>,
    free: Vec<u8>,
}

impl<T> Slab<T> {
    #[inline]
    pub(super) fn insert(&mut self, thing: T) -> u32 {
        if self.open.is_empty() {
            self.open.push(self.chunks.len() as u32);
            self.chunks.push(Chunk { things: Vec::new(), free: Vec::new() });
        }
        let number = *self.open.last().expect("one was opened if there was none");
        let chunk = &mut self.chunks[number as usize];
        let place = match chunk.free.pop() {
            Some(place) => {
                chunk.things[usize::from(place)] = Some(thing);
                usize::from(place)
            }
            None => {
                if chunk.things.is_empty() {
                    chunk.things.reserve_exact(CHUNK);
                }
                chunk.things.push(Some(thing));
                chunk.things.len() - 1
            }
        };
        if chunk.free.is_empty() && chunk.things.len() == CHUNK {
            self.open.pop();
        }
        number * CHUNK as u32 + place as u32
    }

    pub(super) fn remove(&mut self, number: u32) {
        let (number, place) = (number / CHUNK as u32, number as usize % CHUNK);
        let chunk = &mut self.chunks[number as usize];
        debug_assert!(chunk.things[place].is_some(), "only what is there is removed");
        chunk.things[place] = None;
        if chunk.free.is_empty() && chunk.things.len() == CHUNK {
            self.open.push(number);
        }
        chunk.free.push(place as u8);
        if chunk.free.len() == chunk.things.len() {
            *chunk = Chunk { things: Vec::new(), free: Vec::new() };
        }
    }
}

impl<T> Default for Slab<T> {
    fn default() -> Self {
        Slab { chunks: Vec::new(), open: Vec::new() }
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
    fn what_is_there_has_a_number_of_its_own_and_room_is_given_back() {
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
        assert!(slab.chunks.iter().all(|chunk| chunk.things.capacity() == 0));
    }
}
