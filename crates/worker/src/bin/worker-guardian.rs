//! A program for the tests of this package: the guardian of their workers, and workers that come to a bad end.
//!
//! `worker-guardian <server> deaf|starved|idle` runs a worker whose handler blocks one of two threads, or the only one,
//! and never listens; with `quick` the handler is done at once. `worker-guardian <server> shell <script>` runs commands. Both print the process id of their guardian,
//! and drain when their input ends.

use std::io::{Read, Write};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::oneshot;
use worker::guardian::{self, Guardian, Isolation};
use worker::{ExecRunner, JobContext, JobError, Worker};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    guardian::run_if_asked();
    let mut arguments = std::env::args().skip(1);
    let (Some(server), Some(mode)) = (arguments.next(), arguments.next()) else {
        return Err("usage: worker-guardian <server> deaf|starved|idle|quick|shell [script]".into());
    };
    let guardian = Guardian::start(Isolation::Groups)?;
    println!("{}", guardian.pid());
    std::io::stdout().flush()?;
    let runtime = match mode.as_str() {
        "starved" => tokio::runtime::Builder::new_current_thread().enable_all().build()?,
        _ => tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build()?,
    };
    // An idle one has a lease that no test waits for.
    let lease = Duration::from_secs(if mode == "idle" { 60 } else { 2 });
    runtime.block_on(async {
        let builder = Worker::builder(server);
        let builder = match arguments.next() {
            Some(script) => builder.exec("work", ExecRunner::new(vec!["sh".into(), "-c".into(), script])?),
            None if mode == "quick" => {
                builder.handle_raw("work", async |_, payload: Bytes| Ok::<_, JobError>(payload))
            }
            None => builder.handle_raw("work", block),
        };
        let worker = builder
            .queue("q")
            .lease(lease)
            .kill_wait(Duration::from_millis(200))
            .safety(Duration::from_millis(400))
            .guardian(guardian)
            .exclusive(true)
            .build()?;
        worker.run_until(end_of_input()).await;
        Ok(())
    })
}

/// Hears nothing and gives its thread back to nobody.
async fn block(_: JobContext, _: Bytes) -> Result<Bytes, JobError> {
    loop {
        std::thread::park();
    }
}

async fn end_of_input() {
    let (ended, end) = oneshot::channel();
    std::thread::spawn(move || {
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
        let _ = ended.send(());
    });
    let _ = end.await;
}
