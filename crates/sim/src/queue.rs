//! The event queue of a world: a hierarchical timing wheel, ordered by (time, order of arrival).
//!
//! Time is cut into ticks of 65.5 µs. Events of later ticks wait unsorted in eight wheels of 64 slots, each wheel with
//! slots 64 times as long as those of the one below; a wheel's slot is emptied into the wheels below it when its time
//! comes. Only the events of the present tick are sorted, in a heap that is small because a tick is short. So an event
//! costs the same however many others wait.
//!
//! Nothing is ever cancelled: events carry the identity of what they were meant for, and come too late for nothing.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::time::Time;

/// A tick is 2^16 ns.
const TICK_BITS: u32 = 16;
/// A wheel has 2^6 slots.
const SLOT_BITS: u32 = 6;
const SLOTS: usize = 1 << SLOT_BITS;
/// Together with the tick these cover all 64 bits of time.
const WHEELS: usize = 8;

/// Events that wait for their time.
#[derive(Debug)]
pub struct Queue<E> {
    now: Time,
    /// All events of this tick and earlier ones are in `due`.
    tick: u64,
    due: BinaryHeap<Entry<E>>,
    wheels: Vec<Wheel<E>>,
    /// Emptied slots leave their room here for the next one.
    spare: Vec<Entry<E>>,
    pushed: u64,
    len: usize,
}

#[derive(Debug)]
struct Wheel<E> {
    /// One bit for each slot that is not empty.
    occupied: u64,
    slots: Vec<Vec<Entry<E>>>,
}

#[derive(Debug)]
struct Entry<E> {
    at: Time,
    sequence: u64,
    event: E,
}

impl<E> Queue<E> {
    /// An empty queue at the beginning of time.
    pub fn new() -> Self {
        let wheel = || Wheel { occupied: 0, slots: std::iter::repeat_with(Vec::new).take(SLOTS).collect() };
        Queue {
            now: Time::ZERO,
            tick: 0,
            due: BinaryHeap::new(),
            wheels: std::iter::repeat_with(wheel).take(WHEELS).collect(),
            spare: Vec::new(),
            pushed: 0,
            len: 0,
        }
    }

    /// The event happens at `at`; now, if that is past. Events of one moment happen in the order they were pushed.
    pub fn push(&mut self, at: Time, event: E) {
        let entry = Entry { at: at.max(self.now), sequence: self.pushed, event };
        self.pushed += 1;
        self.len += 1;
        self.place(entry);
    }

    /// The next event; its time is now the present.
    pub fn pop(&mut self) -> Option<(Time, E)> {
        while self.due.is_empty() {
            self.turn()?;
        }
        let entry = self.due.pop()?;
        self.len -= 1;
        self.now = entry.at;
        Some((entry.at, entry.event))
    }

    /// The time of the event that came last.
    pub fn now(&self) -> Time {
        self.now
    }

    /// How many events wait.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if none waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    fn place(&mut self, entry: Entry<E>) {
        let tick = entry.at.as_nanos() >> TICK_BITS;
        if tick <= self.tick {
            self.due.push(entry);
            return;
        }
        // The highest digit in which it differs from the present says which wheel brings it nearer.
        let wheel = (63 - (tick ^ self.tick).leading_zeros()) / SLOT_BITS;
        let slot = (tick >> (wheel * SLOT_BITS)) as usize % SLOTS;
        let wheel = &mut self.wheels[wheel as usize];
        wheel.occupied |= 1 << slot;
        wheel.slots[slot].push(entry);
    }

    /// Moves on to the next slot that is not empty; `None` if all are.
    fn turn(&mut self) -> Option<()> {
        // Whatever is on a lower wheel comes before everything on a higher one, and a wheel holds only slots ahead.
        let level = self.wheels.iter().position(|wheel| wheel.occupied != 0)?;
        let wheel = &mut self.wheels[level];
        let slot = wheel.occupied.trailing_zeros();
        wheel.occupied &= !(1 << slot);
        let mut batch = std::mem::replace(&mut wheel.slots[slot as usize], std::mem::take(&mut self.spare));
        let shift = level as u32 * SLOT_BITS;
        let above = self.tick.checked_shr(shift + SLOT_BITS).unwrap_or(0);
        self.tick = (above << SLOT_BITS | u64::from(slot)) << shift;
        for entry in batch.drain(..) {
            self.place(entry);
        }
        self.spare = batch;
        Some(())
    }
}

impl<E> Default for Queue<E> {
    fn default() -> Self {
        Self::new()
    }
}

impl<E> Ord for Entry<E> {
    /// The heap gives its greatest first, so the earliest is the greatest.
    fn cmp(&self, other: &Self) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

impl<E> PartialOrd for Entry<E> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<E> PartialEq for Entry<E> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl<E> Eq for Entry<E> {}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::rng::Rng;

    #[test]
    fn events_of_one_moment_keep_their_order() {
        let mut queue = Queue::new();
        for number in 0..100 {
            queue.push(Time::from_millis(7), number);
        }
        queue.push(Time::from_nanos(1), 100);
        let order: Vec<i32> = std::iter::from_fn(|| queue.pop()).map(|(_, number)| number).collect();
        assert_eq!(order[0], 100);
        assert_eq!(order[1..], (0..100).collect::<Vec<_>>());
    }

    #[test]
    fn the_past_is_now() {
        let mut queue = Queue::new();
        queue.push(Time::from_millis(5), "late");
        queue.pop();
        queue.push(Time::ZERO, "past");
        assert_eq!(queue.pop(), Some((Time::from_millis(5), "past")));
        assert_eq!(queue.pop(), None);
    }

    #[test]
    fn the_ends_of_time_can_be_waited_for() {
        let mut queue = Queue::new();
        queue.push(Time::MAX, "never");
        queue.push(Time::from_nanos(u64::MAX - 1), "hardly");
        queue.push(Time::ZERO, "now");
        let order: Vec<&str> = std::iter::from_fn(|| queue.pop()).map(|(_, event)| event).collect();
        assert_eq!(order, ["now", "hardly", "never"]);
    }

    /// Spans of every size up to this many bits, beside a plain ordered set.
    fn check_against_a_sorted_set(bits_max: u64) {
        let mut rng = Rng::stream(7, bits_max, "queue");
        let (mut queue, mut sorted) = (Queue::new(), BTreeSet::new());
        for sequence in 0..100_000u64 {
            let ahead = rng.bits() >> (64 - rng.between(1, bits_max));
            let at = Time::from_nanos(queue.now().as_nanos().saturating_add(ahead));
            queue.push(at, sequence);
            sorted.insert((at, sequence));
            while rng.chance(0.5) {
                assert_eq!(queue.pop(), sorted.pop_first());
            }
            assert_eq!(queue.len(), sorted.len());
        }
        while let Some(next) = sorted.pop_first() {
            assert_eq!(queue.pop(), Some(next));
        }
        assert!(queue.is_empty() && queue.pop().is_none());
    }

    #[test]
    fn gives_what_a_sorted_set_gives() {
        // Within a few ticks, within a minute, over years.
        [18, 36, 60].into_iter().for_each(check_against_a_sorted_set);
    }
}
