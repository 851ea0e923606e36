//! What the long-running commands say, and what they leave behind when they are interrupted.

use std::process::{Command, Stdio};
use std::time::Duration;

use cli::fleet::Process;
use rustix::process::{Pid, Signal, kill_process};
use tokio::io::{AsyncBufReadExt as _, BufReader};

use crate::support::{Fleet, tenure};

/// The demo is interrupted in the middle: none of its processes, killed, frozen or well, outlives it.
#[tokio::test]
async fn an_interrupted_demo_leaves_no_process_behind() {
    let home = tempfile::tempdir().expect("a temporary directory");
    let keep = home.path().join("kept");
    let mut demo = tokio::process::Command::new(tenure())
        .args(["demo", "--keep"])
        .arg(&keep)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .expect("the binary starts");
    let mut lines = BufReader::new(demo.stderr.take().expect("piped")).lines();
    while let Some(line) = lines.next_line().await.expect("readable") {
        if line.contains("SIGSTOP") {
            break;
        }
    }
    let pid = Pid::from_raw(demo.id().expect("it runs") as i32).expect("a pid");
    kill_process(pid, Signal::TERM).expect("it was running");
    assert_eq!(demo.wait().await.expect("it ends").code(), Some(1));
    // Its processes carry the kept directory in their arguments. A dying one may still be on its way out.
    let marker = keep.to_str().expect("UTF-8").as_bytes().to_vec();
    let left = || {
        std::fs::read_dir("/proc").expect("a process table").flatten().filter_map(|entry| {
            let arguments = std::fs::read(entry.path().join("cmdline")).ok()?;
            arguments.windows(marker.len()).any(|part| part == marker).then_some(entry.file_name())
        })
    };
    let gone = async {
        while left().next().is_some() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    let in_time = tokio::time::timeout(Duration::from_secs(20), gone).await;
    assert!(in_time.is_ok(), "still there: {:?}", left().collect::<Vec<_>>());
}

#[tokio::test]
async fn a_worker_says_that_it_is_connected_under_its_name() {
    let fleet = Fleet::start(&[]).await;
    let log = fleet.home.path().join("named.log");
    let args = [
        "worker",
        "--server",
        &fleet.server.url,
        "--queue",
        "q",
        "--name",
        "mail-1",
        "--log-format",
        "json",
        "--",
        "cat",
    ];
    let mut worker = Process::start(tenure(), args, &log).expect("it starts");
    let id = fleet.enqueue(1).await[0];
    fleet.ended(&[id]).await;
    worker.signal(Signal::TERM).expect("it was running");
    worker.ended().await.expect("it ends");
    let said = std::fs::read_to_string(&log).expect("a log");
    assert!(said.contains("connected") && said.contains("\"level\":\"INFO\""), "{said}");
    assert!(said.contains("mail-1-"), "its key begins with its name: {said}");
    fleet.server.process.signal(Signal::TERM).expect("it was running");
}

#[test]
fn settings_of_the_environment_do_not_reach_the_demo() {
    let output = Command::new(tenure())
        .args(["demo", "--jobs", "100", "--quiet"])
        .env("TENURE_MAX_PAYLOAD", "1")
        .env("TENURE_LEASE", "nonsense")
        .output()
        .expect("the binary starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
