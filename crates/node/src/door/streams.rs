//! Runs the streams of a connection, each in a task of its own.
//!
//! Such a task wakes itself with each frame that it sends, because the connection grants it room for the next one. For the
//! runtime that is a task that gives way to others: it goes to the end of the queue, and another thread is woken to help, for
//! nothing. Here it is simply asked once more.

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use futures_util::task::AtomicWaker;
use hyper::rt::Executor;

/// Hands streams to the runtime.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Streams;

impl<F: Future<Output = ()> + Send + 'static> Executor<F> for Streams {
    fn execute(&self, stream: F) {
        tokio::spawn(asked_again(stream));
    }
}

/// Asks `future` once more if it was woken while it was asked.
async fn asked_again<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let bell = Arc::new(Bell::default());
    let waker = Waker::from(Arc::clone(&bell));
    poll_fn(|cx| {
        bell.task.register(cx.waker());
        let mut ask = || bell.while_asked(|| future.as_mut().poll(&mut Context::from_waker(&waker)));
        let (mut answer, mut has_rung) = ask();
        if answer.is_pending() && has_rung {
            (answer, has_rung) = ask();
        }
        // Still at it: now others have their turn.
        if answer.is_pending() && has_rung {
            cx.waker().wake_by_ref();
        }
        answer
    })
    .await
}

/// What a future rings when it wants to be asked again.
#[derive(Default)]
struct Bell {
    task: AtomicWaker,
    is_asked: AtomicBool,
    has_rung: AtomicBool,
}

impl Bell {
    /// Asks, and answers also whether the bell rang meanwhile.
    fn while_asked<T>(&self, ask: impl FnOnce() -> Poll<T>) -> (Poll<T>, bool) {
        self.has_rung.store(false, Ordering::SeqCst);
        self.is_asked.store(true, Ordering::SeqCst);
        let answer = ask();
        self.is_asked.store(false, Ordering::SeqCst);
        (answer, self.has_rung.load(Ordering::SeqCst))
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        // In this order: whoever asks looks at the first after it has cleared the second.
        self.has_rung.store(true, Ordering::SeqCst);
        if !self.is_asked.load(Ordering::SeqCst) {
            self.task.wake();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;
    use std::sync::atomic::AtomicUsize;

    use super::*;

    /// Counts how often the runtime is bothered.
    #[derive(Default)]
    struct Runtime(AtomicUsize);

    impl Wake for Runtime {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    /// A future that wakes itself the first `times` times it is asked, and never ends; how often it was asked, how often the
    /// runtime was told.
    fn asked_once(times: usize) -> (usize, usize) {
        let (runtime, asked, last) = (Arc::new(Runtime::default()), AtomicUsize::new(0), Mutex::new(None));
        let restless = poll_fn(|cx| {
            *last.lock().unwrap() = Some(cx.waker().clone());
            if asked.fetch_add(1, Ordering::SeqCst) < times {
                cx.waker().wake_by_ref();
            }
            Poll::<()>::Pending
        });
        let waker = Waker::from(Arc::clone(&runtime));
        let mut future = pin!(asked_again(restless));
        assert!(future.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
        let told = runtime.0.load(Ordering::SeqCst);
        last.lock().unwrap().take().unwrap().wake();
        assert_eq!(runtime.0.load(Ordering::SeqCst), told + 1, "what wakes it later wakes the task");
        (asked.load(Ordering::SeqCst), told)
    }

    #[test]
    fn a_stream_that_wakes_itself_is_asked_again_without_the_runtime() {
        assert_eq!(asked_once(1), (2, 0));
    }

    #[test]
    fn a_stream_that_does_not_stop_waking_itself_lets_others_have_their_turn() {
        assert_eq!(asked_once(usize::MAX), (2, 1));
    }

    #[test]
    fn a_stream_that_waits_is_asked_once() {
        assert_eq!(asked_once(0), (1, 0));
    }
}
