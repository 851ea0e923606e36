//! A registry on virtual time, with somebody who answers for the store.

use std::time::Duration;

use model::{Hold, HolderEnd, Instant, RegistryId, WorkerKey};

use super::Bug;
use super::peer::Peer;
use crate::clock_rule::RateError;
use crate::message::{Ack, Answer, Generation, Heartbeat, InactiveReason, Leave, Stop, StopOrder, Token};
use crate::registry::{
    Enlisted, HoldStanding, Input, Output, Registry, Restored, Retired, Row, Terms, Ticket, Verdict,
    WorkerState, WorkerView,
};

/// The registry in the tests.
pub(super) const OURS: RegistryId = RegistryId(4);

pub(super) const fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

pub(super) fn terms() -> Terms {
    Terms {
        registry: OURS,
        generation: Generation(9),
        lease_default: secs(20),
        lease_min: millis(500),
        lease_max: secs(3_600),
        rate_error: RateError::DEFAULT,
        verify_after: Duration::ZERO,
        registrations_per_second: 1_000,
        remember_ended: secs(600),
        durable: true,
        inherited_lease: Duration::ZERO,
    }
}

pub(super) fn registry(terms: Terms, bug: Bug) -> Registry {
    match bug {
        None => Registry::new(terms),
        Some(mutation) => Registry::broken(terms, mutation),
    }
}

pub(super) struct Desk {
    pub(super) registry: Registry,
    pub(super) now: Instant,
    ticket: u64,
    /// Of whom it was said that all they hold is known, in that order.
    pub(super) synced: Vec<WorkerKey>,
}

impl Desk {
    /// Before the store told who was alive.
    pub(super) fn closed(bug: Bug) -> Self {
        Self::with(terms(), bug)
    }

    /// Nobody was alive.
    pub(super) fn open(bug: Bug) -> Self {
        Self::reopened(bug, &[])
    }

    /// These were alive.
    pub(super) fn reopened(bug: Bug, known: &[Restored]) -> Self {
        let mut desk = Self::closed(bug);
        assert_eq!(desk.tell(Input::Restored(known.to_vec())), []);
        desk
    }

    /// Nobody is known over a restart.
    pub(super) fn memoryless(bug: Bug) -> Self {
        let mut desk = Self::with(Terms { durable: false, ..terms() }, bug);
        assert_eq!(desk.tell(Input::Restored(Vec::new())), []);
        desk
    }

    pub(super) fn with(terms: Terms, bug: Bug) -> Self {
        let now = Instant::from_millis(1_000_000);
        Desk { registry: registry(terms, bug), now, ticket: 0, synced: Vec::new() }
    }

    /// Something happens.
    pub(super) fn tell(&mut self, input: Input) -> Vec<Output> {
        self.registry.handle(self.now, input);
        self.drain()
    }

    /// Time passes as on a healthy machine: deadlines are met.
    pub(super) fn pass(&mut self, span: Duration) -> Vec<Output> {
        let until = self.now + span;
        let mut outputs = Vec::new();
        while let Some(deadline) = self.registry.next_deadline().filter(|deadline| *deadline <= until) {
            self.now = self.now.max(deadline);
            self.registry.handle_deadline(self.now);
            outputs.extend(self.drain());
        }
        self.now = until;
        outputs
    }

