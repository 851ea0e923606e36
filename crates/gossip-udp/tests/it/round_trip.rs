//! Whatever is said comes back; whatever else comes is refused.

use std::collections::HashSet;
use std::mem::discriminant;
use std::sync::Arc;

use gossip_udp::codec::exchange::{decode_request, decode_response, encode_request, encode_response};
use gossip_udp::codec::{Malformed, packet};
use gossip_udp::seal::{Key, KeyRing, Seal, Sealer};
use swim::{
    Epoch, Identity, Incarnation, Info, META_BYTES_MAX, Mark, Message, NodeId, PACKET_BYTES_MAX, Packet,
    Request, Response, Update,
};

use crate::generate::Generator;

const ROUNDS: usize = 5_000;

fn sealers() -> [Sealer; 2] {
    let ring = KeyRing::new(&[Key::generate()]).expect("one key");
    [Sealer::new("round trip", Seal::Open), Sealer::new("round trip", Seal::Keys(ring))]
}

#[test]
fn every_packet_comes_back_within_its_bound() {
    let (sealers, mut generator) = (sealers(), Generator::new(1));
    let (mut datagram, mut kinds) = (Vec::new(), HashSet::new());
    for _ in 0..ROUNDS {
        let (sequence, sent) = (generator.number(), generator.packet());
        kinds.insert(discriminant(&sent.message));
        let bound = PACKET_BYTES_MAX + sent.updates.iter().map(Update::bytes_max).sum::<usize>();
        for sealer in &sealers {
            sealer.seal_datagram(&mut datagram, |out| packet::encode(sequence, &sent, out));
            assert!(datagram.len() <= bound, "{} bytes, at most {bound} promised", datagram.len());
            let plain = sealer.open_datagram(&mut datagram).expect("sealed a moment ago");
            assert_eq!(packet::decode(plain), Ok((sequence, sent.clone())));
        }
    }
    assert_eq!(kinds.len(), 8, "every kind of message was tried");
}

#[test]
fn the_longest_packet_keeps_within_its_bound() {
    let everything = Identity { id: NodeId(u32::MAX), epoch: Epoch(u32::MAX) };
    let longest = Packet {
        from: everything,
        to: everything,
        digest: u64::MAX,
        mark: Mark { epoch: u32::MAX, index: u64::MAX },
        message: Message::Ask {
            round: u32::MAX,
            target: everything,
            addr: "[ffff::ffff]:65535".parse().expect("an address"),
            incarnation: Incarnation(u32::MAX),
        },
        updates: Vec::new(),
    };
    let mut datagram = Vec::new();
    sealers()[1].seal_datagram(&mut datagram, |out| packet::encode(u64::MAX, &longest, out));
    assert_eq!(datagram.len(), 124, "the bound of {PACKET_BYTES_MAX} has room for a later version");
}

#[test]
fn every_exchange_comes_back() {
    let mut generator = Generator::new(2);
    let (mut asked, mut answered) = (HashSet::new(), HashSet::new());
    for _ in 0..ROUNDS {
        let (request, response) = (generator.request(), generator.response());
        asked.insert(discriminant(&request));
        answered.insert(discriminant(&response));
        let (mut question, mut answer) = (Vec::new(), Vec::new());
        encode_request(&request, &mut question);
        encode_response(&response, &mut answer);
        assert_eq!(decode_request(&question), Ok(request));
        assert_eq!(decode_response(&answer), Ok(response));
    }
    assert_eq!((asked.len(), answered.len()), (3, 4), "every kind was tried");
}

#[test]
fn nothing_can_be_cut_off_or_added() {
    let mut generator = Generator::new(3);
    for _ in 0..200 {
        let mut body = Vec::new();
        packet::encode(generator.number(), &generator.packet(), &mut body);
        check_whole(&body, |bytes| packet::decode(bytes).map(|_| ()));
        let mut body = Vec::new();
        encode_request(&generator.request(), &mut body);
        check_whole(&body, |bytes| decode_request(bytes).map(|_| ()));
        let mut body = Vec::new();
        encode_response(&generator.response(), &mut body);
        check_whole(&body, |bytes| decode_response(bytes).map(|_| ()));
    }
}

