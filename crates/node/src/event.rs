//! Everything that can happen to the heart of a server. Reading this enum tells the whole story.

use std::sync::Arc;
use std::time::Duration;

use lease::message::{Answer, Heartbeat};
use lease::registry::{Input, Speaker, WorkerView};
use model::{Hold, Instant, QueueName, WorkerKey};
use rpc::wire;
use schedule::dispatch::SessionId;
use store::{Claimed, Deadlines, Expired, StoreError};
use tokio::sync::oneshot;

use crate::sessions::Session;

/// One thing that happened.
#[derive(Debug)]
pub(crate) enum Event {
    /// A worker opened a session.
    Joined { session: SessionId },
    /// A queue became exclusive or ordinary: others may serve it now.
    QueueSet { queue: QueueName },
    /// A worker has this many more free slots.
    Credits { session: SessionId, add: u32 },
    /// A session ended.
    Left { session: SessionId },
    /// A commit made jobs of these queues available.
    Ready { queues: Vec<QueueName> },
    /// A commit scheduled a job that is due so soon.
    RunDue { in_: Duration },
    /// A claim was answered by the store.
    Claimed { session: SessionId, asked: u32, answer: Result<Granted, StoreError> },
    /// A unary claim gave out leases: the shortest and the longest.
    LeasesGranted { leases: Leases },
    /// A promotion pass ended.
    Promoted { limit: usize, answer: Result<(usize, Vec<QueueName>), StoreError> },
    /// Rows whose lease is over were read: their holders are to be asked about.
    Expired { limit: usize, not_after: Instant, answer: Result<Vec<Expired>, StoreError> },
    /// A rescue pass ended.
    Reaped { limit: usize, answer: Result<usize, StoreError> },
    /// A retention pass ended.
    Purged { limit: usize, answer: Result<u64, StoreError> },
    /// Leases were extended after a stall of our own.
    Extended { answer: Result<u64, StoreError> },
    /// The store said when the next duties are due.
    Deadlines { answer: Result<Deadlines, StoreError> },
    /// The store refused or delayed renewals for this long.
    StoreStalled { for_: Duration },
    /// Something about a worker.
    Roll(RollEvent),
    /// Something about who is in charge of which workers.
    Ownership(lease::ownership::Input),
    /// Other servers changed what the heart must know of.
    News(store::News),
    /// The server is going; answered when nothing is claimed to be ours any more.
    Resigning { done: oneshot::Sender<()> },
}

/// What concerns the roll of workers.
#[derive(Debug)]
pub(crate) enum RollEvent {
    /// A heartbeat was read.
    Heartbeat { reply: Reply, beat: Box<Heartbeat> },
    /// A worker goes, or an operator removes it; answered when that is durable.
    Leave { leave: Leave, done: oneshot::Sender<Left> },
    /// Somebody new who only pings wants to be known: may it be now, or when?
    Admit { reply: oneshot::Sender<Left> },
    /// Straight to the registry: news that nobody waits for.
    Told(Box<Input>),
    /// Jobs were claimed that start as soon as they are received: answers for each whether the registry noted it. Only those may
    /// be sent, because whoever ends the worker must know that they may be running.
    Grant { grant: Grant, reply: oneshot::Sender<Vec<bool>> },
    /// What this registry asked the store for was done, or not.
    Done { registry: model::RegistryId, input: Box<Input> },
    /// A stream is opened under this key by the process with this nonce: whether that may speak for it, and whether the key is
    /// over.
    MaySpeak { key: WorkerKey, nonce: model::Nonce, reply: oneshot::Sender<(Speaker, bool)> },
    /// Someone wants to see one worker, and some of the jobs it has bound.
    Show { key: WorkerKey, jobs_max: usize, reply: oneshot::Sender<Option<(WorkerView, Vec<Hold>)>> },
    /// A worker echoed a set id without waiting for its next heartbeat.
    Echoed { key: WorkerKey, id: muster::SetId },
    /// A worker ran a healthcheck.
    Checked { key: WorkerKey, number: u64 },
    /// Someone wants to see how the muster stands.
    Muster { reply: oneshot::Sender<wire::MusterStatus> },
    /// Someone wants to see all workers.
    List { reply: oneshot::Sender<Vec<WorkerView>> },
    /// The store was asked about the worker of a heartbeat that the registry does not know.
    LookedUp { reply: Reply, beat: Box<Heartbeat>, standing: Standing },
    /// A take-over is over: these workers of another registry are ours now, or perhaps have been for a while.
    TakenOver { from: model::RegistryId, by: model::RegistryId, workers: Vec<store::Enlist> },
}

/// What the store knows of a worker that our registry does not.
#[derive(Debug)]
pub(crate) enum Standing {
    /// It is nobody's, or over: the registry's word holds.
    Nobodys,
    /// It is another server's.
    Elsewhere { address: Option<String> },
    /// It is ours, and the registry has not heard so yet.
    Ours(Box<store::Enlist>),
    /// The store cannot say.
    Unsure,
}

/// That it was done, or when to come back.
pub(crate) type Left = Result<(), Duration>;

/// How a worker goes.
#[derive(Debug)]
pub(crate) enum Leave {
    /// By itself.
    Own { key: WorkerKey, nonce: model::Nonce, words: lease::message::Leave },
    /// By an operator's word.
    Kicked { key: WorkerKey },
}

/// Where the answer to a heartbeat goes.
#[derive(Debug)]
pub(crate) enum Reply {
    /// Down the worker's stream, with the heartbeat's number.
    Stream { session: Arc<Session>, number: u64 },
    /// To a waiting call.
    Call(oneshot::Sender<Answer>),
}

/// Claims that are about to be sent to their worker.
#[derive(Debug)]
pub(crate) struct Grant {
    pub(crate) key: WorkerKey,
    pub(crate) holds: Vec<Hold>,
    pub(crate) exclusive: Vec<Hold>,
    /// The number of the last start among them.
    pub(crate) start: u64,
}

impl From<Grant> for Input {
    fn from(Grant { key, holds, exclusive, start }: Grant) -> Input {
        Input::Granted { key, holds, exclusive, start }
    }
}

/// What a claim brought.
#[derive(Clone, Debug)]
pub(crate) struct Granted {
    /// How many jobs.
    pub(crate) jobs: u32,
    /// The shortest and the longest lease among them.
    pub(crate) leases: Leases,
    /// The queues it was claimed from, if there were fewer than asked for because they are large, not for want of work.
    pub(crate) more: Vec<QueueName>,
}

/// The shortest and the longest of some leases; empty for none.
pub(crate) type Leases = std::iter::Flatten<std::array::IntoIter<Option<Duration>, 2>>;

/// The shortest and the longest lease of these jobs.
pub(crate) fn leases(claimed: &[Claimed]) -> Leases {
    let all = || claimed.iter().map(|job| job.lease);
    [all().min(), all().max()].into_iter().flatten()
}
