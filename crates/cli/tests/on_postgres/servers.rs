//! Several servers on one database, and a producer that takes whichever answers.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use cli::effects::{self, Entry};
use cli::fleet::{Process, Server};
use model::JobId;
use rpc::wire;
use tempfile::TempDir;
use tokio::sync::{Notify, watch};
use worker::Client;

use crate::support::tenure;

/// Servers with fixed ports, so that they are found again after a restart.
pub(crate) struct Servers {
    pub(crate) home: TempDir,
    /// Where each listens, whether it runs or not.
    pub(crate) urls: Vec<String>,
    pub(crate) running: Vec<Option<Server>>,
    flags: Vec<Vec<String>>,
    logs: Vec<PathBuf>,
}

impl Servers {
    /// Starts one server for each database URL (usually the same one), all with these flags.
    pub(crate) async fn start(databases: &[&str], flags: &[&str]) -> Servers {
        let mut home = tempfile::tempdir().expect("a temporary directory");
        if std::env::var_os("TENURE_KEEP").is_some() {
            println!("logs stay in {}", home.path().display());
            home.disable_cleanup(true);
        }
        // All are held at the same time, so that they differ.
        let sockets: Vec<_> = databases
            .iter()
            .map(|_| std::net::TcpListener::bind("127.0.0.1:0").expect("a free port"))
            .collect();
        let ports = sockets.iter().map(|socket| socket.local_addr().expect("it is bound").port());
        let ports: Vec<u16> = ports.collect();
        drop(sockets);
        let mut servers = Servers {
            home,
            urls: ports.iter().map(|port| format!("http://127.0.0.1:{port}")).collect(),
            running: Vec::new(),
            flags: Vec::new(),
            logs: Vec::new(),
        };
        for (number, (port, database)) in ports.iter().zip(databases).enumerate() {
            let (listen, name) = (format!("127.0.0.1:{port}"), format!("server-{number}"));
            let own = ["--listen", &listen, "--name", &name, "--database-url", database];
            let own = own.iter().chain(flags).chain(&["--log-level", "info"]);
            servers.flags.push(own.map(|flag| (*flag).to_owned()).collect());
            servers.running.push(None);
            servers.run(number).await;
        }
        servers
    }

    /// Starts this one, again.
    pub(crate) async fn run(&mut self, number: usize) {
        let flags: Vec<&str> = self.flags[number].iter().map(String::as_str).collect();
        let data = self.home.path().join(format!("server-{number}"));
        self.running[number] = Some(Server::start(tenure(), &data, &flags).await.expect("the server starts"));
    }

    /// The process of one that runs.
    pub(crate) fn process(&mut self, number: usize) -> &mut Process {
        &mut self.running[number].as_mut().expect("it runs").process
    }

    /// What this one wrote to its log, over all its lives.
    pub(crate) fn log(&self, number: usize) -> String {
        let path = self.home.path().join(format!("server-{number}.server.log"));
        std::fs::read_to_string(path).expect("a log")
    }

    pub(crate) fn client(&self, number: usize) -> Client {
        Client::connect(&self.urls[number]).expect("a valid address")
    }

    /// A worker that knows all servers, and this one first.
    pub(crate) async fn worker(&mut self, first: usize, name: &str, more: &[&str]) -> Process {
        let log = self.home.path().join(format!("{name}.effects"));
        let mut urls = self.urls.clone();
        urls.rotate_left(first);
        let (servers, log_text) = (urls.join(","), log.to_str().expect("a UTF-8 path").to_owned());
        let mut args = vec!["demo-worker", "--server", &servers, "--name", name, "--log", &log_text];
        args.extend(more);
        let talk = self.home.path().join(format!("{name}.log"));
        let mut process = Process::start(tenure(), args, &talk).expect("it starts");
        assert_eq!(process.line().await.expect("it comes up"), "ready");
        self.logs.push(log);
        process
    }

    /// Everything the workers wrote down.
    pub(crate) fn entries(&self) -> Vec<Entry> {
        self.logs.iter().flat_map(|log| effects::read(log).expect("a readable log")).collect()
    }