fn check_whole(body: &[u8], decode: impl Fn(&[u8]) -> Result<(), Malformed>) {
    for length in 0..body.len() {
        assert!(decode(&body[..length]).is_err(), "{length} of {} bytes", body.len());
    }
    let mut longer = body.to_vec();
    longer.push(0);
    assert_eq!(decode(&longer), Err(Malformed::Trailing(1)));
    assert_eq!(decode(body), Ok(()));
}

#[test]
fn every_truncation_and_flipped_bit_of_a_sealed_packet_is_refused() {
    let mut generator = Generator::new(4);
    for sealer in sealers() {
        for _ in 0..5 {
            let mut whole = Vec::new();
            sealer.seal_datagram(&mut whole, |out| packet::encode(1, &generator.packet(), out));
            for length in 0..whole.len() {
                assert!(sealer.open_datagram(&mut whole[..length].to_vec()).is_err(), "{length} bytes");
            }
            for bit in 0..whole.len() * 8 {
                let mut damaged = whole.clone();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(sealer.open_datagram(&mut damaged).is_err(), "bit {bit}");
            }
        }
    }
}

#[test]
fn claimed_counts_are_held_against_what_is_there() {
    let huge = [0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1];
    let identity = Identity { id: NodeId(1), epoch: Epoch(1) };
    let refused = Err(Malformed::Count(u64::MAX));

    // Each of these ends with a count of no items.
    let mut body = Vec::new();
    let (digest, mark) = (0, Mark::default());
    let gossip =
        Packet { from: identity, to: identity, digest, mark, message: Message::Gossip, updates: vec![] };
    packet::encode(1, &gossip, &mut body);
    assert_eq!(packet::decode(&claiming(&body, &huge)).map(|_| ()), refused);

    let mut body = Vec::new();
    encode_request(&Request::Push { from: identity, entries: vec![] }, &mut body);
    assert_eq!(decode_request(&claiming(&body, &huge)).map(|_| ()), refused);
    let many = [&body[..body.len() - 1], &[0xff, 0xff, 3], &[0; 1_000]].concat();
    assert_eq!(decode_request(&many), Err(Malformed::Count(65_535)), "200 would fit");

    let mut body = Vec::new();
    encode_response(&Response::Differences { from: identity, buckets: vec![], entries: vec![] }, &mut body);
    assert_eq!(decode_response(&claiming(&body, &huge)).map(|_| ()), refused);
    let buckets = claiming(&body[..body.len() - 1], &huge);
    assert_eq!(decode_response(&buckets).map(|_| ()), refused);
}

/// The body with another count at its end, and a few bytes behind it.
fn claiming(body: &[u8], count: &[u8]) -> Vec<u8> {
    [&body[..body.len() - 1], count, &[0; 64]].concat()
}

#[test]
fn long_metadata_is_refused() {
    let of_length = |length: usize| {
        let mut update = Generator::new(5).update();
        let addr = "127.0.0.1:1".parse().expect("an address");
        update.info = Some(Arc::new(Info { addr, meta: vec![7; length].into() }));
        let mut body = Vec::new();
        encode_request(&Request::Push { from: update.node, entries: vec![update] }, &mut body);
        decode_request(&body).map(|_| ())
    };
    assert_eq!(of_length(META_BYTES_MAX), Ok(()));
    assert_eq!(of_length(META_BYTES_MAX + 1), Err(Malformed::Meta(META_BYTES_MAX as u64 + 1)));
}

#[test]
fn buckets_must_be_in_order() {
    let mut body = Vec::new();
    let from = Generator::new(5).update();
    encode_request(&Request::Compare { from, buckets: vec![1, 2, 3] }, &mut body);
    assert_eq!(decode_request(&body), Err(Malformed::Buckets), "three is no power of two");
    for buckets in [vec![1, 1], vec![2, 1]] {
        let from = Identity { id: NodeId(1), epoch: Epoch(1) };
        let mut body = Vec::new();
        encode_response(&Response::Differences { from, buckets, entries: vec![] }, &mut body);
        assert_eq!(decode_response(&body), Err(Malformed::Buckets));
    }
}
