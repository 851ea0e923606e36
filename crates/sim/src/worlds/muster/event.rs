//! Everything that can happen in this world, and everything that can be said.

use muster::SetId;

use super::chaos::Heal;

/// Which place for a worker.
pub(super) type Slot = u32;
/// Which worker's instance, counted over the whole world. Its key is used by nobody else, ever.
pub(super) type Instance = u32;
/// Which task.
pub(super) type Task = u32;
/// The number of a claim of a task.
pub(super) type Fence = i64;
/// Which life of the scheduler.
pub(super) type Life = u32;
/// Which stream of a slot; later ones have larger numbers.
pub(super) type Stream = u32;

/// Something that happens.
#[derive(Debug)]
pub(super) enum Event {
    /// A scheduler starts.
    SchedulerStarts,
    /// The scheduler dies, and again later.
    SchedulerDies,
    /// The scheduler dies; somebody has seen to it that another one starts.
    SchedulerDiesOnce,
    /// When the machine wanted to be woken. Carries the number of the wish.
    SchedulerWakes(Life, u64),
    /// When the lease of an instance may be over by the scheduler's clock.
    LeaseOver(Life, Instance),
    /// A worker's process starts.
    WorkerStarts(Slot),
    /// When to send a heartbeat. Carries the number of the timer.
    Beat(Slot, u32),
    /// When to try to connect. Carries the number of the timer.
    Connect(Slot, u32),
    /// A worker notices that this stream is broken.
    Broken(Slot, Stream),
    /// When the hold of an instance may be over by its own clock.
    HoldOver(Instance),
    /// A task ends by itself.
    RunEnds(Instance, Task, Fence),
    /// What an instance left running after its process died has been stopped by its guardian.
    Stopped(Instance),
    /// A message arrives at the scheduler, if it is still the one that it was sent to.
    ToScheduler(Life, Instance, Stream, Up),
    /// A message arrives at a worker, if it still listens to this stream.
    ToWorker(Instance, Stream, Down),
    /// A client finds the scheduler of this life.
    ClientConnects(u32, Life),
    /// A client wants something new.
    Submit,
    /// A fault of the plan strikes.
    Fault(usize),
    /// A fault ends.
    Heal(Heal),
    /// Labels are compared with the truth.
    CompareLabels,
    /// Nothing goes wrong any more.
    Calm,
    /// Somebody looks whether all is done.
    Look,
}

/// What a worker says.
#[derive(Clone, Debug)]
pub(super) enum Up {
    /// A heartbeat: its number, and the id that the worker keeps.
    Beat(u64, Option<SetId>),
    /// It keeps this id now.
    Echo(SetId),
    /// What it runs, and what has ended and was not acknowledged.
    Running(Vec<(Task, Fence)>, Vec<(Task, Fence)>),
    /// A healthcheck went well.
    Checked(u64),
    /// A task ended.
    Result(Task, Fence),
    /// A task was not started.
    Refused(Task, Fence),
    /// All has stopped, and this key is not used again.
    Left,
}

/// What a scheduler says.
#[derive(Clone, Debug)]
pub(super) enum Down {
    /// The heartbeat with this number renewed the lease; the id to keep.
    Answer(u64, Option<SetId>),
    /// The id to keep.
    Tell(SetId),
    /// What do you run?
    Fetch,
    /// Run this healthcheck.
    Check(u64),
    /// Start this task.
    Start(Task, Fence),
    /// This result need not be kept any more.
    Acknowledged(Task, Fence),
    /// This key is over.
    Inactive,
    /// Stop everything and do not come back under this key.
    Die,
}
