//! Mutated messages by the hundred thousand, the same in every run: nothing panics, and what is still understood has only that
//! spelling.

use gossip_udp::codec::exchange::{decode_request, decode_response, encode_request, encode_response};
use gossip_udp::codec::packet;
use gossip_udp::seal::{Key, KeyRing, Seal, Sealer};

use crate::generate::Generator;

const ROUNDS: usize = 100_000;

/// Damages the bytes in one of the ways in which bytes are damaged on purpose.
fn mutate(generator: &mut Generator, bytes: &mut Vec<u8>) {
    for _ in 0..=generator.below(3) {
        let place = generator.below(bytes.len().max(1)).min(bytes.len());
        match generator.below(6) {
            0 => bytes.truncate(place),
            1 => bytes.insert(place, generator.next() as u8),
            2 if place < bytes.len() => drop(bytes.remove(place)),
            3 if place < bytes.len() => bytes[place] = [0, 1, 0x7f, 0x80, 0xff][generator.below(5)],
            4 => bytes.extend_from_within(place..),
            _ if place < bytes.len() => bytes[place] ^= 1 << generator.below(8),
            _ => {}
        }
    }
}

#[test]
fn mutated_bodies_are_refused_or_have_one_spelling() {
    let mut generator = Generator::new(6);
    let (mut understood, mut refused) = (0, 0);
    let (mut body, mut again) = (Vec::new(), Vec::new());
    for round in 0..ROUNDS {
        body.clear();
        again.clear();
        let known = match round % 4 {
            0 | 1 => {
                packet::encode(generator.number(), &generator.packet(), &mut body);
                mutate(&mut generator, &mut body);
                packet::decode(&body).map(|(sequence, packet)| packet::encode(sequence, &packet, &mut again))
            }
            2 => {
                encode_request(&generator.request(), &mut body);
                mutate(&mut generator, &mut body);
                decode_request(&body).map(|request| encode_request(&request, &mut again))
            }
            _ => {
                encode_response(&generator.response(), &mut body);
                mutate(&mut generator, &mut body);
                decode_response(&body).map(|response| encode_response(&response, &mut again))
            }
        };
        if known.is_ok() {
            understood += 1;
            assert_eq!(body, again, "round {round}");
        } else {
            refused += 1;
        }
    }
    assert!(understood > ROUNDS / 20 && refused > ROUNDS / 20, "{understood} understood, {refused} refused");
}

#[test]
fn mutated_datagrams_are_not_opened() {
    let ring = KeyRing::new(&[Key::generate(), Key::from_bytes([1; 32])]);
    // The two have the same number once in 256 runs; one key is as good then.
    let ring = ring.or_else(|_| KeyRing::new(&[Key::from_bytes([1; 32])])).expect("one key");
    let sealers = [Sealer::new("fuzz", Seal::Open), Sealer::new("fuzz", Seal::Keys(ring))];
    let mut generator = Generator::new(7);
    let mut datagram = Vec::new();
    for round in 0..ROUNDS {
        let sealer = &sealers[round % 2];
        sealer.seal_datagram(&mut datagram, |out| packet::encode(1, &generator.packet(), out));
        let original = datagram.clone();
        mutate(&mut generator, &mut datagram);
        if datagram != original {
            assert!(sealer.open_datagram(&mut datagram).is_err(), "round {round}");
        }
    }
}

#[test]
fn noise_is_not_opened() {
    let ring = KeyRing::new(&[Key::generate()]).expect("one key");
    let sealers = [Sealer::new("fuzz", Seal::Open), Sealer::new("fuzz", Seal::Keys(ring))];
    let mut generator = Generator::new(8);
    for _ in 0..ROUNDS {
        let length = generator.below(64);
        let mut bytes: Vec<u8> = (0..length).map(|_| generator.next() as u8).collect();
        assert!(sealers.iter().all(|sealer| sealer.open_datagram(&mut bytes.clone()).is_err()));
        // As if somebody had the key.
        let _ = packet::decode(&bytes);
        let _ = decode_request(&bytes);
        if let Some(first) = bytes.first_mut() {
            *first = [0xA1, 0xB1][generator.below(2)];
        }
        assert!(sealers.iter().all(|sealer| sealer.open_datagram(&mut bytes.clone()).is_err()));
    }
}
