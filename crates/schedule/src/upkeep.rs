//! The server's own duties, and when each is due: promote jobs whose time has come, take jobs back from silent
//! workers, remove what is past retention, and make up for our own stalls.
//!
//! Inputs only move deadlines. Duties start in [`Upkeep::handle_deadline`] and nowhere else, so a driver that drains its
//! inbox before it looks at deadlines has applied every waiting heartbeat before a rescue starts.
//!
//! Known times are kept as a minimum and err towards too early. Starting a duty forgets its time; what is told while it
//! runs counts again; a pass that left nothing behind asks the store for fresh deadlines. So renewals, finished jobs and
//! cancelled ones never need to be told: the price is one pass that finds nothing.
//!
//! **Own stalls.** While leases exist, a tick shows that our own loop runs. A tick that is late by more than
//! [`STALL_TOLERANCE`], or a store that refused renewals or kept a call of a holder waiting for longer, means that workers could
//! not renew, or had not even got the job whose lease was running, through no fault of theirs: every lease gets that time back, and nothing is taken back for one longest lease, up to [`PAUSE_MAX`].

use std::collections::VecDeque;
use std::time::Duration;

use model::{Backoff, Instant};

/// Most jobs promoted by one output; more take further ones.
pub const PROMOTE_LIMIT: usize = 1_000;
/// Most jobs taken back by one output; more take further ones.
pub const REAP_LIMIT: usize = 1_000;
/// Most rows of a kind removed by one output; more take further ones.
pub const PURGE_LIMIT: usize = 1_000;
/// How often to look for what is past retention.
pub const PURGE_INTERVAL: Duration = Duration::from_secs(60);
/// How often to read the deadlines afresh while scheduled jobs exist, since the wall clock may step.
pub const READ_INTERVAL: Duration = Duration::from_secs(10);
/// How often to see that our own loop runs, while leases exist. Well below [`STALL_TOLERANCE`], so that a stall is
/// measured nearly whole.
pub const STALL_TICK: Duration = Duration::from_millis(250);
/// A stall up to this long is a hiccup that leases survive by themselves: a beat lost to it is followed by another.
pub const STALL_TOLERANCE: Duration = Duration::from_secs(1);
/// The longest pause of rescue after a start or a stall. Holders with longer leases have them to themselves; without
/// this bound a single lease of a day would keep everybody's jobs from coming back for a day.
pub const PAUSE_MAX: Duration = Duration::from_secs(60);
/// The least time between a pass that found nothing and the next, so that a store whose answers contradict each other
/// costs little.
pub const EMPTY_PASS_GAP: Duration = Duration::from_millis(5);

/// Something that the store is asked to do, by an [`Output`], one of each kind at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Duty {
    /// Make due jobs available.
    Promote,
    /// Take jobs back from silent workers.
    Reap,
    /// Remove what is past retention.
    Purge,
    /// Give leases more time.
    Extend,
    /// Ask when the next duties are due.
    Read,
}

/// Something happened. Spans count from `now`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// The store is open. Nothing is taken back during the first longest lease, up to [`PAUSE_MAX`], so that workers find
    /// us again.
    Started {
        /// The longest lease of any running job; `None` if none runs.
        longest_lease: Option<Duration>,
    },
    /// Somebody scheduled a job.
    RunDue {
        /// It is due after this long.
        after: Duration,
    },
    /// A claim granted a lease. Renewals need not be told.
    LeaseGranted {
        /// Its length.
        lease: Duration,
    },
    /// [`Output::ReadDeadlines`] was done.
    Deadlines {
        /// The next scheduled job.
        next_run_in: Option<Duration>,
        /// The next lease that runs out; `None` if no job runs.
        next_lease_in: Option<Duration>,
        /// The longest lease of any running job.
        longest_lease: Option<Duration>,
    },
    /// [`Output::Promote`] was done.
    Promoted {
        /// How many jobs became available.
        count: usize,
        /// The output's limit.
        limit: usize,
    },
    /// [`Output::Reap`] was done.
    ReapDone {
        /// How many leases were found to be over, whether or not their jobs could be taken back.
        found: usize,
        /// The output's limit.
        limit: usize,
    },
    /// [`Output::Purge`] was done.
    PurgeDone {
        /// How many rows went.
        removed: u64,
        /// The output's limit.
        limit: usize,
    },
    /// [`Output::ExtendLeases`] was done.
    Extended,
    /// A duty was not done, or not wholly: it is tried again after a while.
    Failed {
        /// Which.
        duty: Duty,
    },
    /// The store has refused renewals, or kept what holders asked of it waiting, for this long, up to now. May be told again as
    /// it goes on.
    StoreStalled {
        /// How long.
        lasted: Duration,
    },
    /// The wall clock was stepped.
    WallStepped,
    /// Others may have changed when duties are due.
    LookAgain,
}

