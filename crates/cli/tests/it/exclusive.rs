//! At most one running, with real processes: shell jobs with children and grandchildren that write down when they run,
//! while workers, guardians, servers and the network fail. Two runs of one job must never be seen at the same time, and
//! nobody may be left behind.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use cli::effects;
use cli::fleet::Process;
use model::{Fence, JobId};
use rpc::wire;
use rustix::process::{Pid, Signal, kill_process};

use crate::proxy::{Cut, Proxy};
use crate::support::{Fleet, tenure};

/// Short, so that a frozen worker is not waited for long; the rest must fit into it.
const LEASE: &str = "3s";
const FITTING: [&str; 6] = ["--kill-wait", "600ms", "--safety", "500ms", "--concurrency", "1"];
/// Whatever is waited for comes in this time, or never.
const PATIENCE: Duration = Duration::from_secs(40);
/// How often the jobs' own log is looked at.
const LOOK: Duration = Duration::from_millis(10);

/// A server with an exclusive queue, and the log of its jobs.
struct Scene {
    fleet: Fleet,
    log: PathBuf,
    finish: PathBuf,
}

/// One run of a job, as its own processes wrote it down.
#[derive(Clone, Copy, Debug)]
struct Run {
    fence: Fence,
    first: u128,
    last: u128,
}

impl Scene {
    async fn start() -> Scene {
        let fleet = Fleet::start(&["--lease", LEASE]).await;
        let (log, finish) = (fleet.home.path().join("runs"), fleet.home.path().join("finish"));
        let set = wire::SetQueueRequest { name: "q".to_owned(), exclusive: Some(true), ..Default::default() };
        fleet.client.set_queue(set).await.expect("the queue is set");
        Scene { fleet, log, finish }
    }

    /// A shell job that runs until it is told to finish, and heeds no SIGTERM: it, a child and a grandchild write down that
    /// they run.
    fn script(&self) -> String {
        let say = |word: &str| {
            format!(r#"echo "{word} $TENURE_JOB_ID $TENURE_FENCE $(date +%s%N)" >> {}"#, self.log.display())
        };
        let ticking = format!("while :; do {}; sleep 0.03; done", say("tick"));
        format!(
            "trap '' TERM; {start}\n\
             ( trap '' TERM; ( trap '' TERM; {ticking} ) & {ticking} ) &\n\
             while [ ! -e {finish} ]; do {tick}; sleep 0.03; done\n\
             {end}",
            start = say("start"),
            tick = say("tick"),
            end = say("end"),
            finish = self.finish.display(),
        )
    }

    /// A worker for such jobs, one at a time.
    async fn worker(&self, server: &str, name: &str, script: &str, more: &[&str]) -> Process {
        let mut args = vec!["worker", "--server", server, "--queue", "q", "--name", name, "--exclusive"];
        args.extend(["--lease", LEASE]);
        args.extend(FITTING);
        args.extend(more);
        args.extend(["--", "sh", "-c", script]);
        Process::start(tenure(), args, &self.fleet.home.path().join(format!("{name}.log")))
            .expect("it starts")
    }

    async fn enqueue(&self, job: wire::NewJob) -> JobId {
        let job = wire::NewJob { queue: "q".to_owned(), retry: "fixed:1:1".to_owned(), ..job };
        let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
        let answer = self.fleet.client.enqueue(request).await.expect("accepted");
        answer.jobs[0].id.parse().expect("a job id")
    }

    /// The runs of a job so far, oldest first.
    fn runs(&self, job: JobId) -> Vec<Run> {
        let text = std::fs::read_to_string(&self.log).unwrap_or_default();
        let mut runs: BTreeMap<Fence, Run> = BTreeMap::new();
        for line in effects::complete_lines(&text) {
            let words: Vec<&str> = line.split(' ').collect();
            let [_, id, fence, nanos] = words[..] else { panic!("not a line of the log: {line:?}") };
            if id == job.to_string() {
                let fence = Fence::new(fence.parse().expect("a fence"));
                let at = nanos.parse().expect("a date");
                let run = runs.entry(fence).or_insert(Run { fence, first: at, last: at });
                (run.first, run.last) = (run.first.min(at), run.last.max(at));
            }
        }
        runs.into_values().collect()
    }

    /// Waits until the job runs for the `count`th time.
    async fn running(&self, job: JobId, count: usize) -> Vec<Run> {
        until(&format!("{count} runs of {job}"), || async {
            let runs = self.runs(job);
            (runs.len() >= count).then_some(runs)
        })
        .await
    }

    /// Lets everything end well, and checks that no two runs of the job overlapped and that nobody was left behind.
    async fn conclude(&self, job: JobId, workers: Vec<Process>) -> wire::Job {
        std::fs::write(&self.finish, "").expect("the mark is written");
        let ended = self.fleet.ended(&[job]).await.remove(0);
        for mut worker in workers {
            // One that is gone already hears nothing.
            let _ = worker.signal(Signal::CONT);
            let _ = worker.signal(Signal::TERM);
            worker.ended().await.expect("it ends");
        }
        self.check(job).await;
        ended
    }

    async fn check(&self, job: JobId) {
        let marker = format!("TENURE_JOB_ID={job}");
        until("the end of every process of the job", || async {
            left_behind(&marker).is_empty().then_some(())
        })
        .await;
        let runs = self.runs(job);
        for pair in runs.windows(2) {
            assert!(pair[0].last < pair[1].first, "two runs at the same time: {pair:?}");
        }
        let broken = self.fleet.metric("tenure_handover_margin_negative_total", "").await;
        assert_eq!(broken, 0.0, "the server saw a hand-over that came too early");
    }
}

/// Asks until there is an answer.
async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut ask: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(answer) = ask().await {
            return answer;
        }
        assert!(began.elapsed() < PATIENCE, "waited {PATIENCE:?} for {what}");
        tokio::time::sleep(LOOK).await;
    }
}

