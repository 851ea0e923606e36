//! Every row of the verification table.

use std::time::Duration;

use model::{HolderEnd, Nonce, RegistryId};

use super::desk::{Desk, HELD, OURS, known, lost, row, secs, stopped, terms};
use super::peer::{Peer, hold, key};
use super::{Bug, cases};
use crate::registry::{HoldStanding, Input, Output, Row, StartResult, Terms, Verdict};

cases![
    row_of_another_registry_is_not_ours_to_judge,
    start_is_unsure_until_the_worker_has_seen_it,
    nobody_is_judged_before_the_store_was_read,
    unknown_worker_of_ours_has_nothing,
    holder_that_never_heartbeat_lives_by_its_pings,
    joining_worker_is_asked_about_again,
    unsynced_worker_is_asked_about_again,
    checking_hold_is_asked_about_again,
    bound_hold_is_pushed,
    unbound_hold_is_taken_back,
    start_that_was_just_sent_is_asked_about_again,
    other_claim_of_a_bound_job_is_taken_back,
    lost_hold_is_taken_back,
    silent_job_of_a_live_worker_is_taken_back,
    ended_worker_is_taken_back_from_once_that_is_durable,
    verdicts_come_in_the_order_of_the_rows,
];

fn row_of_another_registry_is_not_ours_to_judge(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    for who in [peer, Peer::new("nobody")] {
        let row = Row { registry: Some(RegistryId(5)), pings: true, ..row(&who, hold(1)) };
        assert_eq!(desk.verify_row(&row), Verdict::NotOurs);
    }
    assert_eq!(
        Desk::closed(bug).verify_row(&Row { registry: Some(RegistryId(5)), ..row(&Peer::new("a"), hold(1)) }),
        Verdict::NotOurs
    );
}

fn start_is_unsure_until_the_worker_has_seen_it(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let of = |desk: &Desk, peer: &Peer, it: u64| desk.registry.start_result(&peer.key, hold(it));
    let holds = vec![hold(1), hold(2), hold(3)];
    desk.tell(Input::Granted { key: peer.key.clone(), holds, exclusive: Vec::new(), start: 3 });
    assert_eq!(of(&desk, &peer, 1), StartResult::Unsure, "it may be on its way");
    // It has received two of the three, and took one of them.
    peer.starts_seen = 2;
    peer.bind(hold(1));
    desk.renew(&mut peer);
    assert_eq!(
        [1, 2, 3].map(|it| of(&desk, &peer, it)),
        [StartResult::Started, StartResult::NotStarted, StartResult::Unsure]
    );
    assert_eq!(desk.registry.start_result(&key("nobody"), hold(1)), StartResult::Unsure);
}

fn start_that_was_just_sent_is_asked_about_again(bug: Bug) {
    let mut desk = Desk::with(Terms { verify_after: secs(2), ..terms() }, bug);
    desk.tell(Input::Restored(Vec::new()));
    let mut peer = Peer::new("a");
    desk.join(&mut peer);
    desk.pass(secs(1));
    let holds = vec![hold(1), hold(2), hold(3)];
    desk.tell(Input::Granted { key: peer.key.clone(), holds, exclusive: Vec::new(), start: 3 });
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain, "its row's lease was over before it was sent");
    assert_eq!(desk.verify(&peer, hold(4)), Verdict::TakeBack, "nothing was sent");
    // The worker has received two, and took one of them.
    peer.starts_seen = 2;
    peer.bind(hold(1));
    desk.renew(&mut peer);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::Push);
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::TakeBack, "it certainly does not run");
    desk.pass(secs(2) - Duration::from_millis(1));
    assert_eq!(desk.verify(&peer, hold(3)), Verdict::AskAgain);
    desk.pass(Duration::from_millis(1));
    assert_eq!(desk.verify(&peer, hold(3)), Verdict::TakeBack, "it did not arrive");
}

fn nobody_is_judged_before_the_store_was_read(bug: Bug) {
    let (mut desk, peer) = (Desk::closed(bug), Peer::new("a"));
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain);
    assert_eq!(desk.verify_row(&Row { registry: None, ..row(&peer, hold(1)) }), Verdict::AskAgain);
}

fn unknown_worker_of_ours_has_nothing(bug: Bug) {
    let mut desk = Desk::open(bug);
    assert_eq!(desk.verify(&Peer::new("nobody"), hold(1)), Verdict::TakeBack);
}

