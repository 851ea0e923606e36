//! The passive detector: takes pings from anyone and names whoever falls silent.
//!
//! Pings touch the table only; a thread of its own wakes at each check. What the check finds is confirmed member by
//! member before it is told, and told outside all locks, so a callback may call anything in here.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::{self, ThreadId};
use std::time::Duration;

use lease::passive::{Input, Output, PassiveConfig, SilenceWatch};
use model::{Clock, Instant, WorkerKey};
use tracing::{debug, error, info, warn};

use crate::stop::Stop;
use crate::table::{Fate, Member, Pinged, Table};

/// Listens for pings; names each member that is silent beyond the timeout once, and forgets it. Its next ping registers
/// it afresh. Dropping the detector stops it.
#[derive(Debug)]
pub struct PassiveDetector {
    core: Arc<Core>,
    run: Mutex<Option<Run>>,
}

/// What one check did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Checked {
    /// How many members it looked at: its cost.
    pub looked_at: u64,
    /// How many it found dead.
    pub dead: usize,
}

/// What the thread and the callers share.
struct Core {
    clock: Arc<dyn Clock>,
    table: Table,
    watch: Mutex<SilenceWatch<Arc<Member>>>,
    on_dead: Box<dyn Fn(&WorkerKey) + Send + Sync>,
}

/// One run of the thread.
#[derive(Debug)]
struct Run {
    stop: Arc<Stop>,
    thread: ThreadId,
}

/// Why a check is made.
#[derive(Clone, Copy, Debug)]
enum Turn {
    Due,
    OutOfTurn,
}

impl PassiveDetector {
    /// How many members there may be unless another bound is chosen; at some 150 bytes each.
    pub const MEMBERS_MAX_DEFAULT: usize = 1 << 21;
    /// The longest that [`stop`](Self::stop) waits for a callback that is under way.
    pub const STOP_WAIT_MAX: Duration = Duration::from_secs(2);

    /// A detector that is not started yet. `on_dead` is called once for each death.
    ///
    /// # Panics
    ///
    /// When the config does not pass its own [`check`](PassiveConfig::check).
    pub fn new(
        config: PassiveConfig,
        clock: Arc<dyn Clock>,
        on_dead: impl Fn(&WorkerKey) + Send + Sync + 'static,
    ) -> Self {
        Self::with_members_max(config, Self::MEMBERS_MAX_DEFAULT, clock, on_dead)
    }

    /// Like [`new`](Self::new), with this many members at most; the pings of others are refused. Who was removed still
    /// counts until the check at which it could have been dead.
    ///
    /// # Panics
    ///
    /// As [`new`](Self::new) does.
    pub fn with_members_max(
        config: PassiveConfig,
        members_max: usize,
        clock: Arc<dyn Clock>,
        on_dead: impl Fn(&WorkerKey) + Send + Sync + 'static,
    ) -> Self {
        let watch = SilenceWatch::new(config, clock.monotonic());
        let table = Table::new(members_max);
        let core = Core { clock, table, watch: Mutex::new(watch), on_dead: Box::new(on_dead) };
        PassiveDetector { core: Arc::new(core), run: Mutex::new(None) }
    }

    /// This member is alive now. The first ping registers it.
    pub fn ping(&self, member: &WorkerKey) -> Pinged {
        let pinged = self.core.table.ping(member, self.core.clock.monotonic());
        match pinged {
            Pinged::Registered => info!(%member, "member registered"),
            Pinged::Known => debug!(%member, "ping received"),
            Pinged::Full => debug!(%member, "ping refused, there are too many members"),
        }
        pinged
    }

