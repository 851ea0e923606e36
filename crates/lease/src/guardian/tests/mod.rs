//! Tables of inputs and outputs over virtual time, in milliseconds.

mod deadlines;
mod death;
mod families;
mod laws;
mod mutations;

use std::time::Duration;

use model::{Instant, Nonce, WorkerKey};

use super::*;
use crate::clock_rule::Stopping;
use crate::message::Leave;

const NONCE: Nonce = Nonce::new(77);
const ONE: FamilyId = FamilyId(1);
const TWO: FamilyId = FamilyId(2);

struct Rig {
    guardian: Guardian,
}

impl Rig {
    /// Under the key `w1`, which is held until 20 s: stop at 14 s, kill at 19 s, doom at 19.5 s.
    fn new() -> Self {
        Self::of(Guardian::new())
    }

    fn broken(mutation: Option<Mutation>) -> Self {
        Self::of(mutation.map_or_else(Guardian::new, Guardian::broken))
    }

    fn of(guardian: Guardian) -> Self {
        let mut rig = Rig { guardian };
        rig.key(0, "w1");
        rig.hold(0, 20_000);
        rig
    }

    /// One input and everything it makes the guardian ask for.
    fn input(&mut self, at_ms: u64, input: Input) -> Vec<Output> {
        self.guardian.handle(at(at_ms), input);
        self.outputs()
    }

    fn say(&mut self, at_ms: u64, order: Order) -> Vec<Output> {
        self.input(at_ms, Input::Said(order))
    }

    fn key(&mut self, at_ms: u64, name: &str) {
        assert_eq!(self.say(at_ms, Order::Key { key: key(name), nonce: NONCE }), []);
    }

    fn hold(&mut self, at_ms: u64, until_ms: u64) {
        assert_eq!(self.say(at_ms, Order::Hold { until: at(until_ms) }), []);
    }

    fn launch(&mut self, at_ms: u64, family: FamilyId, exclusive: bool) -> Vec<Output> {
        self.say(at_ms, Order::Launch { family, exclusive })
    }

    /// A family that is started at once.
    fn run(&mut self, at_ms: u64, family: FamilyId, exclusive: bool) {
        assert_eq!(self.launch(at_ms, family, exclusive), [Output::Launch { family }]);
        assert_eq!(self.launched(at_ms, family), []);
    }

    fn launched(&mut self, at_ms: u64, family: FamilyId) -> Vec<Output> {
        self.input(at_ms, Input::Launched { family, runs: true })
    }

    fn emptied(&mut self, at_ms: u64, family: FamilyId) -> Vec<Output> {
        self.input(at_ms, Input::Emptied { family })
    }

    fn die(&mut self, at_ms: u64) -> Vec<Output> {
        self.input(at_ms, Input::WorkerDied)
    }

    fn answer(&mut self, at_ms: u64, name: &str, taken: bool) -> Vec<Output> {
        self.input(at_ms, Input::LeaveAnswered { key: key(name), taken })
    }

    /// Lives through every deadline up to and including this time.
    fn live_until(&mut self, until_ms: u64) -> Vec<(u64, Output)> {
        let mut done = Vec::new();
        for _ in 0..1000 {
            let due = self.guardian.next_deadline().filter(|deadline| *deadline <= at(until_ms));
            let Some(deadline) = due else { return done };
            self.guardian.handle_deadline(deadline);
            let now_ms = deadline.as_nanos() / 1_000_000;
            done.extend(self.outputs().into_iter().map(|output| (now_ms, output)));
        }
        panic!("a deadline is named again and again but never met; so far: {done:?}");
    }

    fn outputs(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.guardian.poll_output()).collect()
    }
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

fn key(text: &str) -> WorkerKey {
    WorkerKey::new(text).expect("a valid key")
}

fn terminate(family: FamilyId) -> Output {
    Output::Terminate { family }
}

fn kill(family: FamilyId) -> Output {
    Output::Kill { family }
}

fn refused(family: FamilyId) -> Output {
    Output::Refused { family }
}

/// All that this key ran has been stopped for so long, since then.
fn left(name: &str, stopped_for_ms: u64, stopped_at_ms: u64) -> Output {
    let leave = Leave {
        all_stopped: true,
        crashed: true,
        stopped_for: Duration::from_millis(stopped_for_ms),
        stopped_at: Some(at(stopped_at_ms)),
        ..Leave::default()
    };
    Output::Leave { key: key(name), nonce: NONCE, leave }
}
