//! The session's side of the guardian: tells it what it must know, before that counts for anything.
//!
//! | told | before |
//! |---|---|
//! | a key | its first heartbeat |
//! | until when exclusive jobs may run, and the key may be used | anything is started that relies on it |
//! | that exclusive jobs run inside this process | the first of them starts |
//! | which server looks after the worker, and takes its leave | soon after that is known |
//! | goodbye | the end of a worker that has taken leave by itself |
//!
//! That none runs any more is told a moment later, because usually the next one comes before that: each word wakes a process.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use guardian::Guardian;
use lease::clock_rule::Stopping;
use lease::guardian::Order;
use model::{Instant, Nonce, WorkerKey};
use tokio::runtime::Handle;

/// How long after the last exclusive handler the guardian hears of it. Should the process freeze in that moment, it is ended as
/// if the handler still ran.
const SETTLE: Duration = Duration::from_millis(100);

/// The guardian, if the worker has one, and what it was told.
pub(crate) struct Guard {
    guardian: Option<Guardian>,
    told: Told,
    servers: Servers,
    inside: Arc<Mutex<Inside>>,
}

/// Where leave can be taken.
struct Servers {
    /// Those that the worker was given.
    given: String,
    /// The one that took the last heartbeat, once it is known. Others may have named it.
    ours: String,
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
    /// The guardian believes that there are some.
    is_told: bool,
    /// Somebody will look soon whether that still holds.
    is_settling: bool,
    /// The session is over: what is left ends on its own.
    is_closed: bool,
}

