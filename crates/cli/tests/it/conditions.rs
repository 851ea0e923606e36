//! What the commands of `tenure worker` see and may do, told by the commands themselves.

use std::path::Path;

use cli::fleet::Process;
use rustix::process::geteuid;

use crate::support::{Fleet, tenure};

/// What a shell command prints as the job of a worker that is started by this shell text, in which `$0` is the binary and
/// `"$@"` its arguments.
async fn said(start: &str, options: &[&str], script: &str) -> String {
    let fleet = Fleet::start(&[]).await;
    let binary = tenure().to_str().expect("a UTF-8 path");
    let mut args = vec!["-c", start, binary, "worker", "--server", &fleet.server.url, "--queue", "q"];
    args.extend(options);
    args.extend(["--", "sh", "-c", script]);
    let log = fleet.home.path().join("worker.log");
    let mut worker = Process::start(Path::new("/bin/sh"), args, &log).expect("it starts");
    let jobs = fleet.enqueue(1).await;
    let ended = tokio::select! {
        ended = fleet.ended(&jobs) => ended,
        status = worker.ended() => panic!("{status:?}: {}", std::fs::read_to_string(&log).expect("a log")),
    };
    assert_eq!(ended[0].state, "completed", "{:?}", ended[0]);
    String::from_utf8(ended[0].result.as_ref().expect("a result").to_vec()).expect("text")
}

/// What the worker says on standard error when it does not start.
fn refused(options: &[&str]) -> (Option<i32>, String) {
    let mut command = std::process::Command::new(tenure());
    let output = command.args(["worker", "--queue", "q"]).args(options).args(["--", "true"]).output();
    let output = output.expect("the binary starts");
    (output.status.code(), String::from_utf8(output.stderr).expect("text"))
}

const WITH_SECRETS: &str = "DATABASE_URL=postgres://u:p@h/d TENURE_DATABASE_URL=postgres://u:p@h/d TENURE_TOKEN=secret \
                            CLOUD_KEY=key PALE=white exec \"$0\" \"$@\"";

/// The job's variables; those of its guardian with a mark in front.
const ALL_VARIABLES: &str = "env; tr '\\0' '\\n' < /proc/$PPID/environ | sed 's/^/guardian:/'";

#[tokio::test]
async fn the_workers_settings_reach_neither_the_job_nor_its_guardian() {
    let all = said(WITH_SECRETS, &["--isolation", "groups"], ALL_VARIABLES).await;
    let names: Vec<&str> = all.lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    for secret in ["DATABASE_URL", "TENURE_DATABASE_URL", "TENURE_TOKEN"] {
        assert!(!names.iter().any(|name| name.trim_start_matches("guardian:") == secret), "{secret}: {all}");
    }
    let documented =
        ["JOB_ID", "ATTEMPT", "MAX_ATTEMPTS", "FENCE", "QUEUE", "KIND", "WORKER", "SERVER", "LEASE_MS"];
    let mut ours: Vec<&str> = names.iter().filter_map(|name| name.strip_prefix("TENURE_")).collect();
    ours.sort_unstable();
    let mut expected = documented.to_vec();
    expected.sort_unstable();
    assert_eq!(ours, expected);
    assert!(
        names.contains(&"CLOUD_KEY") && names.contains(&"PATH"),
        "nobody can tell that it is a secret: {all}"
    );
}

#[tokio::test]
async fn a_cleared_environment_has_what_was_asked_for() {
    let options = ["--isolation", "groups", "--env-clear", "--env", "PALE", "--env", "CI=1"];
    let all = said(WITH_SECRETS, &options, ALL_VARIABLES).await;
    assert!(all.contains("\nPALE=white\n") && all.contains("\nCI=1\n"), "{all}");
    assert!(!all.contains("CLOUD_KEY") && !all.contains("secret") && !all.contains("postgres:"), "{all}");
}

/// Also by somebody who is not root: then the kernel makes no difference between the job and the worker.
#[tokio::test]
async fn a_job_of_the_same_user_cannot_read_the_workers_environment() {
    let as_nobody = "setpriv --reuid 65534 --regid 65534 --clear-groups";
    let start = match geteuid().is_root() {
        // By its descriptor: others may not be allowed to go where the binary lies.
        true => format!("exec 9<\"$0\"; cd /; TENURE_TOKEN=secret exec {as_nobody} /proc/self/fd/9 \"$@\""),
        false => "TENURE_TOKEN=secret exec \"$0\" \"$@\"".to_owned(),
    };
    let script = "read -r pid name state worker rest < /proc/$PPID/stat; id -u
        (tr '\\0' '\\n' < /proc/$worker/environ) 2>/dev/null || echo closed
        ls /proc/$worker/cwd/ >/dev/null 2>&1 || echo sealed";
    let said = said(&start, &["--isolation", "groups"], script).await;
    assert!(!said.starts_with("0\n") && said.ends_with("\nclosed\nsealed\n"), "{said}");
}

#[tokio::test]
async fn jobs_run_as_another_user_if_root_says_so() {
    if !geteuid().is_root() {
        let (code, said) = refused(&["--user", "65534:65534"]);
        assert!(
            code == Some(1) && said.contains("only root can run jobs as another user"),
            "{code:?} {said}"
        );
        return;
    }
    let options = ["--user", "65534:65533"];
    let said =
        said("cd /; exec \"$0\" \"$@\"", &options, "id -u; id -g; grep NoNewPrivs /proc/self/status").await;
    assert_eq!(said, "65534\n65533\nNoNewPrivs:\t1\n");
}

#[test]
fn what_cannot_be_is_refused_with_words() {
    for (options, words) in [
        (&["--user", "no-such-user"][..], "there is no user \"no-such-user\" in /etc/passwd"),
        (&["--env", "NO_SUCH_VARIABLE"], "NO_SUCH_VARIABLE is not in the worker's environment"),
        (&["--env", "TENURE_TOKEN=x"], "TENURE_ variables are Tenure's own"),
    ] {
        let (code, said) = refused(options);
        assert!(code == Some(2) && said.contains(words), "{code:?} {said}");
    }
}
