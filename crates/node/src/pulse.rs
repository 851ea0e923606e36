//! The way to the heart.
//!
//! Whoever has news runs the heart himself if nobody else does: one task less to wake, which is what a job costs when the store
//! is fast. If the heart is busy, news waits in its inbox for the task that also keeps its alarm.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, mpsc};

use crate::EVENTS_MAX;
use crate::api::Api;
use crate::event::Event;
use crate::heart::Heart;

/// How long to sleep when no machine names a deadline; any event wakes the loop earlier.
const IDLE: Duration = Duration::from_secs(3600);

/// Where news for the heart is brought.
pub(crate) struct Pulse {
    inbox: mpsc::Sender<Event>,
    /// How much of what was put into the inbox is not heard yet. While there is any, nobody overtakes it.
    waiting: AtomicUsize,
    /// Nothing before it beats, and after it has broken: who runs the heart takes it out meanwhile.
    heart: Mutex<Option<Box<Heart>>>,
    /// Rung when the alarm is set too late for what was heard, and when the heart has broken.
    is_late: Notify,
}

impl Pulse {
    pub(crate) fn new(inbox: mpsc::Sender<Event>) -> Self {
        Pulse { inbox, waiting: AtomicUsize::new(0), heart: Mutex::new(None), is_late: Notify::new() }
    }

    /// Tells the heart. Waits while its inbox is full, so that callers slow down before memory grows.
    pub(crate) async fn tell(&self, event: Event) {
        let Some(event) = self.tell_now(event) else { return };
        // An error means that the heart has stopped, and with it the server.
        if let Ok(place) = self.inbox.reserve().await {
            self.waiting.fetch_add(1, Ordering::SeqCst);
            place.send(event);
        }
    }

    /// Runs the heart here, or gives the event back if someone else is at it.
    fn tell_now(&self, event: Event) -> Option<Event> {
        let Ok(mut place) = self.heart.try_lock() else { return Some(event) };
        if self.waiting.load(Ordering::SeqCst) > 0 {
            return Some(event);
        }
        let Some(mut heart) = place.take() else { return Some(event) };
        // It may break in our hands, which is not the fault of whoever we are: then there is none any more.
        if catch_unwind(AssertUnwindSafe(|| heart.turn([event]))).is_ok() {
            *place = Some(heart);
        }
        if place.as_ref().is_none_or(|heart| heart.nearer_alarm().is_some()) {
            self.is_late.notify_one();
        }
        None
    }

    /// Lets go of the heart, which knows whoever knows us.
    pub(crate) async fn stop(&self) {
        *self.heart.lock().await = None;
    }
}

