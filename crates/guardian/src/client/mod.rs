//! The worker's end of the line: start a guardian, tell it things, let it run job processes.

mod aftermath;
mod family;
mod line;
mod start;

use lease::clock_rule::Stopping;
use lease::guardian::Order;
use rustix::process::{Gid, Uid};
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::Child;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use self::aftermath::Remains;
use self::line::Line;
use crate::conditions::Conditions;
use crate::error::{GuardianLost, LaunchError, StartError};
use crate::isolation::{Isolation, Protection};
use crate::wire::Said;

pub use self::family::{Exit, Family, Launch};

/// A guardian of this process. Cheap to clone; all clones speak to the same one.
#[derive(Clone)]
pub struct Guardian {
    ward: Arc<Ward>,
}

/// What all clones share.
struct Ward {
    pid: u32,
    /// To be reaped when it has ended.
    child: Mutex<Child>,
    protection: Protection,
    /// Where its cgroups are, for the case that it is lost.
    cgroup: Option<String>,
    line: Line,
    is_engaged: AtomicBool,
    /// `/dev/null`.
    nothing: OwnedFd,
    /// To whom the pipes of job processes must belong, if not to us.
    owner: Option<Owner>,
}

/// A user and a group.
type Owner = (Uid, Gid);

impl Guardian {
    /// Starts this same program again as a guardian; its `main` begins with [`run_if_asked`](crate::run_if_asked).
    pub fn start(isolation: Isolation) -> Result<Guardian, StartError> {
        Self::start_under(&Conditions::isolated(isolation))
    }

    /// The same, for jobs that run under these conditions.
    pub fn start_under(conditions: &Conditions) -> Result<Guardian, StartError> {
        // Also right when the program's file was replaced meanwhile.
        Self::start_program(Path::new("/proc/self/exe"), conditions)
    }

    /// Starts a program whose `main` begins with [`run_if_asked`](crate::run_if_asked) as a guardian.
    pub fn start_program(program: &Path, conditions: &Conditions) -> Result<Guardian, StartError> {
        start::start(program, conditions).map(|ward| Guardian { ward: Arc::new(ward) })
    }

    /// Takes it into service; false if it is in somebody's already. It knows one worker and one lease.
    pub fn engage(&self) -> bool {
        !self.ward.is_engaged.swap(true, Ordering::SeqCst)
    }

    /// What really holds job processes together.
    pub fn protection(&self) -> Protection {
        self.ward.protection
    }

    /// The guardian's process.
    pub fn pid(&self) -> u32 {
        self.ward.pid
    }

    /// Whether it can end this process when an exclusive job inside it does not stop. From a namespace it cannot.
    pub fn can_kill_worker(&self) -> bool {
        !self.ward.protection.namespace
    }

    /// Tells it where to take leave and how to stop exclusive families, and starts to listen to it. To be called once,
    /// inside a runtime, before the first launch.
    pub fn attach(&self, servers: &str, stopping: Stopping) {
        self.leave_at(servers);
        self.tell(Order::Terms(stopping));
        if let Err(error) = line::listen(&self.ward) {
            // Without descriptors or a runtime no job could be run either; the guardian's end is how the worker hears of it.
            tracing::error!(%error, "cannot listen to the guardian");
            self.kill();
            self.ward.line.end(GuardianLost { all_gone: true });
        }
    }

    /// Tells it where to take leave from now on: addresses separated by commas, asked in this order. It asks nobody else.
    pub fn leave_at(&self, servers: &str) {
        self.ward.line.send(&Said::Servers(servers.to_owned()));
    }

    /// Tells it something. Never waits; keeps its order with launches.
    pub fn tell(&self, order: Order) {
        self.ward.line.send(&Said::Order(order));
    }

    /// Starts a family and waits until its program runs. Dropping the future kills what it may have started.
    pub async fn launch(&self, launch: Launch) -> Result<Family, LaunchError> {
        family::launch(&self.ward, launch).await
    }

    /// Resolves when the guardian's process is gone, and whatever it had started was seen to.
    pub async fn lost(&self) {
        self.ward.line.lost().await;
    }

    /// Ends the guardian's process: the worker's last resort.
    pub fn kill(&self) {
        self.ward.line.kill_peer();
    }
}

impl Ward {
    /// What it may leave behind when it is lost now.
    fn remains(&self) -> Remains {
        Remains::new(self.pid, self.line.marks(), self.cgroup.as_deref())
    }

    /// It has exited: takes note, so that the kernel can forget it.
    fn reap(&self) {
        let mut child = self.child.lock().unwrap_or_else(PoisonError::into_inner);
        let _ = child.try_wait();
    }
}

impl std::fmt::Debug for Guardian {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Ward { pid, protection, .. } = &*self.ward;
        f.debug_struct("Guardian").field("pid", pid).field("protection", protection).finish_non_exhaustive()
    }
}
