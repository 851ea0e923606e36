//! What is let in, and what cannot be prevented from coming in.

use swim::{Epoch, Incarnation, Mark, Message, NodeId, Status, Update};

use super::*;
use crate::codec::Malformed;
use crate::filter::Cuts;
use crate::seal::{KEY_BYTES, Key, KeyRing, Refused, Seal};

const ME: Identity = node(1, 3);
const OTHER: Identity = node(2, 1);

const fn node(id: u32, epoch: u32) -> Identity {
    Identity { id: NodeId(id), epoch: Epoch(epoch) }
}

fn at(millis: u64) -> Instant {
    Instant::from_millis(millis)
}

fn addr(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn sealer(seed: u8) -> Arc<Sealer> {
    let ring = KeyRing::new(&[Key::from_bytes([seed; KEY_BYTES])]).expect("one key");
    Arc::new(Sealer::new("a", Seal::Keys(ring)))
}

fn packet(from: Identity, to: Identity) -> Packet {
    let news = Update {
        node: node(9, 1),
        incarnation: Incarnation(0),
        status: Status::Dead,
        by: from.id,
        info: None,
    };
    let message = Message::Ping { number: 5 };
    Packet { from, to, digest: 0, mark: Mark::default(), message, updates: vec![news] }
}

fn datagram(seed: u8, sequence: u64, packet: &Packet) -> Vec<u8> {
    let mut out = Vec::new();
    sealer(seed).seal_datagram(&mut out, |out| packet::encode(sequence, packet, out));
    out
}

fn gate() -> (Gate, Filter) {
    let filter = Filter::default();
    (Gate::new(ME, sealer(1), filter.clone(), 16, 1_400), filter)
}

#[test]
fn a_datagram_comes_in_once() {
    let (mut gate, _) = gate();
    let sent = packet(OTHER, ME);
    let bytes = datagram(1, 1, &sent);
    assert_eq!(gate.admit(at(0), addr(2), &mut bytes.clone()), Ok(sent));
    assert_eq!(gate.admit(at(0), addr(2), &mut bytes.clone()), Err(Dropped::Replayed));
    assert_eq!(gate.admit(at(0), addr(7), &mut bytes.clone()), Err(Dropped::Replayed), "from elsewhere");
}

#[test]
fn news_recorded_before_this_start_is_not_heard() {
    let (mut gate, _) = gate();
    for (sequence, to) in [(1, node(1, 2)), (2, node(3, 1))] {
        let admitted = gate.admit(at(0), addr(2), &mut datagram(1, sequence, &packet(OTHER, to)));
        assert_eq!(admitted, Ok(Packet { updates: Vec::new(), ..packet(OTHER, to) }));
    }
}

#[test]
fn our_own_words_are_not_news() {
    let (mut gate, _) = gate();
    let own = datagram(1, 1, &packet(ME, ME));
    assert_eq!(gate.admit(at(0), addr(2), &mut own.clone()), Err(Dropped::Replayed));
    let later_start = datagram(1, 1, &packet(node(1, 4), ME));
    assert!(gate.admit(at(0), addr(2), &mut later_start.clone()).is_ok(), "that one we must hear of");
}

#[test]
fn each_defect_has_its_reason() {
    let (mut gate, filter) = gate();
    let good = || datagram(1, 1, &packet(OTHER, ME));
    let mut check = |bytes: Vec<u8>, expected| {
        assert_eq!(gate.admit(at(0), addr(2), &mut bytes.clone()), Err(expected));
    };
    check(vec![], Dropped::Refused(Refused::Short));
    check(vec![0x42; 100], Dropped::Refused(Refused::Version(0x42)));
    check(good()[..20].to_vec(), Dropped::Refused(Refused::Short));
    check(datagram(2, 1, &packet(OTHER, ME)), Dropped::Refused(Refused::Key));
    check(vec![good()[0]; 1_401], Dropped::Oversized);
    let mut damaged = good();
    damaged[40] ^= 1;
    check(damaged, Dropped::Refused(Refused::Forged));
    let mut nonsense = Vec::new();
    sealer(1).seal_datagram(&mut nonsense, |out| out.extend_from_slice(&[1, 2, 3]));
    check(nonsense, Dropped::Malformed(Malformed::Truncated));
    filter.set(Cuts { from: [addr(2)].into(), ..Cuts::default() });
    check(good(), Dropped::Filtered);
    filter.set(Cuts::default());
    assert!(gate.admit(at(0), addr(2), &mut good()).is_ok());
}

#[test]
fn rubbish_shuts_its_source_but_never_a_member() {
    let (mut gate, _) = gate();
    assert!(gate.admit(at(0), addr(2), &mut datagram(1, 1, &packet(OTHER, ME))).is_ok());
    for _ in 0..1_000 {
        // Somebody forges the member's address, and sends from an address of his own.
        assert!(gate.admit(at(0), addr(2), &mut [0x42; 100]).is_err());
        assert!(gate.admit(at(0), addr(3), &mut [0x42; 100]).is_err());
    }
    assert_eq!(gate.admit(at(0), addr(3), &mut [0x42; 100]), Err(Dropped::RateLimited));
    assert!(gate.admit(at(0), addr(2), &mut datagram(1, 2, &packet(OTHER, ME))).is_ok());
}

#[test]
fn rubbish_in_the_name_of_a_newcomer_does_not_shut_it_out() {
    let (mut gate, _) = gate();
    let flood = |gate: &mut Gate, port| {
        for _ in 0..1_000 {
            assert!(gate.admit(at(0), addr(port), &mut [0x42; 100]).is_err());
        }
    };
    flood(&mut gate, 2);
    gate.announce(addr(2));
    assert!(gate.admit(at(0), addr(2), &mut datagram(1, 1, &packet(OTHER, ME))).is_ok(), "its first word");
    // However many are announced, it takes no more room than the members.
    for port in 100..1_000 {
        gate.announce(addr(port));
        assert!(gate.announced.len() <= 16);
    }
    flood(&mut gate, 999);
    assert!(
        gate.admit(at(0), addr(999), &mut datagram(1, 1, &packet(node(3, 1), ME))).is_ok(),
        "the last one"
    );
}
