//! One family: how it starts, what it is given, how it ends.

use std::io;

use futures_util::{StreamExt, stream};
use guardian::{Exit, Guardian, Launch, LaunchError, PACKET_BYTES_MAX};
use lease::guardian::Order;
use model::{Clock, Nonce, WorkerKey};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::support::{Witness, attached, end, exclusive, guardians, shell};

/// Runs it to its end; what it wrote, and how it ended.
pub(crate) async fn run(guardian: &Guardian, launch: Launch, input: &[u8]) -> (String, String, Exit) {
    let mut family = guardian.launch(launch).await.expect("a family");
    let mut stdin = family.stdin.take().expect("it was not taken");
    stdin.write_all(input).await.expect("it reads");
    let (mut out, mut err) = (String::new(), String::new());
    // Closes its input.
    drop(stdin);
    family.stdout.take().expect("it was not taken").read_to_string(&mut out).await.expect("text");
    family.stderr.take().expect("it was not taken").read_to_string(&mut err).await.expect("text");
    (out, err, end(&mut family).await)
}

#[tokio::test]
async fn exit_codes_and_signals_are_told() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        for is_exclusive in [false, true] {
            for (command, code, signal) in [
                ("exit 0", Some(0), None),
                ("exit 65", Some(65), None),
                ("kill -TERM $$", None, Some(15)),
                ("kill -KILL $$", None, Some(9)),
            ] {
                let launch = Launch { exclusive: is_exclusive, ..shell("exits", command) };
                let (_, _, exit) = run(&guardian, launch, b"").await;
                assert_eq!((exit.code, exit.signal), (code, signal), "{command} in {mode}");
            }
        }
    }
}

#[tokio::test]
async fn input_output_and_environment_are_the_jobs_own() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut launch = shell("speaks", "cat; echo \"$GREETING\" >&2; env");
        launch.env.push(("GREETING".into(), "good day".into()));
        let (out, err, exit) = run(&guardian, launch, b"what it was given\n").await;
        assert_eq!(exit.code, Some(0), "{mode}");
        assert!(out.starts_with("what it was given\n"), "{mode}: {out}");
        assert_eq!(err, "good day\n", "{mode}");
        assert!(out.contains("\nTENURE_JOB_ID=speaks\n") && out.contains("\nPATH="), "{mode}: {out}");
        assert!(!out.contains("TENURE_GUARDIAN"), "a job that is a worker itself would be a guardian");
    }
}

/// The guardian handles and blocks signals for itself; its leaders start like those of a shell.
#[tokio::test]
async fn no_signal_is_ignored_or_blocked_in_a_job() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let launch =
            Launch { program: "cat".into(), args: vec!["/proc/self/status".into()], ..Launch::default() };
        let (out, _, _) = run(&guardian, launch, b"").await;
        for name in ["SigBlk:", "SigIgn:"] {
            let mask = out.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells");
            let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask");
            // Two are the C library's own, which it sets aside whenever it starts a program.
            assert_eq!(mask & !(0b11 << 31), 0, "{mode}: {name} {mask:x}");
        }
    }
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_the_callers_error() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        for is_exclusive in [false, true] {
            let missing =
                Launch { program: "/no/such/program".into(), exclusive: is_exclusive, ..Launch::default() };
            let error = guardian.launch(missing).await.expect_err("no such program");
            let LaunchError::Failed(error) = error else { panic!("{mode}: {error}") };
            assert_eq!(error.kind(), io::ErrorKind::NotFound, "{mode}");
        }
        let large = shell("large", &"x".repeat(PACKET_BYTES_MAX));
        let error = guardian.launch(large).await.expect_err("too large");
        assert!(matches!(error, LaunchError::TooLarge { bytes, .. } if bytes > PACKET_BYTES_MAX), "{error}");
        let (_, _, exit) = run(&guardian, shell("next", "exit 3"), b"").await;
        assert_eq!(exit.code, Some(3), "it goes on, in {mode}");
    }
}

#[tokio::test]
async fn a_family_is_asked_to_end_and_then_made_to() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let launch = shell("deaf", "trap 'echo heard' TERM; echo ready; while :; do sleep 1000 & wait; done");
        let mut family = guardian.launch(launch).await.expect("a family");
        let mut said = [0; 6];
        let mut stdout = family.stdout.take().expect("it was not taken");
        stdout.read_exact(&mut said).await.expect("it says ready");
        family.terminate();
        stdout.read_exact(&mut said).await.expect("it says heard");
        assert_eq!(&said, b"heard\n", "{mode}");
        family.kill();
        let exit = end(&mut family).await;
        assert_eq!((exit.code, exit.signal), (None, Some(9)), "{mode}");
    }
}

