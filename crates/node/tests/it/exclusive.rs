//! Exclusive queues over the wire: who gets their jobs, and what moves one before its holder has stopped (nothing).

use std::time::Duration;

use lease::digest::Digest;
use model::{Fence, Hold};
use rpc::wire::{self, WorkerFrame};
use serde_json::{Value, json};

use crate::frames::{Stream, completed, enqueue};
use crate::support::Server;

pub(crate) const NONCE: u64 = 7;

/// A worker on a stream that heartbeats by hand.
pub(crate) struct ByHand {
    pub(crate) stream: Stream,
    key: &'static str,
    token: String,
    beats: u64,
    held: Vec<Hold>,
    change: u64,
}

impl ByHand {
    /// One that says it can stop a job within this time, or that it cannot.
    pub(crate) async fn join(
        server: &Server,
        key: &'static str,
        stop_within: Option<Duration>,
        credits: u32,
    ) -> ByHand {
        let hello = ByHand::hello(key, NONCE, stop_within);
        let stream = Stream::open_with(server, hello, credits).await;
        let mut worker = ByHand { stream, key, token: String::new(), beats: 0, held: Vec::new(), change: 0 };
        let answer = worker.beat().await;
        assert_eq!(answer.answer, "ok");
        worker
    }

    pub(crate) fn hello(key: &str, nonce: u64, stop_within: Option<Duration>) -> wire::Hello {
        wire::Hello {
            worker: key.to_owned(),
            queues: vec!["q".to_owned()],
            slots: 8,
            nonce,
            stop_within_ms: stop_within.map(|within| within.as_millis() as i64),
            ..Default::default()
        }
    }

    async fn beat(&mut self) -> wire::HeartbeatAnswer {
        self.beats += 1;
        let digest: Digest = self.held.iter().copied().collect();
        let heartbeat = wire::Heartbeat {
            number: self.beats,
            token: self.token.clone(),
            lease_ms: 20_000,
            change: self.change,
            digest_count: digest.count(),
            digest_hash: digest.hash(),
            ..Default::default()
        };
        self.stream.say(WorkerFrame { heartbeat: Some(heartbeat), ..Default::default() }).await;
        let answer = self.stream.hear(|frame| frame.heartbeat).await;
        self.token.clone_from(&answer.token);
        answer
    }

    /// Takes the next job and binds it; answers when the server says that the bind stands.
    pub(crate) async fn take(&mut self) -> wire::Assignment {
        let job = self.stream.assignment().await;
        let hold = Hold { job: job.job.parse().expect("an id"), fence: Fence::new(job.fence) };
        self.change += 1;
        self.held.push(hold);
        let bind = wire::Change { job: job.job.clone(), fence: job.fence, change: self.change };
        self.stream.say(WorkerFrame { binds: vec![bind], ..Default::default() }).await;
        let bound = self.stream.hear(|frame| frame.bound.into_iter().next()).await;
        assert_eq!((bound.job, bound.fence), (job.job.clone(), job.fence));
        job
    }

    async fn leave(&self, server: &Server, words: Value) {
        let mut body = json!({"nonce": NONCE});
        for (name, value) in words.as_object().expect("fields") {
            body[name] = value.clone();
        }
        let path = format!("/v1/workers/{}/leave", self.key);
        let (status, answer) = server.http("POST", &path, &body.to_string()).await;
        assert_eq!(status, 200, "{answer}");
    }
}

pub(crate) const FIT: Option<Duration> = Some(Duration::from_secs(6));
/// Three heartbeats of 4 s and this are more than the lease of 20 s.
const TOO_SLOW: Option<Duration> = Some(Duration::from_millis(8_001));

pub(crate) async fn set_exclusive(server: &Server, exclusive: bool) -> wire::Queue {
    let request =
        wire::SetQueueRequest { name: "q".to_owned(), exclusive: Some(exclusive), ..Default::default() };
    server.client.set_queue(request).await.expect("the queue is set")
}

pub(crate) async fn state(server: &Server, job: &wire::Assignment) -> wire::Job {
    server.client.get(wire::GetJobRequest { id: job.job.clone() }).await.expect("the job is there")
}

async fn worker_state(server: &Server, key: &str) -> String {
    let (_, shown) = server.http("GET", &format!("/v1/workers/{key}"), "").await;
    shown["state"].as_str().unwrap_or_else(|| panic!("{shown}")).to_owned()
}

#[tokio::test]
async fn only_those_who_can_stop_a_job_for_certain_get_it() {
    let server = Server::start().await;
    assert!(set_exclusive(&server, true).await.exclusive);
    let mut unfit = ByHand::join(&server, "unfit", None, 8).await;
    let mut slow = ByHand::join(&server, "slow", TOO_SLOW, 8).await;
    enqueue(&server).await;
    assert_eq!(set_exclusive(&server, true).await.workers, Some(0), "neither of them counts");
    let mut fit = ByHand::join(&server, "fit", FIT, 1).await;
    assert_eq!(set_exclusive(&server, true).await.workers, Some(1));
    let job = fit.take().await;
    assert!(job.exclusive);

    // An ordinary queue again: the next job is for everybody, and those who waited are asked first.
    enqueue(&server).await;
    set_exclusive(&server, false).await;
    let ordinary = tokio::select! {
        job = unfit.stream.assignment() => job,
        job = slow.stream.assignment() => job,
    };
    assert!(!ordinary.exclusive);
    server.stop().await;
}

