//! What servers tell each other: NOTIFY and LISTEN on one channel, on a connection of its own.
//!
//! A message is the teller's number and then a line for each piece of news: a letter and its words. All words are free of
//! spaces by the rules for names. `tenure.enqueue` in the schema writes the same.
//!
//! ```text
//!   9f3c…            who tells (0 for SQL)
//!   R QUEUE          new available jobs       S             something was scheduled
//!   Q QUEUE          settings were changed    C KEY JOB FENCE   a running job was cancelled
//!   W                someone watches          J JOB…        these changed state
//!   M                too much to tell
//! ```

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::future::{Future, poll_fn};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use model::{Backoff, Fence, Hold, JobId, QueueName, WorkerKey};
use store::News;
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tokio_postgres::{AsyncMessage, Client};

use crate::error;
use crate::link::{ANSWER_WITHIN, jittered};
use crate::open::{Connector, Driver};

/// NOTIFY refuses 8,000 bytes and more.
const MESSAGE_BYTES_MAX: usize = 7_900;
/// How long what is to be told is collected.
const COLLECT_FOR: Duration = Duration::from_millis(2);
/// More pieces of news than this are told as "too much": others then look at everything.
const TOLD_AT_ONCE_MAX: usize = 5_000;
/// News that may wait to be asked for; what comes then is told as missed.
const INBOX_NEWS_MAX: usize = 1024;
/// How often others are told to look at everything while nothing can be heard.
const LOOK_AGAIN_EVERY: Duration = Duration::from_secs(5);

/// Listening needs no waiting for the disk: news is no promise.
const LISTEN: &str = "SET synchronous_commit = off; LISTEN tenure";
const NOTIFY: &str = "SELECT pg_notify('tenure', $1)";

/// The store's ear and mouth.
pub(crate) struct Newsroom {
    outbox: Arc<Outbox>,
    inbox: tokio::sync::Mutex<mpsc::Receiver<News>>,
    task: JoinHandle<()>,
}

/// What is to be told.
#[derive(Default)]
struct Outbox {
    pending: Mutex<Pending>,
    filled: Notify,
    /// Nobody else is there to hear of ordinary news.
    alone: AtomicBool,
}

impl Outbox {
    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Newsroom {
    /// Listens from now on, if that is possible; else it tries again and again.
    pub(crate) async fn start(connector: Arc<Connector>) -> Self {
        let outbox = Arc::new(Outbox::default());
        let (heard, inbox) = mpsc::channel(INBOX_NEWS_MAX);
        let teller = rand::random_range(1..=u64::MAX);
        let first = try_to_listen(&connector, Duration::ZERO).await;
        let room = Room {
            connector,
            outbox: outbox.clone(),
            ear: Ear { heard, missed: false },
            teller,
            look_again_at: Instant::now() + LOOK_AGAIN_EVERY,
        };
        Newsroom { outbox, inbox: tokio::sync::Mutex::new(inbox), task: tokio::spawn(room.run(first)) }
    }

    /// Tells others soon.
    pub(crate) fn tell(&self, news: News) {
        let always = matches!(news, News::QueueSet(_) | News::CancelAsked { .. });
        if self.outbox.alone.load(Ordering::Relaxed) && !always {
            return;
        }
        self.outbox.pending().add(news);
        self.outbox.filled.notify_one();
    }

    /// Says whether there are other servers.
    pub(crate) fn note_peers(&self, others: usize) {
        self.outbox.alone.store(others == 0, Ordering::Relaxed);
    }

    /// The next news from others.
    pub(crate) async fn next(&self) -> News {
        match self.inbox.lock().await.recv().await {
            Some(news) => news,
            None => std::future::pending().await,
        }
    }
}

impl Drop for Newsroom {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// The task behind it.
struct Room {
    connector: Arc<Connector>,
    outbox: Arc<Outbox>,
    ear: Ear,
    teller: u64,
    look_again_at: Instant,
}

/// Where news is put that was heard.
struct Ear {
    heard: mpsc::Sender<News>,
    missed: bool,
}

impl Ear {
    fn put(&mut self, news: News) {
        if self.missed && self.heard.try_send(News::Missed).is_ok() {
            self.missed = false;
        }
        // While it is owed that news was missed, a single piece adds nothing.
        if self.missed || self.heard.try_send(news).is_err() {
            self.missed = true;
        }
    }
}

impl Room {
    async fn run(mut self, mut listening: Result<(Client, Driver), String>) {
        let connector = self.connector.clone();
        let mut backoff = Backoff::default();
        loop {
            let reason = match listening {
                Ok((client, driver)) => {
                    backoff.reset();
                    self.serve(&client, driver).await
                }
                Err(reason) => reason,
            };
            tracing::debug!(%reason, "not listening to other servers; trying again");
            let pause = jittered(backoff.next_delay());
            listening = self.deaf(try_to_listen(&connector, pause)).await;
            if listening.is_ok() {
                // Whatever was told while nobody listened is lost.
                self.ear.put(News::Missed);
            }
        }
    }

