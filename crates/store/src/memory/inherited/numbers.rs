//! A set of numbers that mostly follow each other, kept as runs. Its size is the number of gaps.

use std::collections::BTreeMap;

/// The numbers, as the first and last of each run. Runs never touch.
#[derive(Debug, Default)]
pub(super) struct Numbers(BTreeMap<u64, u64>);

impl Numbers {
    /// Adds one.
    pub(super) fn insert(&mut self, number: u64) {
        // Mostly the one after the last.
        if let Some(mut last) = self.0.last_entry()
            && *last.get() + 1 == number
        {
            *last.get_mut() = number;
            return;
        }
        if self.contains(number) {
            return;
        }
        let before = self.0.range(..number).next_back().map(|(first, last)| (*first, *last));
        let first = before.filter(|(_, last)| last + 1 == number).map_or(number, |(first, _)| first);
        let last = self.0.remove(&(number + 1)).unwrap_or(number);
        self.0.insert(first, last);
    }

    /// Removes all below this one.
    pub(super) fn forget_below(&mut self, number: u64) {
        let kept = self.0.split_off(&number);
        let cut = self.0.last_key_value().map(|(_, last)| *last).filter(|last| *last >= number);
        self.0 = kept;
        if let Some(last) = cut {
            self.0.insert(number, last);
        }
    }

    /// Whether this one is among them.
    pub(super) fn contains(&self, number: u64) -> bool {
        self.0.range(..=number).next_back().is_some_and(|(_, last)| *last >= number)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn neighbours_become_one_run() {
        let mut numbers = Numbers::default();
        for number in [5, 3, 4, 9, 8, 0] {
            numbers.insert(number);
        }
        assert_eq!(numbers.0, BTreeMap::from([(0, 0), (3, 5), (8, 9)]));
    }

    #[test]
    fn it_is_the_set_of_what_was_inserted_and_not_forgotten() {
        let (mut numbers, mut set) = (Numbers::default(), BTreeSet::new());
        let mut random = 1_u64;
        for step in 0..2_000 {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let number = (random >> 33) % 64;
            if step % 50 == 49 {
                numbers.forget_below(number);
                set = set.split_off(&number);
            } else {
                numbers.insert(number);
                set.insert(number);
            }
            for number in 0..65 {
                assert_eq!(numbers.contains(number), set.contains(&number), "{number} at step {step}");
            }
        }
    }
}
