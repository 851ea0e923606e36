//! An ordered map of which one entry is at hand: what is done to it is mostly done to the entry it was done to last.

use std::collections::BTreeMap;
use std::ops::{Bound, RangeBounds as _};

/// A value that need not be kept.
pub(super) trait Vacant: Default {
    /// Whether there is nothing in it.
    fn is_vacant(&self) -> bool;
}

/// Values by key; those that are vacant are not there.
#[derive(Debug)]
pub(super) struct Handy<K, V> {
    /// What was changed last, which may have become vacant.
    last: Option<(K, V)>,
    /// All others.
    rest: BTreeMap<K, V>,
}

impl<K: Ord + Clone, V: Vacant> Handy<K, V> {
    /// The value under this key, to be changed.
    #[inline]
    pub(super) fn at(&mut self, key: &K) -> &mut V {
        if self.last.as_ref().is_none_or(|(last, _)| last != key) {
            self.take_to_hand(key);
        }
        let (_, value) = self.last.as_mut().expect("it is at hand now");
        value
    }

    /// The value under this key.
    #[inline]
    pub(super) fn get(&self, key: &K) -> Option<&V> {
        match self.at_hand() {
            Some((last, value)) if last == key => Some(value),
            _ => self.rest.get(key),
        }
    }

    /// The one with the least key.
    pub(super) fn first(&self) -> Option<(&K, &V)> {
        let first = self.rest.first_key_value();
        match self.at_hand() {
            Some(last) if first.is_none_or(|(key, _)| last.0 < key) => Some(last),
            _ => first,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty() && self.at_hand().is_none()
    }

    /// All of them, in the order of their keys.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = (&K, &V)> {
        self.range((Bound::Unbounded, Bound::Unbounded))
    }

    /// Those with keys in this range, in their order.
    pub(super) fn range(
        &self,
        keys: (Bound<K>, Bound<K>),
    ) -> impl DoubleEndedIterator<Item = (&K, &V)> + use<'_, K, V> {
        let last = self.at_hand().filter(|(last, _)| keys.contains(last));
        let (from, to) = keys;
        let (below, above) = match last {
            None => (self.rest.range((from, to)), None),
            Some((last, _)) => {
                let last = Bound::Excluded(last.clone());
                (self.rest.range((from, last.clone())), Some(self.rest.range((last, to))))
            }
        };
        below.chain(last).chain(above.into_iter().flatten())
    }

    #[cold]
    fn take_to_hand(&mut self, key: &K) {
        let value = self.rest.remove(key).unwrap_or_default();
        if let Some((last, value)) = self.last.replace((key.clone(), value))
            && !value.is_vacant()
        {
            self.rest.insert(last, value);
        }
    }

    fn at_hand(&self) -> Option<(&K, &V)> {
        self.last.as_ref().filter(|(_, value)| !value.is_vacant()).map(|(key, value)| (key, value))
    }
}

impl<K, V> Default for Handy<K, V> {
    fn default() -> Self {
        Handy { last: None, rest: BTreeMap::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_the_ordered_map_of_what_is_not_vacant() {
        let (mut handy, mut model) = (Handy::<u64, u64>::default(), BTreeMap::new());
        let mut random = 1_u64;
        let mut below = |end: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % end
        };
        for _ in 0..5_000 {
            let (key, value) = (below(8), below(3));
            *handy.at(&key) = value;
            model.insert(key, value);
            model.retain(|_, value| *value != 0);
            assert!(handy.iter().eq(&model));
            assert_eq!(handy.first(), model.first_key_value());
            assert_eq!(handy.is_empty(), model.is_empty());
            (0..8).for_each(|key| assert_eq!(handy.get(&key), model.get(&key)));
            let from = below(8);
            let within = (Bound::Included(from), Bound::Excluded(from + below(4)));
            assert!(handy.range(within).rev().eq(model.range(within).rev()));
        }
    }
}
