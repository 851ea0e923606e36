//! Large and senseless messages: nothing panics, nothing grows without bound, and what is right stays right.

use model::splitmix::SplitMix;
use model::{Fence, Hold, JobId, Limits};

use super::desk::{Desk, HELD, lost, row, secs};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::digest::Digest;
use crate::message::{Answer, Change};
use crate::registry::{HoldStanding, Input, STOPS_MAX, Verdict};

cases![
    hundred_thousand_changes_in_one_heartbeat,
    stops_come_in_pages_until_all_are_told,
    nobody_holds_more_than_the_maximum,
    records_beyond_the_maximum_cost_a_check,
    senseless_counters_heal_by_a_full_set,
    random_garbage_harms_nobody_else,
];

fn hundred_thousand_changes_in_one_heartbeat(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let holds: Vec<Hold> = (0..Limits::BOUND_MAX as u64).map(hold).collect();
    desk.give(&mut peer, &holds);
    assert_eq!(desk.view(&peer).bound, holds.len());
    assert_eq!(desk.registry.bound(&peer.key, 3), holds[..3]);
    peer.wants_full = true;
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.view(&peer).bound, holds.len());
    holds.iter().for_each(|hold| peer.unbind(*hold));
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!((desk.view(&peer).bound, desk.view(&peer).assigned), (0, 0));
}

fn stops_come_in_pages_until_all_are_told(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let holds: Vec<Hold> = (0..2_500).map(hold).collect();
    desk.give(&mut peer, &holds);
    for hold in &holds {
        desk.tell(Input::Cancel { key: peer.key.clone(), hold: *hold });
    }
    let mut pages = Vec::new();
    for _ in 0..5 {
        let stops = desk.renew(&mut peer).stops;
        assert_eq!(stops.len(), STOPS_MAX);
        pages.extend(stops.into_iter().map(|stop| stop.hold));
    }
    let twice = [&holds[..], &holds[..]].concat();
    assert_eq!(pages, twice, "going round");
    holds[..2_000].iter().for_each(|hold| peer.unbind(*hold));
    assert_eq!(desk.renew(&mut peer).stops.len(), 500);
}

fn nobody_holds_more_than_the_maximum(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let holds: Vec<Hold> = (0..Limits::BOUND_MAX as u64).map(hold).collect();
    desk.give(&mut peer, &holds);
    let excess = hold(1_000_000);
    desk.granted(&peer, &[excess]);
    peer.bind(excess);
    let (ack, others) = desk.accept(&mut peer);
    assert_eq!((ack.stops, others), (vec![lost(excess)], vec![]));
    assert_eq!(desk.view(&peer).bound, Limits::BOUND_MAX);
    assert_eq!(desk.verify(&peer, excess), Verdict::TakeBack);
    // The same in a full set; then it lets go, by a full set or by a change.
    peer.wants_full = true;
    assert_eq!(desk.renew(&mut peer).stops, [lost(excess)]);
    let mut beat = Peer { wants_full: true, ..peer.clone() }.beat();
    beat.full = Some(holds.clone());
    let answer = desk.answer(beat);
    assert!(matches!(&answer, Answer::Ok(ack) if ack.stops.is_empty()), "{answer:?}");
    peer.hear(0, &answer);
    peer.wants_full = true;
    assert_eq!(desk.renew(&mut peer).stops, [lost(excess)]);
    peer.unbind(excess);
    let ack = desk.renew(&mut peer);
    assert_eq!((ack.stops, ack.resync), (vec![], false));
    assert_eq!(desk.verify(&peer, hold(0)), Verdict::Push);
}

fn records_beyond_the_maximum_cost_a_check(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let holds: Vec<Hold> = (0..Limits::BOUND_MAX as u64 + 1).map(hold).collect();
    desk.granted(&peer, &holds);
    assert_eq!(desk.view(&peer).assigned, Limits::BOUND_MAX);
    let last = holds[holds.len() - 1];
    peer.bind(last);
    let (_, others) = desk.accept(&mut peer);
    assert_eq!(others.len(), 1, "{others:?}");
    desk.checked(&peer, &[HELD]);
    assert!(desk.registry.is_bound(&peer.key, last));
}

