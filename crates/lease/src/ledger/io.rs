//! What goes into the ledger and what comes out of it: plain values.

use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Instant, Nonce, Outcome, Report, Retry, WorkerKey};
use muster::SetId;

use crate::clock_rule::{RateError, Stopping};
use crate::message::{Answer, Change, Generation, Heartbeat, Profile, Stop};

/// The worker's terms, fixed for its life.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Who it is; its `slots` say how many handlers may run at once.
    pub profile: Profile,
    /// The lease it asks for. It beats five times as often.
    pub lease: Duration,
    /// The assumed clock-rate error.
    pub rate_error: RateError,
    /// From telling a handler to stop to ending its task, and how long that may take. Exclusive jobs are stopped by it
    /// before the lease is over; the profile's `stop_within` says whether the worker can do that for certain.
    pub stopping: Stopping,
    /// Send reports of jobs that are known to be lost, too. The server refuses them.
    pub report_lost: bool,
}

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A stream is up, opened under our present key, to this life of a server; it has none of our credits.
    Connected {
        /// Which life of the server.
        generation: Generation,
    },
    /// The stream is gone; what was not answered is unknown.
    Disconnected,
    /// [`Output::NewKey`] was done: the present key from now on.
    Rekeyed {
        /// The key.
        key: WorkerKey,
    },
    /// The server gives us a job.
    Assigned(Grant),
    /// The server answered the heartbeat with this number.
    HeartbeatAnswered {
        /// Which.
        number: u64,
        /// What.
        answer: Answer,
    },
    /// The server took these early binds.
    Bound(Vec<Hold>),
    /// The server wants a job stopped.
    Stopped(Stop),
    /// A handler returned, or its task is gone.
    Finished {
        /// Which job.
        hold: Hold,
        /// How.
        ended: Ended,
        /// When the last of its processes was gone, if that was before now: word of it may have been waiting for us.
        at: Option<Instant>,
    },
    /// The server answered a report.
    ReportAnswered {
        /// Of which job.
        hold: Hold,
        /// What.
        answer: ReportAnswer,
    },
    /// A handler noted progress; only the latest note of a job is kept. Counts as a sign that it gets on.
    Noted {
        /// Which job.
        hold: Hold,
        /// The note.
        note: Bytes,
    },
    /// A handler said that it gets on.
    Beaten {
        /// Which job.
        hold: Hold,
    },
    /// Take nothing new, finish within the grace, leave.
    Drain {
        /// From now to the end of the last handler.
        grace: Duration,
    },
    /// The server has taken note that we leave.
    Left,
    /// The server told the present set of workers, outside an answer to a heartbeat: kept, and echoed at once.
    Told(SetId),
    /// A healthcheck has run.
    Checked {
        /// When it came in.
        asked_at: Instant,
        /// The longest lease that its sender grants.
        lease: Duration,
    },
    /// The clients know how these ended: their results need not be kept any longer.
    Forget(Vec<Hold>),
}

/// A job as the ledger sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grant {
    /// The claim.
    pub hold: Hold,
    /// How long it is ours after the claim if we do not bind it.
    pub lease: Duration,
    /// How long the handler may run.
    pub timeout: Option<Duration>,
    /// The handler must say that it gets on at least this often.
    pub heartbeat_timeout: Option<Duration>,
    /// At most one copy of it may run: bind it at once, start it only when the bind is acknowledged, stop it before the
    /// lease is over, report it only when it has ended for certain.
    pub exclusive: bool,
    /// Exclusive, but it need not wait for its bind to be acknowledged: the server counts it as running from the moment it
    /// sent it.
    pub at_once: bool,
    /// Whom this start is for.
    pub start: Start,
}

/// Whom a start is for; it is refused unless all of it is current, so that a start which was delayed on its way can
/// never run after we said that the job is not running here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Start {
    /// The life of the server that sent it.
    pub generation: Generation,
    /// The worker's key.
    pub key: WorkerKey,
    /// Higher than that of every start before it on this stream.
    pub number: u64,
}

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    /// With this result.
    Completed(Bytes),
    /// With this error.
    Failed {
        /// What went wrong.
        error: String,
        /// Whether to try again.
        retry: Retry,
    },
    /// Its task was ended by us before it returned.
    Aborted,
    /// Nothing of it runs any more, because the guardian that ran it died. It is not reported: it may well be what killed the
    /// guardian, so our leave says that we crashed, and the server counts a loss.
    Crashed,
}

