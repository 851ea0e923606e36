//! A process group: told to end, made to end, known to be empty.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, kill_process_group, pidfd_open, test_kill_process_group};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::process::Child;
use tokio::time;

/// How often a killed group that is not empty yet is looked at.
const EMPTY_CHECK_INTERVAL: Duration = Duration::from_millis(2);
/// How long a killed group may take to be empty; a process in uninterruptible sleep may take longer.
const EMPTY_WAIT: Duration = Duration::from_secs(5);

/// The group a child leads. Dropped before it was reaped, it is killed.
pub(super) struct Group {
    /// `None` once the leader was reaped: the number may then belong to someone else.
    leader: Option<Pid>,
    exit: Option<AsyncFd<OwnedFd>>,
}

impl Group {
    pub(super) fn of(child: &Child) -> Self {
        let leader = child.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
        let exit = leader.and_then(exit_of);
        Group { leader, exit }
    }

    /// Waits until the leader has exited, and leaves it unreaped, so that its number still means this group.
    pub(super) async fn leader_exited(&self) {
        let Some(exit) = &self.exit else {
            // Without a descriptor for the process, look at it now and then. Only old kernels lack them.
            while self.leader.is_some_and(|leader| stat_of(leader).is_some_and(|stat| stat.state != 'Z')) {
                time::sleep(EMPTY_CHECK_INTERVAL).await;
            }
            return;
        };
        // An error would mean that the runtime is shutting down; then the group is killed next, as it should be.
        let _ = exit.readable().await;
    }

    /// Asks every process of the group to end.
    pub(super) fn terminate(&self) {
        self.signal(Signal::TERM);
    }

    /// Ends every process of the group. Must come before the leader is reaped.
    pub(super) fn kill(&self) {
        self.signal(Signal::KILL);
    }

    /// The leader was reaped: waits until those that were killed with it are gone.
    pub(super) async fn reaped(&mut self) {
        let Some(group) = self.leader.take() else { return };
        let emptied = async {
            while test_kill_process_group(group).is_ok() && has_living_member(group) {
                time::sleep(EMPTY_CHECK_INTERVAL).await;
            }
        };
        if time::timeout(EMPTY_WAIT, emptied).await.is_err() {
            tracing::warn!(group = group.as_raw_nonzero().get(), "a killed process group does not end");
        }
    }

    fn signal(&self, signal: Signal) {
        if let Some(group) = self.leader {
            // The only error for a group of ours is that nobody is left in it.
            let _ = kill_process_group(group, signal);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.kill();
    }
}

/// A descriptor that becomes readable when the process exits.
#[expect(
    deprecated,
    reason = "the sound constructor is unsafe, which this workspace forbids; the deprecated one is unsound only for \
              types whose descriptor can change, and an OwnedFd keeps its own"
)]
fn exit_of(process: Pid) -> Option<AsyncFd<OwnedFd>> {
    let pidfd = pidfd_open(process, PidfdFlags::empty()).ok()?;
    AsyncFd::with_interest(pidfd, Interest::READABLE).ok()
}

/// Whether the group has more than zombies, which nobody may ever reap in a container without an init.
fn has_living_member(group: Pid) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return true };
    processes
        .flatten()
        .filter_map(|entry| Pid::from_raw(entry.file_name().to_str()?.parse().ok()?))
        .filter_map(stat_of)
        .any(|stat| stat.group == group.as_raw_nonzero().get() && stat.state != 'Z')
}

struct Stat {
    state: char,
    group: i32,
}

fn stat_of(process: Pid) -> Option<Stat> {
    let text = std::fs::read_to_string(format!("/proc/{}/stat", process.as_raw_nonzero())).ok()?;
    // The name, in parentheses, may contain anything, so the fields are counted after its end.
    let mut fields = text.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let group = fields.nth(1)?.parse().ok()?;
    Some(Stat { state, group })
}
