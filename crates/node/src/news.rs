//! News from other servers on the same store, and to them.

use std::collections::HashMap;
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
            News::CancelAsked { holder, hold } => {
                if let Some(session) = self.sessions.of_worker(&holder) {
                    session.stop(convert::stop(hold, "cancelled"));
                }
                self.tell_roll(Input::Cancel { key: holder, hold }).await;
            }
            News::Watching => {
                let until = self.clock.monotonic() + WATCH_FOR;
                self.watched_elsewhere.0.fetch_max(until.as_nanos(), Ordering::Relaxed);
            }
            News::Changed(ids) => {
                let wanted = self.watchers.wanted(ids.into_iter());
                self.announce(wanted).await;
            }
        }
    }

    /// Reads again which queues are exclusive.
    pub(crate) async fn refresh_exclusive(&self) {
        match self.store.stats().await {
            Ok(stats) => self.exclusive.load(&stats),
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
        }
        api.hear_news(news).await;
    }
}

/// While somebody watches here: asks the others to tell, and looks at the jobs that were named.
pub(crate) async fn watch(api: Arc<Api>) {
    if !api.store.is_shared() {
        return std::future::pending().await;
    }
    let mut seen: HashMap<JobId, (State, Fence)> = HashMap::new();
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
            for id in named {
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
