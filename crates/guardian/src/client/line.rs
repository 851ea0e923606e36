//! The line to the guardian: packets out in order without ever waiting, events in, and what to tell everyone who waits
//! when it goes dead.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use lease::guardian::FamilyId;
use rustix::io::Errno;
use rustix::process::{Pid, Signal, pidfd_send_signal};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::net::UnixDatagram;
use tokio::sync::{Notify, oneshot, watch};

use super::{Exit, Ward, aftermath};
use crate::error::{GuardianLost, LaunchError};
use crate::packet;
use crate::procfs::Mark;
use crate::wire::{Event, PACKET_BYTES_MAX, Said};

/// Packets that a guardian may be behind. One that is further behind does not run any more and is killed.
const BACKLOG_MAX: usize = 100_000;
/// Before trying again what failed for another reason than a full line.
const RETRY_PAUSE: Duration = Duration::from_millis(5);

pub(super) struct Line {
    socket: OwnedFd,
    peer: OwnedFd,
    state: Mutex<State>,
    has_backlog: Notify,
    lost: watch::Sender<Option<GuardianLost>>,
    family_next: AtomicU64,
}

#[derive(Default)]
struct State {
    backlog: VecDeque<Packet>,
    families: BTreeMap<FamilyId, Waiting>,
    lost: Option<GuardianLost>,
}

struct Packet {
    bytes: Vec<u8>,
    descriptors: Vec<OwnedFd>,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Posted {
    /// The guardian has it, or may get it.
    OnItsWay,
    /// Nobody will ever read it.
    Nowhere,
}

/// Who waits for what of a family.
struct Waiting {
    mark: Mark,
    leader: Option<Pid>,
    launched: Option<oneshot::Sender<Result<(), LaunchError>>>,
    ended: oneshot::Sender<Result<Exit, GuardianLost>>,
}

type Answers = (oneshot::Receiver<Result<(), LaunchError>>, oneshot::Receiver<Result<Exit, GuardianLost>>);

impl Line {
    /// A line over this socket to the process behind this descriptor.
    pub(super) fn new(socket: OwnedFd, peer: OwnedFd) -> Line {
        Line {
            socket,
            peer,
            state: Mutex::default(),
            has_backlog: Notify::new(),
            lost: watch::Sender::new(None),
            family_next: AtomicU64::new(1),
        }
    }

    pub(super) fn next_family(&self) -> FamilyId {
        FamilyId(self.family_next.fetch_add(1, Ordering::Relaxed))
    }

    pub(super) fn send(&self, said: &Said) {
        self.post(&mut self.state(), Packet { bytes: said.to_bytes(), descriptors: Vec::new() });
    }

    /// Orders a launch; its answers come by the two channels.
    pub(super) fn launch(
        &self,
        family: FamilyId,
        mark: Mark,
        bytes: Vec<u8>,
        streams: [OwnedFd; 3],
    ) -> Result<Answers, LaunchError> {
        let mut state = self.state();
        if state.lost.is_some() {
            return Err(LaunchError::NoGuardian);
        }
        let ((launched, is_launched), (ended, has_ended)) = (oneshot::channel(), oneshot::channel());
        state.families.insert(family, Waiting { mark, leader: None, launched: Some(launched), ended });
        if self.post(&mut state, Packet { bytes, descriptors: streams.into() }) == Posted::Nowhere {
            state.families.remove(&family);
            return Err(LaunchError::NoGuardian);
        }
        Ok((is_launched, has_ended))
    }

    pub(super) async fn lost(&self) {
        // The sender lives as long as we do.
        let _ = self.lost.subscribe().wait_for(Option::is_some).await;
    }

    /// What marks the families that may run.
    pub(super) fn marks(&self) -> Vec<Mark> {
        self.state().families.values().map(|waiting| waiting.mark.clone()).collect()
    }

    /// Ends the guardian's process.
    pub(super) fn kill_peer(&self) {
        // The only possible error is that it is gone already.
        let _ = pidfd_send_signal(&self.peer, Signal::KILL);
    }

    /// Sends it now if nothing waits before it, else after what waits.
    fn post(&self, state: &mut State, packet: Packet) -> Posted {
        if state.lost.is_some() {
            return Posted::Nowhere;
        }
        if state.backlog.is_empty()
            && let Ok(posted) = self.try_send(&packet)
        {
            return posted;
        }
        if state.backlog.len() >= BACKLOG_MAX {
            self.kill_peer();
            return Posted::Nowhere;
        }
        state.backlog.push_back(packet);
        self.has_backlog.notify_one();
        Posted::OnItsWay
    }

    /// Sends what waits, as far as the line takes it.
    fn flush(&self) -> io::Result<()> {
        let mut state = self.state();
        while let Some(packet) = state.backlog.front() {
            self.try_send(packet)?;
            state.backlog.pop_front();
        }
        Ok(())
    }

