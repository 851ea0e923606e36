//! Which queues are volatile, for everyone who has to know at once.

use std::collections::BTreeMap;
use std::sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use model::{Invalid, NewJob, QueueName};

use crate::error::StoreError;

/// Where the jobs of a queue go. Those that are not named here are durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Volatile,
    /// It is becoming the one or the other: no job comes in meanwhile.
    Changing {
        from_volatile: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Routes(RwLock<BTreeMap<QueueName, Route>>);

impl Routes {
    pub(super) fn new(volatile: impl Iterator<Item = QueueName>) -> Self {
        Routes(RwLock::new(volatile.map(|queue| (queue, Route::Volatile)).collect()))
    }

    /// Whether this queue is volatile, or was before it began to change.
    pub(super) fn is_volatile(&self, queue: &QueueName) -> bool {
        let route = self.read().get(queue).copied();
        route.is_some_and(|route| route != Route::Changing { from_volatile: false })
    }

    /// Whether any queue is.
    pub(super) fn has_volatile(&self) -> bool {
        !self.read().is_empty()
    }

    /// Refuses jobs whose ids do not belong into their queues. No queue changes before the answer is dropped.
    pub(super) fn check<'a>(&'a self, jobs: &[NewJob]) -> Result<impl Sized + use<'a>, StoreError> {
        let routes = self.read();
        if routes.is_empty() && jobs.iter().all(|job| !job.id.is_volatile()) {
            return Ok(routes);
        }
        // Most batches are for one queue.
        let mut last: Option<(&QueueName, Option<Route>)> = None;
        for job in jobs {
            let route = match last {
                Some((queue, route)) if *queue == job.queue => route,
                _ => routes.get(&job.queue).copied(),
            };
            last = Some((&job.queue, route));
            match (route, job.id.is_volatile()) {
                (Some(Route::Volatile), true) | (None, false) => {}
                (Some(Route::Changing { .. }), _) => {
                    return Err(StoreError::Unavailable(format!(
                        "queue {} is being changed; try again",
                        job.queue
                    )));
                }
                (Some(Route::Volatile), false) => {
                    return Err(invalid(format!(
                        "queue {} is volatile, and {} is not the id of a volatile job; leave the id out or have the \
                         client number its jobs",
                        job.queue, job.id
                    )));
                }
                (None, true) => {
                    return Err(invalid(format!(
                        "{} is the id of a volatile job, and queue {} is not volatile; leave the id out or choose another",
                        job.id, job.queue
                    )));
                }
            }
        }
        Ok(routes)
    }

    /// Keeps new jobs out of a queue until the change is dropped.
    pub(super) fn change(&self, queue: &QueueName) -> Result<Change<'_>, StoreError> {
        let mut routes = self.write();
        let route = routes.get(queue).copied();
        if let Some(Route::Changing { .. }) = route {
            return Err(StoreError::Unavailable(format!("queue {queue} is being changed; try again")));
        }
        let is_volatile = route.is_some();
        routes.insert(queue.clone(), Route::Changing { from_volatile: is_volatile });
        Ok(Change { routes: self, queue: queue.clone(), is_volatile })
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<QueueName, Route>> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<QueueName, Route>> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue that takes no jobs. When it is dropped the queue is what it was, or what it has become.
pub(super) struct Change<'a> {
    routes: &'a Routes,
    queue: QueueName,
    is_volatile: bool,
}

impl Change<'_> {
    /// The queue is this from now on.
    pub(super) fn become_volatile(mut self, is_volatile: bool) {
        self.is_volatile = is_volatile;
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut routes = self.routes.write();
        if self.is_volatile {
            routes.insert(self.queue.clone(), Route::Volatile);
        } else {
            routes.remove(&self.queue);
        }
    }
}

pub(super) fn invalid(why: String) -> StoreError {
    StoreError::Invalid(Invalid::new(why))
}
