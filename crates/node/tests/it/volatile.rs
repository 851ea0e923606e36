//! Volatile queues over the wire: what a server that remembers nothing starts, and what it does not.

use std::sync::Arc;
use std::time::Duration;

use clock::SystemClock;
use lease::digest::Digest;
use model::{ClientId, Clock as _, Fence, Hold, JobId};
use node::{NodeConfig, VolatileConfig};
use rpc::wire::jobs_client::JobsClient;
use rpc::wire::{self, ServerFrame, WorkerFrame};
use store::{MemoryStore, Paired};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;

use crate::frames::{Stream, completed};
use crate::support::Server;

/// Whoever has to wait for the safe wait of 21 s is noticed: nobody here is so patient.
pub(crate) async fn start() -> Server {
    start_with(VolatileConfig::default()).await
}

/// The first life of a server need not wait for anybody.
pub(crate) async fn start_first() -> Server {
    start_with(VolatileConfig { unsafe_initial_wait: Some(Duration::ZERO), ..Default::default() }).await
}

async fn start_with(volatile: VolatileConfig) -> Server {
    start_over(volatile, Arc::new(MemoryStore::volatile(Arc::new(SystemClock)))).await
}

async fn start_over(volatile: VolatileConfig, store: Arc<MemoryStore>) -> Server {
    let config = NodeConfig { volatile, ..NodeConfig::default() };
    Server::start_on(config, store).await
}

/// A first life whose jobs may take so many bytes, and its store.
pub(crate) async fn start_within(bytes_max: usize) -> (Server, Arc<MemoryStore>) {
    let volatile = VolatileConfig { unsafe_initial_wait: Some(Duration::ZERO), ..Default::default() };
    let store = Arc::new(MemoryStore::volatile_within(Arc::new(SystemClock), bytes_max));
    (start_over(volatile, store.clone()).await, store)
}

pub(crate) fn client() -> ClientId {
    ClientId::new(SystemClock.wall(), 7)
}

