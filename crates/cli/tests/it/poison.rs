//! A job that ends whoever runs it: it is buried after so many losses, and does not go round the fleet for ever.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};

use cli::fleet::Process;
use model::JobId;
use rpc::wire;

use crate::support::{Fleet, tenure};

const LEASE: &str = "3s";
/// Losses after which a job is dead, unless it says otherwise.
const LOST_MAX: u32 = model::Limits::LOST_DEFAULT;

/// A server, and the directory where jobs leave their marks.
struct Scene {
    fleet: Fleet,
    marks: PathBuf,
}

impl Scene {
    async fn start(is_exclusive: bool) -> Scene {
        let fleet = Fleet::start(&["--lease", LEASE]).await;
        let set = wire::SetQueueRequest {
            name: "q".to_owned(),
            exclusive: Some(is_exclusive),
            ..Default::default()
        };
        fleet.client.set_queue(set).await.expect("the queue is set");
        let marks = fleet.home.path().join("marks");
        std::fs::create_dir(&marks).expect("a directory");
        Scene { fleet, marks }
    }

    async fn enqueue(&self, what: &str) -> JobId {
        let job = wire::NewJob {
            queue: "q".to_owned(),
            payload: rpc::convert::payload(&format!("\"{what}\"")),
            retry: "fixed:1:1".to_owned(),
            ..Default::default()
        };
        let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
        let answer = self.fleet.client.enqueue(request).await.expect("accepted");
        answer.jobs[0].id.parse().expect("a job id")
    }

    fn worker(&self, isolation: &str, script: &str) -> Process {
        let mut args = vec!["worker", "--server", &self.fleet.server.url, "--queue", "q"];
        args.extend(["--isolation", isolation, "--concurrency", "2", "--lease", LEASE]);
        args.extend(["--kill-wait", "600ms", "--safety", "500ms", "--", "sh", "-c", script]);
        Process::start(tenure(), args, &self.fleet.home.path().join("worker.log")).expect("it starts")
    }

    fn mark(&self, name: &str) {
        std::fs::write(self.marks.join(name), "").expect("the mark is written");
    }

    /// How often something was marked, a line each.
    fn marked(&self, name: &str) -> usize {
        std::fs::read_to_string(self.marks.join(name)).unwrap_or_default().lines().count()
    }

    /// Every copy of a job, and everyone it starts, holds a lock of that job. The pill kills its parent: for the first time as
    /// soon as its neighbour runs, later when it is told to. The neighbour ends well when it runs for the second time.
    fn script(&self) -> String {
        let marks = self.marks.display();
        format!(
            r#"cd {marks}
            exec 9>>"lock-$TENURE_JOB_ID"
            flock -n 9 || echo "$TENURE_JOB_ID" >> overlaps
            (sleep 1000 &)
            what=$(cat)
            mark() {{ while [ ! -e "$1" ]; do sleep 0.02; done; }}
            case "$what" in
                '"pill"')
                    if [ -e pills ]; then mark told; else mark neighbours; fi
                    echo x >> pills
                    kill -KILL $PPID
                    sleep 1000;;
                '"neighbour"')
                    if [ -e neighbours ]; then exit 0; fi
                    echo x >> neighbours
                    sleep 1000;;
            esac"#
        )
    }
}

/// Workers that are started again whenever they end, until both jobs are over.
async fn pill_and_neighbour(is_exclusive: bool) {
    let scene = Scene::start(is_exclusive).await;
    let (pill, neighbour) = (scene.enqueue("pill").await, scene.enqueue("neighbour").await);
    let script = scene.script();
    let started = AtomicUsize::new(0);
    let supervisor = async {
        loop {
            started.fetch_add(1, Ordering::Relaxed);
            let mut worker = scene.worker("groups", &script);
            while worker.ended().await.is_err() {}
        }
    };
    let story = async {
        let neighbour = scene.fleet.ended(&[neighbour]).await.remove(0);
        scene.mark("told");
        (scene.fleet.ended(&[pill]).await.remove(0), neighbour)
    };
    let (pill, neighbour) = tokio::select! {
        ended = story => ended,
        () = supervisor => unreachable!("it goes on for ever"),
    };
    assert_eq!((pill.state.as_str(), pill.lost), ("dead", LOST_MAX), "{pill:?}");
    assert!(
        pill.last_error.contains("5 times in a row without progress; buried as a poison pill"),
        "{}",
        pill.last_error
    );
    assert_eq!((neighbour.state.as_str(), neighbour.lost), ("completed", 1), "{neighbour:?}");
    assert_eq!(scene.marked("pills"), LOST_MAX as usize, "each of its runs cost a worker");
    let started = started.into_inner();
    assert!(started <= LOST_MAX as usize + 1, "{started} workers for {LOST_MAX} losses");
    assert_eq!(scene.marked("overlaps"), 0, "two copies of a job at the same time");
}

#[tokio::test]
async fn a_job_that_kills_its_guardian_is_dead_after_its_losses() {
    pill_and_neighbour(false).await;
}

#[tokio::test]
async fn an_exclusive_job_that_kills_its_guardian_is_dead_after_its_losses_and_never_beside_itself() {
    pill_and_neighbour(true).await;
}

#[tokio::test]
async fn in_a_namespace_a_job_cannot_kill_its_guardian() {
    let scene = Scene::start(true).await;
    let job = scene.enqueue("any").await;
    let mut worker = scene.worker("namespace", "kill -KILL $PPID; echo '\"I live\"'");
    let jobs = [job];
    let ended = tokio::select! {
        ended = scene.fleet.ended(&jobs) => Some(ended),
        _ = worker.ended() => None,
    };
    match ended {
        Some(jobs) => assert_eq!((jobs[0].state.as_str(), jobs[0].lost), ("completed", 0), "{:?}", jobs[0]),
        None => {
            let log = std::fs::read_to_string(scene.fleet.home.path().join("worker.log")).expect("a log");
            assert!(log.contains("a PID namespace is not allowed here"), "{log}");
        }
    }
}
