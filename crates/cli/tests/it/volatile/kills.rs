//! The server dies again and again, workers die, freeze and come, and what a client submitted still ends, and never runs beside itself.

use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use cli::fleet::Process;
use rand::rngs::StdRng;
use rand::seq::SliceRandom as _;
use rand::{RngExt as _, SeedableRng as _};
use rpc::wire;
use rustix::process::Signal;
use tokio::task::JoinSet;
use worker::{ClientError, End, SubmitOptions, Submitter};

use super::runs::{Run, read, task};
use super::{job, muster, worker};
use crate::support::Fleet;

/// Short, so that a full wait does not take long; the workers' kill wait and safety fit into it.
const LEASE: &str = "3s";
const WORKERS: usize = 20;
/// Submitted in each life of the server, about as many as the workers can do in it.
const JOBS_PER_LIFE: usize = 12;
/// Workers that stand still while the server dies: the next life of it hears of their tasks late, or never.
const FROZEN: usize = 3;

/// Kills of the server; `cargo xtask soak` asks for more.
fn kills() -> u64 {
    std::env::var("TENURE_SOAK_ROUNDS").ok().and_then(|text| text.parse().ok()).unwrap_or(10)
}

/// What goes on while the server dies.
struct Scene {
    fleet: Fleet,
    log: PathBuf,
    rng: StdRng,
    /// Those that stand still come first.
    workers: Vec<Process>,
    hired: usize,
    submitter: Submitter,
    tickets: JoinSet<Result<End, ClientError>>,
    /// When the server was killed, in microseconds since 1970.
    killed_at: Vec<u64>,
    alarms: u64,
}

impl Scene {
    async fn start(seed: u64) -> Scene {
        let fleet = Fleet::start(&["--volatile-only", "--lease", LEASE]).await;
        let submitter = fleet.client.submitter(SubmitOptions::default());
        let mut scene = Scene {
            log: fleet.home.path().join("runs"),
            fleet,
            rng: StdRng::seed_from_u64(seed),
            workers: Vec::new(),
            hired: 0,
            submitter,
            tickets: JoinSet::new(),
            killed_at: Vec::new(),
            alarms: 0,
        };
        for _ in 0..WORKERS {
            scene.hire();
        }
        scene
    }

    fn hire(&mut self) {
        let name = format!("w{}", self.hired);
        self.hired += 1;
        self.workers.push(worker(&self.fleet, &name, &["v"], &task(&self.log)));
    }

    async fn submit(&mut self, count: usize) {
        for _ in 0..count {
            let millis = self.rng.random_range(200..4_000);
            let job = wire::NewJob {
                max_lost: Some(1_000),
                max_attempts: Some(1_000),
                retry: "fixed:1:1".to_owned(),
                ..job("v", &format!("{millis}\n"))
            };
            let ticket = self.submitter.submit(job).await.expect("it has room");
            self.tickets.spawn(ticket);
        }
    }

    /// What this life of the server saw of copies that should not exist.
    async fn note_alarms(&mut self) {
        let status = self.fleet.client.muster_status().await.expect("the server answers");
        self.alarms += status.double_starts;
    }

    fn signal_some(&self, signal: Signal) {
        for worker in &self.workers[..FROZEN] {
            worker.signal(signal).expect("it is there");
        }
    }

    /// One life of the server: new work, a random while, the end.
    async fn live(&mut self) {
        self.submit(JOBS_PER_LIFE).await;
        // How long a life lasts is part of the fault: some end during the wait, some long after it.
        let life = Duration::from_millis(self.rng.random_range(100..3_500));
        tokio::time::sleep(life / 2).await;
        self.signal_some(Signal::CONT);
        if self.rng.random_bool(0.4) {
            let victim = self.rng.random_range(0..self.workers.len());
            let mut victim = self.workers.swap_remove(victim);
            victim.signal(Signal::KILL).expect("it was running");
            victim.ended().await.expect("it is gone");
            self.hire();
        }
        tokio::time::sleep(life / 2).await;
        if self.rng.random_bool(0.5) {
            self.workers.shuffle(&mut self.rng);
            self.signal_some(Signal::STOP);
        }
        self.note_alarms().await;
        self.killed_at.push(now_micros());
        self.fleet.server.process.signal(Signal::KILL).expect("it was running");
        self.fleet.server.process.ended().await.expect("it is gone");
        self.fleet.restart().await;
    }
}

fn now_micros() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).expect("after 1970").as_micros() as u64
}

#[tokio::test]
async fn no_task_is_lost_or_runs_beside_itself_when_the_server_dies_again_and_again() {
    let seed = std::env::var("TENURE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(7);
    println!("seed {seed}");
    let mut scene = Scene::start(seed).await;
    scene.submit(WORKERS).await;
    // There is something to lose from the first kill on.
    muster(&scene.fleet.client, "the end of the first wait", |status| !status.waiting).await;
    for _ in 0..kills() {
        scene.live().await;
    }
    scene.signal_some(Signal::CONT);

    let all_ended = async {
        let mut ended = Vec::new();
        while let Some(end) = scene.tickets.join_next().await {
            ended.push(end.expect("no panic").expect("it is not refused"));
        }
        ended
    };
    let ended = tokio::time::timeout(super::PATIENCE, all_ended).await.expect("everything ends");
    scene.submitter.close().await;
    scene.note_alarms().await;
    for mut worker in scene.workers {
        worker.signal(Signal::TERM).expect("it was running");
        worker.ended().await.expect("it ends");
    }

    let jobs = read(&scene.log);
    for (id, runs) in &jobs {
        for pair in runs.windows(2) {
            assert!(pair[0].last < pair[1].first, "two runs of {id} at the same time: {pair:?}");
            assert!(pair[0].fence < pair[1].fence, "a fence of {id} went back: {pair:?}");
        }
    }
    assert_eq!(scene.alarms, 0, "the server saw copies that should not exist");
    for end in &ended {
        assert!(end.is_completed(), "{end:?}");
        let has_ended = jobs.get(&end.id).is_some_and(|runs| runs.iter().any(|run| run.has_ended));
        assert!(has_ended, "{} is said to have ended, and has not: {:?}", end.id, jobs.get(&end.id));
    }
    // The point of it all: what ran on while the server died was not started anew.
    let spans_a_death = |run: &&Run| {
        run.has_ended && scene.killed_at.iter().any(|death| (run.first..run.last).contains(death))
    };
    let survived = jobs.values().flatten().filter(spans_a_death).count();
    let runs: usize = jobs.values().map(Vec::len).sum();
    println!("{} jobs, {runs} runs, {survived} of them over a death of the server", jobs.len());
    assert!(survived > 0, "no task outlived its server: {:?}", scene.killed_at);
}
