//! What the drivers written in Rust share: the modes that `src/postgres.rs` describes, for anything that is a `Queue`.

use std::future::Future;
use std::io::Write as _;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use tokio::task::JoinSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at};

pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

/// Jobs in one enqueue call, and calls under way at once; as in `tenure bench`.
const BATCH: usize = 1_000;
/// The environment may ask for another number.
const BATCH_VARIABLE: &str = "PEER_BATCH";
const CALLS: usize = 4;
/// What a payload with a send time starts with.
const STAMP: &str = "sent:";

/// One job queue on PostgreSQL.
pub trait Queue: Clone + Send + Sync + 'static {
    fn open(url: &str) -> impl Future<Output = Result<Self>> + Send;
    /// Makes the tables.
    fn setup(&self) -> impl Future<Output = Result<()>>;
    /// Durable when it returns.
    fn enqueue(&self, payloads: Vec<String>) -> impl Future<Output = Result<()>> + Send;
    /// Starts a worker that lives as long as this process. `fast` is for recovery.
    fn work(&self, handler: Handler, fast: bool) -> impl Future<Output = Result<()>> + Send;
    /// Whether the database has no job that is not done.
    fn is_drained(&self) -> impl Future<Output = Result<bool>> + Send;
}

/// What every job does: nothing, or nothing for ever.
#[derive(Clone)]
pub struct Handler(Arc<Seen>);

struct Seen {
    hold: bool,
    jobs: AtomicUsize,
    delays: Mutex<Vec<u64>>,
}

impl Handler {
    fn new(hold: bool) -> Handler {
        Handler(Arc::new(Seen { hold, jobs: AtomicUsize::new(0), delays: Mutex::new(Vec::new()) }))
    }

    pub async fn run(&self, payload: &str) {
        if let Some(sent) = payload.strip_prefix(STAMP).and_then(|sent| sent.parse::<u64>().ok()) {
            let delay = nanos().saturating_sub(sent);
            self.0.delays.lock().expect("no panic while holding the lock").push(delay);
        }
        self.0.jobs.fetch_add(1, Ordering::Relaxed);
        if self.0.hold {
            say("start");
            std::future::pending().await
        }
    }
}

/// Runs the mode that was asked for.
pub async fn drive<Q: Queue>() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let queue = Q::open(args.get(1).ok_or("usage: MODE URL …")?).await?;
    match args[..] {
        ["setup", _, _] => queue.setup().await,
        ["produce", _, jobs, payload] => produce(queue, jobs.parse()?, payload.parse()?).await,
        ["pace", _, jobs, rate] => pace(queue, jobs.parse()?, rate.parse()?).await,
        ["work", _, jobs] => work(queue, jobs.parse()?).await,
        ["hold", _, settings] => {
            wait_for_go()?;
            queue.work(Handler::new(true), settings == "fast").await?;
            say("running");
            std::future::pending().await
        }
        _ => Err(format!("unknown mode: {args:?}").into()),
    }
}

/// Jobs in one enqueue call.
pub fn batch() -> usize {
    std::env::var(BATCH_VARIABLE).ok().and_then(|text| text.parse().ok()).unwrap_or(BATCH)
}

async fn produce<Q: Queue>(queue: Q, jobs: usize, payload: usize) -> Result<()> {
    wait_for_go()?;
    let batch = batch();
    let left = Arc::new(AtomicUsize::new(jobs));
    let mut calls = JoinSet::new();
    for _ in 0..CALLS {
        let (queue, left) = (queue.clone(), Arc::clone(&left));
        calls.spawn(async move {
            loop {
                let take = |left: usize| Some(left.saturating_sub(batch));
                let before = left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take);
                let count = before.expect("the update always has a value").min(batch);
                if count == 0 {
                    return Ok(());
                }
                queue.enqueue(vec!["x".repeat(payload); count]).await?;
            }
        });
    }
    finish(calls).await
}

/// A steady rate that does not wait for answers.
async fn pace<Q: Queue>(queue: Q, jobs: usize, rate: u32) -> Result<()> {
    wait_for_go()?;
    let period = Duration::from_secs(1) / rate;
    let mut tick = interval_at(Instant::now() + period, period);
    tick.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut calls = JoinSet::new();
    for _ in 0..jobs {
        tick.tick().await;
        let queue = queue.clone();
        calls.spawn(async move { queue.enqueue(vec![format!("{STAMP}{}", nanos())]).await });
    }
    finish(calls).await
}

async fn finish(mut calls: JoinSet<Result<()>>) -> Result<()> {
    while let Some(call) = calls.join_next().await {
        call??;
    }
    say("done");
    Ok(())
}

async fn work<Q: Queue>(queue: Q, jobs: usize) -> Result<()> {
    wait_for_go()?;
    let handler = Handler::new(false);
    queue.work(handler.clone(), false).await?;
    say("running");
    while handler.0.jobs.load(Ordering::Relaxed) < jobs || !queue.is_drained().await? {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let delays = handler.0.delays.lock().expect("no panic while holding the lock");
    say(&format!("done {}", delays.iter().map(u64::to_string).collect::<Vec<_>>().join(" ")));
    std::process::exit(0)
}

fn wait_for_go() -> Result<()> {
    say("ready");
    std::io::stdin().read_line(&mut String::new())?;
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // Nobody listens any more: the measurement is over.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}

fn nanos() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64)
}
