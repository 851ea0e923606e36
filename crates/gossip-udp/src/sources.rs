//! Who sends rubbish: one bucket of tokens for each source address.
//!
//! Each datagram that is refused takes a token; at none left, what comes from there is dropped unread for a while. The table is
//! small and fixed: an address that falls on another's place takes it over, which costs us some reading and nothing else.
//! Addresses can be forged, so the caller makes an exception for those that proved authentic.

use std::hash::{BuildHasher, RandomState};
use std::net::SocketAddr;
use std::time::Duration;

use model::Instant;

/// Places in the table.
const SOURCES_MAX: usize = 1_024;
/// How many refused datagrams in a row are read.
const TOKENS_MAX: u32 = 64;
/// How long one more takes.
const TOKEN_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Sources {
    hasher: RandomState,
    places: Box<[Option<Bucket>]>,
}

#[derive(Clone, Copy, Debug)]
struct Bucket {
    addr: SocketAddr,
    tokens: u32,
    /// Up to when tokens were added.
    filled: Instant,
}

impl Sources {
    pub(crate) fn new() -> Self {
        Sources { hasher: RandomState::new(), places: vec![None; SOURCES_MAX].into_boxed_slice() }
    }

    /// A datagram from there was refused.
    pub(crate) fn refused(&mut self, now: Instant, addr: SocketAddr) {
        let place = self.place(addr);
        let known = self.places[place].filter(|bucket| bucket.addr == addr);
        let mut bucket = known.unwrap_or(Bucket { addr, tokens: TOKENS_MAX, filled: now });
        bucket.fill(now);
        bucket.tokens = bucket.tokens.saturating_sub(1);
        self.places[place] = Some(bucket);
    }

    /// True if what comes from there should not be read.
    pub(crate) fn is_shut(&mut self, now: Instant, addr: SocketAddr) -> bool {
        let place = self.place(addr);
        match &mut self.places[place] {
            Some(bucket) if bucket.addr == addr => {
                bucket.fill(now);
                bucket.tokens == 0
            }
            _ => false,
        }
    }

    fn place(&self, addr: SocketAddr) -> usize {
        self.hasher.hash_one(addr) as usize % SOURCES_MAX
    }
}

impl Bucket {
    fn fill(&mut self, now: Instant) {
        let due = now.since(self.filled).as_nanos() / TOKEN_EVERY.as_nanos();
        let due = u32::try_from(due).unwrap_or(u32::MAX);
        if due >= TOKENS_MAX {
            (self.tokens, self.filled) = (TOKENS_MAX, now);
        } else {
            self.tokens = (self.tokens + due).min(TOKENS_MAX);
            self.filled = self.filled + TOKEN_EVERY * due;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_source_of_rubbish_is_shut_and_opened_again_bit_by_bit() {
        let mut sources = Sources::new();
        for _ in 0..TOKENS_MAX {
            assert!(!sources.is_shut(at(0), addr(1)));
            sources.refused(at(0), addr(1));
        }
        assert!(sources.is_shut(at(49), addr(1)));
        assert!(!sources.is_shut(at(50), addr(1)));
        sources.refused(at(50), addr(1));
        assert!(sources.is_shut(at(99), addr(1)));
        assert!(!sources.is_shut(at(3_600_000), addr(1)));
        assert!(!sources.is_shut(at(50), addr(2)));
    }

    #[test]
    fn many_sources_take_no_more_room_than_the_table() {
        let mut sources = Sources::new();
        for n in 0..100_000_u32 {
            sources.refused(at(0), SocketAddr::from((n.to_le_bytes(), 1)));
        }
        assert_eq!(sources.places.len(), SOURCES_MAX);
    }
}
