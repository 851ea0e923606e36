//! Starts a guardian and waits until it says what it can do.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::sync::atomic::AtomicBool;
use std::thread;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Gid, Pid, PidfdFlags, Uid, geteuid, getpid, pidfd_open};
use rustix::thread::UnshareFlags;

use super::Ward;
use super::line::Line;
use crate::conditions::Conditions;
use crate::error::StartError;
use crate::isolation::{Isolation, Protection};
use crate::packet;
use crate::process::MARKER;
use crate::wire::{Event, PACKET_BYTES_MAX, Said};
use std::os::fd::AsFd;

/// How long a guardian may take to get ready: an exec, and perhaps a mount.
const READY_WAIT: Duration = Duration::from_secs(10);

pub(super) fn start(program: &Path, conditions: &Conditions) -> Result<Ward, StartError> {
    if conditions.user.is_some() && !geteuid().is_root() {
        return Err(StartError::NotRoot);
    }
    let attempt = |namespace| attempt(program, conditions, namespace);
    match conditions.isolation {
        Isolation::Groups => attempt(false),
        Isolation::Namespace => attempt(true).map_err(|error| match error {
            StartError::NotReady(why) => StartError::NotAllowed(why),
            StartError::Spawn(error) => StartError::NotAllowed(error.to_string()),
            refused => refused,
        }),
        Isolation::Auto => attempt(true).or_else(|_| attempt(false)),
    }
}

fn attempt(program: &Path, conditions: &Conditions, namespace: bool) -> Result<Ward, StartError> {
    let (ours, theirs) = packet::line().map_err(StartError::Spawn)?;
    let nothing = File::open("/dev/null").map_err(StartError::Spawn)?.into();
    let mut child = spawn(program, conditions, theirs, namespace).map_err(StartError::Spawn)?;
    let credentials = conditions.user.as_ref().map(|user| user.credentials.clone());
    let owner = credentials.as_ref().map(|it| (Uid::from_raw(it.uid), Gid::from_raw(it.gid)));
    let hello = Said::Hello { namespace, new_privileges: conditions.new_privileges, credentials };
    match greet(&child, &ours, &hello) {
        Ok((peer, cgroup)) => Ok(Ward {
            pid: child.id(),
            child: Mutex::new(child),
            protection: Protection { namespace, cgroups: cgroup.is_some() },
            cgroup,
            line: Line::new(ours, peer),
            is_engaged: AtomicBool::new(false),
            nothing,
            owner,
        }),
        Err(error) => {
            let _ = child.kill();
            let _ = child.wait();
            Err(error)
        }
    }
}

fn spawn(program: &Path, conditions: &Conditions, line: OwnedFd, namespace: bool) -> io::Result<Child> {
    let mut command = Command::new(program);
    // What jobs must not see, their parent must not show them either.
    command.env_clear().envs(conditions.variables()).env(MARKER, "1");
    command.arg0("tenure-guardian").stdin(line).stdout(Stdio::null());
    if !namespace {
        return command.spawn();
    }
    // A thread of its own, whose children are to live in another namespace. It ends with this.
    let spawner = thread::Builder::new().name("guardian-start".into()).spawn(move || {
        enter_namespace()?;
        command.spawn()
    })?;
    spawner.join().map_err(|_| io::Error::other("the starting thread panicked"))?
}

#[expect(
    deprecated,
    reason = "its successor is unsafe because of UnshareFlags::FILES, which is not used here"
)]
fn enter_namespace() -> io::Result<()> {
    Ok(rustix::thread::unshare(UnshareFlags::NEWPID | UnshareFlags::NEWNS)?)
}

/// Tells it who we are and hears what it can do: a descriptor of its process, and where its cgroups are.
fn greet(child: &Child, line: &OwnedFd, hello: &Said) -> Result<(OwnedFd, Option<String>), StartError> {
    rustix::io::ioctl_fionbio(line, true).map_err(|errno| StartError::Spawn(errno.into()))?;
    let number = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("a child has a number");
    let open =
        |process| pidfd_open(process, PidfdFlags::empty()).map_err(|errno| StartError::Spawn(errno.into()));
    let (peer, me) = (open(number)?, open(getpid())?);
    packet::send(line, &hello.to_bytes(), &[me.as_fd()]).map_err(StartError::Spawn)?;

    let silent = |why: &str| StartError::NotReady(why.to_owned());
    let timeout = Timespec { tv_sec: READY_WAIT.as_secs() as i64, tv_nsec: 0 };
    match poll(&mut [PollFd::new(line, PollFlags::IN)], Some(&timeout)) {
        Ok(0) => return Err(silent("it did not answer")),
        Err(errno) => return Err(StartError::Spawn(errno.into())),
        Ok(_) => {}
    }
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    let length = packet::receive(line, &mut buffer, &mut Vec::new()).unwrap_or_default();
    match Event::take(&mut &buffer[..length]) {
        Some(Event::Ready { cgroup }) => Ok((peer, cgroup)),
        Some(Event::Unfit(why)) => Err(StartError::NotReady(why)),
        _ => Err(silent("its program ended; does its main begin with guardian::run_if_asked()?")),
    }
}