    /// An error means that the line does not take it now. What a dead line is given goes nowhere: the guardian's end is
    /// noticed by those who listen.
    fn try_send(&self, packet: &Packet) -> io::Result<Posted> {
        let descriptors: Vec<_> = packet.descriptors.iter().map(AsFd::as_fd).collect();
        match packet::send(&self.socket, &packet.bytes, &descriptors) {
            Ok(()) => Ok(Posted::OnItsWay),
            Err(error) if is_full(&error) => Err(error),
            Err(_) => Ok(Posted::Nowhere),
        }
    }

    fn hear(&self, event: Event) {
        let mut state = self.state();
        match event {
            Event::Launched { family, leader } => {
                if let Some(waiting) = state.families.get_mut(&family) {
                    waiting.leader = i32::try_from(leader).ok().and_then(Pid::from_raw);
                    waiting.answer(Ok(()));
                }
            }
            Event::Failed { family, errno } => {
                if let Some(mut waiting) = state.families.remove(&family) {
                    waiting.answer(Err(LaunchError::Failed(io::Error::from_raw_os_error(errno))));
                }
            }
            Event::Refused(family) => {
                if let Some(mut waiting) = state.families.remove(&family) {
                    waiting.answer(Err(LaunchError::TooLate));
                }
            }
            Event::Ended { family, code, signal, gone_at } => {
                if let Some(waiting) = state.families.remove(&family) {
                    let _ = waiting.ended.send(Ok(Exit { code, signal, gone_at }));
                }
            }
            // Said once, at the start.
            Event::Ready { .. } | Event::Unfit(_) => {}
        }
    }

    /// Tells everyone who waits, and whoever will ask.
    pub(super) fn end(&self, lost: GuardianLost) {
        let mut state = self.state();
        state.lost = Some(lost);
        state.backlog.clear();
        for (_, mut waiting) in std::mem::take(&mut state.families) {
            waiting.answer(Err(LaunchError::GuardianLost(lost)));
            let _ = waiting.ended.send(Err(lost));
        }
        drop(state);
        self.lost.send_replace(Some(lost));
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn answer(&mut self, answer: Result<(), LaunchError>) {
        if let Some(launched) = self.launched.take() {
            // Nobody waits any more when the launch was given up; the order to kill it is on its way.
            let _ = launched.send(answer);
        }
    }
}

/// Starts the two tasks that keep the line going, inside a runtime.
pub(super) fn listen(ward: &Arc<Ward>) -> io::Result<()> {
    let socket = UnixDatagram::from_std(ward.line.socket.try_clone()?.into())?;
    let socket = Arc::new(socket);
    tokio::spawn(pump(Arc::clone(ward), Arc::clone(&socket)));
    tokio::spawn(heed(Arc::clone(ward), socket, exit_of(&ward.line.peer)?));
    Ok(())
}

/// Sends what could not be sent at once.
async fn pump(ward: Arc<Ward>, socket: Arc<UnixDatagram>) {
    loop {
        ward.line.has_backlog.notified().await;
        while socket.async_io(Interest::WRITABLE, || ward.line.flush()).await.is_err() {
            // Too many descriptors on their way, or no memory: the line will not say when that is over.
            tokio::time::sleep(RETRY_PAUSE).await;
        }
    }
}

/// Hears the guardian until its process has ended, and sees to what it leaves behind.
async fn heed(ward: Arc<Ward>, socket: Arc<UnixDatagram>, exit: AsyncFd<OwnedFd>) {
    let mut buffer = vec![0; PACKET_BYTES_MAX];
    loop {
        let receive = || packet::receive(&ward.line.socket, &mut buffer, &mut Vec::new());
        let Ok(length @ 1..) = socket.async_io(Interest::READABLE, receive).await else { break };
        let mut bytes = &buffer[..length];
        while let Some(event) = Event::take(&mut bytes) {
            ward.line.hear(event);
        }
    }
    // The line may be dead while the process, or what it is the init of, is still ending: only its exit proves anything.
    // An error would mean that the runtime ends, and nobody waits any more.
    let _ = exit.readable().await;
    let all_gone = if ward.protection.namespace {
        aftermath::tidy(&ward.remains());
        true
    } else {
        // Without cgroups one who forks faster than we look is not seen: then the lease decides.
        aftermath::clear(&ward.remains()).await && ward.protection.cgroups
    };
    tracing::error!(guardian = ward.pid, all_gone, "the guardian is gone");
    ward.reap();
    ward.line.end(GuardianLost { all_gone });
}

/// Whether an error of sending means "not now".
fn is_full(error: &io::Error) -> bool {
    let full = [Errno::AGAIN, Errno::TOOMANYREFS, Errno::NOBUFS, Errno::NOMEM, Errno::INTR];
    Errno::from_io_error(error).is_some_and(|errno| full.contains(&errno))
}

/// Becomes readable when the process exits.
#[expect(
    deprecated,
    reason = "the sound constructor is unsafe; the deprecated one is unsound only for types whose descriptor can \
              change, and an OwnedFd keeps its own"
)]
fn exit_of(process: &OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    AsyncFd::with_interest(process.try_clone()?, Interest::READABLE)
}