/// Living processes with this in their environment.
pub(crate) fn left_behind(marker: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|pid| {
        let environ = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        environ.split(|byte| *byte == 0).any(|variable| variable == marker.as_bytes())
    })
    .collect()
}

/// The guardian of a worker: its only child.
pub(crate) fn guardian_of(worker: &Process) -> Pid {
    let parent = worker.pid().expect("it runs").as_raw_nonzero().get();
    let processes = std::fs::read_dir("/proc").expect("there is a /proc").flatten();
    let children: Vec<i32> = processes
        .filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok())
        .filter(|pid| parent_of(*pid) == Some(parent))
        .collect();
    let [guardian] = children[..] else { panic!("one guardian is expected, there are {children:?}") };
    Pid::from_raw(guardian).expect("not zero")
}

fn parent_of(pid: i32) -> Option<i32> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn is_namespaced(worker_log: &Path) -> bool {
    let log = std::fs::read_to_string(worker_log).expect("a log");
    let started = log.lines().find(|line| line.contains("guardian started")).expect("it says so");
    started.contains("\"namespace\":true") || started.contains("namespace=true")
}

/// Two workers; the first has the job.
async fn two_workers(scene: &Scene, job: wire::NewJob) -> (JobId, Process, Process) {
    let script = scene.script();
    let server = scene.fleet.server.url.clone();
    let first = scene.worker(&server, "first", &script, &[]).await;
    let id = scene.enqueue(job).await;
    scene.running(id, 1).await;
    let second = scene.worker(&server, "second", &script, &[]).await;
    (id, first, second)
}