pub(crate) async fn submit(server: &Server, client: ClientId, sequence: u64) -> wire::EnqueueResponse {
    let id = client.job(sequence).to_string();
    let job = wire::NewJob { id, queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    server.client.enqueue(request).await.expect("accepted")
}

pub(crate) async fn status(server: &Server) -> wire::MusterStatus {
    let (code, shown) = server.http("GET", "/v1/muster", "").await;
    assert_eq!(code, 200, "{shown}");
    serde_json::from_value(shown).expect("a status")
}

/// A worker that does by hand what the SDK does: it outlives servers.
pub(crate) struct Survivor {
    key: &'static str,
    pub(crate) stream: Stream,
    token: String,
    beats: u64,
    held: Vec<Hold>,
    change: u64,
    set: Option<wire::WorkerSet>,
}

impl Survivor {
    pub(crate) async fn join(server: &Server, key: &'static str, credits: u32) -> Survivor {
        Survivor::join_as(server, Survivor::hello(key), key, credits).await
    }

    /// One that says so of itself.
    pub(crate) async fn join_as(
        server: &Server,
        hello: wire::Hello,
        key: &'static str,
        credits: u32,
    ) -> Survivor {
        let stream = Stream::open_with(server, hello, credits).await;
        let mut worker =
            Survivor { key, stream, token: String::new(), beats: 0, held: Vec::new(), change: 0, set: None };
        worker.beat().await;
        worker
    }

    pub(crate) fn hello(key: &str) -> wire::Hello {
        wire::Hello {
            worker: key.to_owned(),
            queues: vec!["q".to_owned()],
            slots: 8,
            nonce: 7,
            stop_within_ms: Some(6_000),
            ..Default::default()
        }
    }

    /// Comes to another server with all that it has.
    pub(crate) async fn come_back(&mut self, server: &Server, credits: u32) {
        self.stream = Stream::open_with(server, Survivor::hello(self.key), credits).await;
        self.beat().await;
    }

    /// A heartbeat that is taken, at the second try if need be.
    pub(crate) async fn beat(&mut self) {
        for _ in 0..2 {
            let answer = self.heartbeat().await;
            if answer.answer == "ok" {
                return;
            }
            assert_eq!(answer.answer, "token_mismatch");
        }
        panic!("two heartbeats and no lease");
    }

    /// Heartbeats once, whatever is answered.
    pub(crate) async fn heartbeat(&mut self) -> wire::HeartbeatAnswer {
        self.beats += 1;
        let digest: Digest = self.held.iter().copied().collect();
        let hold = |hold: &Hold| wire::Hold { job: hold.job.to_string(), fence: hold.fence.get() };
        let heartbeat = wire::Heartbeat {
            number: self.beats,
            token: self.token.clone(),
            change: self.change,
            digest_count: digest.count(),
            digest_hash: digest.hash(),
            full: Some(wire::FullSet { holds: self.held.iter().map(hold).collect() }),
            worker_set: self.set,
            ..Default::default()
        };
        self.stream.say(WorkerFrame { heartbeat: Some(heartbeat), ..Default::default() }).await;
        let answer = self.hear(|frame| frame.heartbeat.clone()).await;
        self.token.clone_from(&answer.token);
        self.set = answer.worker_set.or(self.set);
        answer
    }

    /// Does what it is told in passing, until there is what is wanted.
    async fn hear<T>(&mut self, wanted: impl Fn(&ServerFrame) -> Option<T>) -> T {
        loop {
            let frame = self.stream.hear(Some).await;
            if frame.check > 0 {
                self.stream.say(WorkerFrame { checked: frame.check, ..Default::default() }).await;
            }
            if let Some(set) = frame.worker_set {
                self.set = Some(set);
                self.stream.say(WorkerFrame { worker_set: Some(set), ..Default::default() }).await;
            }
            if let Some(found) = wanted(&frame) {
                return found;
            }
        }
    }

    pub(crate) async fn take(&mut self) -> wire::Assignment {
        let job = self.hear(|frame| frame.assignments.first().cloned()).await;
        assert!(job.at_once && job.exclusive, "{job:?}");
        self.change += 1;
        self.held.push(Hold { job: job.job.parse().expect("an id"), fence: Fence::new(job.fence) });
        job
    }

    pub(crate) async fn report(&mut self, job: &wire::Assignment) -> wire::ReportAnswer {
        let reports = vec![completed(job, 1)];
        self.stream.say(WorkerFrame { reports, ..Default::default() }).await;
        self.held.retain(|hold| hold.job.to_string() != job.job);
        self.change += 1;
        self.hear(|frame| frame.reports.first().cloned()).await
    }
}

/// What a client says and hears that keeps its submissions.
pub(crate) struct Submitting {
    frames: mpsc::Sender<wire::SubmitFrame>,
    answers: tonic::Streaming<wire::SubmitAnswer>,
}

impl Submitting {
    pub(crate) async fn open(server: &Server, client: ClientId) -> Submitting {
        let greeting = wire::SubmitFrame { client: client.job(0).to_string(), ..Default::default() };
        let mut submitting = Submitting::greet(server, greeting).await.expect("the stream opens");
        let answer = submitting.answer().await;
        assert_eq!((answer.generation != 0, answer.frames), (true, 1), "{answer:?}");
        submitting
    }

    pub(crate) async fn greet(
        server: &Server,
        greeting: wire::SubmitFrame,
    ) -> Result<Submitting, tonic::Status> {
        let mut jobs = JobsClient::connect(server.url()).await.expect("the server listens");
        let (frames, outgoing) = mpsc::channel(8);
        frames.send(greeting).await.expect("the stream is not open yet");
        let answers = jobs.submit(ReceiverStream::new(outgoing)).await?.into_inner();
        Ok(Submitting { frames, answers })
    }

    pub(crate) async fn say(&self, frame: wire::SubmitFrame) {
        self.frames.send(frame).await.expect("the server listens");
    }

    async fn submit(&self, queue: &str, ids: impl IntoIterator<Item = JobId>) {
        let job =
            |id: JobId| wire::NewJob { id: id.to_string(), queue: queue.to_owned(), ..Default::default() };
        self.say(wire::SubmitFrame { jobs: ids.into_iter().map(job).collect(), ..Default::default() }).await;
    }

    pub(crate) async fn answer(&mut self) -> wire::SubmitAnswer {
        self.heard().await.expect("the stream goes on")
    }

    /// The next answer; `None` when the server ended the stream.
    async fn heard(&mut self) -> Option<wire::SubmitAnswer> {
        let heard = tokio::time::timeout(Duration::from_secs(20), self.answers.message()).await;
        heard.expect("the server answers").expect("the stream does not break")
    }

    pub(crate) async fn end(&mut self) -> wire::End {
        loop {
            if let Some(end) = self.answer().await.ends.into_iter().next() {
                return end;
            }
        }
    }
}

/// Two servers, one after the other; the worker and the client outlive the first.
#[tokio::test]
async fn a_server_that_remembers_nothing_finds_what_is_running_and_starts_it_not_again() {
    let client = client();
    let first = start_first().await;
    submit(&first, client, 1).await;
    let mut worker = Survivor::join(&first, "w", 1).await;
    let job = worker.take().await;
    assert_eq!(job.job, client.job(1).to_string());
    worker.beat().await;
    let generation = submit(&first, client, 1).await.generation;
    first.stop().await;

    let second = start().await;
    // Submitted again before its worker is back, and another one with it.
    let again = submit(&second, client, 1).await;
    assert_ne!(again.generation, generation, "the client sees that it must submit again");
    submit(&second, client, 2).await;
    assert!(status(&second).await.waiting);
    worker.come_back(&second, 1).await;
    let other = worker.take().await;
    assert_eq!(other.job, client.job(2).to_string(), "what it runs is not started again");
    let shown = status(&second).await;
    assert_eq!((shown.waiting, shown.how.as_str()), (false, "agreed"), "{shown:?}");
    let running = second.client.get(wire::GetJobRequest { id: job.job.clone() }).await.expect("it is there");
    assert_eq!((running.state.as_str(), running.holder.as_str(), running.fence), ("running", "w", job.fence));

    let mut submitting = Submitting::open(&second, client).await;
    assert_eq!(worker.report(&job).await.answer, "done");
    let end = submitting.end().await;
    assert_eq!((end.id, end.state.as_str()), (job.job.clone(), "completed"));
    // The client knows; so the worker need not keep the result, as it hears with the next that it is told.
    submitting.say(wire::SubmitFrame { acknowledged: vec![job.job.clone()], ..Default::default() }).await;
    assert_eq!(submitting.answer().await.frames, 1);
    submitting.submit("q", [client.job(3)]).await;
    worker.stream.say(WorkerFrame { credits: 1, ..Default::default() }).await;
    let frame = worker.hear(|frame| (!frame.assignments.is_empty()).then(|| frame.clone())).await;
    let [forgotten] = &frame.forget[..] else { panic!("{frame:?}") };
    assert_eq!((&forgotten.job, forgotten.fence), (&job.job, job.fence));
    assert!(submit(&second, client, 1).await.jobs[0].duplicate, "it is never run again");
    second.stop().await;
}

/// The one that is missing may be running anything.
#[tokio::test]
async fn a_server_waits_for_those_that_belong_to_the_set() {
    let client = client();
    let first = start_first().await;
    let mut one = Survivor::join(&first, "one", 1).await;
    let mut two = Survivor::join(&first, "two", 1).await;
    // As long as the second has not said that it knows the set, the first is held back.
    two.beat().await;
    for (worker, sequence) in [(&mut one, 1), (&mut two, 2)] {
        submit(&first, client, sequence).await;
        worker.take().await;
    }
    for worker in [&mut one, &mut two] {
        worker.beat().await;
    }
    assert_eq!(one.set, two.set);
    first.stop().await;

    let second = start().await;
    submit(&second, client, 2).await;
    submit(&second, client, 3).await;
    one.come_back(&second, 1).await;
    let shown = status(&second).await;
    assert!(shown.waiting && shown.at_most_ms > Some(0) && !shown.reasons.is_empty(), "{shown:?}");
    two.come_back(&second, 0).await;
    two.hear(|frame| frame.worker_set).await;
    // Were it not for the second, the first would have been given what the second runs.
    assert_eq!(one.take().await.job, client.job(3).to_string());
    assert_eq!(status(&second).await.how, "agreed");
    second.stop().await;
}

/// A result may be there before its client is.
#[tokio::test]
async fn a_result_from_before_is_kept_until_the_job_is_submitted_again() {
    let client = client();
    let first = start_first().await;
    submit(&first, client, 1).await;
    let mut worker = Survivor::join(&first, "w", 1).await;
    let job = worker.take().await;
    first.stop().await;

    let second = start().await;
    worker.come_back(&second, 0).await;
    let answer = worker.report(&job).await;
    assert!(["done", "already_done"].contains(&answer.answer.as_str()), "{answer:?}");
    let mut submitting = Submitting::open(&second, client).await;
    submitting.submit("q", [client.job(1)]).await;
    let end = submitting.end().await;
    assert_eq!((end.id, end.state.as_str(), &end.result[..]), (job.job, "completed", &b"1"[..]));
    second.stop().await;
}

/// Whoever heartbeats by single calls, or cannot stop a job for certain, is never given a volatile one and knows nothing of sets.
#[tokio::test]
async fn those_who_get_no_volatile_jobs_hold_nobody_back() {
    let server = start_first().await;
    let body = r#"{"nonce": 9, "profile": {"queues": ["q"], "stop_within_ms": 1000}}"#;
    let (code, answer) = server.http("POST", "/v1/workers/by-calls/heartbeat", body).await;
    assert_eq!((code, answer["answer"].as_str()), (200, Some("ok")), "{answer}");
    let hello = wire::Hello {
        worker: "unfit".to_owned(),
        queues: vec!["q".to_owned()],
        slots: 8,
        nonce: 8,
        ..Default::default()
    };
    let mut unfit = Stream::open_with(&server, hello, 1).await;
    let heartbeat = Some(wire::Heartbeat { number: 1, ..Default::default() });
    unfit.say(WorkerFrame { heartbeat, ..Default::default() }).await;
    assert_eq!(unfit.hear(|frame| frame.heartbeat).await.answer, "ok");
    let client = client();
    submit(&server, client, 1).await;
    let mut worker = Survivor::join(&server, "fit", 1).await;
    assert_eq!(worker.take().await.job, client.job(1).to_string());
    assert_eq!(status(&server).await.members, 1);
    server.stop().await;
}

#[tokio::test]
async fn what_does_not_fit_is_refused_in_words() {
    let server = start_first().await;
    let durable = wire::NewJob {
        id: "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f".to_owned(),
        queue: "q".to_owned(),
        ..Default::default()
    };
    let request = wire::EnqueueRequest { jobs: vec![durable], ..Default::default() };
    let refused = server.client.enqueue(request).await.expect_err("it is no volatile id");
    assert!(refused.to_string().contains("volatile"), "{refused}");
    let back = wire::SetQueueRequest { name: "q".to_owned(), volatile: Some(false), ..Default::default() };
    let refused = server.client.set_queue(back).await.expect_err("there is nowhere else to put its jobs");
    assert!(refused.to_string().contains("cannot be made durable"), "{refused}");
    for nobody in ["", "nobody", "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f"] {
        let greeting = wire::SubmitFrame { client: nobody.to_owned(), ..Default::default() };
        let refused = Submitting::greet(&server, greeting).await.err().expect("it is no client");
        assert_eq!(refused.code(), tonic::Code::InvalidArgument, "{refused}");
    }
    // Who does not number his jobs has them numbered.
    let plain = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
    let request = wire::EnqueueRequest { jobs: vec![plain], ..Default::default() };
    let answer = server.client.enqueue(request).await.expect("accepted");
    let id: model::JobId = answer.jobs[0].id.parse().expect("an id");
    assert!(id.submission().is_some_and(|(client, _)| !client.is_awaited()), "{id}");
    server.stop().await;
}

#[tokio::test]
async fn a_job_that_cannot_be_taken_is_refused_and_the_others_are_taken() {
    let durable = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let store =
        Paired::open(durable, MemoryStore::volatile(Arc::new(SystemClock))).await.expect("both are empty");
    let server = Server::start_on(NodeConfig::default(), store).await;
    let set = wire::SetQueueRequest { name: "q".to_owned(), volatile: Some(true), ..Default::default() };
    server.client.set_queue(set).await.expect("it has no jobs");
    let client = client();
    let mut submitting = Submitting::open(&server, client).await;
    submitting.submit("q", [client.job(1)]).await;
    let jobs = [(2, "q"), (3, "durable"), (4, "q"), (5, "no name")].map(|(sequence, queue)| wire::NewJob {
        id: client.job(sequence).to_string(),
        queue: queue.to_owned(),
        ..Default::default()
    });
    submitting.say(wire::SubmitFrame { jobs: jobs.into(), ..Default::default() }).await;
    let (mut frames, mut refused) = (0, Vec::new());
    while frames < 2 {
        let answer = submitting.answer().await;
        frames += answer.frames;
        refused.extend(answer.refusals);
    }
    let [durable, nameless] = &refused[..] else { panic!("{refused:?}") };
    assert_eq!(durable.id, client.job(3).to_string());
    assert!(durable.error.contains("queue durable is not volatile"), "{durable:?}");
    assert_eq!(nameless.id, client.job(5).to_string());
    for sequence in [1, 2, 4] {
        let id = client.job(sequence).to_string();
        let job = server.client.get(wire::GetJobRequest { id }).await.expect("it was taken");
        assert_eq!(job.state, "available");
    }
    server.stop().await;
}

/// Workers may run jobs of it that this life of the server has not heard of; their clients would be refused when they come back.
#[tokio::test]
async fn a_volatile_queue_is_not_made_durable_before_all_workers_are_known() {
    let durable = Arc::new(MemoryStore::new(Arc::new(SystemClock)));
    let set = async |server: &Server, volatile: bool| {
        let body = serde_json::json!({ "volatile": volatile }).to_string();
        server.http("PUT", "/v1/queues/q", &body).await
    };
    let live = async |volatile: VolatileConfig| {
        let store = Paired::open(durable.clone(), MemoryStore::volatile(Arc::new(SystemClock))).await;
        let config = NodeConfig { volatile, ..NodeConfig::default() };
        Server::start_on(config, store.expect("no jobs are there")).await
    };
    let first = live(VolatileConfig::default()).await;
    assert_eq!(set(&first, true).await.0, 200);
    first.stop().await;

    let second = live(VolatileConfig::default()).await;
    let (code, problem) = set(&second, false).await;
    assert_eq!((code, problem["type"].as_str()), (409, Some("refused")), "{problem}");
    let detail = problem["detail"].as_str().expect("a sentence");
    assert!(detail.contains("queue q stays volatile while the server waits"), "{detail}");
    assert_eq!(set(&second, true).await.0, 200, "that is what it is");
    second.stop().await;

    let unwaiting = VolatileConfig { unsafe_initial_wait: Some(Duration::ZERO), ..Default::default() };
    let third = live(unwaiting).await;
    assert_eq!(set(&third, false).await.0, 200);
    third.stop().await;
}

/// Nothing hangs on it, but a client that is told nothing for ever keeps everything for ever.
#[tokio::test]
async fn submissions_are_answered_though_nothing_ends() {
    let server = start_first().await;
    let client = client();
    let mut submitting = Submitting::open(&server, client).await;
    for sequence in [1, 2] {
        submitting.submit("q", [client.job(sequence)]).await;
        assert_eq!(submitting.answer().await, wire::SubmitAnswer { frames: 1, ..Default::default() });
    }
    // A client that says nothing more is left.
    (submitting.frames, _) = mpsc::channel(1);
    assert_eq!(submitting.heard().await, None);
    server.stop().await;
}

/// A client that comes back hears what it missed, unless it knows.
#[tokio::test]
async fn what_ended_while_nobody_listened_is_told_until_it_is_acknowledged() {
    let server = start_first().await;
    let client = client();
    let mut worker = Survivor::join(&server, "w", 2).await;
    let mut ended = Vec::new();
    for sequence in [1, 2] {
        submit(&server, client, sequence).await;
        let job = worker.take().await;
        assert_eq!(worker.report(&job).await.answer, "done");
        ended.push(job.job);
    }
    let mut first = Submitting::open(&server, client).await;
    let told = first.answer().await.ends.into_iter().map(|end| end.id);
    assert_eq!(told.collect::<Vec<_>>(), ended);
    let greeting = wire::SubmitFrame {
        client: client.job(0).to_string(),
        acknowledged: vec![ended[0].clone()],
        ..Default::default()
    };
    let mut second = Submitting::greet(&server, greeting).await.expect("the stream opens");
    assert_eq!(second.end().await.id, ended[1]);
    server.stop().await;
}

/// Its word would be believed: the job would never start, or its fence would be the least of all that follow.
#[tokio::test]
async fn no_single_call_says_what_becomes_of_a_volatile_job() {
    let server = start().await;
    let id = client().job(1).to_string();
    let hold = serde_json::json!({"job": id, "fence": 9_007_199_254_740_990_i64});
    let renew = serde_json::json!({"worker": "x", "holds": [hold]});
    let report = serde_json::json!({"job": id, "fence": 9_007_199_254_740_990_i64, "outcome": "completed"});
    let finish = serde_json::json!({"worker": "x", "reports": [report]});
    for (path, body) in [("/v1/work/renew", renew), ("/v1/work/finish", finish)] {
        let (code, problem) = server.http("POST", path, &body.to_string()).await;
        assert_eq!((code, problem["type"].as_str()), (409, Some("refused")), "{path}: {problem}");
    }
    assert_eq!(status(&server).await.unclaimed, 0);
}

/// There is nothing to warn of.
#[tokio::test]
async fn an_unsafe_wait_that_is_longer_than_the_safe_one_is_none() {
    for (wait, is_unsafe) in [(Duration::from_secs(1), true), (Duration::from_secs(3_600), false)] {
        let config = VolatileConfig { unsafe_initial_wait: Some(wait), ..Default::default() };
        assert_eq!(status(&start_with(config).await).await.unsafe_wait, is_unsafe, "{wait:?}");
    }
}

/// Without an answer to its first one a worker is never healthy, and is sent away in the end.
#[tokio::test]
async fn a_healthcheck_that_was_lost_with_its_stream_comes_again() {
    let server = start_first().await;
    let mut worker = Survivor::join(&server, "w", 1).await;
    let check = |frame: ServerFrame| {
        let lease_max = NodeConfig::default().lease_default.as_millis();
        (frame.check > 0).then(|| assert_eq!(frame.check_lease_ms as u128, lease_max)).map(|()| frame.check)
    };
    let lost = worker.stream.hear(check).await;
    worker.come_back(&server, 1).await;
    assert!(worker.stream.hear(check).await > lost);
}
