//! Which queues are volatile, for everyone who has to know at once.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
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
    /// It is to be what it was, but the durable store may say otherwise: no job comes in before it was told.
    Unsettled {
        was_volatile: bool,
    },
}

#[derive(Debug, Default)]
pub(super) struct Routes {
    routes: RwLock<BTreeMap<QueueName, Route>>,
    has_unsettled: AtomicBool,
}

impl Routes {
    pub(super) fn new(volatile: impl Iterator<Item = QueueName>) -> Self {
        let routes = volatile.map(|queue| (queue, Route::Volatile)).collect();
        Routes { routes: RwLock::new(routes), has_unsettled: AtomicBool::new(false) }
    }

    /// Whether this queue is volatile, or was before it began to change.
    pub(super) fn is_volatile(&self, queue: &QueueName) -> bool {
        match self.read().get(queue) {
            None => false,
            Some(Route::Volatile) => true,
            Some(Route::Changing { from_volatile: was } | Route::Unsettled { was_volatile: was }) => *was,
        }
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
                (Some(Route::Changing { .. } | Route::Unsettled { .. }), _) => {
                    return Err(is_changing(&job.queue));
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
        if let Some(Route::Changing { .. } | Route::Unsettled { .. }) = route {
            return Err(is_changing(queue));
        }
        let is_volatile = route.is_some();
        routes.insert(queue.clone(), Route::Changing { from_volatile: is_volatile });
        Ok(Change { routes: self, queue: queue.clone(), is_volatile, is_settled: true })
    }

    /// A queue whose change was left in the middle, to be undone by whoever asks.
    pub(super) fn unsettled(&self) -> Option<Change<'_>> {
        if !self.has_unsettled.load(Ordering::Acquire) {
            return None;
        }
        let mut routes = self.write();
        let unsettled = routes.iter_mut().find_map(|(queue, route)| match route {
            Route::Unsettled { was_volatile } => Some((queue.clone(), *was_volatile, route)),
            Route::Volatile | Route::Changing { .. } => None,
        });
        let Some((queue, is_volatile, route)) = unsettled else {
            self.has_unsettled.store(false, Ordering::Release);
            return None;
        };
        *route = Route::Changing { from_volatile: is_volatile };
        Some(Change { routes: self, queue, is_volatile, is_settled: false })
    }

    fn read(&self) -> RwLockReadGuard<'_, BTreeMap<QueueName, Route>> {
        self.routes.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn write(&self) -> RwLockWriteGuard<'_, BTreeMap<QueueName, Route>> {
        self.routes.write().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A queue that takes no jobs. When it is dropped the queue is what it was, or what it has become, unless it is not settled.
pub(super) struct Change<'a> {
    routes: &'a Routes,
    pub(super) queue: QueueName,
    /// What the queue is.
    pub(super) is_volatile: bool,
    /// Whether the durable store says so too.
    pub(super) is_settled: bool,
}

impl Change<'_> {
    /// The queue is this from now on, as both stores say.
    pub(super) fn become_volatile(mut self, is_volatile: bool) {
        (self.is_volatile, self.is_settled) = (is_volatile, true);
    }
}

impl Drop for Change<'_> {
    fn drop(&mut self) {
        let mut routes = self.routes.write();
        if !self.is_settled {
            routes.insert(self.queue.clone(), Route::Unsettled { was_volatile: self.is_volatile });
            self.routes.has_unsettled.store(true, Ordering::Release);
        } else if self.is_volatile {
            routes.insert(self.queue.clone(), Route::Volatile);
        } else {
            routes.remove(&self.queue);
        }
    }
}

fn is_changing(queue: &QueueName) -> StoreError {
    StoreError::Unavailable(format!("queue {queue} is being changed; try again"))
}

pub(super) fn invalid(why: String) -> StoreError {
    StoreError::Invalid(Invalid::new(why))
}
