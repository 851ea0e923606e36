//! What goes into a registry and what comes out of it: plain values.

use std::time::Duration;

use model::{Hold, HolderEnd, Instant, Nonce, RegistryId, WorkerKey};

use crate::clock_rule::RateError;
use crate::clock_watch::ClockRate;
use crate::message::{Answer, Change, Generation, Heartbeat, Leave, Profile, Stop};

/// A registry's terms, fixed for its life.
#[derive(Clone, Debug)]
pub struct Terms {
    /// Which registry this is.
    pub registry: RegistryId,
    /// Which life of its server.
    pub generation: Generation,
    /// The lease of a worker that asks for none.
    pub lease_default: Duration,
    /// Shorter wishes are granted this much.
    pub lease_min: Duration,
    /// Longer wishes are granted this much.
    pub lease_max: Duration,
    /// The assumed clock-rate error.
    pub rate_error: RateError,
    /// A start that was sent less long ago is not taken back because nobody says that it arrived: its claim may have taken most of its
    /// row's lease, and the worker's next heartbeat is still to come.
    pub verify_after: Duration,
    /// New workers per second; as many may come at once after a quiet second.
    pub registrations_per_second: u32,
    /// How long ended workers are remembered for people.
    pub remember_ended: Duration,
    /// Workers are known over a restart. Otherwise an unknown key that shows another life's token is taken for one from
    /// before: it must say all that it holds.
    pub durable: bool,
    /// The longest lease that a life before may have granted to such a worker: it may have it still if our first answers get
    /// lost, whatever it asks for now.
    pub inherited_lease: Duration,
}

/// Whom an answer is for; the driver's number, echoed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(pub u64);

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(
    clippy::large_enum_variant,
    reason = "the largest is the most frequent, and a box would be one more allocation"
)]
pub enum Input {
    /// The store told which workers this registry had before it started. Until then, first heartbeats are answered
    /// *later*, and nobody is judged. Again when workers of another registry were taken over: they are added.
    Restored(Vec<Restored>),
    /// This registry is ours for certain until then; the last word counts. Never said means: as long as we live. After that
    /// time heartbeats are still answered, but nothing exclusive is extended or acknowledged, nobody new is taken and nobody is
    /// judged, until a later time is said.
    OwnedUntil(Instant),
    /// The store is about to be asked for the workers of another registry. Until [`Input::TakeOverEnded`] anybody we do not
    /// know may be one of them: nobody new is taken, and nothing is taken back from the unknown.
    TakeOverBegun {
        /// Whose.
        from: RegistryId,
    },
    /// The store has answered for certain, and if there were any, [`Input::Restored`] has told who they are.
    TakeOverEnded {
        /// Whose.
        from: RegistryId,
    },
    /// A worker's heartbeat was read. With [`Heartbeat::came_after_start`] it was told which starts its stream left behind.
    Heartbeat {
        /// For the answer.
        ticket: Ticket,
        /// What it says.
        beat: Heartbeat,
    },
    /// A worker binds jobs without waiting for its next heartbeat.
    Bind {
        /// Who.
        key: WorkerKey,
        /// Which process.
        nonce: Nonce,
        /// What.
        binds: Vec<Change>,
    },
    /// A worker goes.
    Leave {
        /// For [`Output::LeaveDone`].
        ticket: Ticket,
        /// Who.
        key: WorkerKey,
        /// Which process; whatever it says if it never heartbeat.
        nonce: Nonce,
        /// How.
        leave: Leave,
    },
    /// The server claimed jobs for this worker and is about to send them: our own record of the claims. Those that start as
    /// soon as they come are sent only if they [are recorded](super::Registry::is_recorded) after this.
    Granted {
        /// Who gets them.
        key: WorkerKey,
        /// Which.
        holds: Vec<Hold>,
        /// Those of them that are exclusive.
        exclusive: Vec<Hold>,
        /// The start number of the last of them. Numbers grow over all streams to this worker, in one life of the server.
        start: u64,
    },
    /// These claims ended: reported, handed back, or never sent.
    Settled {
        /// Whose they were.
        key: WorkerKey,
        /// Which.
        holds: Vec<Hold>,
    },
    /// Someone cancelled a running job.
    Cancel {
        /// Who holds it.
        key: WorkerKey,
        /// Which.
        hold: Hold,
    },
    /// An operator wants the worker to drain.
    Drain {
        /// Who.
        key: WorkerKey,
    },
    /// An operator wants the worker gone.
    Kick {
        /// For [`Output::LeaveDone`].
        ticket: Ticket,
        /// Who.
        key: WorkerKey,
    },
    /// [`Output::Enlist`] was done, or not.
    Enlisted {
        /// Who.
        key: WorkerKey,
        /// What the store said.
        answer: Enlisted,
    },
    /// [`Output::Succeed`] was done; `None` if the store failed.
    Succeeded {
        /// The new key.
        key: WorkerKey,
        /// For each hold asked about, whether it moved.
        moved: Option<Vec<bool>>,
    },
    /// [`Output::Retire`] was done, or not.
    Retired {
        /// Who.
        key: WorkerKey,
        /// What the store said.
        answer: Retired,
    },
    /// [`Output::Check`] was done; `None` if the store failed.
    Checked {
        /// Who.
        key: WorkerKey,
        /// For each hold asked about.
        standings: Option<Vec<HoldStanding>>,
    },
}

