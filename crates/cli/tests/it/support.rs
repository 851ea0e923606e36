//! A server and workers as real processes, and what they wrote down.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use cli::effects::{self, Entry, What};
use cli::fleet::{Process, Server};
use model::{Fence, JobId};
use rpc::wire;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use worker::Client;

use crate::backend::Backend;

/// The binary under test.
pub(crate) fn tenure() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_tenure"))
}

/// One server with its data and its workers.
pub(crate) struct Fleet {
    pub(crate) home: TempDir,
    pub(crate) server: Server,
    pub(crate) client: Client,
    flags: Vec<String>,
    logs: Vec<PathBuf>,
    _backend: Backend,
}

impl Fleet {
    /// Starts a server with these flags.
    pub(crate) async fn start(flags: &[&str]) -> Fleet {
        let home = tempfile::tempdir().expect("a temporary directory");
        // A fixed port, so that a restarted server is found again.
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .and_then(|socket| socket.local_addr())
            .expect("a free port")
            .port();
        let mut all = vec!["--listen".to_owned(), format!("127.0.0.1:{port}")];
        let backend = Backend::new();
        all.extend(backend.flags());
        all.extend(flags.iter().map(|flag| (*flag).to_owned()));
        let server = serve(&home, &all).await;
        let client = Client::connect(&server.url).expect("a valid address");
        Fleet { home, server, client, flags: all, logs: Vec::new(), _backend: backend }
    }

    /// Starts the server again, on the same data and port.
    pub(crate) async fn restart(&mut self) {
        self.server = serve(&self.home, &self.flags).await;
    }

    /// Starts a worker that writes an effect log, without a guardian: its lease alone speaks for it.
    pub(crate) async fn worker(&mut self, name: &str, more: &[&str]) -> Process {
        self.guarded_worker(name, &[&["--unguarded"], more].concat()).await
    }

    /// The same with a guardian.
    pub(crate) async fn guarded_worker(&mut self, name: &str, more: &[&str]) -> Process {
        let server = self.server.url.clone();
        self.worker_at(&server, name, more).await
    }

    /// The same, with the server at another address.
    pub(crate) async fn worker_at(&mut self, server: &str, name: &str, more: &[&str]) -> Process {
        let log = self.home.path().join(format!("{name}.effects"));
        let log_text = log.to_str().expect("a UTF-8 path");
        let mut args =
            vec!["demo-worker", "--server", server, "--queue", "q", "--name", name, "--log", log_text];
        args.extend(more);
        let mut process =
            Process::start(tenure(), args, &self.home.path().join(format!("{name}.log"))).expect("it starts");
        assert_eq!(process.line().await.expect("it comes up"), "ready");
        self.logs.push(log);
        process
    }

    pub(crate) async fn enqueue(&self, count: usize) -> Vec<JobId> {
        let job = wire::NewJob { queue: "q".to_owned(), ..Default::default() };
        let request = wire::EnqueueRequest { jobs: vec![job; count], ..Default::default() };
        let response = self.client.enqueue(request).await.expect("the enqueue is accepted");
        response.jobs.iter().map(|job| job.id.parse().expect("a job id")).collect()
    }

    /// One job that takes this long.
    pub(crate) async fn enqueue_work(&self, millis: u64) -> JobId {
        let payload = rpc::convert::payload(&format!("{{\"work_ms\":{millis}}}"));
        let job = wire::NewJob { queue: "q".to_owned(), payload, ..Default::default() };
        let response =
            self.client.enqueue(wire::EnqueueRequest { jobs: vec![job], ..Default::default() }).await;
        response.expect("the enqueue is accepted").jobs[0].id.parse().expect("a job id")
    }

    pub(crate) async fn job(&self, id: JobId) -> wire::Job {
        self.client.get(wire::GetJobRequest { id: id.to_string() }).await.expect("the job is there")
    }

    /// Waits until all these jobs have ended, and answers them.
    pub(crate) async fn ended(&self, ids: &[JobId]) -> Vec<wire::Job> {
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            let path = format!("/v1/jobs/{id}/wait?timeout_ms=60000");
            let (status, answer) = self.http("GET", &path, "").await;
            assert_eq!(status, 200, "{answer}");
            let job = self.job(*id).await;
            assert!(["completed", "dead", "cancelled"].contains(&job.state.as_str()), "{job:?}");
            jobs.push(job);
        }
        jobs
    }

    /// How often each claim had its effect, by the workers' logs.
    pub(crate) fn effects(&self) -> BTreeMap<(JobId, Fence), usize> {
        let mut effects = BTreeMap::new();
        for entry in self.entries().iter().filter(|entry| entry.what == What::Effect) {
            *effects.entry((entry.job, entry.fence)).or_default() += 1;
        }
        effects
    }

    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.logs.iter().flat_map(|log| effects::read(log).expect("a readable log")).collect()
    }

    /// A figure from `/metrics`, summed over the lines that contain `label`.
    pub(crate) async fn metric(&self, name: &str, label: &str) -> f64 {
        let (status, text) = self.http("GET", "/metrics", "").await;
        assert_eq!(status, 200, "{text}");
        let wanted = |line: &&str| line.starts_with(name) && line.contains(label);
        text.lines().filter(wanted).filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
    }

    /// One plain HTTP/1.0 call, so that the body is never chunked.
    pub(crate) async fn http(&self, method: &str, path: &str, body: &str) -> (u16, String) {
        http(&self.server.url, method, path, body).await
    }
}

/// One plain HTTP/1.0 call to the server at this address.
pub(crate) async fn http(server: &str, method: &str, path: &str, body: &str) -> (u16, String) {
    let address = server.trim_start_matches("http://");
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("the server listens");
    let request = format!("{method} {path} HTTP/1.0\r\ncontent-length: {}\r\n\r\n{body}", body.len());
    stream.write_all(request.as_bytes()).await.expect("the request is sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.expect("an answer in text");
    let (head, body) = answer.split_once("\r\n\r\n").expect("a head and a body");
    (head.split(' ').nth(1).and_then(|word| word.parse().ok()).expect("a status"), body.to_owned())
}

async fn serve(home: &TempDir, flags: &[String]) -> Server {
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    Server::start(tenure(), &home.path().join("data"), &flags).await.expect("the server starts")
}

/// Reads the worker's echo until it says this; answers the entry.
pub(crate) async fn hear(process: &mut Process, what: What) -> Entry {
    loop {
        let line = process.line().await.expect("the worker goes on");
        let entry: Entry = line.parse().expect("an entry of the effect log");
        if entry.what == what {
            return entry;
        }
    }
}