/// Do this, and answer with the input named, or with [`Input::Failed`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Output {
    /// Make due jobs available. Answer: [`Input::Promoted`].
    Promote {
        /// At most this many.
        limit: usize,
    },
    /// Take back jobs whose lease is over. Answer: [`Input::ReapDone`].
    Reap {
        /// At most this many.
        limit: usize,
        /// Later than this it must not be started but answered as failed: we were frozen after deciding it, and the
        /// stall must be noticed first.
        not_after: Instant,
    },
    /// Remove what is past retention. Answer: [`Input::PurgeDone`].
    Purge {
        /// At most this many rows of each kind.
        limit: usize,
    },
    /// Give every running job this much more lease. Answer: [`Input::Extended`].
    ExtendLeases {
        /// How much.
        by: Duration,
    },
    /// Ask the store when the next duties are due. Answer: [`Input::Deadlines`].
    ReadDeadlines,
}

/// What the machine waits for.
#[derive(Clone, Copy, Debug)]
enum Timer {
    /// When to see that our own loop runs: every [`STALL_TICK`] while leases exist.
    Tick,
    /// When to give leases the time that a stall took: at once.
    Extend,
    /// When to make jobs available: at the earliest run time we know.
    Promote,
    /// When to take jobs back: when the earliest lease we know is over, no stall is being made up for, and the pause
    /// after the last one is over too.
    Reap,
    /// When to remove old rows: every [`PURGE_INTERVAL`], at once while there are more.
    Purge,
    /// When to ask the store for its deadlines: after a pass, after a clock step, and now and then while jobs are
    /// scheduled.
    Read,
}

impl Timer {
    const ALL: [Timer; 6] =
        [Timer::Tick, Timer::Extend, Timer::Promote, Timer::Reap, Timer::Purge, Timer::Read];
}

/// The machine. After each input or deadline, drain [`poll_output`](Self::poll_output) before the next.
#[derive(Debug, Default)]
pub struct Upkeep {
    promote: Slot,
    reap: Slot,
    purge: Slot,
    extend: Slot,
    read: Slot,
    /// The next sign of life, while leases exist.
    tick_at: Option<Instant>,
    /// Nothing is taken back before.
    reap_from: Instant,
    /// Lease time owed for stalls and not handed out yet.
    owed: Duration,
    /// Lease time being handed out; owed again if that fails.
    handing_out: Duration,
    /// Stalls up to here are owed or made up for; a second report of the same time adds nothing.
    made_up_to: Instant,
    /// The longest lease when the deadlines were last read.
    longest_read: Duration,
    /// The longest lease granted since that reading began.
    longest_granted: Duration,
    outputs: VecDeque<Output>,
}

/// One duty's timer and state.
#[derive(Debug, Default)]
struct Slot {
    due: Option<Instant>,
    not_before: Instant,
    in_flight: bool,
    backoff: Backoff,
}

