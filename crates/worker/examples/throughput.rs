//! How many no-op jobs one worker can take: `cargo run --release -p worker --example throughput -- [slots] [seconds]`.
//!
//! The server on the other side of a real loopback connection only turns credits into assignments, answers reports and
//! takes heartbeats, so that what is measured is the SDK and the wire. Everything runs in this process; CPU time is that of both sides.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use rpc::wire;
use rpc::wire::work_server::{Work, WorkServer};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio_stream::wrappers::{ReceiverStream, TcpListenerStream};
use tonic::{Request, Response, Status, Streaming};
use worker::Worker;

/// Assignments in one frame.
const BATCH_MAX: u32 = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let slots = arguments.next().map_or(Ok(2000), |text| text.parse())?;
    let seconds = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let done = Arc::new(AtomicU64::new(0));
    let frames = Arc::new(AtomicU64::new(0));

    let server_runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let listener = server_runtime.block_on(TcpListener::bind("127.0.0.1:0"))?;
    let url = format!("http://{}", listener.local_addr()?);
    let service = WorkServer::new(Endless { done: Arc::clone(&done), frames: Arc::clone(&frames) });
    server_runtime.spawn(
        tonic::transport::Server::builder()
            .initial_stream_window_size(4 << 20)
            .initial_connection_window_size(4 << 20)
            .tcp_nodelay(true)
            .add_service(service)
            .serve_with_incoming(TcpListenerStream::new(listener)),
    );

    let worker_runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    worker_runtime.block_on(async {
        let worker = Worker::builder(url)
            .queue("noop")
            .concurrency(slots)
            .handle_raw("*", |_, _| async { Ok(Bytes::new()) })
            .build()?;
        let start = Instant::now();
        let summary = worker.run_until(tokio::time::sleep(Duration::from_secs(seconds))).await;
        let rate = done.load(Ordering::Relaxed) as f64 / start.elapsed().as_secs_f64();
        let per_frame = done.load(Ordering::Relaxed) as f64 / frames.load(Ordering::Relaxed) as f64;
        println!("{rate:.0} jobs/s with {slots} slots, {per_frame:.0} reports per frame; {summary:?}");
        Ok(())
    })
}

struct Endless {
    done: Arc<AtomicU64>,
    frames: Arc<AtomicU64>,
}

#[tonic::async_trait]
impl Work for Endless {
    type SessionStream = ReceiverStream<Result<wire::ServerFrame, Status>>;

    async fn session(
        &self,
        request: Request<Streaming<wire::WorkerFrame>>,
    ) -> Result<Response<Self::SessionStream>, Status> {
        let (answers, outbound) = mpsc::channel(8);
        let (done, frame_count) = (Arc::clone(&self.done), Arc::clone(&self.frames));
        tokio::spawn(async move {
            let mut frames = request.into_inner();
            let mut worker = String::new();
            let mut next_job = 0u64;
            while let Ok(Some(frame)) = frames.message().await {
                frame_count.fetch_add(1, Ordering::Relaxed);
                done.fetch_add(frame.reports.len() as u64, Ordering::Relaxed);
                let mut answer = wire::ServerFrame { left: frame.leave.is_some(), ..Default::default() };
                if let Some(hello) = frame.hello {
                    worker = hello.worker;
                    answer.welcome = Some(wire::Welcome::default());
                }
                answer.heartbeat = frame.heartbeat.map(taken);
                answer.reports = frame.reports.into_iter().map(done_answer).collect();
                let mut credits = frame.credits;
                loop {
                    answer.assignments =
                        (0..credits.min(BATCH_MAX)).map(|_| assignment(&worker, &mut next_job)).collect();
                    credits -= answer.assignments.len() as u32;
                    if answers.send(Ok(std::mem::take(&mut answer))).await.is_err() {
                        return;
                    }
                    if credits == 0 {
                        break;
                    }
                }
            }
        });
        Ok(Response::new(ReceiverStream::new(outbound)))
    }

    async fn claim(&self, _: Request<wire::ClaimRequest>) -> Result<Response<wire::ClaimResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn renew(&self, _: Request<wire::RenewRequest>) -> Result<Response<wire::RenewResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn finish(
        &self,
        _: Request<wire::FinishRequest>,
    ) -> Result<Response<wire::FinishResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn progress(
        &self,
        _: Request<wire::ProgressRequest>,
    ) -> Result<Response<wire::ProgressResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }

    async fn probe(&self, _: Request<wire::ProbeRequest>) -> Result<Response<wire::ProbeResponse>, Status> {
        Err(Status::unimplemented("not measured"))
    }
}

fn assignment(worker: &str, next_job: &mut u64) -> wire::Assignment {
    *next_job += 1;
    wire::Assignment {
        job: model::JobId::from_bytes(u128::from(*next_job).to_be_bytes()).to_string(),
        fence: 1,
        attempt: 1,
        max_attempts: 5,
        queue: "noop".into(),
        kind: "noop".into(),
        payload: Bytes::from_static(b"{\"n\":1}"),
        lease_ms: 30_000,
        worker: worker.to_owned(),
        start: *next_job,
        ..Default::default()
    }
}

fn done_answer(report: wire::Report) -> wire::ReportAnswer {
    let wire::Report { job, fence, .. } = report;
    wire::ReportAnswer { job, fence, answer: "done".into(), state: "completed".into(), current_fence: 0 }
}

fn taken(beat: wire::Heartbeat) -> wire::HeartbeatAnswer {
    wire::HeartbeatAnswer {
        number: beat.number,
        answer: "ok".into(),
        token: format!("1.{:x}", beat.number),
        lease_ms: 20_000,
        ..Default::default()
    }
}
