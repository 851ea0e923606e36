//! The session's side of the guardian: tells it what it must know, before that counts for anything.
//!
//! | told | before |
//! |---|---|
//! | a key | its first heartbeat |
//! | until when exclusive jobs may run, and the key may be used | anything is started that relies on it |
//! | that exclusive jobs run inside this process | the first of them starts |
//! | goodbye | the end of a worker that has taken leave by itself |

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use guardian::Guardian;
use lease::clock_rule::Stopping;
use lease::guardian::Order;
use model::{Instant, Nonce, WorkerKey};

/// The guardian, if the worker has one, and what it was told.
pub(crate) struct Guard {
    guardian: Option<Guardian>,
    told: Told,
    inside: Arc<Mutex<Inside>>,
}

/// What the guardian knows of the present key.
#[derive(Default)]
struct Told {
    exclusive_until: Option<Instant>,
    lease_until: Option<Instant>,
}

/// Counts the exclusive handlers inside this process.
#[derive(Default)]
struct Inside {
    /// How many keys there were.
    key_number: u64,
    /// How many handlers run under the present key.
    present: usize,
    /// How many were started under a key that is over. The guardian gives them the rest of that key's lease.
    old: usize,
}

/// An exclusive handler inside this process. Kept by its task, and dropped after it: only then nothing of it is left,
/// whatever became of the session meanwhile.
pub(crate) struct Entry {
    key_number: u64,
    guardian: Option<Guardian>,
    inside: Arc<Mutex<Inside>>,
}

impl Guard {
    /// Puts the guardian to work. Must be called inside a tokio runtime.
    pub(crate) fn attach(guardian: Option<Guardian>, servers: &str, stopping: Stopping) -> Self {
        if let Some(guardian) = &guardian {
            guardian.attach(servers, stopping);
        }
        Guard { guardian, told: Told::default(), inside: Arc::default() }
    }

    /// The worker uses this key from now on.
    pub(crate) fn follow_key(&mut self, key: WorkerKey, nonce: Nonce) {
        self.told = Told::default();
        let mut inside = lock(&self.inside);
        inside.rekey();
        tell(self.guardian.as_ref(), Some(Order::Key { key, nonce }));
    }

    /// Exclusive jobs may run, and the key may be used, until then.
    pub(crate) fn follow_lease(&mut self, exclusive_until: Option<Instant>, lease_until: Option<Instant>) {
        for order in self.told.follow(exclusive_until, lease_until) {
            tell(self.guardian.as_ref(), order);
        }
    }

    /// An exclusive handler is about to start inside this process.
    pub(crate) fn enter(&self) -> Entry {
        let mut inside = lock(&self.inside);
        tell(self.guardian.as_ref(), inside.enter());
        Entry {
            key_number: inside.key_number,
            guardian: self.guardian.clone(),
            inside: Arc::clone(&self.inside),
        }
    }

    /// The worker ends; nothing of it runs, and no server waits for word from it.
    pub(crate) fn say_goodbye(&self) {
        tell(self.guardian.as_ref(), Some(Order::Bye));
    }

    /// Returns when the guardian is gone; never if there is none.
    pub(crate) fn lost(&self) -> impl Future<Output = ()> + Send + 'static {
        let guardian = self.guardian.clone();
        async move {
            match guardian {
                Some(guardian) => guardian.lost().await,
                None => std::future::pending().await,
            }
        }
    }

    pub(crate) fn guardian(&self) -> Option<&Guardian> {
        self.guardian.as_ref()
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut inside = lock(&self.inside);
        tell(self.guardian.as_ref(), inside.exit(self.key_number));
    }
}

impl Told {
    /// What is news. A hold says that the key may be used as long, too.
    fn follow(
        &mut self,
        exclusive_until: Option<Instant>,
        lease_until: Option<Instant>,
    ) -> [Option<Order>; 2] {
        let hold = exclusive_until.filter(|_| self.exclusive_until != exclusive_until);
        let lease = lease_until.filter(|_| self.lease_until != lease_until && lease_until > exclusive_until);
        *self = Told { exclusive_until, lease_until };
        [hold.map(|until| Order::Hold { until }), lease.map(|until| Order::Lease { until })]
    }
}

impl Inside {
    fn rekey(&mut self) {
        self.key_number += 1;
        self.old += std::mem::take(&mut self.present);
    }

    /// One more under the present key; what to tell.
    fn enter(&mut self) -> Option<Order> {
        self.present += 1;
        (self.present + self.old == 1).then_some(Order::Inside { exclusive: true })
    }

    /// One less under that key; what to tell.
    fn exit(&mut self, key_number: u64) -> Option<Order> {
        let is_old = key_number != self.key_number;
        *(if is_old { &mut self.old } else { &mut self.present }) -= 1;
        match (self.present, self.old) {
            (0, 0) => Some(Order::Inside { exclusive: false }),
            // Those that are left live on the present key's lease, and no longer on the rest of an old one.
            (_, 0) if is_old => Some(Order::Inside { exclusive: true }),
            _ => None,
        }
    }
}

fn tell(guardian: Option<&Guardian>, order: Option<Order>) {
    if let (Some(guardian), Some(order)) = (guardian, order) {
        guardian.tell(order);
    }
}

/// Locked while something is told, so that it is told in the order in which it happened. Telling never waits.
fn lock(inside: &Mutex<Inside>) -> MutexGuard<'_, Inside> {
    inside.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    const BUSY: Option<Order> = Some(Order::Inside { exclusive: true });
    const CLEAR: Option<Order> = Some(Order::Inside { exclusive: false });

    #[test]
    fn the_guardian_is_told_how_long_exclusive_jobs_may_run_and_the_key_only_if_that_is_longer() {
        let at = |seconds: u64| Some(Instant::from_millis(seconds * 1_000));
        let hold = |seconds| at(seconds).map(|until| Order::Hold { until });
        let lease = |seconds| at(seconds).map(|until| Order::Lease { until });
        let mut told = Told::default();
        assert_eq!(told.follow(None, None), [None, None]);
        assert_eq!(told.follow(at(20), at(20)), [hold(20), None]);
        assert_eq!(told.follow(at(20), at(20)), [None, None], "once");
        assert_eq!(told.follow(at(20), at(24)), [None, lease(24)], "nobody vouched for exclusive jobs");
        assert_eq!(told.follow(at(28), at(28)), [hold(28), None]);
        assert_eq!(Told::default().follow(None, at(20)), [None, lease(20)]);
        assert_eq!(told.follow(None, None), [None, None], "the key is over");
    }

    #[test]
    fn the_guardian_hears_of_the_first_and_of_the_last() {
        let mut inside = Inside::default();
        assert_eq!((inside.enter(), inside.enter()), (BUSY, None));
        assert_eq!((inside.exit(0), inside.exit(0)), (None, CLEAR));
        assert_eq!(inside.enter(), BUSY);
    }

    #[test]
    fn what_is_left_of_an_old_key_is_not_mixed_up_with_what_the_next_one_runs() {
        let mut inside = Inside::default();
        inside.enter();
        inside.rekey();
        assert_eq!(inside.enter(), None, "the process is still doomed with the old key");
        assert_eq!(inside.exit(0), BUSY, "from now on the new key's lease counts");
        assert_eq!(inside.exit(1), CLEAR);
        inside.enter();
        inside.rekey();
        inside.enter();
        assert_eq!((inside.exit(2), inside.exit(1)), (None, CLEAR), "the old one outlived the new one");
    }
}
