//! Who wants to know when jobs change. Costs nothing while nobody watches, and next to nothing for jobs that nobody
//! watches.

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard};

use model::{JobId, Kind, QueueName, State};
use rpc::wire::JobEvent;
use store::JobFilter;
use tokio::sync::broadcast::error::RecvError;
use tokio::sync::{Notify, broadcast};

/// Events a slow watcher may be behind before it is told that it missed some.
const BACKLOG_MAX: usize = 16_384;

/// Hands events to all watchers.
#[derive(Debug)]
pub(crate) struct Watchers {
    sender: broadcast::Sender<JobEvent>,
    interest: Mutex<Interest>,
    /// Somebody began to watch.
    began: Notify,
}

/// What is watched at all.
#[derive(Debug, Default)]
struct Interest {
    /// How many watchers that did not name jobs want to hear of each state.
    broad: [usize; State::ALL.len()],
    /// How many watchers named each job.
    ids: HashMap<JobId, usize>,
}

impl Watchers {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Watchers {
            sender: broadcast::Sender::new(BACKLOG_MAX),
            interest: Mutex::default(),
            began: Notify::new(),
        })
    }

    /// Those of these jobs that someone watches, if each came into one of these states.
    pub(crate) fn wanted(&self, ids: impl Iterator<Item = JobId>, states: &[State]) -> Vec<JobId> {
        if self.sender.receiver_count() == 0 {
            return Vec::new();
        }
        let interest = self.interest();
        let is_broad = states.iter().any(|state| interest.broad[*state as usize] > 0);
        ids.filter(|id| is_broad || interest.ids.contains_key(id)).collect()
    }

    pub(crate) fn tell(&self, event: JobEvent) {
        // An error means that the last watcher just left.
        let _ = self.sender.send(event);
    }

    /// Begins to watch these jobs, or if none is named, all that come into one of these states; no state means any.
    pub(crate) fn subscribe(self: &Arc<Self>, ids: Vec<JobId>, states: &[State]) -> Subscription {
        let states = match (ids.is_empty(), states.is_empty()) {
            (true, true) => State::ALL.to_vec(),
            (true, false) => states.to_vec(),
            // Whoever named jobs hears of all that happens to them.
            (false, _) => Vec::new(),
        };
        let mut interest = self.interest();
        for state in &states {
            interest.broad[*state as usize] += 1;
        }
        for id in &ids {
            *interest.ids.entry(*id).or_default() += 1;
        }
        let events = self.sender.subscribe();
        self.began.notify_one();
        Subscription { events, ids, states, watchers: Arc::clone(self) }
    }

    pub(crate) fn is_someone(&self) -> bool {
        self.sender.receiver_count() > 0
    }

    /// Returns when somebody watches.
    pub(crate) async fn someone(&self) {
        while !self.is_someone() {
            self.began.notified().await;
        }
    }

    /// The jobs that were named.
    pub(crate) fn named(&self) -> BTreeSet<JobId> {
        self.interest().ids.keys().copied().collect()
    }

    fn interest(&self) -> MutexGuard<'_, Interest> {
        self.interest.lock().expect("no panic while holding the lock")
    }
}

/// One watcher's place. Dropping it ends the interest.
#[derive(Debug)]
pub(crate) struct Subscription {
    events: broadcast::Receiver<JobEvent>,
    ids: Vec<JobId>,
    states: Vec<State>,
    watchers: Arc<Watchers>,
}

impl Subscription {
    pub(crate) async fn next(&mut self) -> Result<JobEvent, RecvError> {
        self.events.recv().await
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut interest = self.watchers.interest();
        for state in &self.states {
            interest.broad[*state as usize] -= 1;
        }
        for id in &self.ids {
            if let Some(count) = interest.ids.get_mut(id) {
                *count -= 1;
                if *count == 0 {
                    interest.ids.remove(id);
                }
            }
        }
    }
}

/// Which events a watcher wants.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) ids: HashSet<JobId>,
    pub(crate) filter: JobFilter,
    /// As people call them; none means all.
    pub(crate) states: Vec<String>,
}

impl Wanted {
    pub(crate) fn matches(&self, event: &JobEvent) -> bool {
        let matches_queue =
            self.filter.queue.as_ref().map(QueueName::as_str).is_none_or(|queue| queue == event.queue);
        let matches_kind = self.filter.kind.as_ref().map(Kind::as_str).is_none_or(|kind| kind == event.kind);
        let matches_id = self.ids.is_empty() || event.id.parse().is_ok_and(|id| self.ids.contains(&id));
        matches_queue && matches_kind && matches_id && self.matches_state(&event.state)
    }

    /// A job that waits for its next try is a scheduled one too.
    fn matches_state(&self, state: &str) -> bool {
        let is_wanted = |word: &str| self.states.iter().any(|wanted| wanted == word);
        self.states.is_empty() || is_wanted(state) || (state == "retryable" && is_wanted("scheduled"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_someone_watches_is_wanted() {
        let watchers = Watchers::new();
        let [a, b] = [1, 2].map(|byte| JobId::from_bytes([byte; 16]));
        let wanted_in = |state: State| watchers.wanted([a, b].into_iter(), &[state]);
        let wanted = || wanted_in(State::Running);
        assert_eq!(wanted(), []);
        let (first, second) = (watchers.subscribe(vec![a], &[]), watchers.subscribe(vec![a], &[State::Dead]));
        assert_eq!(wanted(), [a]);
        drop(first);
        assert_eq!(wanted(), [a], "the other still watches");
        let broad = watchers.subscribe(Vec::new(), &[]);
        assert_eq!(wanted(), [a, b]);
        drop(broad);
        let of_ends = watchers.subscribe(Vec::new(), &[State::Completed, State::Dead]);
        assert_eq!((wanted(), wanted_in(State::Completed)), (vec![a], vec![a, b]));
        drop(of_ends);
        assert_eq!(wanted_in(State::Completed), [a]);
        drop(second);
        assert_eq!(wanted(), []);
        assert!(watchers.interest().ids.is_empty(), "nothing is left behind");
    }
}