    /// Our own process stands still.
    pub(super) fn freeze(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Everything that is to be done, but for `synced`.
    pub(super) fn drain(&mut self) -> Vec<Output> {
        let mut outputs = Vec::new();
        while let Some(output) = self.registry.poll_output() {
            match output {
                Output::Synced { key } => self.synced.push(key),
                other => outputs.push(other),
            }
        }
        outputs
    }

    pub(super) fn ticket(&mut self) -> Ticket {
        self.ticket += 1;
        Ticket(self.ticket)
    }

    /// A heartbeat arrives: what comes of it.
    pub(super) fn beat(&mut self, beat: Heartbeat) -> (Ticket, Vec<Output>) {
        let ticket = self.ticket();
        (ticket, self.tell(Input::Heartbeat { ticket, beat }))
    }

    /// A heartbeat arrives that is answered at once; what else comes of it is given back too.
    pub(super) fn ask(&mut self, beat: Heartbeat) -> (Answer, Vec<Output>) {
        let key = beat.key.clone();
        let (ticket, outputs) = self.beat(beat);
        split(ticket, &key, outputs)
    }

    /// A heartbeat arrives that is answered at once, and nothing else comes of it.
    pub(super) fn answer(&mut self, beat: Heartbeat) -> Answer {
        let (answer, others) = self.ask(beat);
        assert_eq!(others, [], "nothing but an answer comes of it");
        answer
    }

    /// A worker beats, is accepted, and hears so.
    pub(super) fn accept(&mut self, peer: &mut Peer) -> (Ack, Vec<Output>) {
        let beat = peer.beat();
        let change = beat.change;
        let (answer, others) = self.ask(beat);
        peer.hear(change, &answer);
        match answer {
            Answer::Ok(ack) => (ack, others),
            other => panic!("{:?} is answered {other:?}", peer.key),
        }
    }

    /// A worker beats, is accepted, and nothing else comes of it.
    pub(super) fn renew(&mut self, peer: &mut Peer) -> Ack {
        let (ack, others) = self.accept(peer);
        assert_eq!(others, [], "nothing but an answer comes of it");
        ack
    }

    /// A new worker beats, the store makes it durable, it is answered.
    pub(super) fn join(&mut self, peer: &mut Peer) -> Ack {
        let beat = peer.beat();
        let change = beat.change;
        let (ticket, outputs) = self.beat(beat);
        assert!(matches!(outputs[..], [Output::Enlist { .. }]), "{outputs:?}");
        let (answer, others) = split(ticket, &peer.key, self.enlisted(&peer.key, Enlisted::Known));
        assert_eq!(others, [], "nothing but an answer comes of it");
        peer.hear(change, &answer);
        match answer {
            Answer::Ok(ack) => ack,
            other => panic!("{:?} is answered {other:?}", peer.key),
        }
    }

    /// A desk where this worker is known.
    pub(super) fn joined(bug: Bug, name: &str) -> (Self, Peer) {
        let (mut desk, mut peer) = (Self::open(bug), Peer::new(name));
        desk.join(&mut peer);
        (desk, peer)
    }

    pub(super) fn enlisted(&mut self, key: &WorkerKey, answer: Enlisted) -> Vec<Output> {
        self.tell(Input::Enlisted { key: key.clone(), answer })
    }

    pub(super) fn granted(&mut self, peer: &Peer, holds: &[Hold]) {
        let (key, holds) = (peer.key.clone(), holds.to_vec());
        assert_eq!(self.tell(Input::Granted { key, holds, exclusive: Vec::new(), start: 1 }), []);
    }

    /// The same with exclusive ones.
    pub(super) fn granted_exclusive(&mut self, peer: &Peer, holds: &[Hold]) {
        let (key, holds) = (peer.key.clone(), holds.to_vec());
        assert_eq!(self.tell(Input::Granted { key, exclusive: holds.clone(), holds, start: 1 }), []);
    }

    pub(super) fn checked(&mut self, peer: &Peer, standings: &[HoldStanding]) -> Vec<Output> {
        self.tell(Input::Checked { key: peer.key.clone(), standings: Some(standings.to_vec()) })
    }

    pub(super) fn retired(&mut self, peer: &Peer, done: bool) -> Vec<Output> {
        let answer = if done { Retired::Done } else { Retired::Trouble };
        self.tell(Input::Retired { key: peer.key.clone(), answer })
    }

    /// The registry is ours for this long from now.
    pub(super) fn own_for(&mut self, span: Duration) -> Vec<Output> {
        self.tell(Input::OwnedUntil(self.now + span))
    }

    /// A worker that holds these by our own records.
    pub(super) fn give(&mut self, peer: &mut Peer, holds: &[Hold]) {
        self.granted(peer, holds);
        holds.iter().for_each(|hold| _ = peer.bind(*hold));
        assert!(!self.renew(peer).resync);
    }

    /// A worker that holds these exclusive ones by our own records, and knows it.
    pub(super) fn give_exclusive(&mut self, peer: &mut Peer, holds: &[Hold]) {
        self.granted_exclusive(peer, holds);
        holds.iter().for_each(|hold| _ = peer.bind(*hold));
        assert_eq!(self.accept(peer).1, [bound(peer, holds)]);
    }

    pub(super) fn leave(&mut self, peer: &Peer, leave: Leave) -> (Ticket, Vec<Output>) {
        let ticket = self.ticket();
        let (key, nonce) = (peer.key.clone(), peer.nonce);
        (ticket, self.tell(Input::Leave { ticket, key, nonce, leave }))
    }

    pub(super) fn kick(&mut self, peer: &Peer) -> (Ticket, Vec<Output>) {
        let ticket = self.ticket();
        (ticket, self.tell(Input::Kick { ticket, key: peer.key.clone() }))
    }

    /// The verdict on this hold of this worker, by its row of our registry.
    pub(super) fn verify(&mut self, peer: &Peer, hold: Hold) -> Verdict {
        self.verify_row(&row(peer, hold))
    }

    pub(super) fn verify_row(&mut self, row: &Row) -> Verdict {
        let verdicts = self.registry.verify(self.now, std::slice::from_ref(row));
        assert_eq!(verdicts.len(), 1, "one verdict per row");
        verdicts[0]
    }

    pub(super) fn view(&self, peer: &Peer) -> WorkerView {
        self.registry.worker(&peer.key).expect("the worker is known")
    }

    pub(super) fn state(&self, peer: &Peer) -> Option<WorkerState> {
        self.registry.worker(&peer.key).map(|view| view.state)
    }

    pub(super) fn bound(&self, peer: &Peer) -> Vec<Hold> {
        self.registry.bound(&peer.key, usize::MAX)
    }
}

/// The one answer for this ticket, and all the rest.
pub(super) fn split(ticket: Ticket, key: &WorkerKey, outputs: Vec<Output>) -> (Answer, Vec<Output>) {
    let (answers, others): (Vec<_>, Vec<_>) =
        outputs.into_iter().partition(|output| matches!(output, Output::Answer { .. }));
    match <[Output; 1]>::try_from(answers) {
        Ok([Output::Answer { ticket: answered, key: whose, answer }]) => {
            assert_eq!((answered, &whose), (ticket, key));
            (answer, others)
        }
        other => panic!("one answer is due to {ticket:?}: {other:?}"),
    }
}

/// A row of our registry.
pub(super) fn row(peer: &Peer, hold: Hold) -> Row {
    Row {
        hold,
        holder: peer.key.clone(),
        registry: Some(OURS),
        beats_itself: false,
        exclusive: false,
        pings: false,
    }
}

/// A worker as the store remembers it.
pub(super) fn known(peer: &Peer) -> Restored {
    Restored { key: peer.key.clone(), nonce: peer.nonce, grant: peer.lease, name: "host".into() }
}

pub(super) fn ended(end: HolderEnd) -> Answer {
    Answer::Inactive { why: InactiveReason::Ended(end) }
}

pub(super) const KEY_TAKEN: Answer = Answer::Inactive { why: InactiveReason::KeyTaken };

pub(super) fn bound(peer: &Peer, holds: &[Hold]) -> Output {
    Output::Bound { key: peer.key.clone(), holds: holds.to_vec() }
}

pub(super) fn done(ticket: Ticket) -> Output {
    Output::LeaveDone { ticket }
}

pub(super) fn lost(hold: Hold) -> Stop {
    Stop { hold, reason: StopOrder::Lost }
}

pub(super) fn cancelled(hold: Hold) -> Stop {
    Stop { hold, reason: StopOrder::Cancelled }
}

/// What a row says of an ordinary hold that stands.
pub(super) const HELD: HoldStanding = HoldStanding::Held { cancelled: false, exclusive: false };
/// What it says of one that someone cancelled.
pub(super) const HELD_CANCELLED: HoldStanding = HoldStanding::Held { cancelled: true, exclusive: false };
/// What it says of an exclusive one.
pub(super) const HELD_EXCLUSIVE: HoldStanding = HoldStanding::Held { cancelled: false, exclusive: true };

/// A worker goes, and says whether all has stopped.
pub(super) fn stopped(all_stopped: bool) -> Leave {
    Leave { all_stopped, ..Leave::default() }
}

/// A token of our generation.
pub(super) fn token(sequence: u64) -> Token {
    Token { generation: Generation(9), sequence }
}
