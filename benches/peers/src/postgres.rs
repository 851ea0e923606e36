//! Drives a PostgreSQL queue through its driver: a small program in the queue's own language that can
//!
//!   setup URL SETTINGS          make the schema                              ends by itself
//!   produce URL JOBS PAYLOAD    enqueue in calls of 1,000, four at once      ready, go: done
//!   pace URL JOBS RATE          enqueue one by one, each with its send time  ready, go: done
//!   work URL JOBS               do so many jobs that are nothing to do       ready, go: running, done DELAYS
//!   hold URL SETTINGS           do jobs that never end                       ready, go: running, start, start, …
//!
//! Done means durable: a worker says it only after the database shows all its jobs as done. The delays are the
//! nanoseconds from send time to handler of the jobs that had one.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::Result;
use crate::figures::{Figures, LATENCY_JOBS, RATE, per_second, percentiles};
use crate::process::Process;

/// A job that did not start again in this time is reported as not measured.
const RECOVERY_MAX: Duration = Duration::from_secs(30);

/// Enqueue alone, drain alone, both at once, then a steady rate; producer and worker are two processes.
pub(crate) fn measure(driver: &[&str], url: &str, jobs: usize, payload: usize) -> Result<()> {
    let driver = Driver { command: driver, url };
    driver.setup("default")?;
    let produce = || driver.start("produce", &[&jobs.to_string(), &payload.to_string()]);
    let work = |jobs: usize| driver.start("work", &[&jobs.to_string()]);

    let mut producer = produce()?;
    let began = producer.go()?;
    producer.expect("done")?;
    let enqueue = per_second(jobs, began);

    let mut worker = work(jobs)?;
    let began = worker.go()?;
    worker.expect("running")?;
    worker.expect("done")?;
    let drain = per_second(jobs, began);
    drop(worker);

    let (mut producer, mut worker) = (produce()?, running(work(jobs)?)?);
    let began = producer.go()?;
    worker.expect("done")?;
    let pipelined = per_second(jobs, began);
    drop(worker);

    let mut worker = running(work(LATENCY_JOBS)?)?;
    let mut producer = driver.start("pace", &[&LATENCY_JOBS.to_string(), &RATE.to_string()])?;
    producer.go()?;
    let delays = worker.expect("done")?;
    let mut delays: Vec<u64> =
        delays.split_whitespace().map(str::parse).collect::<std::result::Result<_, _>>()?;
    if delays.len() != LATENCY_JOBS {
        return Err(format!("the worker saw {} of {LATENCY_JOBS} jobs", delays.len()).into());
    }
    let (p50, p99) = percentiles(&mut delays);
    Figures { enqueue, drain, pipelined, p50, p99 }.print();
    Ok(())
}

/// One worker has a job and is lost; the time until another one, already waiting, starts that job.
pub(crate) fn recover(driver: &[&str], url: &str, settings: &str, signal: &str) -> Result<()> {
    let signal = match signal {
        "kill" => "-KILL",
        "stop" => "-STOP",
        other => return Err(format!("{other} is neither kill nor stop").into()),
    };
    let driver = Driver { command: driver, url };
    driver.setup(settings)?;
    let mut holder = running(driver.start("hold", &[settings])?)?;
    let mut producer = driver.start("produce", &["1", "100"])?;
    producer.go()?;
    holder.expect("start")?;
    let mut heir = running(driver.start("hold", &[settings])?)?;
    // A job that runs twice while its worker is well would make the settings worthless.
    if heir.line_within(RECOVERY_MAX / 3)?.is_some() {
        return Err("the job was taken from a healthy worker".into());
    }
    let lost = Instant::now();
    holder.signal(signal)?;
    let seconds = match heir.line_within(RECOVERY_MAX)? {
        Some(_) => format!("{:.2}", lost.elapsed().as_secs_f64()),
        None => "null".to_owned(),
    };
    println!("{{\"recovery_s\":{seconds}}}");
    Ok(())
}

struct Driver<'a> {
    command: &'a [&'a str],
    url: &'a str,
}

impl Driver<'_> {
    fn start(&self, mode: &str, args: &[&str]) -> Result<Process> {
        Process::start(self.command[0], self.command[1..].iter().chain(&[mode, self.url]).chain(args))
    }

    fn setup(&self, settings: &str) -> Result<()> {
        let mut command = Command::new(self.command[0]);
        let status = command.args(&self.command[1..]).args(["setup", self.url, settings]).status()?;
        if status.success() { Ok(()) } else { Err(format!("setup failed: {status}").into()) }
    }
}

/// Lets a worker run, and waits until it does.
fn running(mut worker: Process) -> Result<Process> {
    worker.go()?;
    worker.expect("running")?;
    Ok(worker)
}