impl Upkeep {
    /// Does nothing until [`Input::Started`].
    pub fn new() -> Self {
        Self::default()
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        // Before anything else: what waited in the inbox while we were frozen may say that all leases are gone, which
        // was true then; a claim behind it in the same inbox would not get its time back.
        self.notice_own_stall(now);
        match input {
            Input::Started { longest_lease } => self.start(now, longest_lease),
            Input::RunDue { after } => self.run_due(now, after),
            Input::LeaseGranted { lease } => {
                self.longest_granted = self.longest_granted.max(lease);
                self.lease_ends(now, lease);
            }
            Input::Deadlines { next_run_in, next_lease_in, longest_lease } => {
                self.read.done();
                self.longest_read = longest_lease.unwrap_or_default();
                if let Some(after) = next_run_in {
                    self.run_due(now, after);
                }
                if let Some(after) = next_lease_in {
                    self.lease_ends(now, after);
                }
                // A lease granted while the deadlines were read has set its timer meanwhile.
                if self.reap.due.is_none() && !self.reap.in_flight {
                    self.tick_at = None;
                }
            }
            Input::Promoted { count, limit } => {
                self.promote.pass_done(now, count, limit);
                self.read_after_pass(now, count, limit);
            }
            Input::ReapDone { found, limit } => {
                self.reap.pass_done(now, found, limit);
                self.read_after_pass(now, found, limit);
            }
            Input::PurgeDone { removed, limit } => {
                self.purge.done();
                self.purge.due_by(if removed >= limit as u64 { now } else { now + PURGE_INTERVAL });
            }
            Input::Extended => {
                self.extend.done();
                self.handing_out = Duration::ZERO;
            }
            Input::Failed { duty } => self.failed(now, duty),
            Input::StoreStalled { lasted } => {
                if lasted > STALL_TOLERANCE {
                    self.make_up_for(now, lasted);
                }
            }
            Input::WallStepped | Input::LookAgain => self.read.due_by(now),
        }
    }

    /// Wake me then; a time that is past means now.
    pub fn next_deadline(&self) -> Option<Instant> {
        Timer::ALL.into_iter().filter_map(|timer| self.deadline(timer)).min()
    }

