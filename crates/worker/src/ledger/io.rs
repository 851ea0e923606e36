//! What goes into the ledger and what comes out of it: plain values.

use std::time::Duration;

use bytes::Bytes;
use model::{Fence, Hold, Instant, Outcome, Report, Retry};

/// The worker's terms, fixed for its life.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// How many handlers may run at once.
    pub(crate) slots: u32,
    /// From telling a handler to stop to ending its task.
    pub(crate) kill_wait: Duration,
    /// Send reports of jobs that are known to be lost, too. The server refuses them.
    pub(crate) report_lost: bool,
}

/// Something happened.
#[derive(Debug)]
pub(crate) enum Input {
    /// A stream is up; the server has none of our credits.
    Connected,
    /// The stream is gone; what was not answered is unknown.
    Disconnected,
    /// This process did not run since then (stopped, suspended, starved).
    Overslept { since: Instant },
    /// The server gives us a job.
    Assigned(Grant),
    /// The server renewed these, as of the beat with this number.
    BeatAnswered { number: u64, renewals: Vec<(Hold, Duration)> },
    /// Someone cancelled the job; it stays ours until its handler has returned.
    CancelOrdered(Hold),
    /// The job is not ours any more.
    Lost(Hold),
    /// A handler returned, or its task is gone.
    Finished { hold: Hold, ended: Ended },
    /// The server answered a report.
    ReportAnswered { hold: Hold, answer: Answer },
    /// A handler noted progress; only the latest note of a job is kept.
    Noted { hold: Hold, note: Bytes },
    /// Take nothing new, finish within the grace, leave.
    Drain { grace: Duration },
    /// The server has taken note that we leave.
    Left,
}

/// A job as the ledger sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Grant {
    pub(crate) hold: Hold,
    /// How long it is ours after the claim.
    pub(crate) lease: Duration,
    /// How long the handler may run.
    pub(crate) timeout: Option<Duration>,
}

/// How a handler ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Completed(Bytes),
    Failed {
        error: String,
        retry: Retry,
    },
    /// Its task was ended by us before it returned.
    Aborted,
}

/// The server's answer to a report.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    /// Taken, now or earlier.
    Done,
    /// Refused: the job moved on, to this fence. [`Fence::NONE`] when the job does not exist any more.
    Refused { current: Fence },
}

/// Why a handler is told to stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StopReason {
    /// Someone cancelled the job.
    Cancelled,
    /// The server gave the job to someone else; nothing this handler does counts any more.
    Lost,
    /// The server was not heard for a whole lease, so the job may be someone else's by now. If it turns out that it is
    /// still ours, what the handler completes counts; anything else is handed back.
    LeaseOver,
    /// The attempt ran for longer than its time limit.
    TimedOut,
    /// The worker is shutting down.
    Draining,
}

/// Do this for me.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Output {
    /// Start the handler of the job that was just assigned.
    Start { hold: Hold },
    /// Fire the handler's cancellation token.
    Stop { hold: Hold, reason: StopReason },
    /// End the handler's task.
    Abort { hold: Hold },
    /// A handler's end was booked; `None` when it is not reported because the job was lost.
    Ended { hold: Hold, outcome: Option<Outcome> },
    /// The server took a report.
    Accepted { hold: Hold },
    /// The server refused a report.
    Refused { hold: Hold, current: Fence },
    /// The worker has left; `unreported` outcomes could not be delivered.
    Gone { unreported: usize },
}

/// The parts of one frame.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Transmit {
    pub(crate) credits: u32,
    /// All credits are taken back.
    pub(crate) draining: bool,
    pub(crate) beat: Option<(u64, Vec<Hold>)>,
    pub(crate) reports: Vec<Report>,
    pub(crate) notes: Vec<(Hold, Bytes)>,
    /// We go; the value says whether every handler has ended.
    pub(crate) leave: Option<bool>,
}