/// A worker as the store remembered it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// Its key.
    pub key: WorkerKey,
    /// Which process used it.
    pub nonce: Nonce,
    /// The largest lease it was ever granted.
    pub grant: Duration,
    /// Its name for people.
    pub name: String,
}

/// What the store said to an enlisting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Enlisted {
    /// It is durable.
    Known,
    /// The key is terminal.
    Terminal(HolderEnd),
    /// Another process has the key.
    Taken,
    /// It is in another registry.
    Elsewhere {
        /// Where to find that one, if it is known.
        address: Option<String>,
    },
    /// The store failed, or this registry is not ours any more.
    Trouble,
}

/// What the store said to a retirement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retired {
    /// All of it was done.
    Done,
    /// It is another registry's to judge, or it was a stranger to us and the store knows the key as another process's.
    Refused,
    /// The store failed.
    Trouble,
}

/// What a job's row says about a hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoldStanding {
    /// It stands.
    Held {
        /// Someone cancelled the job.
        cancelled: bool,
        /// At most one copy of it may run.
        exclusive: bool,
    },
    /// It is gone.
    Lost,
}

/// Do this for me.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Answer a heartbeat.
    Answer {
        /// Whose.
        ticket: Ticket,
        /// The worker.
        key: WorkerKey,
        /// What.
        answer: Answer,
    },
    /// Make a worker, or a larger grant, durable. Answer: [`Input::Enlisted`].
    Enlist {
        /// Who.
        key: WorkerKey,
        /// Which process.
        nonce: Nonce,
        /// The largest grant.
        grant: Duration,
        /// Who it is.
        profile: Box<Profile>,
    },
    /// Move these holds to the worker's new key and retire the former one. Answer: [`Input::Succeeded`].
    Succeed {
        /// The key that lapsed.
        former: WorkerKey,
        /// The new key.
        key: WorkerKey,
        /// What moves.
        holds: Vec<Hold>,
    },
    /// Make the end of a worker durable, then take back everything it holds. Answer: [`Input::Retired`]. Asked again
    /// until it is done.
    Retire {
        /// Who.
        key: WorkerKey,
        /// Which process says that it is gone, if we never heard of it: refused if the store knows the key as one that
        /// heartbeats, lives, and is another process's.
        stranger: Option<Nonce>,
        /// How it ended.
        end: HolderEnd,
        /// Its losses count against the jobs.
        counted: bool,
        /// The latest moment at which it can have run anything, by our clock: what it said, or what the clock rule says.
        stopped_by: Instant,
        /// The clock rule says so, and its clock is not one that the rule allows for.
        unproven: bool,
    },
    /// A worker whose end was declared says when it really stopped: how far the two were apart.
    LateWord {
        /// Who.
        key: WorkerKey,
        /// When its end was declared.
        ended_at: Instant,
        /// When it had stopped everything.
        stopped_at: Instant,
        /// Jobs of volatile queues were among what it ran.
        volatile: bool,
    },
    /// Ask the rows whether these holds stand. Answer: [`Input::Checked`].
    Check {
        /// Who claims to hold them.
        key: WorkerKey,
        /// Which; at most [`CHECK_MAX`](super::CHECK_MAX).
        holds: Vec<Hold>,
    },
    /// Tell the worker at once that these binds stand.
    Bound {
        /// Who.
        key: WorkerKey,
        /// Which.
        holds: Vec<Hold>,
    },
    /// Tell the worker at once to stop these; its next answers repeat it.
    Stop {
        /// Who.
        key: WorkerKey,
        /// Which.
        stops: Vec<Stop>,
    },
    /// The worker has no business here any more: end its session. What it runs may run on until it is [`Gone`](Output::Gone).
    Ended {
        /// Who.
        key: WorkerKey,
        /// How.
        end: HolderEnd,
    },
    /// Nothing exclusive of this worker runs any more, for certain and for good: it said so, or its lease is over; or it is
    /// another registry's to say. Comes after [`Ended`](Output::Ended), which may have been long before.
    Gone {
        /// Who.
        key: WorkerKey,
    },
    /// All that this worker holds is known from now on, for the first time in this life of the server.
    Synced {
        /// Who.
        key: WorkerKey,
    },
    /// A leave or kick was carried out, or changed nothing.
    LeaveDone {
        /// Whose.
        ticket: Ticket,
    },
    /// A leave of somebody who is not known here is not taken now: too many such came at once.
    LeaveLater {
        /// Whose.
        ticket: Ticket,
        /// When to come back.
        retry_after: Duration,
    },
}

