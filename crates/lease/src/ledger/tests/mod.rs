//! Tables of inputs and outputs over virtual time, in milliseconds.

mod at_once;
mod bindings;
mod drain;
mod endings;
mod exclusive;
mod farewell;
mod heartbeats;
mod holds;
mod jobs;
mod kept;
mod lapse;
mod laws;
mod mutations;
mod reports;
mod servers;
mod signs;
mod starts;

use std::time::Duration;

use bytes::Bytes;
use model::{ClientId, Fence, Hold, Instant, JobId, Nonce, Outcome, QueueName, Retry, WallTime, WorkerKey};

use super::*;
use crate::clock_rule::{RateError, Stopping};
use crate::message::{Ack, Answer, Generation, Heartbeat, Profile, Stop, StopOrder, Token};

const LEASE: Duration = Duration::from_secs(20);
const NONCE: Nonce = Nonce::new(77);
const GENERATION: Generation = Generation(3);

/// A ledger with four slots, and the server's side of its stream.
struct Rig {
    ledger: Ledger,
    /// Which life of the server.
    generation: Generation,
    /// The last start number that was given out.
    start: u64,
    /// The last token that was given out.
    token: u64,
    /// Heartbeats are answered at once while time passes.
    answers: bool,
    /// Their answers vouch for exclusive jobs.
    vouches: bool,
}

/// Something the ledger did by itself, as time passed.
#[derive(Debug, PartialEq, Eq)]
enum Done {
    Output(Output),
    Beat(u64),
}

impl Rig {
    /// Connected and registered at 0; its credits are given.
    fn new() -> Self {
        Self::with(terms(4))
    }

    fn with(terms: Terms) -> Self {
        Self::registered(Ledger::new(terms, key("w1"), NONCE))
    }

    fn broken(mutation: Option<Mutation>) -> Self {
        Self::registered(match mutation {
            None => Ledger::new(terms(4), key("w1"), NONCE),
            Some(mutation) => Ledger::broken(terms(4), key("w1"), NONCE, mutation),
        })
    }

    fn registered(ledger: Ledger) -> Self {
        let mut rig = Self::unregistered(ledger);
        rig.register(0);
        rig
    }

    /// Connected at 0; nothing is sent yet.
    fn unregistered(ledger: Ledger) -> Self {
        let mut rig =
            Rig { ledger, generation: GENERATION, start: 0, token: 0, answers: true, vouches: true };
        assert_eq!(rig.connect(0), []);
        rig
    }

    /// Has the heartbeat that is due acknowledged, and takes the frame that follows. A healthcheck has come by then.
    fn register(&mut self, at_ms: u64) -> Transmit {
        let (number, _) = self.beat(at_ms);
        let outputs = self.ok(at_ms, number);
        assert_eq!(outputs, [Output::Registered { lease: LEASE }]);
        assert_eq!(self.checked(at_ms), []);
        self.try_frame(at_ms).unwrap_or_default()
    }

    /// One input and everything it makes the ledger ask for.
    fn input(&mut self, at_ms: u64, input: Input) -> Vec<Output> {
        self.ledger.handle(at(at_ms), input);
        self.outputs()
    }

    fn connect(&mut self, at_ms: u64) -> Vec<Output> {
        self.connect_to(at_ms, GENERATION)
    }

    /// The server is found again, perhaps in another life.
    fn connect_to(&mut self, at_ms: u64, generation: Generation) -> Vec<Output> {
        self.start = 0;
        self.generation = generation;
        self.input(at_ms, Input::Connected { generation })
    }

    /// A grant with the next start number.
    fn grant(&mut self, hold: Hold) -> Grant {
        self.start += 1;
        Grant {
            hold,
            lease: Duration::from_secs(30),
            timeout: None,
            heartbeat_timeout: None,
            exclusive: false,
            at_once: false,
            start: Start { generation: self.generation, key: self.ledger.key().clone(), number: self.start },
        }
    }

    fn assign(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        let grant = self.grant(hold);
        self.input(at_ms, Input::Assigned(grant))
    }

    fn assign_exclusive(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        let grant = Grant { exclusive: true, ..self.grant(hold) };
        self.input(at_ms, Input::Assigned(grant))
    }

    /// An exclusive job that need not wait for its bind.
    fn assign_at_once(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        let grant = Grant { exclusive: true, at_once: true, ..self.grant(hold) };
        self.input(at_ms, Input::Assigned(grant))
    }

    /// An exclusive job that is bound at once, and runs.
    fn run_exclusive(&mut self, at_ms: u64, hold: Hold) {
        assert_eq!(self.assign_exclusive(at_ms, hold), []);
        assert_eq!(holds(&self.frame(at_ms).binds), [hold]);
        assert_eq!(self.confirm(at_ms, hold), [Output::Start { hold }]);
    }