    /// Waits for something. While nothing can be heard, others may have told anything at any time.
    async fn deaf<T>(&mut self, wait: impl Future<Output = T>) -> T {
        let mut wait = std::pin::pin!(wait);
        loop {
            tokio::select! {
                done = &mut wait => return done,
                () = sleep_until(self.look_again_at) => {
                    self.ear.put(News::Missed);
                    self.look_again_at = Instant::now() + LOOK_AGAIN_EVERY;
                }
            }
        }
    }

    /// Listens and tells until the connection is lost, and says why.
    async fn serve(&mut self, client: &Client, mut driver: Driver) -> String {
        let outbox = self.outbox.clone();
        let mut telling = std::pin::pin!(tell(client, &outbox, self.teller));
        loop {
            tokio::select! {
                message = poll_fn(|cx| driver.poll_message(cx)) => match message {
                    Some(Ok(AsyncMessage::Notification(heard))) => {
                        for news in understand(heard.payload(), self.teller) {
                            self.ear.put(news);
                        }
                    }
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return error::text(&error),
                    None => return "the connection was closed".to_owned(),
                },
                reason = &mut telling => return reason,
            }
        }
    }
}

/// A connection that listens, after a pause.
async fn try_to_listen(connector: &Connector, pause: Duration) -> Result<(Client, Driver), String> {
    sleep(pause).await;
    let (client, mut driver) = connector.reach().await?;
    {
        let listening = timeout(ANSWER_WITHIN, client.batch_execute(LISTEN));
        let mut listening = std::pin::pin!(listening);
        loop {
            tokio::select! {
                biased;
                done = &mut listening => {
                    let done = done.map_err(|_| format!("no answer within {ANSWER_WITHIN:?}"))?;
                    break done.map_err(|error| error::text(&error))?;
                }
                // Nothing is told to us before we listen, so nothing is lost here.
                message = poll_fn(|cx| driver.poll_message(cx)) => match message {
                    Some(Ok(_)) => {}
                    Some(Err(error)) => return Err(error::text(&error)),
                    None => return Err("the connection was closed".to_owned()),
                },
            }
        }
    }
    Ok((client, driver))
}

/// Sends what is in the outbox, again and again. Ends, with the reason, when that fails.
async fn tell(client: &Client, outbox: &Outbox, teller: u64) -> String {
    let notify = match client.prepare(NOTIFY).await {
        Ok(statement) => statement,
        Err(error) => return error::text(&error),
    };
    loop {
        outbox.filled.notified().await;
        sleep(COLLECT_FOR).await;
        let messages = std::mem::take(&mut *outbox.pending()).into_messages(teller);
        for message in messages {
            match timeout(ANSWER_WITHIN, client.execute(&notify, &[&message])).await {
                Ok(Ok(_)) => {}
                Ok(Err(error)) => return error::text(&error),
                Err(_) => return format!("no answer within {ANSWER_WITHIN:?}"),
            }
        }
    }
}

/// News collected to be told, each piece once.
#[derive(Default)]
struct Pending {
    ready: BTreeSet<QueueName>,
    scheduled: bool,
    set: BTreeSet<QueueName>,
    cancels: BTreeMap<Hold, WorkerKey>,
    watching: bool,
    changed: BTreeSet<JobId>,
    missed: bool,
}

impl Pending {
    fn add(&mut self, news: News) {
        match news {
            News::Ready(queues) => self.ready.extend(queues),
            News::Scheduled => self.scheduled = true,
            News::QueueSet(queue) => drop(self.set.insert(queue)),
            News::CancelAsked { holder, hold } => drop(self.cancels.insert(hold, holder)),
            News::Watching => self.watching = true,
            News::Changed(jobs) => self.changed.extend(jobs),
            News::Missed => self.missed = true,
        }
        if self.ready.len() + self.set.len() + self.cancels.len() + self.changed.len() > TOLD_AT_ONCE_MAX {
            // That someone watches is no state to look at, so it must be told in any case.
            *self = Pending { missed: true, watching: self.watching, ..Pending::default() };
        }
    }

