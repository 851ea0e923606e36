//! News from other servers on the same store, and to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use lease::registry::Input;
use model::{Fence, JobId, State};
use rpc::convert;
use store::News;
use tracing::warn;

use crate::api::Api;
use crate::event::Event;

/// News get lost with a server that dies between a commit and its word. So now and then everybody looks for himself.
const LOOK_EVERY: Duration = Duration::from_secs(30);
/// How often servers with watchers say so, and for how long others heed it.
const WATCH_EVERY: Duration = Duration::from_secs(4);
const WATCH_FOR: Duration = Duration::from_secs(10);
/// How often jobs that people wait for are looked at, should the news of their end be lost.
const LOOK_AT_WATCHED_EVERY: Duration = Duration::from_secs(1);
/// How many of them at a time; the others have their turn a second later.
const LOOK_AT_WATCHED_MAX: usize = 100;
/// Pause before something is read again that could not be read.
const READ_AGAIN: Duration = Duration::from_secs(1);

/// Until when people at other servers watch jobs, in nanoseconds of our monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct WatchedElsewhere(AtomicU64);

impl Api {
    /// Tells other servers, if there can be any.
    pub(crate) fn tell_others(&self, news: impl FnOnce() -> News) {
        if self.store.is_shared() {
            self.store.tell(news());
        }
    }

    /// Whether others want to know which jobs change.
    pub(crate) fn is_watched_elsewhere(&self) -> bool {
        self.watched_elsewhere.0.load(Ordering::Relaxed) > self.clock.monotonic().as_nanos()
    }

    /// What another server said, as far as it is not the heart's business.
    pub(crate) async fn hear_news(self: &Arc<Self>, news: News) {
        match news {
            News::Ready(queues) => self.tell(Event::Ready { queues }).await,
            News::Scheduled | News::Missed => self.tell(Event::News(news)).await,
            News::QueueSet(queue) => {
                self.refresh_exclusive().await;
                self.tell(Event::QueueSet { queue }).await;
            }
            // Anybody who may connect to the database can say so; what counts is what the store says.
            News::CancelAsked { .. } => self.may_be_called_off.notify_one(),
            News::Watching => {
                let until = self.clock.monotonic() + WATCH_FOR;
                self.watched_elsewhere.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
            }
            News::Changed(ids) => {
                let wanted = self.watchers.wanted(ids.into_iter(), &State::ALL);
                self.announce(wanted).await;
            }
        }
    }

    /// Reads again which queues are exclusive.
    pub(crate) async fn refresh_exclusive(&self) {
        match self.store.queue_settings().await {
            Ok(queues) => self.exclusive.load(queues),
            Err(error) => warn!(%error, "cannot read the settings of the queues"),
        }
    }
}

/// Passes news on until the server goes.
pub(crate) async fn listen(api: Arc<Api>) {
    if !api.store.is_shared() {
        return std::future::pending().await;
    }
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    look.reset();
    loop {
        let news = tokio::select! {
            news = api.store.next_news() => news,
            _ = look.tick() => News::Missed,
        };
        if news == News::Missed {
            api.refresh_exclusive().await;
            api.may_be_called_off.notify_one();
        }
        api.hear_news(news).await;
    }
}

/// Stops what was called off at another server, whenever we hear that there may be something.
pub(crate) async fn call_off(api: Arc<Api>) {
    loop {
        api.may_be_called_off.notified().await;
        let Ok(registry) = api.charge.registry() else { continue };
        match api.store.called_off(registry).await {
            Ok(called_off) => {
                for (holder, hold) in called_off {
                    if let Some(session) = api.sessions.of_worker(&holder) {
                        session.stop(convert::stop(hold, "cancelled"));
                    }
                    api.tell_roll(Input::Cancel { key: holder, hold }).await;
                }
            }
            Err(error) => {
                warn!(%error, "cannot read which jobs were called off; trying again");
                tokio::time::sleep(READ_AGAIN).await;
                api.may_be_called_off.notify_one();
            }
        }
    }
}

/// While somebody watches here: asks the others to tell, and looks at the jobs that were named.
pub(crate) async fn watch(api: Arc<Api>) {
    if !api.store.is_shared() {
        return std::future::pending().await;
    }
    let mut seen: BTreeMap<JobId, (State, Fence)> = BTreeMap::new();
    let mut last = None;
    loop {
        api.watchers.someone().await;
        let mut asked = None;
        while api.watchers.is_someone() {
            let now = tokio::time::Instant::now();
            if asked.is_none_or(|at| now >= at + WATCH_EVERY) {
                api.store.tell(News::Watching);
                asked = Some(now);
            }
            let named = api.watchers.named();
            seen.retain(|id, _| named.contains(id));
            for id in next_turn(&named, last, LOOK_AT_WATCHED_MAX) {
                last = Some(id);
                let Ok(Some(job)) = api.store.get(id).await else { continue };
                let present = (job.state, job.fence);
                if seen.insert(id, present) != Some(present) {
                    api.watchers.tell(api.event_of(job));
                }
            }
            tokio::time::sleep(LOOK_AT_WATCHED_EVERY).await;
        }
        seen.clear();
    }
}

/// Whose turn it is: those after the last one, and then from the beginning, at most `max`, nobody twice.
fn next_turn(named: &BTreeSet<JobId>, last: Option<JobId>, max: usize) -> Vec<JobId> {
    let Some(last) = last else { return named.iter().take(max).copied().collect() };
    let after = named.range((Bound::Excluded(last), Bound::Unbounded));
    after.chain(named.range(..=last)).take(max).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(byte: u8) -> JobId {
        JobId::from_bytes([byte; 16])
    }

    #[test]
    fn everyone_has_his_turn_and_nobody_twice_in_one_round() {
        let named: BTreeSet<JobId> = (1..=5).map(id).collect();
        let mut last = None;
        let mut turns = Vec::new();
        for _ in 0..5 {
            let turn = next_turn(&named, last, 2);
            last = turn.last().copied();
            turns.push(turn);
        }
        assert_eq!(turns, [[1, 2], [3, 4], [5, 1], [2, 3], [4, 5]].map(|turn| turn.map(id).to_vec()));
        assert_eq!(next_turn(&named, Some(id(3)), 9), [4, 5, 1, 2, 3].map(id));
        assert_eq!(next_turn(&named, Some(id(9)), 2), [id(1), id(2)], "the last one is not watched any more");
        assert_eq!(next_turn(&BTreeSet::new(), Some(id(3)), 9), []);
    }
}