#[tokio::test]
async fn children_and_grandchildren_are_gone_when_a_family_has_ended() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let hold = witness.hold();
        let command = format!("(sh -c '{hold} sleep 1000 & sleep 1000' &) ; {hold} exit 7");
        let mut family = guardian.launch(shell("parent", &command)).await.expect("a family");
        witness.knocked(1).await;
        assert_eq!(end(&mut family).await.code, Some(7), "{mode}");
        assert!(!witness.is_held(), "someone is left of it in {mode}");
    }
}

/// A worker that was frozen reads the end late. The guardian saw it in time and says when that was.
#[tokio::test]
async fn the_end_of_a_family_is_dated_by_the_guardian_and_not_by_when_the_worker_hears_of_it() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let launch = || guardian.launch(shell("dated", "read line; exit 0"));
        let (mut first, mut second) = (launch().await.expect("a family"), launch().await.expect("a family"));
        // From here on this thread, the only one of its runtime, hears nothing until both have ended.
        let asked_at = clock::SystemClock.monotonic();
        drop(first.stdin.take());
        wait_for_children(guardian.pid(), 1);
        drop(second.stdin.take());
        // Reaping the second is a later round of the guardian than the one in which the first was gone.
        wait_for_children(guardian.pid(), 0);
        let woken_at = clock::SystemClock.monotonic();
        let gone_at = end(&mut first).await.gone_at;
        assert!(asked_at <= gone_at, "{mode}: it had not ended before it was asked to");
        assert!(gone_at <= woken_at, "{mode}: this is when it was read");
        assert!(gone_at <= end(&mut second).await.gone_at, "{mode}");
    }
}

/// Waits until a process has so many children, dead ones included.
fn wait_for_children(process: u32, count: usize) {
    let list = format!("/proc/{process}/task/{process}/children");
    while std::fs::read_to_string(&list).expect("the guardian lives").split_whitespace().count() != count {
        std::thread::yield_now();
    }
}

#[tokio::test]
async fn families_that_start_and_end_at_the_same_time_leave_each_other_alone() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        // All of one name, or of none: nothing but their own descent tells them apart.
        for job in [shell("same", "exit 0"), Launch { env: Vec::new(), ..shell("", "exit 0") }] {
            let run = |number| {
                let (guardian, job) = (guardian.clone(), job.clone());
                async move { run(&guardian, Launch { exclusive: number % 2 == 0, ..job }, b"").await.2 }
            };
            let exits = stream::iter(0..300).map(run).buffer_unordered(16).collect::<Vec<_>>().await;
            let killed = exits.iter().filter(|exit| exit.code != Some(0)).count();
            assert_eq!(killed, 0, "{mode}");
        }
    }
}

#[tokio::test]
async fn a_family_that_nobody_waits_for_is_killed() {
    for (_, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        let command = format!("{} sleep 1000", witness.hold());
        let family = guardian.launch(shell("dropped", &command)).await.expect("a family");
        witness.knocked(1).await;
        assert!(witness.is_held());
        drop(family);
        witness.wait_until_released();
    }
}

#[tokio::test]
async fn an_exclusive_family_needs_a_lease_with_room() {
    for (mode, guardian) in guardians() {
        guardian.attach("", lease::clock_rule::Stopping::DEFAULT);
        let launch = || exclusive(shell("late", "exit 0"));
        let too_late = |result: Result<_, LaunchError>| matches!(result, Err(LaunchError::TooLate));
        assert!(too_late(guardian.launch(launch()).await), "no lease at all, in {mode}");
        guardian.tell(Order::Key { key: WorkerKey::new("w").expect("a key"), nonce: Nonce::new(1) });
        let within = lease::clock_rule::Stopping::DEFAULT.within();
        guardian.tell(Order::Hold { until: clock::SystemClock.monotonic() + within });
        assert!(too_late(guardian.launch(launch()).await), "it would be stopped at once, in {mode}");
        let (_, _, exit) = run(&guardian, shell("ordinary", "exit 0"), b"").await;
        assert_eq!(exit.code, Some(0), "ordinary ones go on, in {mode}");
        guardian.tell(Order::Hold { until: clock::SystemClock.monotonic() + within * 20 });
        let (_, _, exit) = run(&guardian, launch(), b"").await;
        assert_eq!(exit.code, Some(0), "{mode}");
        guardian.tell(Order::Bye);
        assert!(too_late(guardian.launch(shell("late", "exit 0")).await), "after good-bye, in {mode}");
    }
}
