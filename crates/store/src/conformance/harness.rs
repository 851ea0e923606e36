//! How a store meets the suite: it offers a [`Harness`], the suite offers [`Case`]s, any executor runs them.

use std::future::poll_fn;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

use super::clock::TestClock;
use crate::port::JobStore;

/// A boxed future, as every executor takes it.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// What a store lends to one run of one case. Each run gets a harness of its own.
pub trait Harness: Send + Sync + 'static {
    /// Opens the store over this harness's data, with this clock. There is nothing in it the first time, and a shared
    /// store numbers its registries from 1. Durable cases drop the store and open it again, and find what was
    /// acknowledged before.
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>>;

    /// Opens another handle over the same data while others are open, as another server would. Only cases for shared
    /// stores call it, and only harnesses of such stores have it.
    ///
    /// # Panics
    ///
    /// If the store is not shared.
    fn join(&self, _clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        panic!("this harness has no second handle: its store is not shared")
    }
}

/// A store that can be made on the spot needs no more than a closure.
impl<F> Harness for F
where
    F: Fn(Arc<TestClock>) -> Arc<dyn JobStore> + Send + Sync + 'static,
{
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async move { self(clock) })
    }
}

/// One promise of the port, as a test. It panics if the store breaks the promise.
#[derive(Clone, Copy)]
pub struct Case {
    /// The promise.
    pub name: &'static str,
    pub(super) body: fn(Arc<dyn Harness>) -> BoxFuture<'static, ()>,
}

impl Case {
    /// The test itself, to be awaited.
    pub fn run(&self, harness: impl Harness) -> BoxFuture<'static, ()> {
        (self.body)(Arc::new(harness))
    }
}

/// Drives two futures at the same time, as two servers would.
pub(super) async fn together<A, B>(one: impl Future<Output = A>, other: impl Future<Output = B>) -> (A, B) {
    let (mut one, mut other) = (pin!(one), pin!(other));
    let (mut first, mut second) = (None, None);
    poll_fn(|context| {
        if first.is_none()
            && let Poll::Ready(outcome) = one.as_mut().poll(context)
        {
            first = Some(outcome);
        }
        if second.is_none()
            && let Poll::Ready(outcome) = other.as_mut().poll(context)
        {
            second = Some(outcome);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            unfinished => {
                (first, second) = unfinished;
                Poll::Pending
            }
        }
    })
    .await
}

/// The outcome of a future that is ready at its first poll, as all futures of the memory store are.
///
/// # Panics
///
/// If it is not.
pub fn ready<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(outcome) => outcome,
        Poll::Pending => panic!("a verb of this store must be ready at its first poll"),
    }
}
