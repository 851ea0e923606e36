//! How a thread is told to stop, and how long that may take.

use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Between one thread and whoever wants it to stop.
#[derive(Debug, Default)]
pub(crate) struct Stop {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    is_asked: bool,
    has_ended: bool,
}

impl Stop {
    /// The thread waits this long, or until it is asked to stop; true if it is.
    pub(crate) fn wait(&self, span: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, span, |state| !state.is_asked);
        waited.expect(NO_PANIC).0.is_asked
    }

    /// True if the thread is asked to stop.
    pub(crate) fn is_asked(&self) -> bool {
        self.lock().is_asked
    }

    /// The thread has ended.
    pub(crate) fn ended(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Asks the thread to stop.
    pub(crate) fn ask(&self) {
        self.lock().is_asked = true;
        self.changed.notify_all();
    }

    /// Waits until the thread has ended, but not longer than this; true if it has.
    pub(crate) fn wait_for_end(&self, span: Duration) -> bool {
        let state = self.lock();
        let waited = self.changed.wait_timeout_while(state, span, |state| !state.has_ended);
        waited.expect(NO_PANIC).0.has_ended
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(NO_PANIC)
    }
}

const NO_PANIC: &str = "nothing that is done while this is locked panics";