    /// It is then: starts what is due.
    pub fn handle_deadline(&mut self, now: Instant) {
        self.notice_own_stall(now);
        for timer in Timer::ALL {
            if self.deadline(timer).is_some_and(|deadline| deadline <= now) {
                self.fire(now, timer);
            }
        }
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// Nothing is taken back before this instant: the pause after a start or a stall.
    pub fn reap_from(&self) -> Instant {
        self.reap_from
    }

    /// Whether what is found to be over may be taken back now. A pass that began before a stall was noticed must ask: holders may
    /// have waited for the store meanwhile, and leases have not got that time back yet.
    pub fn may_take_back(&self, now: Instant) -> bool {
        !self.is_making_up() && now >= self.reap_from
    }

    /// Time that is owed is handed out first, however long the store takes to accept it.
    fn is_making_up(&self) -> bool {
        self.extend.in_flight || !self.owed.is_zero()
    }

    fn start(&mut self, now: Instant, longest_lease: Option<Duration>) {
        if let Some(lease) = longest_lease {
            self.longest_read = lease;
            self.reap_from = self.reap_from.max(now + lease.min(PAUSE_MAX));
            self.keep_ticking(now);
        }
        self.purge.due_by(now + PURGE_INTERVAL);
        self.read.due_by(now);
    }

    fn run_due(&mut self, now: Instant, after: Duration) {
        self.promote.due_by(now + after);
        self.read.due_by(now + READ_INTERVAL);
    }

    fn lease_ends(&mut self, now: Instant, after: Duration) {
        self.reap.due_by(now + after);
        self.keep_ticking(now);
    }

    fn keep_ticking(&mut self, now: Instant) {
        self.tick_at.get_or_insert(now + STALL_TICK);
    }

    /// A pass that left nothing behind asks what comes next.
    fn read_after_pass(&mut self, now: Instant, count: usize, limit: usize) {
        if count < limit {
            self.read.due_by(now);
        }
    }

    fn failed(&mut self, now: Instant, duty: Duty) {
        let slot = match duty {
            Duty::Promote => &mut self.promote,
            Duty::Reap => &mut self.reap,
            Duty::Purge => &mut self.purge,
            Duty::Extend => &mut self.extend,
            Duty::Read => &mut self.read,
        };
        slot.in_flight = false;
        slot.not_before = now + slot.backoff.next_delay();
        slot.due_by(now);
        if duty == Duty::Extend {
            self.owed += std::mem::take(&mut self.handing_out);
        }
    }

    fn notice_own_stall(&mut self, now: Instant) {
        let Some(tick_at) = self.tick_at else { return };
        let late = now.since(tick_at);
        if late > STALL_TOLERANCE {
            self.tick_at = Some(now + STALL_TICK);
            self.make_up_for(now, late);
        }
    }

    /// For `lasted` until now, workers could not renew through no fault of theirs.
    fn make_up_for(&mut self, now: Instant, lasted: Duration) {
        let pause = self.longest_read.max(self.longest_granted).min(PAUSE_MAX);
        self.reap_from = self.reap_from.max(now + pause);
        // Our own stall and the store's may be the same moment told twice, and a long one is told as it goes on.
        let begun = (now - lasted).max(self.made_up_to);
        self.owed += now.since(begun);
        self.made_up_to = self.made_up_to.max(now);
        if !self.owed.is_zero() {
            self.extend.due_by(now);
        }
    }

    fn deadline(&self, timer: Timer) -> Option<Instant> {
        match timer {
            Timer::Tick => self.tick_at,
            Timer::Extend => self.extend.deadline(),
            Timer::Promote => self.promote.deadline(),
            Timer::Reap if self.is_making_up() => None,
            Timer::Reap => self.reap.deadline().map(|deadline| deadline.max(self.reap_from)),
            Timer::Purge => self.purge.deadline(),
            Timer::Read => self.read.deadline(),
        }
    }

    fn fire(&mut self, now: Instant, timer: Timer) {
        let (slot, output) = match timer {
            Timer::Tick => {
                self.tick_at = Some(now + STALL_TICK);
                return;
            }
            Timer::Extend => {
                self.handing_out = std::mem::take(&mut self.owed);
                (&mut self.extend, Output::ExtendLeases { by: self.handing_out })
            }
            Timer::Promote => (&mut self.promote, Output::Promote { limit: PROMOTE_LIMIT }),
            Timer::Reap => {
                let not_after = now + STALL_TOLERANCE;
                (&mut self.reap, Output::Reap { limit: REAP_LIMIT, not_after })
            }
            Timer::Purge => (&mut self.purge, Output::Purge { limit: PURGE_LIMIT }),
            Timer::Read => {
                // What is granted from here on may be missing from the answer.
                self.longest_read = self.longest_read.max(self.longest_granted);
                self.longest_granted = Duration::ZERO;
                (&mut self.read, Output::ReadDeadlines)
            }
        };
        slot.due = None;
        slot.in_flight = true;
        self.outputs.push_back(output);
    }
}

impl Slot {
    /// Due at `at`, or earlier if it already is.
    fn due_by(&mut self, at: Instant) {
        self.due = Some(self.due.map_or(at, |due| due.min(at)));
    }

    fn done(&mut self) {
        self.in_flight = false;
        self.backoff.reset();
    }

    /// A full batch goes on at once.
    fn pass_done(&mut self, now: Instant, count: usize, limit: usize) {
        self.done();
        if count >= limit {
            self.due_by(now);
        } else if count == 0 {
            self.not_before = now + EMPTY_PASS_GAP;
        }
    }

    fn deadline(&self) -> Option<Instant> {
        if self.in_flight { None } else { self.due.map(|due| due.max(self.not_before)) }
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
