//! A family as the worker sees it: three pipes, two orders, one end.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use lease::guardian::{FamilyId, Order};
use model::Instant;
use rustix::fs::fchown;
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use tokio::net::unix::pipe::{Receiver, Sender};
use tokio::sync::oneshot;

use super::Ward;
use crate::error::{GuardianLost, LaunchError};
use crate::procfs::Mark;
use crate::wire::{CommandLine, PACKET_BYTES_MAX, Said};

/// What to run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Launch {
    /// A path, or a name to be found in the guardian's `PATH`.
    pub program: String,
    /// Its arguments.
    pub args: Vec<String>,
    /// Variables besides those that the guardian inherited from this process at its start.
    pub env: Vec<(String, String)>,
    /// It must be gone by the end of the lease.
    pub exclusive: bool,
    /// Nothing will be written to its standard input, which is empty then, and costs nothing.
    pub no_input: bool,
}

/// A job process and everyone who descends from it. Dropped before it has ended, it is killed.
#[derive(Debug)]
pub struct Family {
    /// The leader's standard input, if it has any, until it is taken.
    pub stdin: Option<Sender>,
    /// The leader's standard output, until it is taken.
    pub stdout: Option<Receiver>,
    /// The leader's standard error, until it is taken.
    pub stderr: Option<Receiver>,
    hold: FamilyHold,
}

/// How a family ended. Its leader has an exit code or a signal, never both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Exit {
    /// The leader's exit code.
    pub code: Option<i32>,
    /// The signal that ended the leader.
    pub signal: Option<i32>,
    /// When the guardian saw that nobody of the family was left, by the clock that it shares with the worker
    /// (`CLOCK_BOOTTIME`). Never earlier than the true end, and independent of when the worker hears of it.
    pub gone_at: Instant,
}

/// Kills the family unless it has ended, from the moment its launch was ordered.
struct FamilyHold {
    ward: Arc<Ward>,
    id: FamilyId,
    ended: oneshot::Receiver<Result<Exit, GuardianLost>>,
    end: Option<Result<Exit, GuardianLost>>,
}

pub(super) async fn launch(ward: &Arc<Ward>, launch: Launch) -> Result<Family, LaunchError> {
    let Launch { program, args, env, exclusive, no_input } = launch;
    let (stdin_theirs, stdin) = if no_input {
        (ward.nothing.try_clone().map_err(LaunchError::Failed)?, None)
    } else {
        let (theirs, ours) = pipe(ward)?;
        (theirs, Some(ours))
    };
    let (stdout, stdout_theirs) = pipe(ward)?;
    let (stderr, stderr_theirs) = pipe(ward)?;
    for ours in [Some(&stdout), Some(&stderr), stdin.as_ref()].into_iter().flatten() {
        rustix::io::ioctl_fionbio(ours, true)?;
    }
    // Before anything is started: what fails here must leave nobody behind. Unchecked, since they were made above.
    let stdin = stdin.map(Sender::from_owned_fd_unchecked).transpose().map_err(LaunchError::Failed)?;
    let stdout = Receiver::from_owned_fd_unchecked(stdout).map_err(LaunchError::Failed)?;
    let stderr = Receiver::from_owned_fd_unchecked(stderr).map_err(LaunchError::Failed)?;
    let mark = Mark::of(&env);

    let id = ward.line.next_family();
    let said = Said::Launch { family: id, exclusive, command: CommandLine { program, args, env } };
    let packet = said.to_bytes();
    if packet.len() > PACKET_BYTES_MAX {
        return Err(LaunchError::TooLarge { bytes: packet.len(), bytes_max: PACKET_BYTES_MAX });
    }
    let theirs = [stdin_theirs, stdout_theirs, stderr_theirs];
    let (launched, ended) = ward.line.launch(id, mark, packet, theirs)?;
    let hold = FamilyHold { ward: Arc::clone(ward), id, ended, end: None };
    // The sender is dropped without an answer only when nobody listens to the guardian any more.
    match launched.await.unwrap_or(Err(LaunchError::GuardianLost(GuardianLost { all_gone: false }))) {
        Ok(()) => Ok(Family { stdin, stdout: Some(stdout), stderr: Some(stderr), hold }),
        Err(error) => {
            hold.let_go();
            Err(error)
        }
    }
}

/// A pipe that the job's user may open again by its name, such as `/dev/stderr`.
fn pipe(ward: &Ward) -> Result<(OwnedFd, OwnedFd), Errno> {
    let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
    if let Some((user, group)) = ward.owner {
        fchown(&writer, Some(user), Some(group))?;
    }
    Ok((reader, writer))
}

impl From<Errno> for LaunchError {
    fn from(errno: Errno) -> Self {
        LaunchError::Failed(errno.into())
    }
}

impl Family {
    /// Asks everyone of it to end.
    pub fn terminate(&self) {
        self.hold.order(Order::Terminate { family: self.hold.id });
    }

    /// Ends everyone of it.
    pub fn kill(&self) {
        self.hold.order(Order::Kill { family: self.hold.id });
    }

    /// Waits until nobody of it is left, and says how its leader ended. May be asked again.
    pub async fn ended(&mut self) -> Result<Exit, GuardianLost> {
        if let Some(end) = self.hold.end {
            return end;
        }
        let heard = (&mut self.hold.ended).await;
        let end = heard.unwrap_or(Err(GuardianLost { all_gone: false }));
        self.hold.end = Some(end);
        end
    }
}

impl FamilyHold {
    fn order(&self, order: Order) {
        self.ward.line.send(&Said::Order(order));
    }

    /// There is nothing to kill.
    fn let_go(mut self) {
        self.end = Some(Err(GuardianLost { all_gone: true }));
    }
}

impl Drop for FamilyHold {
    fn drop(&mut self) {
        if self.end.is_none() {
            self.order(Order::Kill { family: self.id });
        }
    }
}

impl std::fmt::Debug for FamilyHold {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("FamilyHold").field(&self.id.0).finish()
    }
}
