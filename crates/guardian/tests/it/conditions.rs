//! What job processes see and may do: their environment, their user, their privileges, their descriptors.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::time::Duration;

use guardian::{Conditions, Environment, Guardian, Isolation, Launch, StartError, User};
use rustix::process::{Signal, geteuid};

use crate::families::run;
use crate::support::{PROGRAM, Play, PlayedWorker, Witness, attached, script, shell};

/// A guardian in each mode that is allowed here, under these conditions.
fn guardians(conditions: &Conditions) -> Vec<Guardian> {
    let modes = [Isolation::Groups, Isolation::Auto];
    let start = |isolation| {
        let conditions = Conditions { isolation, ..conditions.clone() };
        Guardian::start_program(Path::new(PROGRAM), &conditions).expect("a guardian")
    };
    let all: Vec<Guardian> = modes.into_iter().map(start).collect();
    all.iter().for_each(attached);
    all
}

/// What a shell command prints.
async fn said(guardian: &Guardian, command: &str) -> String {
    let (out, err, exit) = run(guardian, shell("asked", command), b"").await;
    assert_eq!((exit.code, err.as_str()), (Some(0), ""), "{out}");
    out
}

fn field<'a>(status: &'a str, name: &str) -> &'a str {
    let line = status.lines().find_map(|line| line.strip_prefix(name)).expect("the kernel tells");
    line.trim_start_matches(':').trim()
}

#[tokio::test]
async fn jobs_and_their_guardian_have_only_the_variables_that_they_were_given() {
    let mut environment = Environment::default();
    environment.clear();
    environment.add("GREETING=good day").expect("a variable");
    let path = format!("PATH={}", std::env::var("PATH").expect("a path"));
    for guardian in guardians(&Conditions { environment, ..Conditions::default() }) {
        let launch = Launch { program: "env".into(), ..shell("asked", "") };
        let (out, _, _) = run(&guardian, Launch { args: Vec::new(), ..launch }, b"").await;
        let job: BTreeSet<&str> = out.lines().filter(|line| !is_about_us(line)).collect();
        let given = ["GREETING=good day", "TENURE_FENCE=1", "TENURE_JOB_ID=asked", &path];
        assert_eq!(job, given.into());
        // A job of the same user can read this.
        let environ = fs::read(format!("/proc/{}/environ", guardian.pid())).expect("it lives");
        let environ = String::from_utf8(environ).expect("text");
        let own: BTreeSet<&str> =
            environ.split('\0').filter(|line| !line.is_empty() && !is_about_us(line)).collect();
        assert_eq!(own, ["GREETING=good day", "TENURE_GUARDIAN=1", &path].into());
    }
}

/// What a cleared environment keeps if the machine has it.
fn is_about_us(variable: &str) -> bool {
    let names = ["HOME=", "USER=", "LOGNAME=", "SHELL=", "LANG=", "LC_", "TZ=", "TMPDIR="];
    names.iter().any(|name| variable.starts_with(name))
}

#[tokio::test]
async fn jobs_gain_no_privileges_unless_that_is_allowed() {
    for new_privileges in [false, true] {
        for guardian in guardians(&Conditions { new_privileges, ..Conditions::default() }) {
            let status = said(&guardian, "cat /proc/self/status").await;
            assert_eq!(field(&status, "NoNewPrivs"), if new_privileges { "0" } else { "1" });
        }
    }
}

/// Without root there is nobody else to be, and that is said.
fn other_user() -> Option<User> {
    let user = User::find("65534:65533").expect("numbers");
    if geteuid().is_root() {
        return Some(user);
    }
    let conditions = Conditions { user: Some(user), ..Conditions::default() };
    let refused = Guardian::start_program(Path::new(PROGRAM), &conditions).expect_err("only root can");
    assert!(matches!(refused, StartError::NotRoot), "{refused}");
    None
}

#[tokio::test]
async fn jobs_of_another_user_have_its_groups_and_no_capabilities() {
    let Some(user) = other_user() else { return };
    // A guardian with groups that its jobs must not have.
    let grouped = script(&format!("exec setpriv --groups 0,7 {PROGRAM}"));
    let conditions = Conditions { user: Some(user), ..Conditions::default() };
    let grouped = Guardian::start_program(&grouped.path().join("script"), &conditions).expect("a guardian");
    attached(&grouped);
    for guardian in guardians(&conditions).into_iter().chain([grouped]) {
        for exclusive in [false, true] {
            let launch =
                Launch { exclusive, ..shell("asked", "cat /proc/self/status; echo well > /dev/stderr") };
            let (status, err, exit) = run(&guardian, launch, b"").await;
            assert_eq!((exit.code, err.as_str()), (Some(0), "well\n"), "its pipes are its own");
            assert_eq!(field(&status, "Uid"), "65534\t65534\t65534\t65534");
            assert_eq!(field(&status, "Gid"), "65533\t65533\t65533\t65533");
            assert_eq!(field(&status, "Groups"), "", "it is listed in none");
            for set in ["CapInh", "CapPrm", "CapEff", "CapAmb"] {
                assert_eq!(field(&status, set), "0000000000000000", "{set}");
            }
        }
        if !guardian.protection().namespace {
            // The init of a namespace is out of reach, too, but nobody says so.
            let kill = "kill -KILL $PPID 2>/dev/null || echo refused";
            assert_eq!(said(&guardian, kill).await, "refused\n", "its guardian is none of its business");
        }
    }
}

/// The kernel takes the parent-death signal from whoever becomes another user.
#[tokio::test]
async fn leaders_of_another_user_die_with_their_guardian_when_nobody_is_left_to_end_them() {
    if other_user().is_none() {
        return;
    }
    let mut witness = Witness::new();
    witness.open_to_all();
    let command = format!("{} exec sleep 1000", witness.hold());
    let hold = Duration::from_secs(600);
    let play =
        Play { isolation: "groups@65534:65533", servers: "", hold, how: "ordinary", command: &command };
    let worker = PlayedWorker::start(&play);
    witness.knocked(1).await;
    worker.process.signal(Signal::STOP);
    worker.guardian.signal(Signal::KILL);
    witness.wait_until_released();
}

/// Whoever starts a worker may have opened things that it knows nothing of: a lock, a secret, a listening socket.
#[tokio::test]
async fn what_the_worker_was_started_with_is_open_in_no_job() {
    let mut witness = Witness::new();
    let list = witness.path("descriptors");
    let command = format!("ls -l /proc/self/fd > {list}; {} sleep 1000", witness.hold());
    // Not closed by an exec. Other tests that start something meanwhile pass it on, too, and do not mind.
    let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
    let pipe = fs::read_link(format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&reader)));
    let pipe = pipe.expect("it is open").display().to_string();
    let hold = Duration::from_secs(600);
    let play = Play { isolation: "groups", servers: "", hold, how: "ordinary", command: &command };
    let worker = PlayedWorker::start(&play);
    witness.knocked(1).await;
    let open_in = |process: u32| {
        let mut entries = fs::read_dir(format!("/proc/{process}/fd")).expect("it lives").flatten();
        entries.any(|entry| fs::read_link(entry.path()).is_ok_and(|link| link.display().to_string() == pipe))
    };
    assert!(open_in(worker.process.number()), "the worker has it");
    assert!(!open_in(worker.guardian.number()), "its guardian has it");
    let list = fs::read_to_string(list).expect("the job's list");
    assert!(list.contains("pipe:") && !list.contains(&pipe), "{pipe} is open in the job: {list}");
}
