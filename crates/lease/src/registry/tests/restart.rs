//! What workers get back when it was us who were away: after a restart, and after a stall of our own.

use model::{Hold, HolderEnd, Instant};

use super::desk::{Desk, HELD, known, lost, millis, secs, token};
use super::peer::{Peer, hold};
use super::{Bug, cases};
use crate::message::{Answer, Generation, Token};
use crate::registry::{CHECK_MAX, HoldStanding, Input, Output, Verdict, WorkerState};

cases![
    restored_worker_has_its_largest_grant_to_find_us,
    restored_worker_that_stays_away_expires,
    restored_worker_is_asked_for_everything_and_is_then_known,
    restored_worker_is_unsynced_until_every_row_was_read,
    restored_worker_without_jobs_is_known_at_once,
    restored_worker_that_sends_no_full_set_stays_unsynced,
    restored_worker_that_lost_jobs_is_told,
    own_stall_is_given_back_before_anybody_is_judged,
    stall_is_noticed_by_whatever_comes_first,
    hiccup_is_no_stall,
    stall_of_years_neither_panics_nor_kills,
    nobody_alive_means_no_ticks,
];

/// A worker with a token of the life before.
fn from_before(name: &str, jobs: u64) -> Peer {
    let mut peer = Peer::new(name);
    peer.token = Some(Token { generation: Generation(8), sequence: 40 });
    (0..jobs).for_each(|job| _ = peer.bind(hold(job)));
    (peer.binds, peer.unbinds) = (Vec::new(), Vec::new());
    peer
}

/// Its first heartbeat: it learns the token and what it must send.
fn find_us(desk: &mut Desk, peer: &mut Peer) {
    let answer = desk.answer(peer.beat());
    assert_eq!(answer, Answer::Mismatch { token: token(1), held: true, resync: true });
    peer.hear(peer.change, &answer);
}

fn restored_worker_has_its_largest_grant_to_find_us(bug: Bug) {
    let peer = Peer { lease: secs(60), ..from_before("a", 1) };
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    let view = desk.view(&peer);
    assert_eq!(view.expires, desk.now + millis(60_060), "made longer");
    assert_eq!((view.state, view.first_heard, view.last_heard), (WorkerState::Unsynced, None, None));
    assert_eq!((view.profile.name.as_str(), desk.registry.active_count()), ("host", 1));
    assert_eq!(desk.pass(secs(60)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Unsynced));
}

fn restored_worker_that_stays_away_expires(bug: Bug) {
    let peer = from_before("a", 1);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    assert_eq!(desk.pass(secs(20)), []);
    let outputs = desk.pass(secs(1));
    assert!(matches!(
        outputs[..],
        [Output::Ended { end: HolderEnd::Expired, .. }, Output::Gone { .. }, Output::Retire { .. }]
    ));
}

fn restored_worker_is_asked_for_everything_and_is_then_known(bug: Bug) {
    let mut peer = from_before("a", 2);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    desk.pass(secs(5));
    let before = desk.view(&peer).expires;
    find_us(&mut desk, &mut peer);
    assert_eq!(desk.view(&peer).expires, before, "finding us renews nothing");
    let (ack, others) = desk.accept(&mut peer);
    assert!(!ack.resync);
    assert_eq!(others, [Output::Check { key: peer.key.clone(), holds: vec![hold(0), hold(1)] }]);
    assert_eq!(desk.view(&peer).expires, desk.now + millis(20_020));
    assert_eq!(desk.verify(&peer, hold(0)), Verdict::AskAgain);
    assert_eq!(desk.checked(&peer, &[HELD; 2]), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    assert_eq!(desk.verify(&peer, hold(0)), Verdict::Push);
    assert_eq!(desk.verify(&peer, hold(2)), Verdict::TakeBack);
    assert!(!desk.renew(&mut peer).resync);
    // Told twice who was alive, nobody is thrown back.
    let before = desk.view(&peer);
    assert_eq!(desk.tell(Input::Restored(vec![known(&peer)])), []);
    assert_eq!((desk.view(&peer), desk.registry.active_count()), (before, 1));
}

fn restored_worker_is_unsynced_until_every_row_was_read(bug: Bug) {
    let mut peer = from_before("a", 1_500);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    find_us(&mut desk, &mut peer);
    desk.accept(&mut peer);
    desk.checked(&peer, &[HELD; CHECK_MAX]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Unsynced));
    assert_eq!(desk.verify(&peer, hold(0)), Verdict::AskAgain, "even what was read already");
    assert_eq!(desk.verify(&peer, hold(9_999)), Verdict::AskAgain);
    desk.checked(&peer, &[HELD; 500]);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
    assert_eq!(desk.verify(&peer, hold(1_499)), Verdict::Push);
}

fn restored_worker_without_jobs_is_known_at_once(bug: Bug) {
    let mut peer = from_before("a", 0);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    find_us(&mut desk, &mut peer);
    assert!(!desk.renew(&mut peer).resync);
    assert_eq!(desk.state(&peer), Some(WorkerState::Active));
}

