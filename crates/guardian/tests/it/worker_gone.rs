//! The worker dies or freezes.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpListener;
use std::time::Duration;

use clock::SystemClock;
use model::Clock;
use rustix::event::PollFlags;
use rustix::process::Signal;

use crate::support::{PLAYED_STOPPING_MS, Play, PlayedWorker, Witness, guardians, wait_for};

const LONG: Duration = Duration::from_secs(600);

/// The isolations that are allowed here.
fn isolations() -> Vec<&'static str> {
    guardians().into_iter().map(|(mode, _)| mode).filter(|mode| !mode.contains(' ')).collect()
}

/// Takes one leave and looks at the witness before answering: what was asked, and whether someone still ran.
fn take_leave(server: &TcpListener, witness: &Witness) -> (String, bool) {
    wait_for(server, PollFlags::IN);
    let (mut stream, _) = server.accept().expect("a connection");
    let mut asked = Vec::new();
    while !asked.ends_with(b"}") {
        let mut byte = [0];
        stream.read_exact(&mut byte).expect("a request");
        asked.push(byte[0]);
    }
    let is_held = witness.is_held();
    stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}").expect("an answer");
    (String::from_utf8(asked).expect("text"), is_held)
}

#[tokio::test]
async fn a_dead_workers_families_are_ended_before_it_is_said() {
    for isolation in isolations() {
        for how in ["exclusive", "ordinary"] {
            let server = TcpListener::bind("127.0.0.1:0").expect("a server");
            let servers = format!("http://{}", server.local_addr().expect("an address"));
            let mut witness = Witness::new();
            let command = format!("trap '' TERM; {}; {} sleep 1000", witness.detached(true), witness.hold());
            let play = Play { isolation, servers: &servers, hold: LONG, how, command: &command };
            let mut worker = PlayedWorker::start(&play);
            witness.knocked(2).await;
            worker.kill();
            let (asked, is_held) = take_leave(&server, &witness);
            assert!(!is_held, "said to be stopped, and still running: {how} in {isolation}");
            assert!(asked.starts_with("POST /v1/workers/w-played/leave HTTP/1.1\r\n"), "{asked}");
            let words = r#"{"nonce":77,"all_stopped":true,"crashed":true,"stopped_for_ms":"#;
            assert!(asked.contains(words), "{asked}");
            worker.guardian.wait();
        }
    }
}

#[tokio::test]
async fn a_worker_that_says_good_bye_is_not_reported() {
    for isolation in isolations() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        server.set_nonblocking(true).expect("a server");
        let servers = server.local_addr().expect("an address").to_string();
        let witness = Witness::new();
        let command = format!("{} sleep 1000", witness.hold());
        let play = Play { isolation, servers: &servers, hold: LONG, how: "bye", command: &command };
        let mut worker = PlayedWorker::start(&play);
        worker.dismiss();
        worker.guardian.wait();
        assert!(!witness.is_held(), "{isolation}");
        assert_eq!(server.accept().expect_err("no leave").kind(), ErrorKind::WouldBlock, "{isolation}");
    }
}

#[test]
fn last_words_count_when_they_are_heard_after_the_death() {
    for isolation in isolations() {
        let server = TcpListener::bind("127.0.0.1:0").expect("a server");
        server.set_nonblocking(true).expect("a server");
        let servers = server.local_addr().expect("an address").to_string();
        let play = Play { isolation, servers: &servers, hold: LONG, how: "idle", command: "exit 0" };
        let mut worker = PlayedWorker::start(&play);
        worker.guardian.signal(Signal::STOP);
        worker.dismiss();
        worker.guardian.signal(Signal::CONT);
        worker.guardian.wait();
        assert_eq!(server.accept().expect_err("no leave").kind(), ErrorKind::WouldBlock, "{isolation}");
    }
}

#[tokio::test]
async fn a_frozen_workers_exclusive_family_is_gone_by_the_end_of_its_lease() {
    for isolation in isolations() {
        let mut witness = Witness::new();
        let command = format!("trap '' TERM; {} while :; do sleep 1000; done", witness.hold());
        let hold = Duration::from_millis(PLAYED_STOPPING_MS.iter().sum::<u64>() + 1_500);
        let play = Play { isolation, servers: "", hold, how: "exclusive", command: &command };
        let worker = PlayedWorker::start(&play);
        worker.process.signal(Signal::STOP);
        witness.knocked(1).await;
        witness.wait_until_released();
        let gone_at = SystemClock.monotonic();
        assert!(gone_at < worker.hold_until, "gone too late in {isolation}");
        let kill_at = worker.hold_until - Duration::from_millis(PLAYED_STOPPING_MS[1]);
        assert!(gone_at >= kill_at, "killed too early in {isolation}: it had until then to end by itself");
    }
}

#[tokio::test]
async fn a_frozen_worker_with_an_exclusive_job_inside_is_ended_itself() {
    let hold = Duration::from_millis(PLAYED_STOPPING_MS.iter().sum::<u64>() + 1_000);
    let play = Play { isolation: "groups", servers: "", hold, how: "inside", command: "exit 0" };
    let worker = PlayedWorker::start(&play);
    worker.process.signal(Signal::STOP);
    worker.process.wait();
    assert!(SystemClock.monotonic() < worker.hold_until);
}
