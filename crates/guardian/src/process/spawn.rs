//! Starts the leaders of families, several at a time.
//!
//! Starting a program takes until its exec, most of which is waiting; so a few threads do it, while the loop goes on. They
//! do nothing else and never end: the kernel counts a leader as the child of its thread, and would end it with it. Orphans
//! still become the children of the first thread, which is the loop's.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;

use lease::guardian::FamilyId;
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, waitpid};
use rustix::thread::gettid;

use super::{MARKER, audited};
use crate::cgroup::Cgroup;
use crate::wire::CommandLine;

/// For each core: one that waits for an exec while another begins.
const SPAWNERS_PER_CORE: usize = 2;
/// More than these would only wait for each other.
const SPAWNERS_MAX: usize = 8;
/// They build a command and no more.
const STACK_BYTES: usize = 128 << 10;

/// What ties leaders to this guardian.
#[derive(Clone)]
pub(super) struct Ties {
    pub(super) guardian: Pid,
    /// The kernel ends everyone with us: nothing has to be asked of the leader itself, and starting it is cheaper.
    pub(super) namespace: bool,
    /// Where exclusive families get a cgroup of their own.
    pub(super) cgroup: Option<Arc<Cgroup>>,
}

/// A family to start.
pub(super) struct Request {
    pub(super) family: FamilyId,
    pub(super) exclusive: bool,
    pub(super) command: CommandLine,
    pub(super) streams: [OwnedFd; 3],
}

/// A leader that runs.
pub(super) struct Leader {
    pub(super) pid: Pid,
    /// Readable when it has exited.
    pub(super) exit: OwnedFd,
    pub(super) cgroup: Option<Cgroup>,
}

/// A request was tried.
pub(super) struct Answer {
    pub(super) family: FamilyId,
    pub(super) leader: io::Result<Leader>,
    spawner: usize,
}

/// The threads, and how to talk to them.
pub(super) struct Spawners {
    requests: Vec<Sender<Request>>,
    threads: Vec<Pid>,
    idle: Vec<usize>,
    answers: Receiver<Answer>,
    has_answers: Arc<OwnedFd>,
}

impl Spawners {
    pub(super) fn new(ties: &Ties) -> io::Result<Spawners> {
        let has_answers = Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?);
        let (answer, answers) = mpsc::channel();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let count = (cores * SPAWNERS_PER_CORE).min(SPAWNERS_MAX);
        let (number, threads) = mpsc::channel();
        let start = |spawner| {
            let (request, requests) = mpsc::channel();
            let number = number.clone();
            let (ties, answer, bell) = (ties.clone(), answer.clone(), Arc::clone(&has_answers));
            thread::Builder::new().stack_size(STACK_BYTES).spawn(move || {
                let _ = number.send(gettid());
                serve(spawner, &ties, &requests, &answer, &bell);
            })?;
            Ok(request)
        };
        let requests = (0..count).map(start).collect::<io::Result<_>>()?;
        let threads = threads.iter().take(count).collect();
        Ok(Spawners { requests, threads, idle: (0..count).collect(), answers, has_answers })
    }

    /// Their numbers.
    pub(super) fn threads(&self) -> &[Pid] {
        &self.threads
    }

    /// Readable when there are answers.
    pub(super) fn bell(&self) -> BorrowedFd<'_> {
        self.has_answers.as_fd()
    }

    /// Whether another request would be tried at once.
    pub(super) fn is_free(&self) -> bool {
        !self.idle.is_empty()
    }

    /// Has it tried at once; only when one is free.
    pub(super) fn start(&mut self, request: Request) {
        let spawner = self.idle.pop().expect("a spawner was free");
        self.requests[spawner].send(request).expect("spawners do not end");
    }

    /// What was tried since the last time.
    pub(super) fn answers(&mut self) -> Vec<Answer> {
        let _ = rustix::io::read(&*self.has_answers, &mut [0; 8]);
        let answers: Vec<Answer> = self.answers.try_iter().collect();
        self.idle.extend(answers.iter().map(|answer| answer.spawner));
        answers
    }
}

fn serve(
    spawner: usize,
    ties: &Ties,
    requests: &Receiver<Request>,
    answers: &Sender<Answer>,
    bell: &OwnedFd,
) {
    for request in requests {
        let family = request.family;
        let leader = ties.spawn(request);
        if answers.send(Answer { family, leader, spawner }).is_err() {
            break;
        }
        let _ = rustix::io::write(bell, &1_u64.to_ne_bytes());
    }
}

impl Ties {
    fn spawn(&self, request: Request) -> io::Result<Leader> {
        let Request { family, exclusive, command, streams } = request;
        let grove = self.cgroup.as_ref().filter(|_| exclusive);
        let cgroup = grove.map(|grove| grove.branch(&family.0.to_string())).transpose()?;
        let spawned = self.spawn_in(cgroup.as_ref(), &command, streams);
        if let (Err(_), Some(cgroup)) = (&spawned, &cgroup) {
            cgroup.remove_all();
        }
        let pid = spawned?;
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(exit) => Ok(Leader { pid, exit, cgroup }),
            Err(errno) => {
                end_at_once(pid);
                Err(errno.into())
            }
        }
    }

    fn spawn_in(
        &self,
        cgroup: Option<&Cgroup>,
        command: &CommandLine,
        streams: [OwnedFd; 3],
    ) -> io::Result<Pid> {
        let [stdin, stdout, stderr] = streams.map(Stdio::from);
        let mut leader = Command::new(&command.program);
        leader
            .args(&command.args)
            .env_remove(MARKER)
            .envs(command.env.iter().map(|(name, value)| (name, value)))
            .stdin(stdin)
            .stdout(stdout)
            .stderr(stderr)
            .process_group(0);
        let entrance = cgroup.map(Cgroup::entrance).transpose()?;
        if !self.namespace || entrance.is_some() {
            audited::tie(&mut leader, self.guardian, entrance);
        }
        // Its exit is noticed and it is reaped by its number; the handle would do nothing more.
        let number = leader.spawn()?.id();
        Ok(i32::try_from(number).ok().and_then(Pid::from_raw).expect("a child has a number"))
    }
}

impl Leader {
    /// Ends it and its group after all.
    pub(super) fn abandon(self) {
        end_at_once(self.pid);
    }
}

/// Nobody may run whose end would not be noticed.
fn end_at_once(leader: Pid) {
    let _ = kill_process_group(leader, Signal::KILL);
    let _ = waitpid(Some(leader), WaitOptions::empty());
}