#[tokio::test]
async fn a_killed_worker_is_rescued_by_its_guardians_word() {
    const KILLS: usize = 50;
    let scene = Scene::start().await;
    let script = scene.script();
    let server = scene.fleet.server.url.clone();
    let id = scene.enqueue(wire::NewJob { max_lost: Some(1000), ..Default::default() }).await;
    let mut holder = scene.worker(&server, "w0", &script, &[]).await;
    let mut times = Vec::new();
    for round in 1..=KILLS {
        let before = scene.running(id, round).await;
        let heir = scene.worker(&server, &format!("w{round}"), &script, &[]).await;
        until("a second worker", || async {
            let (_, body) = scene.fleet.http("GET", "/v1/workers", "").await;
            let list: wire::ListWorkersResponse = serde_json::from_str(&body).expect("a list");
            list.workers.iter().any(|worker| worker.name == format!("w{round}")).then_some(())
        })
        .await;
        let progress = wire::ProgressRequest {
            worker: scene.fleet.job(id).await.holder,
            notes: vec![wire::ProgressNote {
                job: id.to_string(),
                fence: before[round - 1].fence.get(),
                note: Some("1".into()),
                checkpoint: None,
            }],
        };
        // A job that is lost again and again without progress would be put off.
        scene.fleet.client.progress(progress).await.expect("it is held");
        let killed_at = wall_nanos();
        holder.signal(Signal::KILL).expect("it was running");
        let runs = scene.running(id, round + 1).await;
        times.push(runs[round].first.saturating_sub(killed_at));
        holder.ended().await.expect("it is gone");
        holder = heir;
    }
    times.sort_unstable();
    let millis = |percent: usize| times[(times.len() * percent / 100).min(times.len() - 1)] / 1_000_000;
    println!("{KILLS} kills: rescued after p50 {} ms, p99 {} ms", millis(50), millis(99));
    let lost = scene.fleet.job(id).await;
    assert_eq!(
        scene.fleet.metric("tenure_handover_margin_seconds_count", "word").await,
        KILLS as f64,
        "{lost:?}"
    );
    assert_eq!(scene.fleet.metric("tenure_handover_margin_seconds_count", "lease").await, 0.0);
    scene.conclude(id, vec![holder]).await;
}

fn wall_nanos() -> u128 {
    std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970").as_nanos()
}

#[tokio::test]
async fn a_frozen_worker_loses_its_job_only_after_its_guardian_has_ended_it() {
    let scene = Scene::start().await;
    let (id, first, second) = two_workers(&scene, wire::NewJob::default()).await;
    first.signal(Signal::STOP).expect("it was running");
    scene.running(id, 2).await;
    first.signal(Signal::CONT).expect("it is frozen, not gone");
    let job = scene.conclude(id, vec![first, second]).await;
    assert_eq!((job.state.as_str(), job.attempt), ("completed", 1));
}

#[tokio::test]
async fn a_worker_and_its_server_frozen_in_turn_never_run_a_job_beside_itself() {
    let scene = Scene::start().await;
    let (id, first, second) = two_workers(&scene, wire::NewJob::default()).await;
    first.signal(Signal::STOP).expect("it was running");
    scene.fleet.server.process.signal(Signal::STOP).expect("it was running");
    // Longer than the lease: the length of the fault.
    tokio::time::sleep(Duration::from_secs(4)).await;
    scene.fleet.server.process.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.running(id, 2).await;
    first.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.conclude(id, vec![first, second]).await;
}

#[tokio::test]
async fn nothing_outlives_the_sigkill_of_a_worker_and_its_guardian() {
    let scene = Scene::start().await;
    let (id, first, second) = two_workers(&scene, wire::NewJob::default()).await;
    let guardian = guardian_of(&first);
    first.signal(Signal::KILL).expect("it was running");
    // It may have gone by itself meanwhile, having done its work.
    let _ = kill_process(guardian, Signal::KILL);
    if is_namespaced(&scene.fleet.home.path().join("first.log")) {
        scene.running(id, 2).await;
        scene.conclude(id, vec![second]).await;
    } else {
        // Without a namespace only the leader is sure to die: a named limit, which the worker's log warns of.
        let log = std::fs::read_to_string(scene.fleet.home.path().join("first.log")).expect("a log");
        assert!(log.contains("not covered by the guardian here"), "{log}");
        std::fs::write(&scene.finish, "").expect("the mark is written");
    }
}

#[tokio::test]
async fn a_network_cut_in_either_direction_never_lets_a_job_run_beside_itself() {
    for cut in [Cut { to_server: true, to_worker: false }, Cut { to_server: false, to_worker: true }] {
        let scene = Scene::start().await;
        let script = scene.script();
        let proxy = Proxy::to(&scene.fleet.server.url).await;
        let first = scene.worker(&proxy.url, "first", &script, &[]).await;
        let id = scene.enqueue(wire::NewJob::default()).await;
        scene.running(id, 1).await;
        let second = scene.worker(&scene.fleet.server.url, "second", &script, &[]).await;
        proxy.cut(cut);
        scene.running(id, 2).await;
        proxy.cut(Cut::default());
        scene.conclude(id, vec![first, second]).await;
    }
}