/// A running job whose row lease is over, as the store saw it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row {
    /// The claim.
    pub hold: Hold,
    /// Who holds it.
    pub holder: WorkerKey,
    /// The registry that judges the holder; `None` if it never heartbeat.
    pub registry: Option<RegistryId>,
    /// The job has a heartbeat timeout: a live worker is not enough.
    pub beats_itself: bool,
    /// At most one copy of it may run: it moves only when its holder says that it has stopped, or its lease is over.
    pub exclusive: bool,
    /// The holder is known to the passive detector, and pings.
    pub pings: bool,
}

/// What became of a start that was sent to a worker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartResult {
    /// The worker says that it has the job.
    Started,
    /// Certainly not: the worker received the start, or came over another stream since, and does not have the job.
    NotStarted,
    /// It may be on its way, lost, or running unsaid; it counts as running until it is verified.
    Unsure,
}

/// What to do with such a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The worker has it: push the row lease out.
    Push,
    /// Cannot be said yet: ask again soon.
    AskAgain,
    /// Nobody has it: take it back.
    TakeBack,
    /// Not ours to judge.
    NotOurs,
}

/// A worker as people see it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerView {
    /// Its key.
    pub key: WorkerKey,
    /// Where it is in its life.
    pub state: WorkerState,
    /// Who it is.
    pub profile: Profile,
    /// The lease granted last.
    pub lease: Duration,
    /// When its lease is over.
    pub expires: Instant,
    /// When it was first and last heard of in this life of the server.
    pub first_heard: Option<Instant>,
    /// See `first_heard`.
    pub last_heard: Option<Instant>,
    /// How many jobs it has bound.
    pub bound: usize,
    /// How many it was given and has not bound.
    pub assigned: usize,
    /// The token it must show next.
    pub token: crate::message::Token,
    /// It was asked to drain.
    pub draining: bool,
    /// Free slots, as it said.
    pub free_slots: u32,
    /// How late its loop runs, as it said.
    pub lag: Duration,
    /// How its clock runs, as far as that was measured.
    pub clock: Option<ClockRate>,
}

/// Where a worker is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WorkerState {
    /// Its first heartbeat is being made durable.
    Joining,
    /// Alive.
    Active,
    /// Known from before a restart; it has not sent its full set yet.
    Unsynced,
    /// It was kicked and holds exclusive jobs: it ends when it says that they have stopped, or with its lease.
    Stopping,
    /// Over.
    Ended(HolderEnd),
}