    /// As many messages as it takes.
    fn into_messages(self, teller: u64) -> Vec<String> {
        let mut lines = Vec::new();
        lines.extend(self.missed.then(|| "M".to_owned()));
        lines.extend(self.scheduled.then(|| "S".to_owned()));
        lines.extend(self.watching.then(|| "W".to_owned()));
        lines.extend(self.ready.iter().map(|queue| format!("R {queue}")));
        lines.extend(self.set.iter().map(|queue| format!("Q {queue}")));
        let cancel = |(hold, holder): (&Hold, &WorkerKey)| format!("C {holder} {} {}", hold.job, hold.fence);
        lines.extend(self.cancels.iter().map(cancel));
        let changed: Vec<String> = self.changed.iter().map(ToString::to_string).collect();
        // A UUID and a space are 37 bytes.
        lines.extend(changed.chunks(MESSAGE_BYTES_MAX / 2 / 37).map(|jobs| format!("J {}", jobs.join(" "))));
        let mut messages: Vec<String> = Vec::new();
        for line in lines {
            match messages.last_mut() {
                Some(message) if message.len() + 1 + line.len() <= MESSAGE_BYTES_MAX => {
                    write!(message, "\n{line}").expect("writing to a text cannot fail");
                }
                _ => messages.push(format!("{teller:x}\n{line}")),
            }
        }
        messages
    }
}

/// The news in a message, unless it is our own. What a later release says that we do not know is left out.
fn understand(message: &str, ourselves: u64) -> Vec<News> {
    let mut lines = message.lines();
    let teller = lines.next().and_then(|word| u64::from_str_radix(word, 16).ok());
    if teller == Some(ourselves) {
        return Vec::new();
    }
    let mut news = Vec::new();
    let mut ready = Vec::new();
    for line in lines {
        let (letter, words) = line.split_once(' ').unwrap_or((line, ""));
        match letter {
            "R" => ready.extend(words.split(' ').filter_map(|queue| queue.parse().ok())),
            "S" => news.push(News::Scheduled),
            "Q" => news.extend(words.parse().map(News::QueueSet)),
            "C" => news.extend(cancel_asked(words)),
            "W" => news.push(News::Watching),
            "J" => {
                let jobs = words.split(' ').filter_map(|job| job.parse().ok());
                news.push(News::Changed(jobs.collect()));
            }
            "M" => news.push(News::Missed),
            _ => {}
        }
    }
    if !ready.is_empty() {
        news.push(News::Ready(ready));
    }
    news
}

fn cancel_asked(words: &str) -> Option<News> {
    let mut words = words.split(' ');
    let holder = words.next()?.parse().ok()?;
    let job = words.next()?.parse().ok()?;
    let fence = Fence::new(words.next()?.parse().ok()?);
    Some(News::CancelAsked { holder, hold: Hold { job, fence } })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn queue(name: &str) -> QueueName {
        QueueName::new(name).unwrap()
    }

    fn job(number: u32) -> JobId {
        let mut bytes = [7; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        JobId::from_bytes(bytes)
    }

    fn all(news: Vec<News>) -> Pending {
        let mut pending = Pending::default();
        news.into_iter().for_each(|news| pending.add(news));
        pending
    }

    #[test]
    fn what_is_told_is_heard_once_and_not_by_the_teller() {
        let holder = WorkerKey::new("~!@#$%^&*()worker").unwrap();
        let cancel = News::CancelAsked { holder, hold: Hold { job: job(1), fence: Fence::new(9) } };
        let told = vec![
            News::Scheduled,
            News::Watching,
            News::QueueSet(queue("a")),
            cancel,
            News::Changed(vec![job(1), job(2)]),
            News::Ready(vec![queue("a"), queue("b.c-d_e")]),
        ];
        let twice = told.iter().chain(&told).cloned().collect();
        let messages = all(twice).into_messages(77);
        assert_eq!(messages.len(), 1);
        assert_eq!(understand(&messages[0], 78), told);
        assert_eq!(understand(&messages[0], 77), []);
    }

    #[test]
    fn messages_are_never_too_long_and_nothing_is_left_out() {
        let names: Vec<QueueName> = (0..500).map(|n| queue(&format!("{n:0>128}"))).collect();
        let jobs: Vec<JobId> = (0..4_000).map(job).collect();
        let messages =
            all(vec![News::Ready(names.clone()), News::Changed(jobs.clone())]).into_messages(u64::MAX);
        assert!(messages.iter().all(|message| message.len() < 8_000));
        let (mut heard_names, mut heard_jobs) = (Vec::new(), Vec::new());
        for news in messages.iter().flat_map(|message| understand(message, 1)) {
            match news {
                News::Ready(queues) => heard_names.extend(queues),
                News::Changed(ids) => heard_jobs.extend(ids),
                other => panic!("{other:?} was not told"),
            }
        }
        assert_eq!(heard_names, names);
        assert_eq!(heard_jobs, jobs);
    }

    #[test]
    fn too_much_is_told_as_missed() {
        let too_much = News::Changed((0..=TOLD_AT_ONCE_MAX as u32).map(job).collect());
        let messages = all(vec![News::Watching, too_much]).into_messages(1);
        let heard: Vec<News> = messages.iter().flat_map(|message| understand(message, 2)).collect();
        assert_eq!(heard, [News::Missed, News::Watching]);
    }

    #[test]
    fn what_others_write_is_read_with_care() {
        let noise = ["", "x", "zz\nR", "0\nR a b\nX y\nC k\nC k j 1\nQ bad name\nJ x", "\n\n"];
        let heard: Vec<News> = noise.iter().flat_map(|message| understand(message, 1)).collect();
        assert_eq!(heard, [News::Changed(vec![]), News::Ready(vec![queue("a"), queue("b")])]);
    }

    #[test]
    fn an_ear_that_is_full_says_that_it_missed_something() {
        let (heard, mut inbox) = mpsc::channel(2);
        let mut ear = Ear { heard, missed: false };
        (0..5).for_each(|_| ear.put(News::Scheduled));
        assert_eq!(inbox.try_recv(), Ok(News::Scheduled));
        assert_eq!(inbox.try_recv(), Ok(News::Scheduled));
        ear.put(News::Watching);
        assert_eq!(inbox.try_recv(), Ok(News::Missed));
        assert_eq!(inbox.try_recv(), Ok(News::Watching));
    }
}
