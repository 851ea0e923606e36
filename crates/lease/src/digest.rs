//! The digest of a set of holds: how many, and an order-free hash. Adding and removing cost the same whatever the size.

use model::{Hold, splitmix};

/// Two sets with the same digest are the same set, but for one chance in 2^53.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Digest {
    count: u32,
    sum: u64,
}

/// Sums are kept in this many bits, so that JSON clients keep them exactly.
const MASK: u64 = (1 << 53) - 1;

impl Digest {
    /// The digest with these parts, as a worker sent them.
    pub const fn from_parts(count: u32, hash: u64) -> Self {
        Digest { count, sum: hash & MASK }
    }

    /// How many holds.
    pub const fn count(self) -> u32 {
        self.count
    }

    /// Their hash.
    pub const fn hash(self) -> u64 {
        self.sum
    }

    /// The set now has this hold, which it had not.
    pub fn add(&mut self, hold: Hold) {
        self.count += 1;
        self.sum = self.sum.wrapping_add(mix(hold)) & MASK;
    }

    /// The set now lacks this hold, which it had.
    pub fn remove(&mut self, hold: Hold) {
        self.count -= 1;
        self.sum = self.sum.wrapping_sub(mix(hold)) & MASK;
    }
}

impl FromIterator<Hold> for Digest {
    fn from_iter<I: IntoIterator<Item = Hold>>(holds: I) -> Self {
        let mut digest = Digest::default();
        for hold in holds {
            digest.add(hold);
        }
        digest
    }
}

/// 64 well mixed bits of a hold, from its three words.
fn mix(hold: Hold) -> u64 {
    let [high, low] = hold.job.halves();
    [high, low, hold.fence.get() as u64].into_iter().fold(0, |seed, word| splitmix::hash(seed ^ word))
}

#[cfg(test)]
mod tests {
    use model::{Fence, JobId};

    use super::*;

    fn hold(job: u8, fence: i64) -> Hold {
        Hold { job: JobId::from_bytes([job; 16]), fence: Fence::new(fence) }
    }

    #[test]
    fn order_does_not_matter_and_removal_undoes_addition() {
        let forth: Digest = [hold(1, 1), hold(2, 1), hold(3, 1)].into_iter().collect();
        let back: Digest = [hold(3, 1), hold(1, 1), hold(2, 1)].into_iter().collect();
        assert_eq!(forth, back);
        let mut fewer = forth;
        fewer.remove(hold(2, 1));
        assert_eq!(fewer, [hold(1, 1), hold(3, 1)].into_iter().collect());
        assert_eq!(Digest::from_parts(fewer.count(), fewer.hash()), fewer);
    }

    #[test]
    fn job_fence_and_number_all_count() {
        let one: Digest = [hold(1, 1)].into_iter().collect();
        for other in [vec![hold(1, 2)], vec![hold(2, 1)], vec![hold(1, 1), hold(1, 1)], vec![]] {
            assert_ne!(one, other.into_iter().collect());
        }
    }
}
