//! Splitting what belongs to two stores, and putting their answers together again.

use std::collections::BTreeMap;
use std::time::Duration;

use model::{Job, JobId, QueueName};

use crate::port::{Deadlines, Page, QueueStats};

/// Things that belong to one of two stores, and the order they had.
pub(super) enum Split<T> {
    /// All of them durable; the usual case costs nothing.
    Durable(Vec<T>),
    /// All of them volatile.
    Volatile(Vec<T>),
    /// Some of each.
    Both { durable: Vec<T>, volatile: Vec<T>, order: Order },
}

/// For each thing in turn, whether it is volatile.
pub(super) struct Order(Vec<bool>);

impl<T> Split<T> {
    pub(super) fn by_id(things: Vec<T>, id: impl Fn(&T) -> JobId) -> Self {
        let volatile = things.iter().filter(|thing| id(thing).is_volatile()).count();
        if volatile == 0 {
            return Split::Durable(things);
        }
        if volatile == things.len() {
            return Split::Volatile(things);
        }
        let order = Order(things.iter().map(|thing| id(thing).is_volatile()).collect());
        let (volatile, durable) = things.into_iter().partition(|thing| id(thing).is_volatile());
        Split::Both { durable, volatile, order }
    }
}

impl Order {
    /// The answers of both in the order of what was asked. A store that remembers a request may answer more or less than it was
    /// asked; nothing of that is dropped.
    pub(super) fn merge<A>(&self, durable: Vec<A>, volatile: Vec<A>) -> Vec<A> {
        let mut merged = Vec::with_capacity(durable.len() + volatile.len());
        let (mut durable, mut volatile) = (durable.into_iter(), volatile.into_iter());
        for is_volatile in &self.0 {
            merged.extend(if *is_volatile { volatile.next() } else { durable.next() });
        }
        merged.extend(durable);
        merged.extend(volatile);
        merged
    }
}

/// Two lists of jobs for one page, newest id first, as one. Where either ends because the page is full, both together end no later.
pub(super) fn newest(durable: Vec<Job>, volatile: Vec<Job>, page: Page) -> Vec<Job> {
    if volatile.is_empty() {
        return durable;
    }
    let mut jobs = durable;
    jobs.extend(volatile);
    jobs.sort_by_key(|job| std::cmp::Reverse(job.id));
    page.cut(&mut jobs);
    jobs
}

/// Queues of two stores, by name. The settings of a queue that is volatile now are the volatile store's.
pub(super) fn stats(
    durable: Vec<QueueStats>,
    volatile: Vec<QueueStats>,
    is_volatile: impl Fn(&QueueName) -> bool,
) -> Vec<QueueStats> {
    if volatile.is_empty() {
        return durable;
    }
    let mut queues: BTreeMap<QueueName, QueueStats> =
        durable.into_iter().map(|stats| (stats.queue.clone(), stats)).collect();
    for stats in volatile {
        match queues.get_mut(&stats.queue) {
            None => {
                queues.insert(stats.queue.clone(), stats);
            }
            // It was the other before.
            Some(known) => {
                known.counts.iter_mut().zip(stats.counts).for_each(|(count, more)| *count += more);
                known.oldest = known.oldest.max(stats.oldest);
                if is_volatile(&stats.queue) {
                    known.settings = stats.settings;
                }
            }
        }
    }
    queues.into_values().collect()
}

/// The earlier of each.
pub(super) fn deadlines(durable: Deadlines, volatile: Deadlines) -> Deadlines {
    let earlier = |one: Option<Duration>, other: Option<Duration>| one.into_iter().chain(other).min();
    Deadlines {
        next_run_in: earlier(durable.next_run_in, volatile.next_run_in),
        next_lease_in: earlier(durable.next_lease_in, volatile.next_lease_in),
        longest_lease: durable.longest_lease.max(volatile.longest_lease),
    }
}