    /// Waits until these jobs have ended, asking this server, and answers them.
    pub(crate) async fn ended(&self, number: usize, ids: &[JobId]) -> Vec<wire::Job> {
        let client = self.client(number);
        let mut jobs = Vec::with_capacity(ids.len());
        for id in ids {
            jobs.push(until(&format!("the end of job {id}"), || ended(&client, *id)).await);
        }
        jobs
    }
}

async fn ended(client: &Client, id: JobId) -> Option<wire::Job> {
    let job = client.get(wire::GetJobRequest { id: id.to_string() }).await.ok()?;
    ["completed", "dead", "cancelled"].contains(&job.state.as_str()).then_some(job)
}

/// Whatever is waited for comes in this time, or never.
const PATIENCE: Duration = Duration::from_secs(120);
/// A server that does not answer for so long is given up by a producer, for this time.
const ANSWER_WITHIN: Duration = Duration::from_millis(500);
/// How often to look.
const LOOK: Duration = Duration::from_millis(20);

/// Looks until there is something to see.
pub(crate) async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut look: impl FnMut() -> F) -> T {
    let looking = async {
        loop {
            if let Some(seen) = look().await {
                return seen;
            }
            tokio::time::sleep(LOOK).await;
        }
    };
    tokio::time::timeout(PATIENCE, looking).await.unwrap_or_else(|_| panic!("waited in vain for {what}"))
}

/// Enqueues without end, each batch under its own request id, at whichever server answers, until it is stopped.
pub(crate) struct Producer {
    stop: Arc<Notify>,
    pub(crate) acknowledged: watch::Receiver<usize>,
    task: tokio::task::JoinHandle<Vec<JobId>>,
}

impl Producer {
    /// Each batch has one job for each of these queues. Those of the same producer have one payload.
    pub(crate) fn start(urls: &[String], queues: &[&str], payload: &str, pause: Duration) -> Producer {
        let clients: Vec<Client> =
            urls.iter().map(|url| Client::connect(url).expect("a valid address")).collect();
        let job = |queue: &&str| wire::NewJob {
            queue: (*queue).to_owned(),
            payload: rpc::convert::payload(payload),
            ..Default::default()
        };
        let jobs = queues.iter().map(job).collect();
        let (sender, acknowledged) = watch::channel(0);
        let stop = Arc::new(Notify::new());
        let task = tokio::spawn(produce(clients, jobs, pause, sender, Arc::clone(&stop)));
        Producer { stop, acknowledged, task }
    }

    /// Stops, and answers all jobs that were acknowledged.
    pub(crate) async fn stop(self) -> Vec<JobId> {
        self.stop.notify_one();
        self.task.await.expect("the producer does not panic")
    }
}

async fn produce(
    clients: Vec<Client>,
    jobs: Vec<wire::NewJob>,
    pause: Duration,
    acknowledged: watch::Sender<usize>,
    stop: Arc<Notify>,
) -> Vec<JobId> {
    let mut ids = Vec::new();
    let stopped = stop.notified();
    tokio::pin!(stopped);
    for batch in 0_usize.. {
        let request_id = format!("{}-{batch}", jobs[0].queue);
        let request = wire::EnqueueRequest { request_id, jobs: jobs.clone(), ..Default::default() };
        for turn in batch.. {
            let enqueue = clients[turn % clients.len()].enqueue(request.clone());
            // A frozen server never answers; the next one knows the request id.
            if let Ok(Ok(response)) = tokio::time::timeout(ANSWER_WITHIN, enqueue).await {
                ids.extend(response.jobs.iter().map(|job| job.id.parse::<JobId>().expect("a job id")));
                break;
            }
            tokio::time::sleep(LOOK).await;
        }
        acknowledged.send_replace(ids.len());
        tokio::select! {
            () = &mut stopped => break,
            () = tokio::time::sleep(pause) => {}
        }
    }
    ids
}