#[tokio::test]
async fn a_queue_that_becomes_exclusive_turns_the_unfit_away_and_not_the_fit() {
    let server = Server::start().await;
    enqueue(&server).await;
    let mut unfit = ByHand::join(&server, "unfit", None, 8).await;
    assert!(!unfit.stream.assignment().await.exclusive);
    set_exclusive(&server, true).await;
    let mut fit = ByHand::join(&server, "fit", FIT, 1).await;
    for _ in 0..3 {
        enqueue(&server).await;
        let job = fit.take().await;
        fit.held.clear();
        let frame = WorkerFrame { reports: vec![completed(&job, 0)], credits: 1, ..Default::default() };
        fit.stream.say(frame).await;
    }
    server.stop().await;
}

#[tokio::test]
async fn single_calls_are_told_why_they_get_nothing() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let claim = json!({"worker": "curl", "queues": ["q"], "wait_ms": 0}).to_string();
    let (status, problem) = server.http("POST", "/v1/work/claim", &claim).await;
    assert_eq!(status, 409, "{problem}");
    assert!(
        problem["detail"].as_str().is_some_and(|text| text.contains("stop them for certain")),
        "{problem}"
    );
    server.stop().await;
}

#[tokio::test]
async fn a_kicked_worker_keeps_its_exclusive_jobs_until_it_says_that_they_have_stopped() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    let (status, shown) = server.http("POST", "/v1/workers/w/kick", "{}").await;
    assert_eq!((status, &shown["state"]), (200, &json!("stopping")), "{shown}");
    assert_eq!(state(&server, &job).await.state, "running");
    let (status, problem) = server
        .http("POST", "/v1/workers/w/heartbeat", &json!({"nonce": NONCE, "token": worker.token}).to_string())
        .await;
    assert_eq!(status, 409, "{problem}");

    worker.leave(&server, json!({"all_stopped": false})).await;
    assert_eq!(state(&server, &job).await.state, "running", "that was no word on its jobs");
    worker.leave(&server, json!({"all_stopped": true, "stopped_for_ms": 40})).await;
    assert_eq!(worker_state(&server, "w").await, "inactive");
    let after = state(&server, &job).await;
    assert_eq!((after.state.as_str(), after.lost), ("available", 0), "a kick is not counted");
    assert!(server.metric("tenure_handover_margin_seconds_sum", "").await >= 0.04);
    server.stop().await;
}

#[tokio::test]
async fn a_guardians_word_rescues_at_once_and_counts_as_a_loss() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    worker.leave(&server, json!({"all_stopped": true, "crashed": true, "stopped_for_ms": 3})).await;
    let after = state(&server, &job).await;
    assert_eq!(
        (after.state.as_str(), after.lost),
        ("available", 1),
        "a job that kills workers must not go on for ever"
    );
    assert_eq!(worker_state(&server, "w").await, "inactive");
    assert_eq!(server.metric("tenure_handover_margin_seconds_count", "word").await, 1.0);
    assert_eq!(server.metric("tenure_handover_margin_negative_total", "").await, 0.0);
    server.stop().await;
}

#[tokio::test]
async fn an_exclusive_handler_that_gives_no_sign_is_told_to_stop_and_keeps_its_job() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    let silent = json!({"queue": "q", "heartbeat_timeout_ms": 500}).to_string();
    let (status, answer) = server.http("POST", "/v1/jobs", &silent).await;
    assert_eq!(status, 200, "{answer}");
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    let stop = worker.stream.hear(|frame| frame.stops.into_iter().next()).await;
    assert_eq!((stop.job.as_str(), stop.reason.as_str()), (job.job.as_str(), "silent"));
    assert_eq!(worker.beat().await.stops, [stop], "it is told until it has let go");
    assert_eq!(state(&server, &job).await.state, "running", "nobody else has it before it has stopped");
    worker.stream.say(WorkerFrame { reports: vec![completed(&job, 0)], ..Default::default() }).await;
    let answer = worker.stream.hear(|frame| frame.reports.into_iter().next()).await;
    assert_eq!(answer.answer, "done", "what it completed before it stopped counts");
    server.stop().await;
}

#[tokio::test]
async fn exclusive_queues_and_their_running_jobs_outlive_a_restart() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    let server = server.restart_with(node::NodeConfig::default()).await;
    // Before it has heard anything of the worker, the server must take it for one with exclusive jobs.
    let (status, shown) = server.http("POST", "/v1/workers/w/kick", "{}").await;
    assert_eq!((status, &shown["state"]), (200, &json!("stopping")), "{shown}");
    assert_eq!(state(&server, &job).await.state, "running");
    enqueue(&server).await;
    let mut unfit = ByHand::join(&server, "unfit", None, 8).await;
    let mut fit = ByHand::join(&server, "fit", FIT, 8).await;
    assert_ne!(fit.take().await.job, job.job);
    assert_eq!(unfit.beat().await.answer, "ok");
    server.stop().await;
}

#[tokio::test]
async fn a_call_cannot_report_for_a_worker_that_reports_when_its_jobs_have_stopped() {
    let server = Server::start().await;
    set_exclusive(&server, true).await;
    enqueue(&server).await;
    let mut worker = ByHand::join(&server, "w", FIT, 1).await;
    let job = worker.take().await;
    // All of it is in the environment of a job.
    let report = json!({"job": job.job, "fence": job.fence, "outcome": "handed_back"});
    let finish = json!({"worker": "w", "reports": [report]}).to_string();
    let (status, problem) = server.http("POST", "/v1/work/finish", &finish).await;
    assert_eq!(status, 409, "{problem}");
    assert_eq!(state(&server, &job).await.state, "running");
    let server = server.restart_with(node::NodeConfig::default()).await;
    let (status, problem) = server.http("POST", "/v1/work/finish", &finish).await;
    assert_eq!(status, 409, "nor before the server knows again what the worker can: {problem}");
    server.stop().await;
}
