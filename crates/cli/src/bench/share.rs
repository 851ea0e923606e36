//! What part of the CPU time the volatile store takes: the same verbs on such a store alone, beside what the server, and all
//! processes together, used for as many jobs.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use bytes::Bytes;
use clock::SystemClock;
use model::{ClientId, Clock as _, Kind, Limits, NewJob, Outcome, QueueName, Report, WorkerKey};
use rustix::process::Pid;
use rustix::time::{ClockId, clock_gettime};
use store::{Claim, EnqueueBatch, JobStore, MemoryStore};

use super::{QUEUE, SystemArgs};

/// Jobs in one claim and in one report: about what the server hands to the store at a time when it is busy.
const BATCH: usize = 100;
/// How often the jobs go through the store.
const PASSES: u64 = 5;
/// Linux counts a process's CPU time in these, whatever its own clock does.
const TICKS_PER_SECOND: f64 = 100.0;

/// The CPU time that these processes have used so far, together.
pub(super) fn busy(processes: &[Pid]) -> Result<Duration> {
    processes.iter().map(|process| busy_alone(*process)).sum()
}

fn busy_alone(process: Pid) -> Result<Duration> {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero()))?;
    // The name in parentheses may have anything in it; user and system time are the 12th and 13th word after it.
    let words = stat.rsplit_once(')').context("the kernel describes a process in an unknown way")?.1;
    let ticks = words.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    Ok(Duration::from_secs_f64(ticks as f64 / TICKS_PER_SECOND))
}

/// The CPU time that a volatile store alone takes for all jobs.
pub(super) fn of_memory(args: &SystemArgs) -> Result<Duration> {
    let payload = Bytes::from(vec![b'x'; args.payload]);
    let (jobs, batch) = (args.jobs, args.batch);
    // On a thread of its own, whose CPU time is the store's alone.
    let alone = std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().build()?;
        runtime.block_on(through(jobs, batch, payload))
    });
    alone.join().map_err(|_| anyhow::anyhow!("the store broke"))?
}

/// The CPU time of taking jobs through a store as in the pipelined phase: enqueue, claim, report, again and again.
async fn through(jobs: u64, batch: u64, payload: Bytes) -> Result<Duration> {
    let alone = Alone::new(payload)?;
    let batches = |first: u64| {
        let starts = (first..first + jobs).step_by(batch as usize);
        starts.map(move |from| from..(from + batch).min(first + jobs))
    };
    // The server's store has taken as many jobs before, all enqueued and then drained: it has their room, and what is kept of
    // ended jobs goes on to be kept. So has this one when its time is taken.
    for numbers in batches(0) {
        alone.enqueue(numbers).await?;
    }
    ensure!(alone.drain().await?.0 == jobs, "not all jobs went through the store");
    // The median of several passes: one alone is so short that it says more about the moment.
    let mut costs = Vec::new();
    for pass in 1..=PASSES {
        let (mut cost, mut done) = (Duration::ZERO, 0);
        for numbers in batches(pass * jobs) {
            cost += alone.enqueue(numbers).await?;
            let (ended, took) = alone.drain().await?;
            (cost, done) = (cost + took, done + ended);
        }
        ensure!(done == jobs, "{done} of {jobs} jobs went through the store");
        costs.push(cost);
    }
    costs.sort();
    Ok(costs[costs.len() / 2])
}

/// A volatile store, and what is done to it. Each verb says what CPU time the store took for it: whoever makes its arguments
/// and drops its answers does that in time of their own.
struct Alone {
    store: MemoryStore,
    stopwatch: Stopwatch,
    queue: QueueName,
    kind: Kind,
    holder: WorkerKey,
    client: ClientId,
    payload: Bytes,
}

impl Alone {
    fn new(payload: Bytes) -> Result<Self> {
        Ok(Alone {
            store: MemoryStore::volatile_within(Arc::new(SystemClock), usize::MAX),
            stopwatch: Stopwatch::new(),
            queue: QueueName::new(QUEUE)?,
            kind: Kind::new("noop")?,
            // As long as they are.
            holder: WorkerKey::new("host-12345-0123456789abcdef")?,
            client: ClientId::unattended(SystemClock.wall(), 1),
            payload,
        })
    }

    async fn enqueue(&self, numbers: Range<u64>) -> Result<Duration> {
        let new_job = |number| {
            let id = self.client.job(number);
            NewJob::new(id, self.queue.clone(), self.kind.clone(), self.payload.clone())
        };
        let jobs = numbers.map(new_job).collect();
        let began = cpu_time();
        let answer = self.store.enqueue(EnqueueBatch { request_id: None, jobs }).await?;
        let cost = self.stopwatch.since(began);
        drop(answer);
        Ok(cost)
    }

    /// Claims and ends all jobs that wait, and says how many there were.
    async fn drain(&self) -> Result<(u64, Duration)> {
        let (mut cost, mut done) = (Duration::ZERO, 0);
        loop {
            let claim = Claim {
                holder: self.holder.clone(),
                queues: vec![self.queue.clone()],
                limit: BATCH,
                lease: Limits::LEASE_DEFAULT,
                bytes_max: usize::MAX,
                exclusive: true,
            };
            let began = cpu_time();
            let claimed = self.store.claim(claim).await?;
            cost += self.stopwatch.since(began);
            if claimed.is_empty() {
                return Ok((done, cost));
            }
            done += claimed.len() as u64;
            let outcome = || Outcome::Completed { result: Bytes::new() };
            let reports = claimed.iter().map(|job| Report { hold: job.hold, outcome: outcome() }).collect();
            let began = cpu_time();
            let answers = self.store.finish(&self.holder, reports).await?;
            cost += self.stopwatch.since(began);
            drop(answers);
        }
    }
}

/// To read the clock takes time too, which is not the store's: for a hundred jobs, about as much as one of them takes.
struct Stopwatch {
    reading: Duration,
}

impl Stopwatch {
    fn new() -> Self {
        let mut readings = [(); 1_001].map(|()| {
            let began = cpu_time();
            cpu_time().saturating_sub(began)
        });
        readings.sort_unstable();
        Stopwatch { reading: readings[readings.len() / 2] }
    }

    /// The CPU time since then.
    fn since(&self, began: Duration) -> Duration {
        cpu_time().saturating_sub(began + self.reading)
    }
}

fn cpu_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}
