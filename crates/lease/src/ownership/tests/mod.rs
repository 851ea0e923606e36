//! The tests of ownership: named cases that also run against every deliberate bug, and laws over random histories.

mod beats;
mod laws;
mod mutations;
mod take_over;
mod world;

use std::time::Duration;

use model::{Instant, RegistryId};

use super::{Input, Mutation, Output, Ownership, Sighting, Terms};

/// The deliberate bug of a run; `None` for the real machine.
type Bug = Option<Mutation>;

/// A named case. It panics if the machine misbehaves.
type Case = (&'static str, fn(Bug));

/// Makes each function a test of the real machine, and lists it for the bugs.
macro_rules! cases {
    ($($name:ident),* $(,)?) => {
        pub(super) const CASES: &[super::Case] = &[$((stringify!($name), $name)),*];

        mod real {
            $(
                #[test]
                fn $name() {
                    super::$name(None);
                }
            )*
        }
    };
}
use cases;

const OURS: RegistryId = RegistryId(7);
const THEIRS: RegistryId = RegistryId(3);

const fn millis(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

fn machine(now: Instant, bug: Bug) -> Ownership {
    match bug {
        None => Ownership::new(now, Terms::DEFAULT),
        Some(mutation) => Ownership::broken(now, Terms::DEFAULT, mutation),
    }
}

/// A machine on virtual time, with somebody who answers for the store.
struct Desk {
    machine: Ownership,
    now: Instant,
}

impl Desk {
    /// A machine that has just asked for its registry.
    fn new(bug: Bug) -> Self {
        let now = Instant::from_millis(1_000_000);
        let mut desk = Desk { machine: machine(now, bug), now };
        assert_eq!(desk.drain(), [Output::Found]);
        desk
    }

    /// A machine that has its registry, and was answered its first beat, at once, with nobody else there.
    fn owning(bug: Bug) -> Self {
        let mut desk = Self::new(bug);
        let outputs = desk.tell(Input::Founded { sent: desk.now, registry: Some(OURS) });
        assert_eq!(outputs[0], Output::Begin { registry: OURS });
        assert_eq!(desk.wake(), [Output::Beat { registry: OURS }]);
        desk.answer(&[]);
        desk
    }

    fn tell(&mut self, input: Input) -> Vec<Output> {
        self.machine.handle(self.now, input);
        self.drain()
    }

    fn wake(&mut self) -> Vec<Output> {
        self.machine.handle_deadline(self.now);
        self.drain()
    }

    /// Time passes, and nobody looks.
    fn skip(&mut self, span: Duration) {
        self.now = self.now + span;
    }

    /// Waits for the next beat.
    fn beat(&mut self) {
        let due = self.machine.next_deadline().expect("a beat is due");
        self.now = self.now.max(due);
        assert_eq!(self.wake(), [Output::Beat { registry: OURS }]);
    }

    /// The store answers the beat under way, at once: who is there beside us. What comes of it, besides our own hold.
    fn answer(&mut self, others: &[Sighting]) -> Vec<Output> {
        self.answer_to(self.now, others)
    }

    /// The same to a beat that was sent then.
    fn answer_to(&mut self, sent: Instant, others: &[Sighting]) -> Vec<Output> {
        let ours = Sighting { registry: OURS, beats: 1, resigned: false };
        let seen = [others, &[ours]].concat();
        let mut outputs = self.tell(Input::Beaten { sent, seen });
        assert!(matches!(outputs.first(), Some(Output::OwnedUntil(_))), "{outputs:?}");
        outputs.split_off(1)
    }

    /// Beats once, and sees these.
    fn round(&mut self, others: &[Sighting]) -> Vec<Output> {
        self.beat();
        self.answer(others)
    }

    fn drain(&mut self) -> Vec<Output> {
        std::iter::from_fn(|| self.machine.poll_output()).collect()
    }
}

/// Another registry with this counter.
fn theirs(beats: u64) -> Sighting {
    Sighting { registry: THEIRS, beats, resigned: false }
}

fn take_over(beats: u64) -> Output {
    Output::TakeOver { from: THEIRS, beats, by: OURS }
}
