//! Clients of volatile queues, and the ids of what they submit.
//!
//! A job of a volatile queue has an id of its own kind, a UUID of version 8, which says by itself who submitted it and as
//! which of its submissions. So whoever sees the id knows where to look for the job, and a repeated submission is recognised.
//!
//! ```text
//!   48 bits      4   12 bits   2   21 bits   1           40 bits
//!   started ms   8   random    10  random    is awaited  sequence
//!   └──────────────────── client ──────────────────────┘
//! ```

use crate::id::JobId;
use crate::time::WallTime;

/// How many bits of an id number the client's submissions.
const SEQUENCE_BITS: u32 = 40;
/// The version of the UUID, in its upper half, and its variant, in the lower one.
const MARKS: [u64; 2] = [8 << 12, 2 << 62];
/// That somebody comes back, in the lower half.
const AWAITED: u64 = 1 << SEQUENCE_BITS;

/// One life of one client, as long as it remembers its submissions: the halves of the id of its submission number 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId([u64; 2]);

impl ClientId {
    /// The highest sequence number.
    pub const SEQUENCE_MAX: u64 = (1 << SEQUENCE_BITS) - 1;

    /// A client that starts at this date, made unique by `random`. It comes back for what became of its submissions.
    pub fn new(at: WallTime, random: u64) -> Self {
        let ClientId([high, low]) = Self::unattended(at, random);
        ClientId([high, low | AWAITED])
    }

    /// Whoever submits and does not come back: nothing is kept for it when a job has ended. A server numbers the jobs of such
    /// callers for them, in a new name in each of its lives.
    pub fn unattended(at: WallTime, random: u64) -> Self {
        let [version, variant] = MARKS;
        let high = at.as_millis().unsigned_abs() << 16 | version | random & 0xfff;
        let low = variant | (random >> 12 & 0x3f) << 56 | (random >> 18 & 0xfffe) << SEQUENCE_BITS;
        ClientId([high, low])
    }

    /// Whether somebody comes back for what became of its submissions.
    pub const fn is_awaited(self) -> bool {
        self.0[1] & AWAITED != 0
    }

    /// The id of its submission with this number.
    ///
    /// # Panics
    ///
    /// Above [`SEQUENCE_MAX`](Self::SEQUENCE_MAX), which at a million a second takes two weeks.
    pub fn job(self, sequence: u64) -> JobId {
        assert!(sequence <= Self::SEQUENCE_MAX, "this client has submitted more jobs than it can number");
        let [high, low] = self.0;
        JobId::from_halves([high, low | sequence])
    }
}

impl JobId {
    /// Whether it is the id of a job in a volatile queue.
    pub const fn is_volatile(self) -> bool {
        let ([high, low], [version, variant]) = (self.halves(), MARKS);
        high & 0xf << 12 == version && low & 3 << 62 == variant
    }

    /// Who submitted it, and as which of its submissions, if it is volatile.
    pub fn submission(self) -> Option<(ClientId, u64)> {
        let [high, low] = self.halves();
        let client = ClientId([high, low & !ClientId::SEQUENCE_MAX]);
        self.is_volatile().then_some((client, low & ClientId::SEQUENCE_MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_says_who_submitted_what() {
        let client = ClientId::new(WallTime::from_millis(1_760_000_000_123), 0xdead_beef_cafe);
        for sequence in [0, 1, 77, ClientId::SEQUENCE_MAX] {
            let id = client.job(sequence);
            assert!(id.is_volatile());
            assert_eq!(id.submission(), Some((client, sequence)));
            assert_eq!(id.to_string().parse::<JobId>(), Ok(id));
            assert_eq!(id.to_string().as_bytes()[14], b'8', "a UUID of version 8");
        }
        assert!(client.job(1) < client.job(2), "in the order of submission");
    }

    #[test]
    fn clients_of_one_moment_differ_by_every_random_bit() {
        let at = WallTime::from_millis(5);
        let plain = ClientId::new(at, 0);
        for bit in (0..18).chain(19..34) {
            assert_ne!(ClientId::new(at, 1 << bit), plain, "bit {bit}");
        }
        let unattended = ClientId::unattended(at, 0);
        assert!(plain.is_awaited() && !unattended.is_awaited());
        assert_eq!(plain.job(7).submission(), Some((plain, 7)));
        assert_eq!(unattended.job(7).submission(), Some((unattended, 7)));
        assert_ne!(ClientId::new(WallTime::from_millis(6), 0), plain);
    }

    #[test]
    fn other_ids_are_not_volatile() {
        let id = JobId::v7(WallTime::from_millis(1), [0xff; 10]);
        assert!(!id.is_volatile());
        assert_eq!(id.submission(), None);
        // The version alone says nothing in a UUID of another variant.
        let client = ClientId::new(WallTime::from_millis(1), 2);
        assert!(!JobId::from_u128(client.job(3).to_u128() ^ 1 << 62).is_volatile());
        assert!(!JobId::from_u128(client.job(3).to_u128() ^ 1 << 76).is_volatile());
    }
}
