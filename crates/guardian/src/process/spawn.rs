//! Starts the leaders of families.

use std::ffi::{CStr, CString, OsStr};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::sync::Arc;

use lease::guardian::FamilyId;
use rustix::process::{Gid, Pid, Signal, Uid, WaitOptions, kill_process_group, waitpid};

use super::MARKER;
use super::audited::{Birth, Identity, Midwife};
use super::setup::HANDLED;
use crate::cgroup::Cgroup;
use crate::user::Credentials;
use crate::wire::CommandLine;

/// Starts leaders, and ties them to this guardian.
pub(super) struct Spawner {
    midwife: Midwife,
    /// Where exclusive families get a cgroup of their own.
    cgroup: Option<Arc<Cgroup>>,
    /// Whom leaders die with. Nobody in a namespace: there the kernel ends everyone with the guardian.
    tied_to: Option<Pid>,
    /// What every leader inherits, as `NAME=value`.
    inherited: Vec<CString>,
    /// Who leaders run as, if not as we.
    identity: Option<Identity>,
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

impl Spawner {
    pub(super) fn new(
        cgroup: Option<Arc<Cgroup>>,
        tied_to: Option<Pid>,
        credentials: Option<Credentials>,
    ) -> Spawner {
        let variables = std::env::vars_os().filter(|(name, _)| name != MARKER);
        let inherited = variables.filter_map(|(name, value)| variable(&name, &value).ok()).collect();
        let identity = credentials.map(|Credentials { uid, gid, groups }| Identity {
            user: Uid::from_raw(uid),
            group: Gid::from_raw(gid),
            groups: groups.into_iter().map(Gid::from_raw).collect(),
        });
        Spawner { midwife: Midwife::new(), cgroup, tied_to, inherited, identity }
    }

    /// Starts one, and returns when its program runs.
    pub(super) fn spawn(&mut self, request: &Request) -> io::Result<Leader> {
        let grove = self.cgroup.as_ref().filter(|_| request.exclusive);
        let cgroup = grove.map(|grove| grove.branch(&request.family.0.to_string())).transpose()?;
        match self.spawn_in(cgroup.as_ref(), request) {
            Ok((pid, exit)) => Ok(Leader { pid, exit, cgroup }),
            Err(error) => {
                if let Some(cgroup) = cgroup {
                    cgroup.remove_all();
                }
                Err(error)
            }
        }
    }

    fn spawn_in(&mut self, cgroup: Option<&Cgroup>, request: &Request) -> io::Result<(Pid, OwnedFd)> {
        let CommandLine { program, args, env } = &request.command;
        let program = CString::new(program.as_str())?;
        let args = args.iter().map(|arg| CString::new(arg.as_str())).collect::<Result<Vec<_>, _>>()?;
        let own = env.iter().map(|(name, value)| variable(name.as_ref(), value.as_ref()));
        let own = own.collect::<io::Result<Vec<_>>>()?;
        let env = overlay(&self.inherited, &own);
        let entrance = cgroup.map(Cgroup::entrance).transpose()?;
        self.midwife.deliver(&Birth {
            program: &program,
            args: &args,
            env: &env,
            streams: request.streams.each_ref().map(AsFd::as_fd),
            entrance: entrance.as_ref().map(AsFd::as_fd),
            tied_to: self.tied_to,
            handled: &HANDLED,
            identity: self.identity.as_ref(),
        })
    }
}

fn variable(name: &OsStr, value: &OsStr) -> io::Result<CString> {
    if name.is_empty() || name.as_bytes().contains(&b'=') {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not the name of a variable"));
    }
    Ok(CString::new([name.as_bytes(), b"=", value.as_bytes()].concat())?)
}

/// All variables; of those with the same name the last of the second list.
fn overlay<'a>(inherited: &'a [CString], own: &'a [CString]) -> Vec<&'a CStr> {
    let name = |variable: &CString| variable.as_bytes().iter().position(|byte| *byte == b'=');
    let same = |one: &CString, other: &CString| {
        name(one).is_some_and(|end| other.as_bytes().get(..=end) == Some(&one.as_bytes()[..=end]))
    };
    let inherited = inherited.iter().filter(|variable| !own.iter().any(|ours| same(variable, ours)));
    let own =
        own.iter().enumerate().filter(|(at, ours)| !own[at + 1..].iter().any(|later| same(ours, later)));
    inherited.chain(own.map(|(_, ours)| ours)).map(CString::as_c_str).collect()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_variable_of_a_name_counts() {
        let list = |words: &[&str]| -> Vec<CString> {
            words.iter().map(|word| CString::new(*word).unwrap()).collect()
        };
        let inherited = list(&["A=1", "AB=2", "B=x=y", "C="]);
        let own = list(&["A=7", "D=8", "B=", "D=9"]);
        let all = overlay(&inherited, &own);
        assert_eq!(all, [c"AB=2", c"C=", c"A=7", c"B=", c"D=9"]);
        assert_eq!(overlay(&inherited, &[]).len(), 4);
    }

    #[test]
    fn what_is_no_variable_is_refused() {
        assert_eq!(variable("A".as_ref(), "1=2".as_ref()).unwrap().as_c_str(), c"A=1=2");
        for (name, value) in [("", "1"), ("A=", "1"), ("A\0", "1"), ("A", "\0")] {
            assert!(variable(name.as_ref(), value.as_ref()).is_err(), "{name:?}={value:?}");
        }
    }
}
