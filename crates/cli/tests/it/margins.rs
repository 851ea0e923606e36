//! `tenure_handover_margin_negative_total` against the truth: it counts where two copies of an exclusive job held the same lock,
//! and nowhere else. The server hears of what went wrong from those it happened to, when they wake.

use cli::fleet::Process;
use rustix::process::{Pid, Signal, kill_process};

use crate::exclusive::{guardian_of, left_behind};
use crate::locked::{Locked, until};

/// Short, so that nobody is waited for long; the rest must fit into it.
const LEASE: &str = "4s";
const FITTING: [&str; 6] = ["--lease", LEASE, "--kill-wait", "1s", "--safety", "500ms"];

/// Two workers; the first runs the job.
struct Scene {
    locked: Locked,
    first: Process,
    second: Process,
    id: model::JobId,
}

impl Scene {
    async fn start() -> Scene {
        let locked = Locked::start(LEASE).await;
        let server = locked.fleet.server.url.clone();
        let first = locked.worker(&server, "first", &FITTING);
        let id = locked.enqueue().await;
        locked.begun(1).await;
        let second = locked.worker(&server, "second", &FITTING);
        Scene { locked, first, second, id }
    }

    /// Everyone of the first copy: the job itself, its child, whatever they run.
    fn job(&self) -> Vec<Pid> {
        let all = left_behind(&format!("TENURE_JOB_ID={}", self.id)).into_iter();
        all.filter_map(|pid| Pid::from_raw(pid.try_into().ok()?)).collect()
    }

    /// The old holder says when its copy had ended; then the metric must say what the lock saw.
    async fn judge(mut self, overlaps: bool) {
        let copies = self.locked.begun(2).await;
        assert_eq!(copies.iter().any(|copy| copy.overlaps), overlaps, "{copies:?}");
        let fleet = &self.locked.fleet;
        until("the word of the old holder", async || {
            let words = fleet.metric("tenure_handover_margin_seconds_count", "late_word").await;
            (words >= 1.0).then_some(())
        })
        .await;
        let negative = fleet.metric("tenure_handover_margin_negative_total", "").await;
        assert_eq!(negative > 0.0, overlaps, "{negative} negative margins, and {copies:?}");
        self.locked.finish();
        fleet.ended(&[self.id]).await;
        for worker in [&mut self.first, &mut self.second] {
            // One that is gone already hears nothing.
            let _ = worker.signal(Signal::TERM);
            worker.ended().await.expect("it ends");
        }
    }
}

fn signal(pids: &[Pid], signal: Signal) {
    for pid in pids {
        // Some may have ended by themselves.
        let _ = kill_process(*pid, signal);
    }
}

#[tokio::test]
async fn a_frozen_worker_whose_guardian_was_awake_is_no_alarm() {
    let scene = Scene::start().await;
    scene.first.signal(Signal::STOP).expect("it was running");
    scene.locked.begun(2).await;
    scene.first.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.judge(false).await;
}

/// It is told to stop its job and frozen before it could say that it has: whatever it was doing, its guardian ended the job.
#[tokio::test]
async fn a_kicked_worker_that_is_frozen_is_no_alarm() {
    for has_heard in [false, true] {
        let scene = Scene::start().await;
        let key = scene.locked.fleet.job(scene.id).await.holder;
        let (status, body) = scene.locked.fleet.http("POST", &format!("/v1/workers/{key}/kick"), "{}").await;
        assert_eq!(status, 200, "{body}");
        if has_heard {
            let log = scene.locked.log_of("first");
            until("a sign that it knows", async || {
                std::fs::read_to_string(&log).is_ok_and(|log| log.contains("new key")).then_some(())
            })
            .await;
        }
        scene.first.signal(Signal::STOP).expect("it was running");
        scene.locked.begun(2).await;
        scene.first.signal(Signal::CONT).expect("it is frozen, not gone");
        scene.judge(false).await;
    }
}

/// As when a virtual machine is paused: nobody is awake, and all of them hold what they held.
#[tokio::test]
async fn a_machine_that_was_paused_as_a_whole_is_an_alarm() {
    let scene = Scene::start().await;
    let guardian = guardian_of(&scene.first);
    let job = scene.job();
    scene.first.signal(Signal::STOP).expect("it was running");
    signal(&[&[guardian][..], &job].concat(), Signal::STOP);
    scene.locked.begun(2).await;
    signal(&[&job[..], &[guardian]].concat(), Signal::CONT);
    scene.first.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.judge(true).await;
}

#[tokio::test]
async fn a_worker_and_a_guardian_that_were_frozen_together_are_an_alarm() {
    let scene = Scene::start().await;
    let guardian = guardian_of(&scene.first);
    signal(&[guardian], Signal::STOP);
    scene.first.signal(Signal::STOP).expect("it was running");
    scene.locked.begun(2).await;
    signal(&[guardian], Signal::CONT);
    scene.first.signal(Signal::CONT).expect("it is frozen, not gone");
    scene.judge(true).await;
}

#[tokio::test]
async fn a_guardian_that_was_frozen_when_its_worker_was_killed_is_an_alarm() {
    let mut scene = Scene::start().await;
    let guardian = guardian_of(&scene.first);
    signal(&[guardian], Signal::STOP);
    scene.first.signal(Signal::KILL).expect("it was running");
    scene.first.ended().await.expect("it is gone");
    scene.locked.begun(2).await;
    signal(&[guardian], Signal::CONT);
    scene.judge(true).await;
}
