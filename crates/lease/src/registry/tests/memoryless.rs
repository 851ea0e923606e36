//! A server without a durable store: nobody is restored, so whoever shows a token of a life before must say everything first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use model::{Hold, HolderEnd, WorkerKey};

use super::desk::{Desk, HELD_EXCLUSIVE, bound, millis, secs, split, terms, token};
use super::peer::{Peer, volatile};
use super::{Bug, cases};
use crate::message::{Answer, Generation, InactiveReason, Token};
use crate::registry::{Enlisted, HoldStanding, Input, Output, Terms, Verdict, WorkerState};

cases![
    worker_from_before_says_everything_first,
    worker_from_before_has_a_whole_lease_to_say_it,
    worker_from_before_keeps_the_longer_lease_of_the_life_before,
    worker_from_before_does_not_wait_at_the_door,
    worker_from_before_comes_back_later_if_it_cannot_be_enlisted,
    token_of_this_life_is_not_from_before,
    new_worker_is_new,
    task_of_a_worker_from_before_is_not_started_twice,
];

/// A worker of the life before that runs these, and says so in full as long as nobody has taken a heartbeat.
fn from_before(name: &str, holds: &[Hold]) -> Peer {
    let mut peer = Peer::new(name);
    peer.token = Some(Token { generation: Generation(8), sequence: 40 });
    holds.iter().for_each(|hold| _ = peer.bind(*hold));
    (peer.binds, peer.wants_full) = (Vec::new(), true);
    peer
}

/// Its heartbeat comes and is answered after its key was made durable, for what that is worth.
fn find_us(desk: &mut Desk, peer: &mut Peer) -> Answer {
    let (ticket, outputs) = desk.beat(peer.beat());
    assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
    let (answer, others) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Known));
    assert_eq!(others, []);
    peer.hear(peer.change, &answer);
    answer
}

fn worker_from_before_says_everything_first(bug: Bug) {
    let mut desk = Desk::memoryless(bug);
    let mut peer = from_before("a", &[volatile(1), volatile(2)]);
    let answer = find_us(&mut desk, &mut peer);
    assert_eq!(answer, Answer::Mismatch { token: token(1), held: true, resync: true });
    assert_eq!((desk.state(&peer), desk.bound(&peer)), (Some(WorkerState::Unsynced), vec![]));
    assert_eq!(desk.verify(&peer, volatile(1)), Verdict::AskAgain);
    let (ack, others) = desk.accept(&mut peer);
    assert!(!ack.resync);
    assert_eq!(others, [Output::Check { key: peer.key.clone(), holds: vec![volatile(1), volatile(2)] }]);
    assert_eq!(desk.synced, [], "nobody knows yet whether those stand");
    let told = desk.checked(&peer, &[HELD_EXCLUSIVE; 2]);
    assert_eq!(told, [bound(&peer, &[volatile(1), volatile(2)])]);
    assert_eq!((desk.state(&peer), &desk.synced[..]), (Some(WorkerState::Active), &[peer.key.clone()][..]));
    assert_eq!(desk.verify(&peer, volatile(1)), Verdict::Push);
    desk.renew(&mut peer);
    assert_eq!(desk.synced.len(), 1, "once");
}

fn worker_from_before_has_a_whole_lease_to_say_it(bug: Bug) {
    let mut desk = Desk::memoryless(bug);
    let mut peer = Peer { lease: secs(60), ..from_before("a", &[volatile(1)]) };
    find_us(&mut desk, &mut peer);
    let view = desk.view(&peer);
    assert_eq!((view.lease, view.expires), (secs(60), desk.now + millis(60_060)), "and the rate error");
    assert_eq!(desk.pass(secs(60)), []);
    assert_eq!(desk.state(&peer), Some(WorkerState::Unsynced));
    let outputs = desk.pass(secs(1));
    assert!(matches!(
        outputs[..],
        [Output::Ended { end: HolderEnd::Expired, .. }, Output::Gone { .. }, Output::Retire { .. }]
    ));
    assert_eq!(desk.synced, [], "what it held was never known");
}

/// It asks for less than it had. As long as it has not shown a token of ours, it may not have heard so.
fn worker_from_before_keeps_the_longer_lease_of_the_life_before(bug: Bug) {
    let mut desk = Desk::with(Terms { durable: false, inherited_lease: secs(60), ..terms() }, bug);
    assert_eq!(desk.tell(Input::Restored(Vec::new())), []);
    let mut peer = Peer { lease: secs(20), ..from_before("a", &[volatile(1)]) };
    find_us(&mut desk, &mut peer);
    assert_eq!(desk.pass(secs(60)), [], "it may be running");
    let outputs = desk.pass(secs(1));
    assert!(matches!(
        outputs[..],
        [Output::Ended { end: HolderEnd::Expired, .. }, Output::Gone { .. }, Output::Retire { .. }]
    ));
}

