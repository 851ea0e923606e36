//! The bytes of version 1. They are in use: whoever changes them needs a new version beside the old one.

use std::sync::Arc;

use bytes::Bytes;
use gossip_udp::codec::exchange::{encode_request, encode_response};
use gossip_udp::codec::packet;
use gossip_udp::seal::{Key, KeyRing, Seal, Sealer};
use swim::{
    Incarnation, Info, Mark, Message, NodeId, Packet, Request, Response, SharedInfo, Status, Update, View,
};

use crate::support::identity;

fn info(addr: &str, meta: &'static [u8]) -> Option<SharedInfo> {
    Some(Arc::new(Info { addr: addr.parse().expect("an address"), meta: Bytes::from_static(meta) }))
}

fn updates() -> Vec<Update> {
    let (incarnation, by) = (Incarnation(5), NodeId(300));
    let node = identity(300, 2);
    vec![
        Update { node, incarnation, status: Status::Alive, by, info: info("10.0.0.1:7118", b"hi") },
        Update {
            node,
            incarnation,
            status: Status::Suspect,
            by: NodeId(1),
            info: info("[fd00::1]:7118", b""),
        },
        Update { node, incarnation, status: Status::Dead, by: NodeId(1), info: None },
        Update { node, incarnation, status: Status::Unreliable, by: NodeId(1), info: None },
        Update { node, incarnation, status: Status::Left, by, info: None },
    ]
}

fn packet_with(message: Message, updates: Vec<Update>) -> Packet {
    let mark = Mark { epoch: 4, index: 1_000 };
    Packet {
        from: identity(1, 7),
        to: identity(300, 2),
        digest: 0x0102_0304_0506_0708,
        mark,
        message,
        updates,
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn check_packet(message: Message, updates: Vec<Update>, expected: &str) {
    let mut body = Vec::new();
    packet::encode(130, &packet_with(message, updates), &mut body);
    // sequence 130 · from 1@7 · to 300@2 · digest · mark 4, 1000
    assert_eq!(hex(&body), format!("82010107ac0202080706050403020104e807{expected}"));
}

#[test]
fn packets() {
    let (number, round, target) = (0x0a0b_0c0d, 0x0a0b_0c0d, identity(9, 1));
    let (v4, v6) = ("10.0.0.1:7118".parse().expect("one"), "[fd00::1]:7118".parse().expect("one"));
    check_packet(Message::Ping { number }, vec![], "010d0c0b0a00");
    check_packet(Message::Ack { number }, vec![], "020d0c0b0a00");
    check_packet(Message::PingFor { number, target, addr: v4 }, vec![], "030d0c0b0a0901010a000001ce1b00");
    check_packet(Message::Nack { number }, vec![], "040d0c0b0a00");
    check_packet(
        Message::Ask { round, target, addr: v6, incarnation: Incarnation(5) },
        vec![],
        "050d0c0b0a090102fd000000000000000000000000000001ce1b0500",
    );
    check_packet(Message::Opinion { round, target, view: View::Good }, vec![], "060d0c0b0a09010000");
    check_packet(Message::Opinion { round, target, view: View::Bad }, vec![], "060d0c0b0a09010100");
    check_packet(Message::Opinion { round, target, view: View::Unable }, vec![], "060d0c0b0a09010200");
    check_packet(Message::Gossip, vec![], "0700");
    check_packet(
        Message::NotMe,
        updates(),
        "080510ac020205ac020a000001ce1b02686921ac02020501fd000000000000000000000000000001ce1b00\
         02ac0202050103ac0202050104ac020205ac02",
    );
}

#[test]
fn exchanges() {
    let check_request = |request: &Request, expected: &str| {
        let mut body = Vec::new();
        encode_request(request, &mut body);
        assert_eq!(hex(&body), expected);
    };
    let check_response = |response: &Response, expected: &str| {
        let mut body = Vec::new();
        encode_response(response, &mut body);
        assert_eq!(hex(&body), expected);
    };
    let (from, mut updates) = (identity(1, 7), updates());
    let (left, alive) = (updates.remove(4), updates.remove(0));
    check_request(&Request::Ping { from, to: identity(300, 2) }, "010107ac0202");
    check_request(
        &Request::Compare { from: alive, buckets: vec![1, 0x0102_0304_0506_0708] },
        "0210ac020205ac020a000001ce1b0268690201000000000000000807060504030201",
    );
    check_request(&Request::Push { from, entries: vec![left.clone()] }, "0301070104ac020205ac02");
    check_response(&Response::Pong(from), "010107");
    check_response(
        &Response::Differences { from, buckets: vec![3, 300], entries: vec![left] },
        "0201070203ac020104ac020205ac02",
    );
    check_response(&Response::Done, "03");
    check_response(&Response::Busy, "04");
}

#[test]
fn envelopes() {
    let ring = KeyRing::new(&[Key::from_bytes([7; 32])]).expect("one key");
    let open = Sealer::new("golden", Seal::Open);
    let sealed = Sealer::new("golden", Seal::Keys(ring));
    let mut out = Vec::new();
    open.seal_datagram(&mut out, |out| out.extend_from_slice(b"hello"));
    assert_eq!(hex(&out), OPEN);
    // A sealed one has another nonce each time, so one that was made by hand is opened.
    let mut recorded: Vec<u8> = (0..SEALED.len() / 2)
        .map(|n| u8::from_str_radix(&SEALED[2 * n..2 * n + 2], 16).expect("hexadecimal"))
        .collect();
    assert_eq!(sealed.open_datagram(&mut recorded), Ok(&b"hello"[..]));
    sealed.seal_datagram(&mut out, |out| out.extend_from_slice(b"hello"));
    assert_eq!(hex(&out)[..6], SEALED[..6]);
    assert_eq!(2 * out.len(), SEALED.len());
}

const OPEN: &str = "b1dd56de4137951d9c68656c6c6fbf7e8c954322e70b";
const SEALED: &str = "a1dda9000102030405060708090a0b44109d4f03eb5c420c80cee46b58c1efd1d9b423dc";