#[tokio::test]
async fn a_kicked_workers_job_moves_when_it_has_stopped() {
    let scene = Scene::start().await;
    let (id, first, second) = two_workers(&scene, wire::NewJob::default()).await;
    let key = scene.fleet.job(id).await.holder;
    let (status, body) = scene.fleet.http("POST", &format!("/v1/workers/{key}/kick"), "{}").await;
    assert_eq!(status, 200, "{body}");
    scene.running(id, 2).await;
    scene.conclude(id, vec![first, second]).await;
}

#[tokio::test]
async fn a_job_that_takes_too_long_and_ignores_sigterm_runs_again_when_it_is_gone() {
    let scene = Scene::start().await;
    let job = wire::NewJob { timeout_ms: Some(1_000), ..Default::default() };
    let (id, first, second) = two_workers(&scene, job).await;
    scene.running(id, 3).await;
    scene.conclude(id, vec![first, second]).await;
}

#[tokio::test]
async fn a_cancelled_job_that_ignores_sigterm_ends_in_cancelled_when_it_is_gone() {
    let scene = Scene::start().await;
    let (id, first, second) = two_workers(&scene, wire::NewJob::default()).await;
    scene.fleet.client.cancel(wire::CancelRequest { ids: vec![id.to_string()] }).await.expect("answered");
    let job = scene.conclude(id, vec![first, second]).await;
    assert_eq!(job.state, "cancelled");
}

#[tokio::test]
async fn a_drained_worker_hands_back_a_job_that_ignores_sigterm_when_it_is_gone() {
    let scene = Scene::start().await;
    let script = scene.script();
    let server = scene.fleet.server.url.clone();
    let mut first = scene.worker(&server, "first", &script, &["--grace", "1s"]).await;
    let id = scene.enqueue(wire::NewJob::default()).await;
    scene.running(id, 1).await;
    let second = scene.worker(&server, "second", &script, &[]).await;
    first.signal(Signal::TERM).expect("it was running");
    first.ended().await.expect("it drains");
    scene.running(id, 2).await;
    let job = scene.conclude(id, vec![second]).await;
    assert_eq!((job.attempt, job.lost), (1, 0), "a hand-back counts as nothing");
}

#[tokio::test]
async fn a_process_that_detaches_itself_ends_with_its_job() {
    let scene = Scene::start().await;
    let tick = format!(r#"echo "tick $1 $2 $(date +%s%N)" >> {}"#, scene.log.display());
    // Twice forked, in a session of its own, with an empty environment.
    let script = format!(
        "echo \"start $TENURE_JOB_ID $TENURE_FENCE $(date +%s%N)\" >> {log}\n\
         ( env -i PATH=\"$PATH\" setsid sh -c 'while :; do {tick}; sleep 0.03; done' stray $TENURE_JOB_ID $TENURE_FENCE & )\n\
         while [ ! -e {finish} ]; do sleep 0.03; done",
        log = scene.log.display(),
        finish = scene.finish.display(),
    );
    let server = scene.fleet.server.url.clone();
    let first = scene.worker(&server, "first", &script, &[]).await;
    let id = scene.enqueue(wire::NewJob::default()).await;
    until("a sign of the stray", || async {
        scene.runs(id).first().is_some_and(|run| run.last > run.first).then_some(())
    })
    .await;
    let second = scene.worker(&server, "second", &script, &[]).await;
    first.signal(Signal::STOP).expect("it was running");
    scene.running(id, 2).await;
    first.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.conclude(id, vec![first, second]).await;
    let size = || std::fs::metadata(&scene.log).expect("it is there").len();
    let before = size();
    // A stray would write several times meanwhile.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(size(), before, "somebody still writes");
}

#[tokio::test]
async fn a_worker_that_must_be_fit_ends_with_a_sentence_when_the_servers_lease_is_too_short() {
    let fleet = Fleet::start(&["--lease", "2s"]).await;
    let args = ["worker", "--server", &fleet.server.url, "--queue", "q", "--exclusive", "--", "cat"];
    let log = fleet.home.path().join("unfit.log");
    let mut worker = Process::start(tenure(), args, &log).expect("it starts");
    assert_eq!(worker.ended().await.expect("it ends").code(), Some(1));
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(said.contains("too short for exclusive queues: ask for at least 15s"), "{said}");
}
