//! How many short programs run per second, by plain spawning and through a guardian, in one run.
//!
//! `cargo run --release -p guardian --example launches -- [jobs] [at once] [auto|namespace|groups]`

use std::process::Stdio;
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream;
use guardian::{Guardian, Isolation, Launch};
use lease::clock_rule::Stopping;
use lease::guardian::Order;
use model::{Clock, Nonce, WorkerKey};
use tokio::io::AsyncReadExt;
use tokio::process::Command;

const PROGRAM: &str = "true";
/// Each way is measured this often, in turn, and its best counts: whatever else the machine does only slows down.
const ROUNDS: usize = 5;

fn main() {
    guardian::run_if_asked();
    let mut args = std::env::args().skip(1);
    let jobs: usize = args.next().map_or(3_000, |text| text.parse().expect("a number of jobs"));
    let at_once: usize = args.next().map_or(16, |text| text.parse().expect("a number of jobs at once"));
    let isolation = args.next().map_or(Isolation::Auto, |text| text.parse().expect("an isolation"));
    let guardian = Guardian::start(isolation).expect("a guardian");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    runtime.block_on(measure(guardian, jobs, at_once));
}

async fn measure(guardian: Guardian, jobs: usize, at_once: usize) {
    println!("{jobs} × {PROGRAM}, {at_once} at once, {:?}", guardian.protection());
    guardian.attach("", Stopping::DEFAULT);
    guardian.tell(Order::Key { key: WorkerKey::new("launches").expect("a key"), nonce: Nonce::new(1) });
    guardian.tell(Order::Hold { until: clock::SystemClock.monotonic() + Duration::from_secs(3_600) });

    let (mut plain, mut guarded, mut exclusive) = (0_f64, 0_f64, 0_f64);
    for _ in 0..ROUNDS {
        plain = plain.max(rate(jobs, at_once, spawn_plainly).await);
        guarded = guarded.max(rate(jobs, at_once, || launch(guardian.clone(), false)).await);
        exclusive = exclusive.max(rate(jobs / 10, at_once, || launch(guardian.clone(), true)).await);
    }
    guardian.tell(Order::Bye);
    println!("plain      {plain:>8.0} per second");
    println!("guardian   {guarded:>8.0} per second   ratio {:.2}", guarded / plain);
    println!("exclusive  {exclusive:>8.0} per second   ratio {:.2}", exclusive / plain);
}

async fn rate<F>(jobs: usize, at_once: usize, run: impl Fn() -> F) -> f64
where
    F: Future<Output = ()> + Send + 'static,
{
    let start = Instant::now();
    // Tasks, as a worker's jobs are, so that both ways may use every core.
    let tasks = stream::iter(0..jobs).map(|_| tokio::spawn(run()));
    tasks.buffer_unordered(at_once).for_each(|ran| async { ran.expect("a job") }).await;
    jobs as f64 / start.elapsed().as_secs_f64()
}

/// As many variables as a worker gives a job.
fn variables() -> Vec<(String, String)> {
    let names =
        ["JOB_ID", "ATTEMPT", "MAX_ATTEMPTS", "FENCE", "QUEUE", "KIND", "WORKER", "SERVER", "LEASE_MS"];
    names.iter().map(|name| (format!("TENURE_{name}"), "0123456789".to_owned())).collect()
}

async fn spawn_plainly() {
    let mut child = Command::new(PROGRAM)
        .envs(variables())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true)
        .spawn()
        .expect("a process");
    drop(child.stdin.take());
    let (mut stdout, mut stderr) = (child.stdout.take().expect("piped"), child.stderr.take().expect("piped"));
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let (_, _, status) =
        tokio::join!(stdout.read_to_end(&mut out), stderr.read_to_end(&mut err), child.wait());
    assert!(status.expect("an end").success());
}

async fn launch(guardian: Guardian, exclusive: bool) {
    let launch =
        Launch { program: PROGRAM.into(), args: Vec::new(), env: variables(), exclusive, no_input: true };
    let mut family = guardian.launch(launch).await.expect("a family");
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let _ = family.stdout.take().expect("it was not taken").read_to_end(&mut out).await;
    let _ = family.stderr.take().expect("it was not taken").read_to_end(&mut err).await;
    assert_eq!(family.ended().await.expect("an end").code, Some(0));
}