    /// Watches members that are known from before, as if each had pinged now: who died meanwhile is noticed, too.
    /// Returns how many were refused because there are too many.
    pub fn seed<'a>(&self, members: impl IntoIterator<Item = &'a WorkerKey>) -> usize {
        let now = self.core.clock.monotonic();
        members.into_iter().filter(|member| self.core.table.ping(member, now) == Pinged::Full).count()
    }

    /// This member leaves: its silence is not a death. True if it was known.
    pub fn remove(&self, member: &WorkerKey) -> bool {
        self.core.table.remove(member)
    }

    /// All members, and how long each has been silent, in no order. Looks at every one: for people, not for programs.
    pub fn members(&self) -> Vec<(WorkerKey, Duration)> {
        let now = self.core.clock.monotonic();
        self.core.table.members().into_iter().map(|(key, last_ping)| (key, now.since(last_ping))).collect()
    }

    /// How many members there are.
    pub fn count(&self) -> usize {
        self.core.table.count()
    }

    /// How long ago this member pinged; `None` if it is not known.
    pub fn since_last(&self, member: &WorkerKey) -> Option<Duration> {
        let last_ping = self.core.table.last_ping(member)?;
        Some(self.core.clock.monotonic().since(last_ping))
    }

    /// Starts checking. Everybody known has a full timeout from now, and the first check comes after one interval. Does
    /// nothing if it is started.
    pub fn start(&self) {
        let mut run = self.lock_run();
        if run.is_some() {
            return;
        }
        self.core.lock_watch().handle(self.core.clock.monotonic(), Input::Started);
        let stop = Arc::new(Stop::default());
        let (core, stopped) = (Arc::clone(&self.core), Arc::clone(&stop));
        let body = move || {
            core.run(&stopped);
            stopped.ended();
        };
        let thread = thread::Builder::new().name("passive-detector".into()).spawn(body);
        let thread = thread.expect("the system can start one more thread").thread().id();
        *run = Some(Run { stop, thread });
    }

    /// Stops checking; pings are still taken. Returns when the thread has ended, or after
    /// [`STOP_WAIT_MAX`](Self::STOP_WAIT_MAX) if a callback keeps it, or at once if called by a callback. Deaths that
    /// were found and not told yet are left to the next start. Does nothing if it is stopped.
    pub fn stop(&self) {
        let Some(run) = self.lock_run().take() else { return };
        run.stop.ask();
        if thread::current().id() != run.thread && !run.stop.wait_for_end(Self::STOP_WAIT_MAX) {
            warn!("stopped without waiting any longer for a callback to return");
        }
    }

    /// True between start and stop.
    pub fn is_running(&self) -> bool {
        self.lock_run().is_some()
    }

    /// Checks out of turn, in the calling thread, and calls back from there. Needs no start.
    pub fn check_now(&self) -> Checked {
        self.core.check(Turn::OutOfTurn, || false)
    }

    fn lock_run(&self) -> MutexGuard<'_, Option<Run>> {
        self.run.lock().expect("nothing that is done while this is locked panics")
    }
}

impl Drop for PassiveDetector {
    fn drop(&mut self) {
        self.stop();
    }
}

impl Core {
    fn run(&self, stop: &Stop) {
        loop {
            let due_at = self.lock_watch().next_deadline().expect("a watch always has a next check");
            if stop.wait(due_at.since(self.clock.monotonic())) {
                return;
            }
            self.check(Turn::Due, || stop.is_asked());
        }
    }

    fn check(&self, turn: Turn, is_stopped: impl Fn() -> bool) -> Checked {
        let now = self.clock.monotonic();
        let (silent, looked_at) = self.find_silent(turn, now);
        let mut dead = 0;
        for (member, last_ping) in silent {
            if is_stopped() {
                self.table.keep(member);
            } else if self.table.bury(Arc::clone(&member), last_ping) == Fate::Dead {
                dead += 1;
                self.tell(member.key(), now.since(last_ping));
            }
        }
        Checked { looked_at, dead }
    }

    fn find_silent(&self, turn: Turn, now: Instant) -> (Vec<(Arc<Member>, Instant)>, u64) {
        let mut watch = self.lock_watch();
        let mut left = 0;
        let mut last_ping = |member: &Arc<Member>| {
            let last_ping = member.last_ping();
            left += usize::from(last_ping.is_none());
            last_ping
        };
        for member in self.table.newcomers() {
            if let Some(last_ping) = last_ping(&member) {
                watch.handle(now, Input::Joined { member, last_ping });
            }
        }
        let before = watch.looked_at();
        match turn {
            Turn::Due => watch.handle_deadline(now, last_ping),
            Turn::OutOfTurn => watch.check(now, last_ping),
        }
        let looked_at = watch.looked_at() - before;
        let silent = std::iter::from_fn(|| watch.poll_output());
        let silent = silent.map(|Output::Silent { member, last_ping }| (member, last_ping)).collect();
        self.table.free_places(left);
        (silent, looked_at)
    }

    fn tell(&self, member: &WorkerKey, silence: Duration) {
        info!(%member, silence_ms = silence.as_millis() as u64, "member fell silent");
        // The others must still be told.
        if catch_unwind(AssertUnwindSafe(|| (self.on_dead)(member))).is_err() {
            error!(%member, "the callback for a dead member panicked");
        }
    }

    fn lock_watch(&self) -> MutexGuard<'_, SilenceWatch<Arc<Member>>> {
        self.watch.lock().expect("nothing that is done while the watch is locked panics")
    }
}

impl fmt::Debug for Core {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Core").field("members", &self.table.count()).finish_non_exhaustive()
    }
}
