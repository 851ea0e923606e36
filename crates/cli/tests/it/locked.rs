//! A job of which every copy, with all its children, holds a lock on a file. A copy that finds the lock held says so: the
//! kernel judges whether two ran at once, and nobody's clock or log.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use cli::effects;
use cli::fleet::Process;
use model::JobId;
use rpc::wire;

use crate::support::{Fleet, tenure};

/// Whatever is waited for comes in this time, or never.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the jobs' own log is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A server with an exclusive queue, and a directory for its jobs.
pub(crate) struct Locked {
    pub(crate) fleet: Fleet,
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
        let set = wire::SetQueueRequest { name: "q".to_owned(), exclusive: Some(true), ..Default::default() };
        fleet.client.set_queue(set).await.expect("the queue is set");
        let dir = fleet.home.path().join("locked");
        std::fs::create_dir(&dir).expect("created");
        Locked { fleet, dir }
    }

    /// A shell job that heeds no SIGTERM and runs until it is told to finish; its child holds the lock as long as it lives.
    pub(crate) fn script(&self) -> String {
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
        let log = self.fleet.home.path().join(format!("{name}.log"));
        Process::start(tenure(), args, &log).expect("it starts")
    }

    pub(crate) async fn enqueue(&self) -> JobId {
        self.fleet.enqueue(1).await[0]
    }

    /// All copies so far, in the order in which they began.
    pub(crate) fn copies(&self) -> Vec<Copy> {
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
        until(&format!("{count} copies"), async || Some(self.copies()).filter(|it| it.len() >= count)).await
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
