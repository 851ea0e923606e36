//! Guardians in every mode, processes that can be watched, a worker that can be killed.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::os::fd::OwnedFd;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use clock::SystemClock;
use guardian::{Conditions, Exit, Family, Guardian, Isolation, Launch};
use lease::clock_rule::Stopping;
use lease::guardian::Order;
use model::{Clock, Instant, Nonce, WorkerKey};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{CWD, FileType, Mode, OFlags, mknodat};
use rustix::process::{Pid, PidfdFlags, Signal, kill_process, pidfd_open};
use tempfile::TempDir;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::time::timeout;

pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_guardian");
/// Longer than anything takes; a test that needs it fails.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A guardian in each mode that is allowed here, with its name.
pub(crate) fn guardians() -> Vec<(&'static str, Guardian)> {
    let program = Path::new(PROGRAM);
    let mut all = vec![(
        "groups",
        Guardian::start_program(program, &Conditions::isolated(Isolation::Groups)).expect("a guardian"),
    )];
    match Guardian::start_program(program, &Conditions::isolated(Isolation::Namespace)) {
        Ok(guardian) => {
            assert!(guardian.protection().namespace);
            all.push(("namespace", guardian));
        }
        Err(error) => {
            assert!(error.to_string().contains("a PID namespace is not allowed here"), "{error}");
            let fallback =
                Guardian::start_program(program, &Conditions::isolated(Isolation::Auto)).expect("a guardian");
            assert!(!fallback.protection().namespace, "auto takes what is allowed");
        }
    }
    if all[0].1.protection().cgroups {
        all.push(("groups without cgroups", without_cgroups()));
    }
    all
}

/// One that cannot see cgroups, where they are seen.
fn without_cgroups() -> Guardian {
    let blind = script(&format!("exec unshare -m sh -c 'umount -a -t cgroup2; exec {PROGRAM}'"));
    let conditions = Conditions::isolated(Isolation::Groups);
    let guardian = Guardian::start_program(&blind.path().join("script"), &conditions).expect("a guardian");
    assert!(!guardian.protection().cgroups);
    guardian
}

/// A directory with an executable shell script of this text.
pub(crate) fn script(text: &str) -> TempDir {
    let directory = tempfile::tempdir().expect("a directory");
    // Not written by ourselves: whoever is forked by another test meanwhile would hold the file open, and it is busy.
    let write = Command::new("sh")
        .args(["-c", r#"printf '#!/bin/sh\n%s\n' "$1" > "$0" && chmod 755 "$0""#])
        .args([directory.path().join("script").as_os_str(), text.as_ref()])
        .status();
    assert!(write.expect("a shell").success());
    directory
}

/// Attaches it and gives it a lease that outlasts the test.
pub(crate) fn attached(guardian: &Guardian) {
    guardian.attach("", Stopping::DEFAULT);
    guardian.tell(Order::Key { key: WorkerKey::new("w").expect("a key"), nonce: Nonce::new(1) });
    guardian.tell(Order::Hold { until: SystemClock.monotonic() + Duration::from_secs(3_600) });
}

/// A shell command as a job of this name.
pub(crate) fn shell(job: &str, command: &str) -> Launch {
    Launch {
        program: "sh".into(),
        args: vec!["-c".into(), command.into()],
        env: vec![("TENURE_JOB_ID".into(), job.into()), ("TENURE_FENCE".into(), "1".into())],
        exclusive: false,
        no_input: false,
    }
}

pub(crate) fn exclusive(launch: Launch) -> Launch {
    Launch { exclusive: true, ..launch }
}

/// Waits for the end of a family.
pub(crate) async fn end(family: &mut Family) -> Exit {
    timeout(PATIENCE, family.ended()).await.expect("it ends").expect("the guardian lives")
}

/// Two pipes with names: processes knock on one when they run, and hold the other open as long as they live, as does
/// everyone they start.
pub(crate) struct Witness {
    directory: TempDir,
    knocks: pipe::Receiver,
    held: File,
}

impl Witness {
    pub(crate) fn new() -> Witness {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["knock", "hold"] {
            let mode = Mode::RUSR | Mode::WUSR;
            mknodat(CWD, directory.path().join(name), FileType::Fifo, mode, 0).expect("a named pipe");
        }
        let knocks = pipe::OpenOptions::new().read_write(true).open_receiver(directory.path().join("knock"));
        let nonblocking = OFlags::NONBLOCK.bits().cast_signed();
        let held = File::options().read(true).custom_flags(nonblocking).open(directory.path().join("hold"));
        Witness { knocks: knocks.expect("a pipe"), held: held.expect("a pipe"), directory }
    }

    /// Lets processes of other users knock and hold, too.
    pub(crate) fn open_to_all(&self) {
        let all = |mode| std::fs::Permissions::from_mode(mode);
        std::fs::set_permissions(self.directory.path(), all(0o755)).expect("a directory");
        for name in ["knock", "hold"] {
            std::fs::set_permissions(self.directory.path().join(name), all(0o666)).expect("a pipe");
        }
    }

    /// The pipe of this name.
    pub(crate) fn path(&self, name: &str) -> String {
        self.directory.path().join(name).display().to_string()
    }

    /// Shell text that begins to hold, then knocks.
    pub(crate) fn hold(&self) -> String {
        format!("exec 9>{}; echo >{};", self.path("hold"), self.path("knock"))
    }

    /// Shell text for a process that holds, in a session of its own, child of nobody. A clean one has no environment.
    pub(crate) fn detached(&self, is_clean: bool) -> String {
        let clean = if is_clean { "env -i PATH=$PATH" } else { "" };
        let hold = self.hold();
        format!("(setsid {clean} sh -c '{hold} exec sleep 1000' </dev/null >/dev/null 2>&1 &)")
    }

    /// Waits until so many have begun to hold.
    pub(crate) async fn knocked(&mut self, times: usize) {
        let mut knocks = vec![0; times];
        timeout(PATIENCE, self.knocks.read_exact(&mut knocks)).await.expect("they start").expect("a pipe");
    }

    /// Whether someone holds, at this moment.
    pub(crate) fn is_held(&self) -> bool {
        match (&self.held).read(&mut [0; 1]) {
            Ok(0) => false,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
            other => panic!("nobody writes into this pipe: {other:?}"),
        }
    }

    /// Waits until nobody holds.
    pub(crate) fn wait_until_released(&self) {
        while self.is_held() {
            wait_for(&self.held, PollFlags::IN);
        }
    }
}

/// Waits until a descriptor is ready.
pub(crate) fn wait_for(source: impl std::os::fd::AsFd, flags: PollFlags) {
    let patience = Timespec { tv_sec: PATIENCE.as_secs().cast_signed(), tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&source, flags)], Some(&patience)).expect("a descriptor");
    assert_eq!(ready, 1, "nothing happens");
}

