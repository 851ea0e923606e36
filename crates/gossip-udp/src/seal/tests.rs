//! Who can open what.

use std::collections::BTreeSet;

use super::*;

const TEXT: &[u8] = b"what is said";

fn key(seed: u8) -> Key {
    Key::from_bytes([seed; KEY_BYTES])
}

fn ring(keys: &[Key]) -> KeyRing {
    KeyRing::new(keys).expect("the keys have different numbers")
}

fn sealed(label: &str, keys: &[Key]) -> Sealer {
    Sealer::new(label, Seal::Keys(ring(keys)))
}

fn written(sealer: &Sealer, place: Place<'_>) -> Vec<u8> {
    let mut out = b"left over from before".to_vec();
    sealer.seal(place, &mut out, |out| out.extend_from_slice(TEXT));
    out
}

fn check(from: &Sealer, to: &Sealer, expected: Result<&[u8], Refused>) {
    let mut bytes = written(from, Place::Datagram);
    assert_eq!(to.open_datagram(&mut bytes), expected);
}

#[test]
fn any_key_of_the_ring_opens_and_no_other() {
    let (old, new) = (key(1), key(2));
    let both = sealed("a", &[new.clone(), old.clone()]);
    check(&sealed("a", std::slice::from_ref(&old)), &both, Ok(TEXT));
    check(&sealed("a", std::slice::from_ref(&new)), &both, Ok(TEXT));
    check(&both, &sealed("a", std::slice::from_ref(&new)), Ok(TEXT));
    check(&both, &sealed("a", std::slice::from_ref(&old)), Err(Refused::Key));
}

#[test]
fn replaced_keys_hold_at_once() {
    let (old, new) = (key(1), key(2));
    let mine = ring(std::slice::from_ref(&old));
    let sealer = Sealer::new("a", Seal::Keys(mine.clone()));
    let stranger = sealed("a", std::slice::from_ref(&new));
    check(&stranger, &sealer, Err(Refused::Key));
    mine.replace(std::slice::from_ref(&new)).expect("one key");
    check(&stranger, &sealer, Ok(TEXT));
    check(&sealer, &stranger, Ok(TEXT));
    check(&sealed("a", &[old]), &sealer, Err(Refused::Key));
}

#[test]
fn a_key_with_the_same_number_is_still_another_key() {
    let mine = key(1);
    let twin = (0..=u16::MAX)
        .map(|n| {
            let mut bytes = [9; KEY_BYTES];
            bytes[..2].copy_from_slice(&n.to_le_bytes());
            Key::from_bytes(bytes)
        })
        .find(|other| other.number() == mine.number())
        .expect("one in 256");
    check(&sealed("a", &[twin]), &sealed("a", &[mine]), Err(Refused::Forged));
}

#[test]
fn clusters_with_one_key_do_not_hear_each_other() {
    // The labels' hashes differ in their first byte, or not: then only the associated data tells them apart.
    let labels: Vec<String> = (0..2_000).map(|n| format!("cluster {n}")).collect();
    let mine = sealed("mine", &[key(1)]);
    let mut refusals = BTreeSet::new();
    for label in &labels {
        let mut bytes = written(&sealed(label, &[key(1)]), Place::Datagram);
        refusals.insert(format!("{:?}", mine.open_datagram(&mut bytes)));
        check(&Sealer::new(label, Seal::Open), &Sealer::new("mine", Seal::Open), Err(Refused::Cluster));
    }
    assert_eq!(refusals.into_iter().collect::<Vec<_>>(), ["Err(Cluster)", "Err(Forged)"]);
}

#[test]
fn open_and_sealed_do_not_mix() {
    let (open, closed) = (Sealer::new("a", Seal::Open), sealed("a", &[key(1)]));
    check(&open, &open, Ok(TEXT));
    check(&open, &closed, Err(Refused::Key));
    check(&closed, &open, Err(Refused::Key));
    assert!(open.is_open() && !closed.is_open());
}

#[test]
fn an_envelope_is_opened_only_where_it_belongs() {
    let (one, two) = ([1; SESSION_BYTES], [2; SESSION_BYTES]);
    let places = [
        Place::Datagram,
        Place::Request(&one, 0),
        Place::Request(&one, 1),
        Place::Request(&two, 0),
        Place::Response(&one, 0),
        Place::Response(&one, 1),
        Place::Request(&[0; SESSION_BYTES], 0),
    ];
    for sealer in [Sealer::new("a", Seal::Open), sealed("a", &[key(1)])] {
        for written_at in places {
            for read_at in places {
                let opened = sealer.open(read_at, &mut written(&sealer, written_at)).is_ok();
                assert_eq!(opened, read_at == written_at, "{written_at:?} read as {read_at:?}");
            }
        }
    }
}

#[test]
fn every_truncation_and_every_flipped_bit_is_refused() {
    for sealer in [Sealer::new("a", Seal::Open), sealed("a", &[key(1), key(2)])] {
        let whole = written(&sealer, Place::Datagram);
        for length in 0..whole.len() {
            assert!(sealer.open_datagram(&mut whole[..length].to_vec()).is_err(), "{length} bytes");
        }
        for bit in 0..whole.len() * 8 {
            let mut damaged = whole.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(sealer.open_datagram(&mut damaged).is_err(), "bit {bit}");
        }
        assert_eq!(sealer.open_datagram(&mut whole.clone()), Ok(TEXT));
    }
}

#[test]
fn no_nonce_is_used_twice_and_processes_begin_anywhere() {
    let (one, two) = (Nonces::new(), Nonces::new());
    let mut seen = BTreeSet::new();
    for _ in 0..1_000 {
        assert!(seen.insert(one.next()) && seen.insert(two.next()));
    }
    let wrapping = Nonces { start: u128::MAX, used: AtomicU64::new(0) };
    assert_eq!((wrapping.next(), wrapping.next()), ([0xff; NONCE_LEN], [0; NONCE_LEN]));
}
