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

/// How many bytes of an id name the client.
const CLIENT_BYTES: usize = 11;

/// One life of one client, as long as it remembers its submissions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ClientId([u8; CLIENT_BYTES]);

impl ClientId {
    /// The highest sequence number.
    pub const SEQUENCE_MAX: u64 = (1 << 40) - 1;

    /// A client that starts at this date, made unique by `random`. It comes back for what became of its submissions.
    pub fn new(at: WallTime, random: u64) -> Self {
        let mut client = Self::unattended(at, random);
        client.0[CLIENT_BYTES - 1] |= 1;
        client
    }

    /// Whoever submits and does not come back: nothing is kept for it when a job has ended. A server numbers the jobs of such
    /// callers for them, in a new name in each of its lives.
    pub fn unattended(at: WallTime, random: u64) -> Self {
        let mut bytes = [0; CLIENT_BYTES];
        let millis = at.as_millis().unsigned_abs().to_be_bytes();
        bytes[..6].copy_from_slice(&millis[2..]);
        bytes[6..8].copy_from_slice(&(0x8000 | (random as u16 & 0xfff)).to_be_bytes());
        bytes[8] = 0x80 | ((random >> 12) as u8 & 0x3f);
        bytes[9..].copy_from_slice(&((random >> 18) as u16 & 0xfffe).to_be_bytes());
        ClientId(bytes)
    }

    /// Whether somebody comes back for what became of its submissions.
    pub const fn is_awaited(self) -> bool {
        self.0[CLIENT_BYTES - 1] & 1 == 1
    }

    /// The id of its submission with this number.
    ///
    /// # Panics
    ///
    /// Above [`SEQUENCE_MAX`](Self::SEQUENCE_MAX), which at a million a second takes two weeks.
    pub fn job(self, sequence: u64) -> JobId {
        assert!(sequence <= Self::SEQUENCE_MAX, "this client has submitted more jobs than it can number");
        let mut bytes = [0; 16];
        bytes[..CLIENT_BYTES].copy_from_slice(&self.0);
        bytes[CLIENT_BYTES..].copy_from_slice(&sequence.to_be_bytes()[3..]);
        JobId::from_bytes(bytes)
    }
}

impl JobId {
    /// Whether it is the id of a job in a volatile queue.
    pub const fn is_volatile(&self) -> bool {
        let bytes = self.as_bytes();
        bytes[6] >> 4 == 8 && bytes[8] >> 6 == 2
    }

    /// Who submitted it, and as which of its submissions, if it is volatile.
    pub fn submission(&self) -> Option<(ClientId, u64)> {
        if !self.is_volatile() {
            return None;
        }
        let (client, sequence) = self.as_bytes().split_at(CLIENT_BYTES);
        let mut bytes = [0; 8];
        bytes[3..].copy_from_slice(sequence);
        let client = client.try_into().ok().map(ClientId)?;
        Some((client, u64::from_be_bytes(bytes)))
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
    }
}
