//! A job of which every copy, with all its children, holds a lock on a file. A copy that finds the lock held says so: the
//! kernel judges whether two ran at once, and nobody's clock or log.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::effects;
use cli::fleet::Process;
use model::JobId;
use rpc::wire;
use worker::Client;

use crate::support::{Fleet, tenure};

/// Whatever is waited for comes in this time, or never.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the jobs' own log is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A server with an exclusive queue, and its jobs.
pub(crate) struct Locked {
    pub(crate) fleet: Fleet,
    jobs: Copies,
}

/// The copies of one job, their lock, and what they wrote down.
pub(crate) struct Copies {
    dir: PathBuf,
}

/// What one copy wrote down when it began.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Copy {
    pub(crate) fence: i64,
    /// It could not get the lock: another copy, or a child of one, was still there.
    pub(crate) overlaps: bool,
}

impl Locked {
    /// Workers that ask for no lease of their own get this one.
    pub(crate) async fn start(lease: &str) -> Locked {
        let fleet = Fleet::start(&["--lease", lease]).await;
        set_exclusive(&fleet.client).await;
        let jobs = Copies::under(fleet.home.path());
        Locked { fleet, jobs }
    }

    /// A worker for such jobs, one at a time.
    pub(crate) fn worker(&self, server: &str, name: &str, more: &[&str]) -> Process {
        self.jobs.worker(server, name, more)
    }

    pub(crate) async fn enqueue(&self) -> JobId {
        self.fleet.enqueue(1).await[0]
    }

    /// All copies so far, in the order in which they began.
    pub(crate) fn copies(&self) -> Vec<Copy> {
        self.jobs.all()
    }

    /// Waits until so many copies have begun.
    pub(crate) async fn begun(&self, count: usize) -> Vec<Copy> {
        self.jobs.begun(count).await
    }

    /// What that worker logs.
    pub(crate) fn log_of(&self, name: &str) -> PathBuf {
        self.jobs.log_of(name)
    }

    /// From now on copies end by themselves.
    pub(crate) fn finish(&self) {
        self.jobs.finish();
    }
}

/// The queue of such jobs.
pub(crate) async fn set_exclusive(client: &Client) {
    let set = wire::SetQueueRequest { name: "q".to_owned(), exclusive: Some(true), ..Default::default() };
    client.set_queue(set).await.expect("the queue is set");
}

impl Copies {
    /// In a directory of their own under this one.
    pub(crate) fn under(home: &Path) -> Copies {
        let dir = home.join("locked");
        std::fs::create_dir(&dir).expect("created");
        Copies { dir }
    }

    /// A shell job that heeds no SIGTERM and runs until it is told to finish; its child holds the lock as long as it lives.
    fn script(&self) -> String {
        let dir = self.dir.display();
        format!(
            "trap '' TERM; exec 9>>{dir}/lock\n\
             if flock -n 9; then word=STARTED; else word=OVERLAP; fi\n\
             echo \"$word $TENURE_FENCE\" >> {dir}/copies\n\
             ( trap '' TERM; while [ ! -e {dir}/finish ]; do sleep 0.05; done ) &\n\
             while [ ! -e {dir}/finish ]; do sleep 0.05; done; wait"
        )
    }

    /// A worker for such jobs, one at a time.
    pub(crate) fn worker(&self, server: &str, name: &str, more: &[&str]) -> Process {
        let script = self.script();
        let mut args = vec!["worker", "--server", server, "--queue", "q", "--name", name, "--exclusive"];
        args.extend(["--concurrency", "1"]);
        args.extend(more);
        args.extend(["--", "sh", "-c", &script]);
        Process::start(tenure(), args, &self.log_of(name)).expect("it starts")
    }

    /// What that worker logs.
    pub(crate) fn log_of(&self, name: &str) -> PathBuf {
        self.dir.join(format!("{name}.log"))
    }

    /// All copies so far, in the order in which they began.
    pub(crate) fn all(&self) -> Vec<Copy> {
        let text = std::fs::read_to_string(self.dir.join("copies")).unwrap_or_default();
        effects::complete_lines(&text)
            .map(|line| {
                let (word, fence) = line.split_once(' ').expect("a word and a fence");
                Copy { fence: fence.parse().expect("a fence"), overlaps: word == "OVERLAP" }
            })
            .collect()
    }

    /// Waits until so many copies have begun.
    pub(crate) async fn begun(&self, count: usize) -> Vec<Copy> {
        until(&format!("{count} copies"), async || Some(self.all()).filter(|it| it.len() >= count)).await
    }

    /// From now on copies end by themselves.
    pub(crate) fn finish(&self) {
        std::fs::write(self.dir.join("finish"), "").expect("the mark is written");
    }
}

/// Asks until there is an answer.
pub(crate) async fn until<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(LOOK).await;
    }
}
