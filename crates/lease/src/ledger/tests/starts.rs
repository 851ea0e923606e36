//! Who is started: only what is meant for us, as we are now, and has not come before.

use super::*;

/// Named in the table of mutations.
pub(super) fn a_start_that_is_not_current_is_refused(rig: &mut Rig) {
    let current = rig.grant(hold(1, 10)).start;
    let stale = [
        Start { generation: Generation(2), ..current.clone() },
        Start { key: key("w0"), ..current.clone() },
        Start { number: 0, ..current.clone() },
    ];
    for start in stale {
        let grant = Grant { start, ..rig.grant(hold(1, 10)) };
        assert_eq!(rig.input(10, Input::Assigned(grant.clone())), [], "{:?}", grant.start);
        assert_eq!(rig.try_frame(10), None, "it used no credit of this stream: {:?}", grant.start);
    }
    let grant = Grant { start: current.clone(), ..rig.grant(hold(1, 10)) };
    assert_eq!(rig.input(20, Input::Assigned(grant)), [Output::Start { hold: hold(1, 10) }]);
    let again = Grant { start: current, ..rig.grant(hold(2, 10)) };
    assert_eq!(rig.input(30, Input::Assigned(again)), [], "this number was used");
}

#[test]
fn start_that_is_not_current_is_refused() {
    a_start_that_is_not_current_is_refused(&mut Rig::new());
}

#[test]
fn numbers_only_grow_within_a_stream_and_begin_anew_with_the_next() {
    let mut rig = Rig::new();
    let (high, low) = (hold(1, 10), hold(2, 10));
    rig.start = 6;
    assert_eq!(rig.assign(0, high), [Output::Start { hold: high }]);
    rig.start = 2;
    assert_eq!(rig.assign(1, low), []);
    assert_eq!(rig.beat(4_000).1.starts_seen, 7);
    rig.input(5_000, Input::Disconnected);
    rig.connect(5_000);
    assert_eq!(rig.beat(5_000).1.starts_seen, 0);
    assert_eq!(rig.assign(5_001, low), [Output::Start { hold: low }]);
}

#[test]
fn nothing_starts_without_a_stream_or_before_the_key_is_registered() {
    let mut rig = Rig::unregistered(Ledger::new(terms(4), key("w1"), NONCE));
    assert_eq!(rig.assign(0, hold(1, 10)), []);
    let (number, _) = rig.beat(10);
    rig.ok(20, number);
    assert_eq!(rig.frame(20).credits, 4);
    rig.input(30, Input::Disconnected);
    assert_eq!(rig.assign(40, hold(2, 10)), []);
    assert_eq!(rig.ledger.holds(), [], "it was never started, and nothing is said about it");
}

#[test]
fn what_arrives_twice_starts_once() {
    let mut rig = Rig::new();
    let job = hold(1, 10);
    assert_eq!(rig.assign(0, job), [Output::Start { hold: job }]);
    assert_eq!(rig.assign(1, job), []);
    rig.complete(2, job);
    assert_eq!(rig.assign(3, job), [], "its report is owed");
}

#[test]
fn a_newer_claim_ends_the_older_one_and_never_the_other_way_round() {
    let mut rig = Rig::new();
    let (older, newer) = (hold(1, 10), hold(1, 11));
    rig.assign(0, older);
    assert_eq!(rig.assign(1, newer), [stop(older, StopReason::Lost), Output::Start { hold: newer }]);
    assert_eq!(rig.ledger.holds(), [newer]);
    rig.complete(2, older);
    assert_eq!(rig.assign(3, older), [], "a delayed assignment does not start");
}
