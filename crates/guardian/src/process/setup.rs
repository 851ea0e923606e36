//! Becoming a guardian.

use std::fs;
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::mount::{MountFlags, MountPropagationFlags, mount, mount_change};
use rustix::process::{Pid, getpid, set_child_subreaper, setsid};
use rustix::thread::set_no_new_privs;
use signal_hook::consts::{SIGALRM, SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

use super::audited;
use super::children::Children;
use super::mouth::{Heard, Mouth};
use super::post::Post;
use crate::cgroup::Grove;
use crate::user::Credentials;
use crate::wire::{Event, Said};

/// What service managers and terminals send to whole groups. A guardian ends after its worker, not with it.
pub(super) const HANDLED: [i32; 7] = [SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGALRM];

/// Makes this process a guardian of whoever is at the other end of its standard input. The sentence says why not; the
/// other end was told too.
pub(super) fn become_guardian() -> Result<Post, String> {
    let number = be_alone();
    if number.is_ok() {
        // What the worker was started with and knows nothing of is nobody's down here. Nothing of ours is open yet.
        audited::close_descriptors();
    }
    let line = io::stdin().as_fd().try_clone_to_owned().map_err(|error| format!("no line: {error}"))?;
    let mut mouth = Mouth::new(line);
    match number.and_then(|number| prepare(&mut mouth, number)) {
        Ok(station) => Post::take(mouth, station).map_err(|error| format!("cannot take my post: {error}")),
        Err(why) => {
            mouth.say(Event::Unfit(why.clone()));
            mouth.flush();
            Err(why)
        }
    }
}

/// What a guardian needs besides the line.
pub(super) struct Station {
    /// The worker's process.
    pub(super) worker: OwnedFd,
    pub(super) children: Children,
    pub(super) grove: Option<Grove>,
    /// We are the init of a PID namespace.
    pub(super) namespace: bool,
    /// Who jobs run as, if not as us.
    pub(super) credentials: Option<Credentials>,
}

/// The worker's first word.
struct Greeting {
    worker: OwnedFd,
    namespace: bool,
    new_privileges: bool,
    credentials: Option<Credentials>,
}

fn prepare(mouth: &mut Mouth, number: u32) -> Result<Station, String> {
    let Greeting { worker, namespace, new_privileges, credentials } = greeting(mouth)?;
    for signal in HANDLED {
        // A handler, unlike an ignored signal, is not inherited by the jobs.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| format!("cannot handle signal {signal}: {error}"))?;
    }
    // A session of its own: no terminal, and a mark on everyone who does not leave it.
    setsid().map_err(|errno| format!("cannot leave the worker's session: {errno}"))?;
    let _ = rustix::thread::set_name(c"tenure-guardian");
    if namespace {
        own_proc()?;
    }
    set_child_subreaper(Some(getpid())).map_err(|errno| format!("cannot adopt orphans: {errno}"))?;
    if !new_privileges {
        // For us, too: everyone we start inherits it, and nobody can take it back.
        set_no_new_privs(true).map_err(|errno| format!("cannot give up new privileges: {errno}"))?;
    }
    let children = Children::open().map_err(|error| format!("cannot see my children in /proc: {error}"))?;
    Ok(Station { worker, children, grove: Grove::plant(number), namespace, credentials })
}

/// The number of this process as the worker sees it. Refuses to go on with a thread that is not ours: children belong to
/// threads, and whoever starts some, or ends, would confuse us.
fn be_alone() -> Result<u32, String> {
    let threads = fs::read_dir("/proc/self/task").map_err(|error| format!("cannot read /proc: {error}"))?;
    let threads = threads.count();
    if threads != 1 {
        return Err(format!(
            "this process has {threads} threads already; call guardian::run_if_asked() first in main"
        ));
    }
    // The worker's own /proc is still mounted.
    let number = fs::read_link("/proc/self").ok().and_then(|link| link.to_str()?.parse().ok());
    number.ok_or_else(|| "cannot read /proc/self".to_owned())
}

fn greeting(mouth: &mut Mouth) -> Result<Greeting, String> {
    loop {
        poll(&mut [PollFd::new(mouth.line(), PollFlags::IN)], None)
            .map_err(|errno| format!("cannot hear the worker: {errno}"))?;
        let Some(Heard { said, mut descriptors }) = mouth.hear().into_iter().next() else {
            if mouth.is_closed() {
                return Err("standard input is no line to a worker".to_owned());
            }
            continue;
        };
        return match (said, descriptors.pop()) {
            (Said::Hello { namespace, new_privileges, credentials }, Some(worker)) => {
                Ok(Greeting { worker, namespace, new_privileges, credentials })
            }
            _ => Err("the worker did not greet".to_owned()),
        };
    }
}

/// Gives the namespace a `/proc` that shows it, without anyone outside noticing.
fn own_proc() -> Result<(), String> {
    if getpid() != Pid::INIT {
        return Err("not the init of a PID namespace".to_owned());
    }
    let refused = |errno: rustix::io::Errno| format!("cannot mount /proc: {errno}");
    let slaves = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    mount_change("/", slaves).map_err(refused)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    mount("proc", Path::new("/proc"), "proc", flags, None).map_err(refused)
}