    /// The server takes a bind.
    fn confirm(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::Bound(vec![hold]))
    }

    /// A healthcheck comes in, and runs in no time.
    fn checked(&mut self, at_ms: u64) -> Vec<Output> {
        self.input(at_ms, Input::Checked { asked_at: at(at_ms), lease: LEASE })
    }

    fn complete(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::Finished { hold, ended: Ended::Completed(Bytes::new()), at: None })
    }

    fn fail(&mut self, at_ms: u64, hold: Hold, error: &str) -> Vec<Output> {
        let ended = Ended::Failed { error: error.into(), retry: Retry::ByPolicy };
        self.input(at_ms, Input::Finished { hold, ended, at: None })
    }

    fn settle(&mut self, at_ms: u64, hold: Hold) -> Vec<Output> {
        self.input(at_ms, Input::ReportAnswered { hold, answer: ReportAnswer::Done })
    }

    fn order(&mut self, at_ms: u64, hold: Hold, reason: StopOrder) -> Vec<Output> {
        self.input(at_ms, Input::Stopped(Stop { hold, reason }))
    }

    /// Acknowledges a heartbeat with 20 s.
    fn ok(&mut self, at_ms: u64, number: u64) -> Vec<Output> {
        let ack = self.ack();
        self.answer(at_ms, number, Answer::Ok(ack))
    }

    fn ack(&mut self) -> Ack {
        Ack {
            token: self.next_token(),
            lease: LEASE,
            exclusive_hold: self.vouches,
            worker_set: None,
            stops: Vec::new(),
            resync: false,
            drain: false,
        }
    }

    fn mismatch(&mut self, at_ms: u64, number: u64, resync: bool) -> Vec<Output> {
        let token = self.next_token();
        self.answer(at_ms, number, Answer::Mismatch { token, held: true, resync })
    }

    fn answer(&mut self, at_ms: u64, number: u64, answer: Answer) -> Vec<Output> {
        self.input(at_ms, Input::HeartbeatAnswered { number, answer })
    }

    fn next_token(&mut self) -> Token {
        self.token += 1;
        self.last_token()
    }

    fn last_token(&self) -> Token {
        Token { generation: self.generation, sequence: self.token }
    }

    /// Does what a driver does when it is asked for a new key.
    fn rekey(&mut self, at_ms: u64, name: &str) -> Vec<Output> {
        let mut outputs = self.input(at_ms, Input::Rekeyed { key: key(name) });
        outputs.extend(self.input(at_ms, Input::Disconnected));
        outputs
    }

    /// Lives through every deadline up to and including this time, sending frames as they become due.
    fn live_until(&mut self, until_ms: u64) -> Vec<(u64, Done)> {
        let mut done = Vec::new();
        for _ in 0..1000 {
            let Some(deadline) = self.ledger.next_deadline().filter(|deadline| *deadline <= at(until_ms))
            else {
                return done;
            };
            let now_ms = deadline.as_nanos() / 1_000_000;
            self.ledger.handle_deadline(deadline);
            done.extend(self.outputs().into_iter().map(|output| (now_ms, Done::Output(output))));
            if let Some((number, _)) = self.ledger.poll_transmit(deadline).and_then(|frame| frame.heartbeat) {
                done.push((now_ms, Done::Beat(number)));
                if self.answers {
                    let outputs = self.ok(now_ms, number);
                    done.extend(outputs.into_iter().map(|output| (now_ms, Done::Output(output))));
                }
            }
        }
        panic!("a deadline is named again and again but never met; so far: {done:?}");
    }

    /// The same, without the heartbeats.
    fn outputs_until(&mut self, until_ms: u64) -> Vec<(u64, Output)> {
        let done = self.live_until(until_ms).into_iter();
        done.filter_map(|(ms, done)| match done {
            Done::Output(output) => Some((ms, output)),
            Done::Beat(_) => None,
        })
        .collect()
    }

    /// The heartbeat that is due.
    fn beat(&mut self, at_ms: u64) -> (u64, Heartbeat) {
        self.frame(at_ms).heartbeat.expect("a heartbeat is due")
    }

    fn frame(&mut self, at_ms: u64) -> Transmit {
        self.try_frame(at_ms).expect("there is something to send")
    }

    fn try_frame(&mut self, at_ms: u64) -> Option<Transmit> {
        let is_promised = self.ledger.has_transmit(at(at_ms));
        let frame = self.ledger.poll_transmit(at(at_ms));
        assert!(is_promised || frame.is_none(), "a driver would not have asked for {frame:?}");
        frame
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.ledger.poll_output()).collect()
    }
}

fn terms(slots: u32) -> Terms {
    let queues = vec![QueueName::new("q").expect("a valid name")];
    Terms {
        profile: Profile {
            name: "host".into(),
            queues,
            slots,
            version: "1".into(),
            stop_within: Some(Stopping::DEFAULT.within()),
            ..Profile::default()
        },
        lease: LEASE,
        rate_error: RateError::DEFAULT,
        stopping: Stopping::DEFAULT,
        report_lost: false,
    }
}

fn key(text: &str) -> WorkerKey {
    WorkerKey::new(text).expect("a valid key")
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn hold(job: u8, fence: i64) -> Hold {
    Hold { job: JobId::from_bytes([job; 16]), fence: Fence::new(fence) }
}

/// A hold of one of many jobs.
fn numbered(number: usize) -> Hold {
    Hold { job: JobId::from_bytes((number as u128).to_be_bytes()), fence: Fence::new(1) }
}

/// A claim of a submission that a client comes back for.
fn awaited(sequence: u64) -> Hold {
    Hold { job: ClientId::new(WallTime::from_millis(1), 1).job(sequence), fence: Fence::new(1) }
}

fn stop(hold: Hold, reason: StopReason) -> Output {
    Output::Stop { hold, reason }
}

fn ended(hold: Hold, outcome: Outcome) -> Output {
    Output::Ended { hold, outcome: Some(outcome) }
}

/// Not ours, or not worth reporting.
fn dropped(hold: Hold) -> Output {
    Output::Ended { hold, outcome: None }
}

fn completed() -> Outcome {
    Outcome::Completed { result: Bytes::new() }
}

fn failed(error: &str) -> Outcome {
    Outcome::Failed { error: error.into(), retry: Retry::ByPolicy }
}

/// The holds in these changes.
fn holds(changes: &[crate::message::Change]) -> Vec<Hold> {
    changes.iter().map(|change| change.hold).collect()
}
