//! What the loop waits for: the line, the worker's end, a leader's end, a time.

use std::io;
use std::os::fd::OwnedFd;

use lease::guardian::FamilyId;
use model::Instant;
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::io::Errno;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create, timerfd_settime,
};

/// Things that happen at one time, at most; the rest comes with the next look.
const WAKES_MAX: usize = 256;

const LINE: u64 = 0;
const WORKER: u64 = 1;
const TIME: u64 = 2;
/// Families come after these.
const FAMILY_0: u64 = 3;

pub(super) struct Waker {
    epoll: OwnedFd,
    timer: OwnedFd,
    armed_for: Option<Instant>,
    wants_room: bool,
    events: Vec<epoll::Event>,
}

/// Why the loop was woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wake {
    /// The worker said something, hung up, or has room again.
    Line,
    /// The worker's process is gone.
    WorkerDied,
    /// The leader of this family has ended.
    LeaderEnded(FamilyId),
    /// It is time.
    Time,
}

impl Waker {
    pub(super) fn new(line: &OwnedFd, worker: &OwnedFd) -> io::Result<Waker> {
        let epoll = epoll::create(CreateFlags::CLOEXEC)?;
        // Counts suspend, as the lease does: a machine that wakes up late finds its deadline passed.
        let timer = timerfd_create(TimerfdClockId::Boottime, TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK)?;
        let watch =
            |source: &OwnedFd, number| epoll::add(&epoll, source, EventData::new_u64(number), EventFlags::IN);
        watch(line, LINE)?;
        watch(worker, WORKER)?;
        watch(&timer, TIME)?;
        let events = Vec::with_capacity(WAKES_MAX);
        Ok(Waker { epoll, timer, armed_for: None, wants_room: false, events })
    }

    /// Waits until something happens.
    pub(super) fn wait(&mut self) -> io::Result<Vec<Wake>> {
        self.events.clear();
        match epoll::wait(&self.epoll, spare_capacity(&mut self.events), None) {
            // A signal that is ignored.
            Err(Errno::INTR) => return Ok(Vec::new()),
            waited => waited?,
        };
        let wakes: Vec<Wake> = self.events.iter().map(|event| Wake::of({ event.data }.u64())).collect();
        if wakes.contains(&Wake::Time) {
            self.armed_for = None;
            let _ = rustix::io::read(&self.timer, &mut [0; 8]);
        }
        Ok(wakes)
    }

    /// To be woken then, and not at the time named before.
    pub(super) fn wake_at(&mut self, at: Option<Instant>) -> io::Result<()> {
        if at == self.armed_for {
            return Ok(());
        }
        // All zero would disarm it; the first nanosecond after boot is long over.
        let nanos = at.map_or(0, |at| at.as_nanos().max(1));
        let it_value =
            Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as i64 };
        let it_interval = Timespec { tv_sec: 0, tv_nsec: 0 };
        timerfd_settime(&self.timer, TimerfdTimerFlags::ABSTIME, &Itimerspec { it_interval, it_value })?;
        self.armed_for = at;
        Ok(())
    }

    /// Also wakes when this leader has ended. Closing the descriptor undoes it.
    pub(super) fn watch_leader(&self, id: FamilyId, exit: &OwnedFd) -> io::Result<()> {
        // Once: the leader is reaped at that.
        let flags = EventFlags::IN | EventFlags::ONESHOT;
        Ok(epoll::add(&self.epoll, exit, EventData::new_u64(FAMILY_0 + id.0), flags)?)
    }

    /// Also wakes when the line has room again, or not any more.
    pub(super) fn watch_line(&mut self, line: &OwnedFd, wants_room: bool) -> io::Result<()> {
        if self.wants_room == wants_room {
            return Ok(());
        }
        self.wants_room = wants_room;
        let mut flags = EventFlags::IN;
        flags.set(EventFlags::OUT, wants_room);
        Ok(epoll::modify(&self.epoll, line, EventData::new_u64(LINE), flags)?)
    }

    /// Is not woken by this line or process any more.
    pub(super) fn forget(&self, source: &OwnedFd) {
        let _ = epoll::delete(&self.epoll, source);
    }
}

impl Wake {
    fn of(number: u64) -> Wake {
        match number {
            LINE => Wake::Line,
            WORKER => Wake::WorkerDied,
            TIME => Wake::Time,
            family => Wake::LeaderEnded(FamilyId(family - FAMILY_0)),
        }
    }
}