fn worker_from_before_does_not_wait_at_the_door(bug: Bug) {
    let mut desk = Desk::with(Terms { durable: false, registrations_per_second: 1, ..terms() }, bug);
    desk.tell(Input::Restored(Vec::new()));
    for name in ["a", "b", "c"] {
        find_us(&mut desk, &mut from_before(name, &[]));
    }
}

fn worker_from_before_comes_back_later_if_it_cannot_be_enlisted(bug: Bug) {
    let mut desk = Desk::memoryless(bug);
    let mut peer = from_before("a", &[volatile(1)]);
    let (ticket, _) = desk.beat(peer.beat());
    assert_eq!(desk.verify(&peer, volatile(1)), Verdict::AskAgain);
    let (answer, _) = split(ticket, &peer.key, desk.enlisted(&peer.key, Enlisted::Trouble));
    assert!(matches!(answer, Answer::Later { .. }), "{answer:?}");
    assert!(matches!(find_us(&mut desk, &mut peer), Answer::Mismatch { resync: true, .. }));
}

fn token_of_this_life_is_not_from_before(bug: Bug) {
    let mut desk = Desk::memoryless(bug);
    let peer = Peer { token: Some(token(40)), ..from_before("a", &[volatile(1)]) };
    assert_eq!(desk.answer(peer.beat()), Answer::Inactive { why: InactiveReason::Unknown });
    let mut durable = Desk::open(bug);
    let answer = durable.answer(from_before("a", &[volatile(1)]).beat());
    assert_eq!(answer, Answer::Inactive { why: InactiveReason::Unknown }, "it would be known");
}

fn new_worker_is_new(bug: Bug) {
    let mut desk = Desk::memoryless(bug);
    let mut peer = Peer::new("a");
    desk.join(&mut peer);
    assert_eq!((desk.state(&peer), &desk.synced[..]), (Some(WorkerState::Active), &[peer.key.clone()][..]));
}

/// What runs where, and a store that believes what workers say of tasks that it does not know.
#[derive(Default)]
struct Scheduler {
    running: BTreeMap<Hold, Vec<WorkerKey>>,
    adopted: BTreeMap<Hold, WorkerKey>,
}

impl Scheduler {
    fn check(&mut self, key: &WorkerKey, hold: Hold) -> HoldStanding {
        let holder = self.adopted.entry(hold).or_insert_with(|| key.clone());
        if holder == key { HELD_EXCLUSIVE } else { HoldStanding::Lost }
    }

    /// Starts whatever nobody is known to run.
    fn start(&mut self, hold: Hold, key: &WorkerKey) {
        if let Entry::Vacant(free) = self.adopted.entry(hold) {
            free.insert(key.clone());
            self.running.entry(hold).or_default().push(key.clone());
        }
    }
}

fn task_of_a_worker_from_before_is_not_started_twice(bug: Bug) {
    let task = volatile(1);
    let mut desk = Desk::memoryless(bug);
    let (mut old, mut idle) = (from_before("old", &[task]), Peer::new("idle"));
    let mut scheduler = Scheduler::default();
    scheduler.running.insert(task, vec![old.key.clone()]);
    desk.join(&mut idle);
    find_us(&mut desk, &mut old);
    let mut questions = Vec::new();
    // Its client has submitted it again. It is started as soon as the server knows what everybody runs.
    for _ in 0..3 {
        if desk.synced.contains(&idle.key) && desk.synced.contains(&old.key) {
            scheduler.start(task, &idle.key);
        }
        let change = old.change;
        let (answer, others) = desk.ask(old.beat());
        old.hear(change, &answer);
        questions.extend(others.into_iter().filter(|output| matches!(output, Output::Check { .. })));
        if desk.synced.contains(&idle.key) && desk.synced.contains(&old.key) {
            scheduler.start(task, &idle.key);
        }
        for question in questions.drain(..) {
            let Output::Check { key, holds } = question else { continue };
            let standings = Some(holds.iter().map(|hold| scheduler.check(&key, *hold)).collect());
            desk.tell(Input::Checked { key, standings });
        }
    }
    assert!(desk.synced.contains(&old.key), "everybody is known in the end");
    assert_eq!(scheduler.running[&task], [old.key], "one copy, and it is the one that ran all the time");
}