/// Beats until the heart breaks, the inbox closes or the task is dropped.
pub(crate) async fn beat(api: Arc<Api>, mut inbox: mpsc::Receiver<Event>) {
    let pulse = &api.pulse;
    let mut place = pulse.heart.lock().await;
    *place = Some(Box::new(Heart::begin(Arc::clone(&api)).await));
    let mut events = Vec::with_capacity(EVENTS_MAX);
    // Left as it is while deadlines move away, which they do with every lease: to wake once too early costs less than to set a
    // timer for each.
    let mut alarm = Box::pin(tokio::time::sleep(IDLE));
    loop {
        // The panic was told where it happened; without a heart a server is nothing.
        let Some(mut heart) = place.take() else { return };
        let heard = events.len();
        heart.turn(events.drain(..));
        pulse.waiting.fetch_sub(heard, Ordering::SeqCst);
        if let Some(at) = heart.nearer_alarm() {
            alarm.as_mut().reset(tokio::time::Instant::now() + at.since(heart.now()));
            heart.alarm_at = Some(at);
        }
        *place = Some(heart);
        drop(place);

        let mut has_rung = false;
        tokio::select! {
            biased;
            taken = inbox.recv_many(&mut events, EVENTS_MAX) => if taken == 0 { return },
            () = pulse.is_late.notified() => {}
            () = &mut alarm => {
                alarm.as_mut().reset(tokio::time::Instant::now() + IDLE);
                has_rung = true;
            }
        }
        place = pulse.heart.lock().await;
        if let Some(heart) = place.as_mut()
            && has_rung
        {
            heart.alarm_at = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicBool;

    use futures_util::FutureExt as _;
    use model::{Clock, Instant, WallTime};
    use store::MemoryStore;
    use tokio::sync::oneshot::{self, error::TryRecvError};
    use tokio::task::JoinHandle;

    use super::*;

    /// Whoever looks at it after it was dropped cuts himself.
    #[derive(Default)]
    struct GlassClock {
        is_broken: AtomicBool,
    }

    impl Clock for GlassClock {
        fn monotonic(&self) -> Instant {
            assert!(!self.is_broken.load(Ordering::SeqCst), "the clock is broken");
            Instant::from_nanos(1)
        }

        fn wall(&self) -> WallTime {
            WallTime::from_millis(1)
        }
    }

    /// A server's heart that beats in a task of its own, and the clock it looks at.
    async fn beating() -> (Arc<Api>, JoinHandle<()>, Arc<GlassClock>) {
        let clock = Arc::new(GlassClock::default());
        let store = Arc::new(MemoryStore::new(clock.clone()));
        let (events, inbox) = mpsc::channel(64);
        let api = Arc::new(Api::new(crate::Node::new(store, clock.clone()), None, events));
        let task = tokio::spawn(beat(Arc::clone(&api), inbox));
        while api.pulse.heart.lock().await.is_none() {
            tokio::task::yield_now().await;
        }
        (api, task, clock)
    }

    /// News that is answered when it is heard.
    fn news() -> (Event, oneshot::Receiver<()>) {
        let (done, is_heard) = oneshot::channel();
        (Event::Resigning { done }, is_heard)
    }

    /// Lets all other tasks do what they can.
    async fn give_way() {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    /// Whether news is heard by the time it was told, with no other task in between.
    fn hears_at_once(api: &Api) -> bool {
        let (event, mut is_heard) = news();
        api.tell(event).now_or_never().expect("nothing to wait for");
        is_heard.try_recv().is_ok()
    }

    #[tokio::test]
    async fn news_is_heard_at_once_while_nobody_else_brings_any() {
        let (api, _task, _clock) = beating().await;
        assert!(hears_at_once(&api));
    }

    /// The first finds the heart busy and is put into its inbox; the second finds it free, and must wait all the same.
    #[tokio::test]
    async fn nobody_overtakes_what_waits() {
        let (api, _task, _clock) = beating().await;
        let ((first, mut first_is_heard), (second, mut second_is_heard)) = (news(), news());
        let busy = api.pulse.heart.lock().await;
        api.tell(first).now_or_never().expect("there is room in the inbox");
        drop(busy);
        api.tell(second).now_or_never().expect("there is room in the inbox");
        assert_eq!(second_is_heard.try_recv(), Err(TryRecvError::Empty));
        (&mut second_is_heard).await.unwrap();
        assert_eq!(first_is_heard.try_recv(), Ok(()));
        assert!(hears_at_once(&api), "the way is free again");
    }

    /// Who brings news goes on with his own business; the alarm is set by the task that keeps it.
    #[tokio::test]
    async fn what_is_due_before_the_alarm_rings_sets_it_anew() {
        let (api, _task, clock) = beating().await;
        let due = clock.monotonic() + Duration::from_millis(1);
        let alarm_at = async || api.pulse.heart.lock().await.as_ref().unwrap().alarm_at;
        assert!(alarm_at().await.is_none_or(|at| at > due));
        api.tell(Event::RunDue { in_: Duration::from_millis(1) }).await;
        give_way().await;
        assert_eq!(alarm_at().await, Some(due));
    }

    /// Nobody needs to say anything more: a server without a heart would look alive and do nothing.
    #[tokio::test]
    async fn when_the_heart_breaks_the_server_ends() {
        let (api, task, clock) = beating().await;
        clock.is_broken.store(true, Ordering::SeqCst);
        api.tell(news().0).now_or_never().expect("it broke here");
        give_way().await;
        assert!(task.is_finished());
    }
}