fn restored_worker_that_sends_no_full_set_stays_unsynced(bug: Bug) {
    let mut peer = from_before("a", 0);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    find_us(&mut desk, &mut peer);
    for _ in 0..3 {
        peer.wants_full = false;
        assert!(desk.renew(&mut peer).resync, "its digest fits by chance");
        assert_eq!(desk.verify(&peer, hold(1)), Verdict::AskAgain);
    }
}

fn restored_worker_that_lost_jobs_is_told(bug: Bug) {
    let mut peer = from_before("a", 2);
    let mut desk = Desk::reopened(bug, &[known(&peer)]);
    find_us(&mut desk, &mut peer);
    desk.accept(&mut peer);
    let told = desk.checked(&peer, &[HoldStanding::Lost, HELD]);
    assert_eq!(told, [Output::Stop { key: peer.key.clone(), stops: vec![lost(hold(0))] }]);
    assert_eq!(desk.renew(&mut peer).stops, [lost(hold(0))]);
    peer.unbind(hold(0));
    assert_eq!(desk.renew(&mut peer).stops, []);
    assert_eq!(desk.bound(&peer), [hold(1)]);
}

fn own_stall_is_given_back_before_anybody_is_judged(bug: Bug) {
    let (mut desk, mut a) = Desk::joined(bug, "a");
    let mut late = Peer::new("late");
    desk.join(&mut late);
    let mut b = Peer { lease: secs(60), ..Peer::new("b") };
    desk.join(&mut b);
    b.lease = secs(1);
    desk.renew(&mut b);
    assert_eq!(desk.pass(secs(2)), []);
    let last_tick = desk.now;
    // Heard while our loop had a hiccup already.
    desk.freeze(millis(900));
    desk.renew(&mut late);
    let before = desk.view(&late).expires;
    desk.freeze(secs(300));
    desk.registry.handle_deadline(desk.now);
    assert_eq!(desk.drain(), []);
    assert_eq!(desk.registry.stalls(), 1);
    let stalled = desk.now.since(last_tick + millis(250));
    assert_eq!(desk.view(&a).expires, desk.now + millis(20_020));
    assert_eq!(desk.view(&late).expires, before + stalled, "whatever it had left, it has left");
    assert_eq!(desk.view(&b).expires, desk.now + millis(60_060), "by its largest grant, not its last");
    // Everybody goes on as if nothing had been.
    assert_eq!(desk.pass(secs(19)), []);
    desk.renew(&mut a);
    desk.renew(&mut b);
    let outputs = desk.pass(secs(100));
    assert_eq!(outputs.len(), 3 * 3, "and whoever is silent now expires: {outputs:?}");
}

fn stall_is_noticed_by_whatever_comes_first(bug: Bug) {
    let firsts: [fn(&mut Desk, &Peer); 3] = [
        |desk, peer| assert!(matches!(desk.answer(peer.beat()), Answer::Mismatch { held: true, .. })),
        |desk, _| _ = desk.tell(Input::Drain { key: super::peer::key("nobody") }),
        |desk, peer| _ = desk.verify(peer, hold(1)),
    ];
    for first in firsts {
        let (mut desk, peer) = Desk::joined(bug, "a");
        let silent = Peer { token: None, ..peer.clone() };
        desk.freeze(secs(30));
        first(&mut desk, &silent);
        assert_eq!(desk.registry.stalls(), 1);
        assert!(desk.view(&peer).expires >= desk.now + millis(20_020));
        desk.registry.handle_deadline(desk.now);
        assert_eq!(desk.drain(), []);
        assert_eq!(desk.registry.stalls(), 1, "one stall is one stall");
    }
}

fn hiccup_is_no_stall(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    let expires = desk.view(&peer).expires;
    desk.freeze(millis(1_250));
    desk.registry.handle_deadline(desk.now);
    assert_eq!((desk.registry.stalls(), desk.view(&peer).expires), (0, expires));
}

fn stall_of_years_neither_panics_nor_kills(bug: Bug) {
    let (mut desk, mut peer) = Desk::joined(bug, "a");
    for _ in 0..3 {
        desk.freeze(secs(30 * 365 * 24 * 3_600));
        desk.registry.handle_deadline(desk.now);
        assert_eq!(desk.drain(), []);
        desk.renew(&mut peer);
    }
    desk.now = Instant::from_nanos(u64::MAX);
    desk.registry.handle_deadline(desk.now);
    desk.drain();
    desk.ask(peer.beat());
    desk.registry.verify(desk.now, &[super::desk::row(&peer, hold(1))]);
    desk.registry.handle_deadline(desk.now);
}

fn nobody_alive_means_no_ticks(bug: Bug) {
    let (mut desk, peer) = Desk::joined(bug, "a");
    assert!(desk.registry.next_deadline().is_some_and(|at| at <= desk.now + millis(250)));
    desk.pass(secs(21));
    desk.retired(&peer, true);
    assert_eq!(desk.registry.next_deadline(), Some(desk.now + secs(600)), "only to forget it");
    desk.freeze(secs(3_000));
    desk.registry.handle_deadline(desk.now);
    assert_eq!(desk.registry.stalls(), 0);
    let holds: Vec<Hold> = desk.bound(&peer);
    assert_eq!((holds, desk.registry.next_deadline()), (vec![], None));
}
