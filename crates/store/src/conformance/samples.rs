//! What the cases are made of: jobs, workers and outcomes that differ only in what a case is about.

use std::time::Duration;

use bytes::Bytes;
use model::{JobId, Kind, NewJob, Nonce, Outcome, QueueName, RegistryId, Retry, UniqueKey, WorkerKey};

use crate::port::{Claimed, Enlist, Enqueued};

/// The lease that cases claim and renew with, unless they are about leases.
pub(super) const LEASE: Duration = Duration::from_secs(30);
/// More than any case has.
pub(super) const MANY: usize = 10_000;
/// The shortest time a lease clock can tell.
pub(super) const TICK: Duration = Duration::from_micros(1);
/// The shortest time the wall clock can tell.
pub(super) const MILLI: Duration = Duration::from_millis(1);
/// The queue of [`new_job`].
pub(super) const QUEUE: &str = "q";
/// The registry of whoever acts, unless a case is about registries.
pub(super) const FIRST: RegistryId = RegistryId::ONLY;
/// Another one.
pub(super) const SECOND: RegistryId = RegistryId(2);
/// And another.
pub(super) const THIRD: RegistryId = RegistryId(3);

/// A job in queue `q`, with an id made of this number.
pub(super) fn new_job(number: u64) -> NewJob {
    NewJob::new(id(number), queue(QUEUE), kind("k"), Bytes::from(format!("payload {number}")))
}

/// The same in another queue.
pub(super) fn job_in(name: &str, number: u64) -> NewJob {
    NewJob { queue: queue(name), ..new_job(number) }
}

/// The same with a unique key.
pub(super) fn keyed(key: &str, number: u64) -> NewJob {
    NewJob { unique_key: Some(UniqueKey::new(key).unwrap()), ..new_job(number) }
}

/// Ids in the order of their numbers.
pub(super) fn id(number: u64) -> JobId {
    let mut bytes = [0x01; 16];
    bytes[8..].copy_from_slice(&number.to_be_bytes());
    JobId::from_bytes(bytes)
}

pub(super) fn queue(name: &str) -> QueueName {
    QueueName::new(name).unwrap()
}

pub(super) fn kind(name: &str) -> Kind {
    Kind::new(name).unwrap()
}

pub(super) fn worker(name: &str) -> WorkerKey {
    WorkerKey::new(name).unwrap()
}

/// A worker of the first registry.
pub(super) fn enlist(key: &str) -> Enlist {
    Enlist {
        key: worker(key),
        nonce: Nonce::new(7),
        registry: FIRST,
        pings: false,
        grant: LEASE,
        name: format!("host of {key}"),
    }
}

/// The same in another registry.
pub(super) fn enlist_in(registry: RegistryId, key: &str) -> Enlist {
    Enlist { registry, ..enlist(key) }
}

/// The same of a holder that only pings.
pub(super) fn enlist_pinging(key: &str) -> Enlist {
    Enlist { pings: true, ..enlist(key) }
}

pub(super) fn text(text: &'static str) -> Bytes {
    Bytes::from_static(text.as_bytes())
}

pub(super) fn secs(secs: u64) -> Duration {
    Duration::from_secs(secs)
}

pub(super) fn inserted(id: JobId) -> Enqueued {
    Enqueued { id, duplicate: false }
}

pub(super) fn duplicate(id: JobId) -> Enqueued {
    Enqueued { id, duplicate: true }
}

pub(super) fn completed() -> Outcome {
    Outcome::Completed { result: text("result") }
}

pub(super) fn failed() -> Outcome {
    failed_with(Retry::ByPolicy)
}

pub(super) fn failed_with(retry: Retry) -> Outcome {
    Outcome::Failed { error: "boom".to_owned(), retry }
}

/// The jobs that were claimed, in order.
pub(super) fn ids(claimed: &[Claimed]) -> Vec<JobId> {
    claimed.iter().map(|claimed| claimed.hold.job).collect()
}