fn senseless_counters_heal_by_a_full_set(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let mut beat = peer.beat();
    let senseless = Change { hold: hold(9), change: u64::MAX };
    (beat.change, beat.binds) = (u64::MAX, vec![senseless]);
    let (answer, _) = desk.ask(beat);
    peer.hear(peer.change, &answer);
    peer.wants_full = false;
    // Its counter goes back; changes are taken for repeats, which the digest shows.
    desk.granted(&peer, &[hold(2)]);
    peer.bind(hold(2));
    let ack = desk.renew(&mut peer);
    assert!(ack.resync);
    assert!(!desk.renew(&mut peer).resync, "the full set tells");
    assert_eq!(desk.bound(&peer), [hold(1), hold(2)]);
    assert!(desk.registry.is_bound(&peer.key, hold(2)));
}

/// Numbers from the edges.
fn number(rng: &mut SplitMix) -> u64 {
    match rng.below(4) {
        0 => rng.below(4),
        1 => u64::MAX - rng.below(2),
        2 => rng.next(),
        _ => rng.below(50),
    }
}

fn garbage(rng: &mut SplitMix) -> Hold {
    let job = JobId::from_bytes(u128::from(rng.below(12)).to_be_bytes());
    Hold { job, fence: Fence::new(if rng.percent(80) { 1 } else { number(rng) as i64 }) }
}

fn changes(rng: &mut SplitMix) -> Vec<Change> {
    (0..rng.below(6)).map(|_| Change { hold: garbage(rng), change: number(rng) }).collect()
}

/// One worker talks nonsense under the right token; another one lives beside it undisturbed.
fn random_garbage_harms_nobody_else(bug: Bug) {
    for seed in 0..300 {
        let mut rng = SplitMix::new(seed);
        let (mut desk, mut good) = Desk::joined(bug, "good");
        desk.give(&mut good, &[hold(1)]);
        let mut bad = Peer::new("bad");
        desk.join(&mut bad);
        for _ in 0..60 {
            match rng.below(8) {
                0..4 => {
                    let mut beat = bad.beat();
                    (beat.binds, beat.unbinds, beat.change) =
                        (changes(&mut rng), changes(&mut rng), number(&mut rng));
                    beat.digest = Digest::from_parts(number(&mut rng) as u32, number(&mut rng));
                    beat.full =
                        rng.percent(30).then(|| (0..rng.below(9)).map(|_| garbage(&mut rng)).collect());
                    let (answer, _) = desk.ask(beat);
                    assert!(matches!(answer, Answer::Ok(_)), "{answer:?}");
                    bad.hear(0, &answer);
                }
                4 => {
                    let (key, nonce) = (bad.key.clone(), bad.nonce);
                    desk.tell(Input::Bind { key, nonce, binds: changes(&mut rng) });
                }
                5 => {
                    let standings = (0..rng.below(5)).map(|_| HoldStanding::Lost).collect();
                    let standings = rng.percent(70).then_some(standings);
                    desk.tell(Input::Checked { key: bad.key.clone(), standings });
                }
                6 => _ = desk.verify_row(&row(&bad, garbage(&mut rng))),
                _ => _ = desk.pass(secs(1)),
            }
        }
        // Enough to show the lists of the two are consistent: everything is dropped by an empty full set.
        let mut beat = bad.beat();
        (beat.change, beat.full) = (u64::MAX, Some(Vec::new()));
        let (answer, _) = desk.ask(beat);
        assert!(matches!(&answer, Answer::Ok(ack) if ack.stops.is_empty()), "seed {seed}: {answer:?}");
        assert_eq!(desk.bound(&bad), [], "seed {seed}");
        bad.hear(0, &answer);
        let mut beat = bad.beat();
        (beat.change, beat.digest) = (u64::MAX, Digest::default());
        assert!(matches!(desk.ask(beat).0, Answer::Ok(ack) if !ack.resync), "seed {seed}");
        desk.renew(&mut good);
        assert_eq!(desk.verify(&good, hold(1)), Verdict::Push);
    }
}
