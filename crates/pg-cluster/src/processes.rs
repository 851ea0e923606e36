//! The server's processes: a postmaster and its children. Each child leads a session of its own, so there is no process group to
//! signal and they are found by their parent.
//!
//! Processes are held by file descriptors, so that a signal never reaches a stranger that was given the id of a dead one.

use std::fs;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

/// How long a process may take to stop once it was told to.
const STOP_PATIENCE: Duration = Duration::from_secs(30);

/// The running server of a data directory.
#[derive(Debug)]
pub(crate) struct Postmaster {
    process: Process,
    /// The System V segment by which servers of the same directory notice each other.
    segment: Option<String>,
}

impl Postmaster {
    /// The one that runs on this data directory, if any: its own `postmaster.pid` names it, and the process of that id was
    /// started for this very directory.
    pub(crate) fn of(data: &Path) -> Option<Postmaster> {
        let noted = fs::read_to_string(data.join("postmaster.pid")).ok()?;
        let mut lines = noted.lines();
        let process = Process::open(lines.next()?.trim().parse().ok()?)?;
        let command = fs::read(format!("/proc/{}/cmdline", process.id)).ok()?;
        let is_for_us =
            command.split(|&byte| byte == 0).any(|argument| argument == data.as_os_str().as_encoded_bytes());
        // The seventh line has the segment's key and id.
        let segment = lines.nth(5).and_then(|line| line.split_whitespace().nth(1)).map(str::to_owned);
        is_for_us.then_some(Postmaster { process, segment })
    }

    /// Kills all of them at once, as a crash of the machine does, and returns when they are gone.
    pub(crate) fn kill(&self) {
        // Children of a dead parent could not be found any more.
        let children = self.stopped_children();
        for process in children.iter().chain([&self.process]) {
            process.signal(Signal::KILL);
        }
        for process in children.iter().chain([&self.process]) {
            process.wait_until_gone();
        }
        // A crash of the machine would not leave it behind either, and nobody else removes it if the server never runs again.
        if let Some(segment) = &self.segment {
            let _ = Command::new("ipcrm")
                .args(["-m", segment])
                .stdout(Stdio::null())
                .stderr(Stdio::null())
                .status();
        }
    }

    /// Stops all of them in their tracks. Returns when none does anything any more.
    pub(crate) fn freeze(&self) {
        let children = self.stopped_children();
        for child in &children {
            child.signal(Signal::STOP);
        }
        for child in &children {
            child.wait_until_stopped();
        }
    }

    /// Lets all of them go on.
    pub(crate) fn thaw(&self) {
        for process in self.children().iter().chain([&self.process]) {
            process.signal(Signal::CONT);
        }
    }

    /// Its children, complete, since it is stopped itself and starts no more of them.
    fn stopped_children(&self) -> Vec<Process> {
        self.process.signal(Signal::STOP);
        self.process.wait_until_stopped();
        self.children()
    }

    fn children(&self) -> Vec<Process> {
        let ids = fs::read_dir("/proc").expect("/proc is mounted").flatten();
        let ids = ids.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
        // Opened before its parent is asked for, since the id may have got another owner in between.
        let all = ids.filter_map(Process::open);
        all.filter(|it| status(it.id).is_some_and(|status| status.parent == self.process.id)).collect()
    }
}

/// A process, dead or alive.
#[derive(Debug)]
struct Process {
    id: i32,
    handle: OwnedFd,
}

impl Process {
    fn open(id: i32) -> Option<Process> {
        let handle = pidfd_open(Pid::from_raw(id).filter(|_| id > 0)?, PidfdFlags::empty()).ok()?;
        Some(Process { id, handle })
    }

    /// A process that ended meanwhile needs no signal.
    fn signal(&self, signal: Signal) {
        match pidfd_send_signal(&self.handle, signal) {
            Ok(()) | Err(Errno::SRCH) => {}
            Err(errno) => panic!("process {} is ours to signal: {errno}", self.id),
        }
    }

    /// Also returns when its parent has not asked for its exit code yet, or never will.
    fn wait_until_gone(&self) {
        let mut handles = [PollFd::new(&self.handle, PollFlags::IN)];
        while poll(&mut handles, None) == Err(Errno::INTR) {}
    }

    /// The kernel tells only a parent of this, so we have to look.
    fn wait_until_stopped(&self) {
        let begun = Instant::now();
        while status(self.id).is_some_and(|status| !matches!(status.state, 'T' | 'Z' | 'X')) {
            assert!(begun.elapsed() < STOP_PATIENCE, "process {} does not stop", self.id);
            yield_now();
        }
    }
}

/// What the kernel says about a process.
struct Status {
    /// `T` when it is stopped, `Z` or `X` when it is dead.
    state: char,
    parent: i32,
}

fn status(id: i32) -> Option<Status> {
    let text = fs::read_to_string(format!("/proc/{id}/stat")).ok()?;
    // id (name) state parent …, where the name may have parentheses and spaces itself.
    let mut fields = text.rsplit_once(')')?.1.split_whitespace();
    let state = fields.next()?.chars().next()?;
    Some(Status { state, parent: fields.next()?.parse().ok()? })
}
