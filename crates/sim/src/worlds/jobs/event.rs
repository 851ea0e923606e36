//! Everything that can happen in the world, and everything its processes say to each other.

use lease::guardian::FamilyId;
use lease::ledger::{Grant, ReportAnswer, Transmit};
use lease::message::{Answer, Generation, Leave, Profile, Stop};
use model::{Hold, Nonce, WorkerKey};
use store::EnqueueBatch;

use super::families::FamilyNews;
use super::guardian::{GuardianId, GuardianInput};
use super::worker::{GuardianNews, HandlerNews};
use crate::net::{Node, Wake};

/// One thing that happens at a time.
#[derive(Debug)]
pub(super) enum Event {
    /// Something may come out of the network.
    Net(Wake),
    /// A process asked to be woken.
    Wake(Node, u64),
    /// A process comes, or comes back.
    Start(Node),
    /// A handler of a worker's life has something to say.
    Handler(Node, u32, Hold, HandlerNews),
    /// Something reaches a guardian: down the pipe, or from the kernel.
    ToGuardian(GuardianId, Box<GuardianInput>),
    /// Something reaches a worker from its guardian.
    FromGuardian(GuardianId, GuardianNews),
    /// A guardian asked to be woken.
    WakeGuardian(GuardianId, u64),
    /// Processes of a family end; void unless this is its latest plan.
    Family(FamilyId, u32, FamilyNews),
    /// The store carries out a call.
    StoreRuns(u64),
    /// The store's answer to a call arrives.
    StoreAnswers(u64),
    /// Somebody enqueues jobs.
    Enqueue,
    /// A client repeats an enqueue that failed.
    EnqueueAgain(Box<EnqueueBatch>),
    /// An operator does something.
    Operate,
    /// This fault of the plan strikes.
    Fault(usize),
    /// A lasting fault ends.
    Heal(Heal),
    /// Somebody uses the key of a worker.
    Usurp,
    /// Faults that go together strike.
    Corner,
    /// The faults are over.
    Calm,
    /// Somebody looks whether all is done.
    Look,
}

/// The end of a fault that lasts.
#[derive(Clone, Copy, Debug)]
pub(super) enum Heal {
    /// This direction was blocked.
    Unblock(Node, Node),
    /// This direction is cut or healed again, so many times more; true while it is cut.
    Flip(Node, Node, u32, bool),
    /// This process stopped for a moment, and will so many times more.
    Stutter(Node, u32),
    /// This node's messages took long.
    Delays(Node),
    /// This process was slow.
    Cost(Node),
    /// Servers fail one after the other: this one is next, and so many after it.
    InTurn(usize, u32),
    /// This worker was told things late; now it is cut off.
    CutOff(Node),
}

/// What goes over connections.
#[derive(Clone, Debug)]
pub(super) enum Message {
    /// The worker's first word.
    Hello { key: WorkerKey, nonce: Nonce, profile: Profile },
    /// The server's first word.
    Welcome { generation: Generation },
    /// A frame of the worker.
    Said(Box<Transmit>),
    /// A frame of the server.
    Told(Box<Told>),
    /// A call on a connection of its own: a worker is gone, or one of its keys is.
    Leave { key: WorkerKey, nonce: Nonce, leave: Leave },
    /// The answer to that call.
    LeaveAnswered(LeaveAnswer),
}

/// What a server says to a leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LeaveAnswer {
    /// It took note.
    Taken,
    /// The worker belongs to another server: to this one, if it is known.
    NotOwner(Option<usize>),
}

/// The parts of one frame of a server.
#[derive(Clone, Debug, Default)]
pub(super) struct Told {
    pub(super) assignments: Vec<Grant>,
    pub(super) heartbeat: Option<(u64, Answer)>,
    pub(super) reports: Vec<(Hold, ReportAnswer)>,
    pub(super) stops: Vec<Stop>,
    pub(super) bound: Vec<Hold>,
    pub(super) left: bool,
    /// The world's own note: whoever answers the heartbeat was its worker's owner, by the store, when it read it.
    pub(super) by_owner: bool,
}

/// An answer in a word, for the trace.
pub(super) fn answer_word(answer: &Answer) -> &'static str {
    match answer {
        Answer::Ok(ack) if ack.resync => "ok, resync",
        Answer::Ok(_) => "ok",
        Answer::Inactive { .. } => "inactive",
        Answer::Mismatch { .. } => "mismatch",
        Answer::NotOwner { .. } => "not owner",
        Answer::Later { .. } => "later",
    }
}
