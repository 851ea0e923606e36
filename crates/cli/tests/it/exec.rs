//! `tenure worker -- CMD`: any program is a worker, and its exit code is the outcome.

use std::path::Path;

use cli::fleet::Process;
use rpc::wire;
use rustix::process::Signal;

use crate::support::{Fleet, tenure};

async fn exec(fleet: &Fleet, script: &str, more: &[&str]) -> Process {
    let mut args = vec!["worker", "--server", &fleet.server.url, "--queue", "q"];
    args.extend(more);
    args.extend(["--", "sh", "-c", script]);
    Process::start(tenure(), args, &fleet.home.path().join("exec.log")).expect("the worker starts")
}

async fn enqueue(fleet: &Fleet, job: wire::NewJob) -> model::JobId {
    let job = wire::NewJob { queue: "q".to_owned(), ..job };
    let request = wire::EnqueueRequest { jobs: vec![job], ..Default::default() };
    fleet.client.enqueue(request).await.expect("accepted").jobs[0].id.parse().expect("a job id")
}

#[tokio::test]
async fn payload_environment_result_and_exit_codes_go_both_ways() {
    let fleet = Fleet::start(&[]).await;
    let script = r#"payload=$(cat)
        case "$payload" in
            '"ok"') echo "{\"job\": \"$TENURE_JOB_ID\", \"fence\": $TENURE_FENCE, \"attempt\": $TENURE_ATTEMPT, \"queue\": \"$TENURE_QUEUE\", \"kind\": \"$TENURE_KIND\"}";;
            '"dead"') echo "bad data" >&2; exit 65;;
            '"retry"') if [ "$TENURE_ATTEMPT" = 1 ]; then echo "busy" >&2; exit 75; fi; echo '"second"';;
            '"fail"') echo "went wrong" >&2; exit 3;;
        esac"#;
    let _worker = exec(&fleet, script, &["--concurrency", "2"]).await;
    let job = |payload: &str| wire::NewJob {
        kind: "k".to_owned(),
        payload: rpc::convert::payload(&format!("\"{payload}\"")),
        retry: "fixed:1:1".to_owned(),
        max_attempts: Some(2),
        ..Default::default()
    };
    let mut ids = Vec::new();
    for payload in ["ok", "dead", "retry", "fail"] {
        ids.push(enqueue(&fleet, job(payload)).await);
    }
    let jobs = fleet.ended(&ids).await;
    let told: serde_json::Value =
        serde_json::from_slice(jobs[0].result.as_ref().expect("a result")).expect("JSON");
    assert_eq!(told["job"], serde_json::json!(jobs[0].id));
    assert_eq!(
        (&told["fence"], &told["queue"], &told["kind"]),
        (&serde_json::json!(jobs[0].fence), &"q".into(), &"k".into())
    );
    let end = |job: &wire::Job| (job.state.clone(), job.attempt);
    assert_eq!(end(&jobs[1]), ("dead".to_owned(), 1));
    assert!(jobs[1].last_error.contains("bad data"), "{}", jobs[1].last_error);
    assert_eq!(end(&jobs[2]), ("completed".to_owned(), 2));
    assert_eq!(end(&jobs[3]), ("dead".to_owned(), 2));
    assert!(
        jobs[3].last_error.contains('3') && jobs[3].last_error.contains("went wrong"),
        "{}",
        jobs[3].last_error
    );
}

/// Text stays text and JSON stays JSON, from the command line to the command's stdin and from its stdout to `jq .result`.
#[tokio::test]
async fn a_payload_and_a_result_are_what_was_sent() {
    let fleet = Fleet::start(&[]).await;
    let _worker = exec(&fleet, "cat", &[]).await;
    for (payload, result) in [
        ("hello you", serde_json::json!("hello you")),
        ("{\"base64\":\"MTIz\"}", serde_json::json!({"base64": "MTIz"})),
        ("\"quoted\"", serde_json::json!("quoted")),
    ] {
        for form in [None, Some("--json")] {
            let run = tokio::process::Command::new(tenure())
                .args(["enqueue", "--server", &fleet.server.url, "q", payload, "--wait"])
                .args(form)
                .output();
            let run = run.await.expect("the binary starts");
            assert!(run.status.success(), "{run:?}");
            let printed = String::from_utf8(run.stdout).expect("text");
            if form.is_none() {
                assert_eq!(printed, format!("{payload}\n"), "as it is for people and pipes");
                continue;
            }
            let job: serde_json::Value = serde_json::from_str(&printed).expect("JSON");
            assert_eq!((&job["payload"], &job["result"]), (&result, &result), "{printed}");
        }
    }
}

#[tokio::test]
async fn a_cancelled_command_is_stopped_with_its_children() {
    let fleet = Fleet::start(&["--lease", "2s"]).await;
    let marks = fleet.home.path().join("marks");
    // The child that holds the pipe open ends only when the whole group is stopped.
    let script = format!("mkfifo {0}; (sleep 3600 > {0}) & echo started >&2; wait", marks.display());
    let _worker = exec(&fleet, &script, &[]).await;
    let id = enqueue(&fleet, wire::NewJob::default()).await;
    let opened = tokio::task::spawn_blocking({
        let marks = marks.clone();
        move || open_when_there(&marks)
    });
    // Opening for reading returns when the grandchild has opened it for writing: it runs now.
    let mut pipe = opened.await.expect("no panic");
    let answer =
        fleet.client.cancel(wire::CancelRequest { ids: vec![id.to_string()] }).await.expect("answered");
    assert_eq!(answer.jobs[0].answer, "asked");
    // End of file comes when the last writer is gone: parent and children were all stopped.
    let rest =
        tokio::task::spawn_blocking(move || std::io::Read::read_to_end(&mut pipe, &mut Vec::new())).await;
    rest.expect("no panic").expect("end of file");
    assert_eq!(fleet.ended(&[id]).await[0].state, "cancelled");
}

fn open_when_there(path: &Path) -> std::fs::File {
    while !path.exists() {
        std::thread::yield_now();
    }
    std::fs::File::open(path).expect("the pipe can be opened")
}

#[tokio::test]
async fn a_drained_exec_worker_hands_back_what_does_not_stop() {
    let fleet = Fleet::start(&["--lease", "60s"]).await;
    let started = fleet.home.path().join("started");
    let script =
        format!("trap '' TERM; mkfifo {0}; echo up > {0}; while :; do sleep 3600; done", started.display());
    let mut worker =
        exec(&fleet, &script, &["--grace", "1s", "--kill-wait", "500ms", "--concurrency", "2"]).await;
    let id = enqueue(&fleet, wire::NewJob::default()).await;
    let up = tokio::task::spawn_blocking(move || {
        std::io::Read::read_to_end(&mut open_when_there(&started), &mut Vec::new())
    });
    up.await.expect("no panic").expect("it is up");
    worker.signal(Signal::TERM).expect("it was running");
    worker.ended().await.expect("it drains in time");
    let job = fleet.job(id).await;
    assert_eq!((job.state.as_str(), job.attempt, job.lost), ("available", 0, 0), "{job:?}");
    assert_eq!(job.last_error, "", "a hand-back is no error");
}
