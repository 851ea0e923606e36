//! Starts the leaders of families.

use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::Arc;

use lease::guardian::FamilyId;
use rustix::process::{Pid, PidfdFlags, Signal, WaitOptions, kill_process_group, pidfd_open, waitpid};

use super::{MARKER, audited};
use crate::cgroup::Cgroup;
use crate::wire::CommandLine;

/// What ties leaders to this guardian.
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

impl Ties {
    /// Starts one, and returns when its program runs.
    pub(super) fn spawn(&self, request: Request) -> io::Result<Leader> {
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
