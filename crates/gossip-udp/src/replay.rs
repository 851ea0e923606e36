//! Knows what it has heard before.
//!
//! Every start of a node counts its datagrams; the count is sealed inside. For each sender we keep which of the last
//! [`WINDOW`] numbers came, so that a datagram that an eavesdropper sends again is recognised, while one that the network
//! reordered is not. A datagram names the start it is meant for, so nothing recorded before our own start comes this far.

use std::collections::HashMap;
use std::net::SocketAddr;

use swim::Identity;

/// How far a datagram may be overtaken by later ones of its sender, to anybody.
const WINDOW: u64 = 1_024;
const WORDS: usize = WINDOW as usize / 64;

/// What came from whom. Bounded: the sender that was silent for longest makes room.
#[derive(Debug)]
pub(crate) struct Senders {
    senders: HashMap<Identity, Sender>,
    /// Where authentic datagrams came from, and whose was the last: a later start of a node has the address of the one before.
    proven: HashMap<SocketAddr, Identity>,
    max: usize,
    /// Counts what was admitted, to know who was silent for longest.
    admitted: u64,
}

#[derive(Debug)]
struct Sender {
    window: Window,
    addr: SocketAddr,
    /// When it was heard last, as a number of admitted datagrams.
    heard: u64,
}

impl Senders {
    /// For at most this many senders.
    pub(crate) fn new(max: usize) -> Self {
        Senders { senders: HashMap::new(), proven: HashMap::new(), max: max.max(1), admitted: 0 }
    }

    /// True if this datagram was not here before.
    pub(crate) fn admit(&mut self, from: Identity, sequence: u64, addr: SocketAddr) -> bool {
        if !self.senders.contains_key(&from) && self.senders.len() >= self.max {
            self.make_room();
        }
        let fresh = || Sender { window: Window::new(), addr, heard: 0 };
        let sender = self.senders.entry(from).or_insert_with(fresh);
        if !sender.window.admit(sequence) {
            return false;
        }
        self.admitted += 1;
        sender.heard = self.admitted;
        let before = std::mem::replace(&mut sender.addr, addr);
        if before != addr {
            self.is_gone(before, from);
        }
        self.proven.insert(addr, from);
        true
    }

    /// True if the last authentic datagram of some sender came from here.
    pub(crate) fn is_proven(&self, addr: SocketAddr) -> bool {
        self.proven.contains_key(&addr)
    }

    fn make_room(&mut self) {
        let silent = self.senders.iter().min_by_key(|(_, sender)| sender.heard).map(|(who, _)| *who);
        if let Some((who, sender)) = silent.and_then(|who| self.senders.remove_entry(&who)) {
            self.is_gone(sender.addr, who);
        }
    }

    /// That sender is not there any more. Somebody else may be.
    fn is_gone(&mut self, addr: SocketAddr, who: Identity) {
        if self.proven.get(&addr) == Some(&who) {
            self.proven.remove(&addr);
        }
    }
}

/// Which of the last numbers came: one bit each, in a circle.
#[derive(Debug)]
struct Window {
    /// Numbers below this one, and at most [`WINDOW`] of them, have their bit here.
    end: u64,
    bits: [u64; WORDS],
}

impl Window {
    fn new() -> Self {
        Window { end: 0, bits: [0; WORDS] }
    }

    /// True if the number is new and not too old to tell.
    fn admit(&mut self, number: u64) -> bool {
        // The last number is never sent: there would be no end behind it.
        if number == u64::MAX {
            return false;
        }
        if number >= self.end {
            let skipped = number + 1 - self.end;
            for passed in self.end..self.end + skipped.min(WINDOW) {
                let (word, bit) = Self::place(passed);
                self.bits[word] &= !bit;
            }
            self.end = number + 1;
        } else if self.end - number > WINDOW {
            return false;
        }
        let (word, bit) = Self::place(number);
        let is_new = self.bits[word] & bit == 0;
        self.bits[word] |= bit;
        is_new
    }

    fn place(number: u64) -> (usize, u64) {
        let place = number % WINDOW;
        ((place / 64) as usize, 1 << (place % 64))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use swim::{Epoch, NodeId};

    use super::*;

    fn node(id: u32, epoch: u32) -> Identity {
        Identity { id: NodeId(id), epoch: Epoch(epoch) }
    }

    fn addr(port: u16) -> SocketAddr {
        SocketAddr::from(([127, 0, 0, 1], port))
    }

    #[test]
    fn a_number_is_admitted_once_in_whatever_order() {
        // Against a set that remembers everything: the window may only refuse what is too old for it.
        let mut random = 1_u64;
        for _ in 0..50 {
            let (mut window, mut seen, mut highest) = (Window::new(), BTreeSet::new(), 0_u64);
            for _ in 0..3_000 {
                random =
                    random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                let jump = if random >> 60 == 0 { 3_000 } else { 40 };
                let number = (highest + (random >> 33) % jump).saturating_sub((random >> 20) % 1_400);
                let too_old = highest + 1 > WINDOW + number;
                assert_eq!(
                    window.admit(number),
                    !too_old && !seen.contains(&number),
                    "{number} after {highest}"
                );
                seen.insert(number);
                highest = highest.max(number);
            }
        }
    }

    #[test]
    fn leaps_to_the_end_are_survived() {
        let mut window = Window::new();
        assert!(window.admit(5) && window.admit(u64::MAX - 1));
        assert!(!window.admit(u64::MAX - 1) && !window.admit(u64::MAX) && !window.admit(5));
        assert!(window.admit(u64::MAX - 2));
    }

    #[test]
    fn each_start_of_a_node_counts_for_itself() {
        let mut senders = Senders::new(8);
        assert!(senders.admit(node(1, 1), 10, addr(1)));
        assert!(!senders.admit(node(1, 1), 10, addr(1)));
        assert!(senders.admit(node(1, 2), 10, addr(2)));
        assert!(senders.is_proven(addr(1)) && senders.is_proven(addr(2)));
        assert!(!senders.admit(node(1, 1), 10, addr(2)) && senders.admit(node(1, 1), 11, addr(3)));
        assert!(!senders.is_proven(addr(1)) && senders.is_proven(addr(3)), "it moved");
    }

    #[test]
    fn an_earlier_start_at_the_same_address_takes_nothing_away() {
        let mut senders = Senders::new(2);
        assert!(senders.admit(node(1, 1), 1, addr(1)) && senders.admit(node(1, 2), 1, addr(1)));
        assert!(senders.admit(node(2, 1), 1, addr(2)), "which makes room");
        assert!(senders.is_proven(addr(1)) && senders.is_proven(addr(2)));
    }

    #[test]
    fn the_most_silent_sender_makes_room() {
        let mut senders = Senders::new(2);
        assert!(senders.admit(node(1, 1), 1, addr(1)));
        assert!(senders.admit(node(2, 1), 1, addr(2)));
        assert!(senders.admit(node(1, 1), 2, addr(1)));
        assert!(senders.admit(node(3, 1), 1, addr(3)));
        assert_eq!(senders.senders.len(), 2);
        assert!(!senders.is_proven(addr(2)));
        assert!(!senders.admit(node(1, 1), 1, addr(1)), "who speaks is remembered");
    }
}
