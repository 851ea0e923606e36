//! What is known of one connection outside of its own task: whether it is in use, and whether its client takes what it asked
//! for. Requests only count; judging is for whoever looks from time to time, so that no request pays for a clock or a timer.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, AtomicUsize, Ordering};
use std::task::Poll;
use std::time::{Duration, Instant};

use futures_util::task::AtomicWaker;

/// The shared part.
#[derive(Debug, Default)]
pub(crate) struct Connection {
    /// Calls that are not answered to their end.
    open: AtomicUsize,
    /// Calls so far.
    calls: AtomicU64,
    /// Answers that wait for their client to take them.
    waiting: AtomicUsize,
    /// The socket takes nothing.
    is_blocked: AtomicBool,
    /// How often the client took something.
    taken: AtomicU64,
    /// What its task shall do, and how to wake it for that.
    wish: AtomicU8,
    task: AtomicWaker,
}

/// What a connection is asked to do. Each is more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Wish {
    GoOn,
    /// Takes no more calls, and ends when those that are open have.
    End,
    /// Ends at once.
    Cut,
}

impl Connection {
    pub(super) fn ask(&self, wish: Wish) {
        self.wish.fetch_max(wish as u8, Ordering::SeqCst);
        self.task.wake();
    }

    pub(super) fn wish(&self) -> Wish {
        match self.wish.load(Ordering::SeqCst) {
            0 => Wish::GoOn,
            1 => Wish::End,
            _ => Wish::Cut,
        }
    }

    /// For its task: waits until at least this is asked of it.
    pub(super) async fn asked(&self, least: Wish) {
        poll_fn(|cx| {
            self.task.register(cx.waker());
            if self.wish() >= least { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    pub(super) fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed) > 0
    }

    /// The client took something.
    pub(super) fn take(&self) {
        self.taken.fetch_add(1, Ordering::Relaxed);
    }

    /// The socket takes nothing, or takes again.
    pub(super) fn block(&self, is_blocked: bool) {
        if self.is_blocked.load(Ordering::Relaxed) != is_blocked {
            self.is_blocked.store(is_blocked, Ordering::Relaxed);
            self.take();
        }
    }
}

/// A call from its beginning to the end of its answer.
#[derive(Debug)]
pub(crate) struct Call(Arc<Connection>);

impl Call {
    pub(super) fn begin(connection: &Arc<Connection>) -> Self {
        connection.open.fetch_add(1, Ordering::Relaxed);
        connection.calls.fetch_add(1, Ordering::Relaxed);
        Call(Arc::clone(connection))
    }

    pub(super) fn connection(&self) -> &Arc<Connection> {
        &self.0
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Something that waits until the client takes it.
#[derive(Debug)]
pub(crate) struct Waiting(Arc<Connection>);

impl Waiting {
    pub(super) fn begin(connection: &Arc<Connection>) -> Self {
        connection.waiting.fetch_add(1, Ordering::Relaxed);
        Waiting(Arc::clone(connection))
    }

    /// The client took a part of it.
    pub(super) fn take(&self) {
        self.0.take();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
        self.0.take();
    }
}

/// How long a connection may go on like this.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience {
    /// Without an open call.
    pub(super) idle: Duration,
    /// With a client that takes nothing of what waits for it.
    pub(super) stalled: Duration,
}

/// What the last look found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Look {
    calls: u64,
    taken: u64,
    idle_since: Option<Instant>,
    stalled_since: Option<Instant>,
}

/// What is to be done about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Fine,
    /// Nobody has used it for too long.
    Idle,
    /// Its client takes nothing.
    Stalled,
}

impl Look {
    /// Looks again.
    pub(super) fn again(&mut self, connection: &Connection, now: Instant, patience: Patience) -> Verdict {
        let (calls, taken) =
            (connection.calls.load(Ordering::Relaxed), connection.taken.load(Ordering::Relaxed));
        let was_used = calls != std::mem::replace(&mut self.calls, calls);
        let has_taken = taken != std::mem::replace(&mut self.taken, taken);
        let must_take =
            connection.waiting.load(Ordering::Relaxed) > 0 || connection.is_blocked.load(Ordering::Relaxed);
        let over = |is_so: bool, since: &mut Option<Instant>, patience| {
            *since = is_so.then(|| since.unwrap_or(now));
            since.is_some_and(|since| now.duration_since(since) >= patience)
        };
        let is_idle = !connection.is_open();
        // A use between two looks begins the time anew.
        if was_used {
            self.idle_since = None;
        }
        if has_taken {
            self.stalled_since = None;
        }
        let stalled = over(must_take, &mut self.stalled_since, patience.stalled);
        let idle = over(is_idle, &mut self.idle_since, patience.idle);
        match (stalled, idle) {
            (true, _) => Verdict::Stalled,
            (false, true) => Verdict::Idle,
            (false, false) => Verdict::Fine,
        }
    }

    pub(super) fn idle_since(&self) -> Option<Instant> {
        self.idle_since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATIENCE: Patience = Patience { idle: Duration::from_secs(60), stalled: Duration::from_secs(30) };

    fn looks(connection: &Connection, look: &mut Look, start: Instant, seconds: &[u64]) -> Vec<Verdict> {
        let again = |second: &u64| look.again(connection, start + Duration::from_secs(*second), PATIENCE);
        seconds.iter().map(again).collect()
    }

    #[test]
    fn a_connection_without_calls_is_idle_after_its_time() {
        use Verdict::{Fine, Idle};
        let (connection, mut look, start) =
            (Arc::new(Connection::default()), Look::default(), Instant::now());
        assert_eq!(looks(&connection, &mut look, start, &[0, 59, 60]), [Fine, Fine, Idle]);
        drop(Call::begin(&connection));
        assert_eq!(looks(&connection, &mut look, start, &[61, 120, 121]), [Fine, Fine, Idle]);
        let call = Call::begin(&connection);
        assert_eq!(looks(&connection, &mut look, start, &[122, 500, 9_000]), [Fine; 3], "it is in use");
        drop(call);
        assert_eq!(looks(&connection, &mut look, start, &[9_001, 9_060, 9_061]), [Fine, Fine, Idle]);
    }

    #[test]
    fn a_client_that_takes_nothing_is_stalled_and_a_slow_one_is_not() {
        use Verdict::{Fine, Stalled};
        let (connection, mut look, start) =
            (Arc::new(Connection::default()), Look::default(), Instant::now());
        let call = Call::begin(&connection);
        let answer = Waiting::begin(&connection);
        assert_eq!(looks(&connection, &mut look, start, &[0, 29, 30]), [Fine, Fine, Stalled]);
        answer.take();
        assert_eq!(looks(&connection, &mut look, start, &[31, 60, 61]), [Fine, Fine, Stalled]);
        drop(answer);
        assert_eq!(looks(&connection, &mut look, start, &[62, 500]), [Fine, Fine], "nothing waits");
        connection.block(true);
        assert_eq!(looks(&connection, &mut look, start, &[501, 530, 531]), [Fine, Fine, Stalled]);
        connection.block(false);
        connection.block(true);
        assert_eq!(looks(&connection, &mut look, start, &[532, 561]), [Fine, Fine], "it took something");
        drop(call);
    }
}