/// The server's answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReportAnswer {
    /// Taken, now or earlier.
    Done,
    /// Refused: the job moved on, to this fence. [`Fence::NONE`] when the job does not exist any more.
    Refused {
        /// The job's fence now.
        current: Fence,
    },
}

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Someone cancelled the job.
    Cancelled,
    /// The server gave the job to someone else; nothing this handler does counts any more.
    Lost,
    /// The server was not heard for a whole lease, or did not vouch for an exclusive job for so long, so the job may be
    /// someone else's by now. If it turns out that it is still ours, what the handler completes counts; anything else is
    /// handed back.
    LeaseOver,
    /// The attempt ran for longer than its time limit.
    TimedOut,
    /// The handler did not say for too long that it gets on.
    Wedged,
    /// The worker is shutting down.
    Draining,
}

/// Why a new key is needed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyEnd {
    /// No heartbeat was answered for a whole lease.
    Lapsed,
    /// The registry declared it inactive.
    Inactive,
}

/// Do this for me.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Start the handler of this job, which was assigned just now or, if it is exclusive, some time ago.
    Start {
        /// Which.
        hold: Hold,
    },
    /// Fire the handler's cancellation token.
    Stop {
        /// Which.
        hold: Hold,
        /// Why.
        reason: StopReason,
    },
    /// End the handler's task. It counts as running until [`Input::Finished`].
    Abort {
        /// Which.
        hold: Hold,
    },
    /// The task of an exclusive job did not end although it was aborted: end this process with everything it runs, now.
    Doom {
        /// Which.
        hold: Hold,
    },
    /// Nothing that ran under this key, which the registry declared over, runs any more: tell the servers, so that what
    /// waits for that can go on. Worth trying until its lease would be over anyway. Of a key that lapsed it is said only that
    /// nothing exclusive runs any more, and since when: whether that was in time.
    Farewell {
        /// The key that is over.
        key: WorkerKey,
        /// Which process.
        nonce: Nonce,
        /// Since when nothing exclusive has run under it.
        stopped_at: Instant,
        /// Nor has anything else.
        all_stopped: bool,
    },
    /// A handler's end was booked, or an exclusive job was given up before its start; `None` when it is not reported
    /// because the job was lost.
    Ended {
        /// Which.
        hold: Hold,
        /// How.
        outcome: Option<Outcome>,
    },
    /// The server took a report.
    Accepted {
        /// Of which job.
        hold: Hold,
    },
    /// The server refused a report.
    Refused {
        /// Of which job.
        hold: Hold,
        /// The job's fence now.
        current: Fence,
    },
    /// Draw a new key, answer [`Input::Rekeyed`] at once, and open a new stream under it; the old one is worth nothing.
    NewKey {
        /// Why.
        why: KeyEnd,
    },
    /// Another server owns this worker: go there, under the same key.
    MoveTo {
        /// Where, if that is known.
        address: Option<String>,
    },
    /// The server here can do nothing for us: if there is another one, go there, under the same key; else stay.
    TryAnother,
    /// The registry granted this lease for the first time, or another one than before.
    Registered {
        /// The lease.
        lease: Duration,
    },
    /// An operator wants us to drain: shut down as if told by a signal.
    DrainOrdered,
    /// The worker has left; `unreported` outcomes could not be delivered.
    Gone {
        /// How many.
        unreported: usize,
    },
}

/// The parts of one frame.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Transmit {
    /// Free slots added.
    pub credits: u32,
    /// All credits are taken back.
    pub draining: bool,
    /// A heartbeat and its number.
    pub heartbeat: Option<(u64, Heartbeat)>,
    /// Binds that do not wait for a heartbeat.
    pub binds: Vec<Change>,
    /// Jobs with a heartbeat timeout whose handlers get on.
    pub beats: Vec<Hold>,
    /// Ends of attempts.
    pub reports: Vec<Report>,
    /// Progress.
    pub notes: Vec<(Hold, Bytes)>,
    /// We go; says whether every handler has ended.
    pub leave: Option<LeaveNote>,
    /// The set id that was told just now, echoed.
    pub worker_set: Option<SetId>,
}

/// The end of a worker in its own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeaveNote {
    /// The key.
    pub key: WorkerKey,
    /// Which process.
    pub nonce: Nonce,
    /// Every handler has ended.
    pub all_stopped: bool,
    /// Some ended as [`Ended::Crashed`] and are still ours: they count as lost.
    pub crashed: bool,
}