fn holder_that_never_heartbeat_lives_by_its_pings(bug: Bug) {
    let mut desk = Desk::open(bug);
    // Whether the store keeps it in our registry or in none.
    for registry in [None, Some(OURS)] {
        for (pings, verdict) in [(true, Verdict::Push), (false, Verdict::TakeBack)] {
            let row = Row { registry, pings, ..row(&Peer::new("curl"), hold(1)) };
            assert_eq!(desk.verify_row(&row), verdict);
            let silent = Row { beats_itself: true, ..row };
            assert_eq!(desk.verify_row(&silent), Verdict::TakeBack, "the job itself is silent");
        }
    }
    // Once it heartbeats, it is judged like any other.
    let mut peer = Peer::new("curl");
    desk.join(&mut peer);
    let row = Row { registry: None, pings: true, ..row(&peer, hold(1)) };
    assert_eq!(desk.verify_row(&row), Verdict::TakeBack);
}

fn joining_worker_is_asked_about_again(bug: Bug) {
    let (mut desk, peer) = (Desk::open(bug), Peer::new("a"));
    desk.beat(peer.beat());
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain);
}

fn unsynced_worker_is_asked_about_again(bug: Bug) {
    let peer = Peer::new("a");
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    for beats_itself in [false, true] {
        let row = Row { beats_itself, ..row(&peer, hold(1)) };
        assert_eq!(desk.verify_row(&row), Verdict::AskAgain);
    }
}

fn checking_hold_is_asked_about_again(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    for beats_itself in [false, true] {
        let row = Row { beats_itself, ..row(&peer, hold(1)) };
        assert_eq!(desk.verify_row(&row), Verdict::AskAgain);
    }
    desk.checked(&peer, &[HELD]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::Push);
}

fn bound_hold_is_pushed(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::Push);
    assert_eq!(desk.verify_row(&Row { registry: None, ..row(&peer, hold(1)) }), Verdict::Push);
}

fn unbound_hold_is_taken_back(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    desk.granted(&peer, &[hold(1)]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack, "it was given and never bound");
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::TakeBack, "it was never given");
    assert_eq!(desk.drain(), []);
}

fn other_claim_of_a_bound_job_is_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    let (old, new) = (super::peer::hold_of(1, 4), super::peer::hold_of(1, 5));
    desk.give(&mut peer, &[old]);
    assert_eq!(desk.verify(&peer, new), Verdict::TakeBack);
    assert_eq!(desk.verify(&peer, old), Verdict::Push);
}

fn lost_hold_is_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    peer.bind(hold(1));
    desk.accept(&mut peer);
    desk.checked(&peer, &[HoldStanding::Lost]);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
}

fn silent_job_of_a_live_worker_is_taken_back(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1), hold(2)]);
    let row = Row { beats_itself: true, ..row(&peer, hold(1)) };
    assert_eq!(desk.verify_row(&row), Verdict::TakeBack);
    assert_eq!(desk.drain(), [Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(1))] }]);
    assert!(!desk.registry.is_bound(&peer.key, hold(1)));
    assert_eq!(desk.renew(&mut peer).stops, [lost(hold(1))]);
    assert_eq!(desk.verify_row(&row), Verdict::TakeBack);
    assert_eq!(desk.drain(), [], "it was told already");
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::Push);
}

fn ended_worker_is_taken_back_from_once_that_is_durable(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    desk.pass(secs(21));
    for done in [false, true] {
        assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain);
        desk.retired(&peer, done);
    }
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack);
    desk.pass(secs(601));
    assert_eq!(desk.state(&peer), None);
    assert_eq!(desk.verify(&peer, hold(1)), Verdict::TakeBack, "and for ever after");

    let ticket = desk.ticket();
    let key = key("curl");
    let outputs =
        desk.tell(Input::Leave { ticket, key: key.clone(), nonce: Nonce::default(), leave: stopped(true) });
    assert!(matches!(outputs[..], [Output::Retire { end: HolderEnd::Left, .. }]), "{outputs:?}");
    let row = Row {
        hold: hold(1),
        holder: key,
        registry: None,
        beats_itself: false,
        exclusive: false,
        pings: true,
    };
    assert_eq!(desk.verify_row(&row), Verdict::AskAgain, "it says that it is gone, whatever it pings");
}

fn verdicts_come_in_the_order_of_the_rows(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    desk.give(&mut peer, &[hold(1)]);
    let foreign = Row { registry: Some(RegistryId(OURS.0 + 1)), ..row(&peer, hold(1)) };
    let rows = [row(&peer, hold(2)), foreign, row(&peer, hold(1)), row(&Peer::new("nobody"), hold(1))];
    let verdicts = desk.registry.verify(desk.now, &rows);
    assert_eq!(verdicts, [Verdict::TakeBack, Verdict::NotOurs, Verdict::Push, Verdict::TakeBack]);
    assert_eq!(desk.registry.verify(desk.now, &[]), []);
}
