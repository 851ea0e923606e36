//! One situation of the model, packed: what the scheduler knows, what each worker is, and what is under way between them.

use std::hash::{Hash, Hasher};
use std::sync::Arc;

use super::code::{Id, Instance, SLOTS_MAX};
use super::mind::Mind;

/// The most tasks.
pub(super) const TASKS_MAX: usize = 2;
/// The most messages under way on one link, in one direction.
pub(super) const IN_FLIGHT_MAX: usize = 2;

/// Everything there is.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct State {
    pub(super) scheduler: Scheduler,
    pub(super) slots: [Slot; SLOTS_MAX],
    /// How many instances may still end.
    pub(super) ends_left: u8,
}

/// The scheduler that lives at present.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Scheduler {
    pub(super) generation: u8,
    pub(super) mind: Shared,
    /// It has left its wait at some time.
    pub(super) has_left: bool,
    /// Where it believes each task to run; nowhere when `None`.
    pub(super) on: [Option<Instance>; TASKS_MAX],
}

/// A place for a worker: an instance, and after its end the next one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Slot {
    /// How many instances there were before.
    pub(super) before: u8,
    /// Its scheduler's generation; 0 before it has one.
    pub(super) belongs: u8,
    /// It has a lease, from any scheduler, that is not over yet.
    pub(super) holds: bool,
    /// The tasks that it runs, one bit each.
    pub(super) runs: u8,
    /// The id that it keeps.
    pub(super) kept: Id,
    /// The last id that it has sent to its scheduler and that was not lost.
    pub(super) said: Id,
    /// Under way to the scheduler.
    pub(super) up: Link<Up>,
    /// Under way from the scheduler it belongs to.
    pub(super) down: Link<Down>,
}

/// A heartbeat under way: whose, and the id that it brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Up {
    pub(super) from: Instance,
    pub(super) id: Id,
}

/// What a scheduler says to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Down {
    /// A heartbeat is answered, or the id has changed: a lease, and the id to keep.
    Told(Id),
    /// Start this task.
    Start(u8),
}

/// Messages in the order they were sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Link<M> {
    messages: [Option<M>; IN_FLIGHT_MAX],
}

impl<M: Copy> Link<M> {
    pub(super) fn len(&self) -> usize {
        self.messages.iter().flatten().count()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.messages[0].is_none()
    }

    /// One more; there must be room.
    pub(super) fn push(&mut self, message: M) {
        let room = self.messages.iter_mut().find(|place| place.is_none());
        *room.expect("whoever sends has looked for room") = Some(message);
    }

    /// The oldest.
    pub(super) fn pop(&mut self) -> Option<M> {
        let first = self.messages[0].take();
        self.messages.rotate_left(1);
        first
    }

    /// All of them, oldest first.
    pub(super) fn iter(&self) -> impl DoubleEndedIterator<Item = M> + '_ {
        self.messages.iter().flatten().copied()
    }

    /// Only those that are wanted remain.
    pub(super) fn retain(&mut self, is_wanted: impl Fn(&M) -> bool) {
        let kept = self.messages;
        *self = Link::default();
        kept.into_iter().flatten().filter(is_wanted).for_each(|message| self.push(message));
    }
}

impl<M: Copy> Default for Link<M> {
    fn default() -> Self {
        Link { messages: [None; IN_FLIGHT_MAX] }
    }
}

impl Default for Id {
    fn default() -> Self {
        Id::NONE
    }
}

impl Slot {
    /// Nobody has lived here.
    pub(super) fn new() -> Self {
        Slot { said: Id::UNSAID, ..Slot::default() }
    }

    /// The instance that lives here in the `slot`th of so many slots.
    pub(super) fn instance(&self, slot: usize, slots: usize) -> Instance {
        slot as u8 + self.before * slots as u8
    }
}

/// A mind that many states share. Equal if the minds are, which their fingerprints tell.
#[derive(Clone)]
pub(super) struct Shared(pub(super) Arc<Mind>);

impl PartialEq for Shared {
    fn eq(&self, other: &Self) -> bool {
        self.0.print == other.0.print
    }
}

impl Eq for Shared {}

impl Hash for Shared {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.print.hash(state);
    }
}