/// What follows from the end of a handler.
#[derive(Debug, PartialEq, Eq)]
enum Exit {
    Nothing,
    Tell(Order),
    /// Look again in a moment.
    Settle,
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
        let servers = Servers { given: servers.to_owned(), ours: String::new() };
        Guard { guardian, told: Told::default(), servers, inside: Arc::default() }
    }

    /// The worker uses this key from now on.
    pub(crate) fn follow_key(&mut self, key: WorkerKey, nonce: Nonce) {
        self.told = Told::default();
        let mut inside = lock(&self.inside);
        tell(self.guardian.as_ref(), inside.rekey());
        tell(self.guardian.as_ref(), Some(Order::Key { key, nonce }));
    }

    /// This server took a heartbeat.
    pub(crate) fn follow_server(&mut self, server: &str) {
        if let (Some(list), Some(guardian)) = (self.servers.follow(server), &self.guardian) {
            guardian.leave_at(&list);
        }
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

/// Nobody looks again after this.
impl Drop for Guard {
    fn drop(&mut self) {
        let mut inside = lock(&self.inside);
        inside.is_closed = true;
        tell(self.guardian.as_ref(), inside.settle());
    }
}

impl Drop for Entry {
    fn drop(&mut self) {
        let mut inside = lock(&self.inside);
        match (inside.exit(self.key_number), &self.guardian) {
            (Exit::Tell(order), guardian) => tell(guardian.as_ref(), Some(order)),
            (Exit::Settle, Some(guardian)) => match Handle::try_current() {
                Ok(runtime) => drop(runtime.spawn(settle(guardian.clone(), Arc::clone(&self.inside)))),
                Err(_) => tell(Some(guardian), inside.settle()),
            },
            _ => {}
        }
    }
}

async fn settle(guardian: Guardian, inside: Arc<Mutex<Inside>>) {
    tokio::time::sleep(SETTLE).await;
    let mut inside = lock(&inside);
    tell(Some(&guardian), inside.settle());
}

impl Servers {
    /// Who is to be asked, if that is news: first the one that looks after us.
    fn follow(&mut self, ours: &str) -> Option<String> {
        if self.ours == ours {
            return None;
        }
        ours.clone_into(&mut self.ours);
        Some(format!("{ours},{}", self.given))
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
    /// The next key; what to tell before. Handlers that are not there any more must not be doomed with the old one.
    fn rekey(&mut self) -> Option<Order> {
        let order = self.settle();
        self.key_number += 1;
        self.old += std::mem::take(&mut self.present);
        order
    }

    /// One more under the present key; what to tell.
    fn enter(&mut self) -> Option<Order> {
        self.present += 1;
        (!std::mem::replace(&mut self.is_told, true)).then_some(Order::Inside { exclusive: true })
    }

    /// One less under that key.
    fn exit(&mut self, key_number: u64) -> Exit {
        let is_old = key_number != self.key_number;
        *(if is_old { &mut self.old } else { &mut self.present }) -= 1;
        match (self.present, self.old) {
            // The rest of an old lease may be short.
            (0, 0) if is_old || self.is_closed => self.settle().map_or(Exit::Nothing, Exit::Tell),
            (0, 0) if !std::mem::replace(&mut self.is_settling, true) => Exit::Settle,
            // Those that are left live on the present key's lease, and no longer on the rest of an old one.
            (1.., 0) if is_old => Exit::Tell(Order::Inside { exclusive: true }),
            _ => Exit::Nothing,
        }
    }

    /// Looks whether any are left; what to tell.
    fn settle(&mut self) -> Option<Order> {
        self.is_settling = false;
        let is_clear = self.present + self.old == 0;
        (is_clear && std::mem::take(&mut self.is_told)).then_some(Order::Inside { exclusive: false })
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
    fn leave_is_taken_of_the_server_that_looks_after_us_or_of_those_we_were_given() {
        let mut servers = Servers { given: "http://a:1,http://b:1".to_owned(), ours: String::new() };
        let list = |list: &str| Some(list.to_owned());
        assert_eq!(servers.follow("http://c:1"), list("http://c:1,http://a:1,http://b:1"));
        assert_eq!(servers.follow("http://c:1"), None, "once");
        assert_eq!(servers.follow("http://b:1"), list("http://b:1,http://a:1,http://b:1"));
    }

    #[test]
    fn the_guardian_hears_of_the_first_and_a_moment_later_of_the_last() {
        let mut inside = Inside::default();
        assert_eq!((inside.enter(), inside.enter()), (BUSY, None));
        assert_eq!((inside.exit(0), inside.exit(0)), (Exit::Nothing, Exit::Settle));
        assert_eq!((inside.settle(), inside.settle()), (CLEAR, None));
        assert_eq!(inside.enter(), BUSY);
    }

    #[test]
    fn one_after_the_other_is_told_once_and_looked_at_once() {
        let mut inside = Inside::default();
        assert_eq!((inside.enter(), inside.exit(0)), (BUSY, Exit::Settle));
        assert_eq!((inside.enter(), inside.exit(0)), (None, Exit::Nothing), "somebody looks already");
        inside.enter();
        assert_eq!(inside.settle(), None, "one is there");
        assert_eq!((inside.exit(0), inside.settle()), (Exit::Settle, CLEAR));
    }

    #[test]
    fn who_is_not_there_any_more_is_not_doomed_with_the_old_key() {
        let mut inside = Inside::default();
        inside.enter();
        inside.exit(0);
        assert_eq!(inside.rekey(), CLEAR);
        assert_eq!((inside.enter(), inside.rekey()), (BUSY, None), "but this one is");
    }

    #[test]
    fn after_the_end_of_the_session_the_last_is_told_at_once() {
        let mut inside = Inside::default();
        inside.enter();
        inside.is_closed = true;
        assert_eq!(inside.settle(), None);
        assert_eq!(Some(inside.exit(0)), CLEAR.map(Exit::Tell));
    }

    #[test]
    fn what_is_left_of_an_old_key_is_not_mixed_up_with_what_the_next_one_runs() {
        let mut inside = Inside::default();
        inside.enter();
        inside.rekey();
        assert_eq!(inside.enter(), None, "the process is still doomed with the old key");
        assert_eq!(Some(inside.exit(0)), BUSY.map(Exit::Tell), "from now on the new key's lease counts");
        assert_eq!((inside.exit(1), inside.settle()), (Exit::Settle, CLEAR));
        inside.enter();
        inside.rekey();
        inside.enter();
        assert_eq!(inside.exit(2), Exit::Nothing, "the old one outlives the new one");
        assert_eq!(Some(inside.exit(1)), CLEAR.map(Exit::Tell), "and the rest of its lease may be short");
    }
}