/// A process to signal and to wait for.
pub(crate) struct Process {
    pid: Pid,
    exit: OwnedFd,
}

impl Process {
    pub(crate) fn new(pid: u32) -> Process {
        let pid = Pid::from_raw(pid.cast_signed()).expect("a process number");
        Process { pid, exit: pidfd_open(pid, PidfdFlags::empty()).expect("it lives") }
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(self.pid, signal).expect("it lives");
    }

    pub(crate) fn number(&self) -> u32 {
        self.pid.as_raw_nonzero().get().cast_unsigned()
    }

    pub(crate) fn wait(&self) {
        wait_for(&self.exit, PollFlags::IN);
    }
}

/// A worker in a process of its own, with one job that runs.
pub(crate) struct PlayedWorker {
    child: Child,
    pub(crate) process: Process,
    pub(crate) guardian: Process,
    pub(crate) hold_until: Instant,
}

/// What a played worker is to do.
pub(crate) struct Play<'a> {
    pub(crate) isolation: &'a str,
    pub(crate) servers: &'a str,
    pub(crate) hold: Duration,
    pub(crate) how: &'a str,
    pub(crate) command: &'a str,
}

/// Kill wait and safety of played workers, in milliseconds.
pub(crate) const PLAYED_STOPPING_MS: [u64; 2] = [300, 400];

impl PlayedWorker {
    pub(crate) fn start(play: &Play<'_>) -> PlayedWorker {
        let [kill_wait, safety] = PLAYED_STOPPING_MS.map(|millis| millis.to_string());
        let mut child = Command::new(PROGRAM)
            .args(["play-worker", play.isolation, play.servers, &kill_wait, &safety])
            .args([&play.hold.as_millis().to_string(), play.how, play.command])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("a worker");
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("piped")).read_line(&mut line).expect("a line");
        let (guardian, until) = line.trim().split_once(' ').expect("two numbers");
        PlayedWorker {
            process: Process::new(child.id()),
            guardian: Process::new(guardian.parse().expect("a process number")),
            hold_until: Instant::from_nanos(until.parse().expect("a time")),
            child,
        }
    }

    /// Tells it to end properly, and waits for its end.
    pub(crate) fn dismiss(&mut self) {
        drop(self.child.stdin.take());
        self.process.wait();
    }

    /// Kills it and waits for its end.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("it lives");
        self.child.wait().expect("it ends");
    }
}

impl Drop for PlayedWorker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
