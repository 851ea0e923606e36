//! What one client has submitted and not seen the end of. Plain computation: no clock, no connection.
//!
//! Everything is said over one stream at a time, in frames that the server answers in their order. A stream is with one life of
//! the server, known by its generation, and generations are only ever compared for equality: whoever meets another life than
//! before makes everything due again that has not ended. What was on its way when a stream broke is due again, too. So a
//! submission may be sent too often, which ids make harmless, but never too rarely.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use model::{ClientId, Generation, JobId};
use rpc::wire;

/// Most jobs in one frame.
pub(super) const FRAME_JOBS_MAX: usize = 1_000;
/// Bytes of payload after which a frame is closed; a single job may be larger.
pub(super) const FRAME_BYTES_MAX: usize = 2 << 20;
/// Most acknowledgements in one frame.
pub(super) const FRAME_ACKS_MAX: usize = 5_000;
/// Frames on their way at most: what comes in meanwhile goes out together.
pub(super) const FRAMES_MAX: usize = 4;

/// The submissions of one client.
#[derive(Debug)]
pub(super) struct Submissions {
    client: ClientId,
    in_flight_max: usize,
    /// The number of the next submission.
    next: u64,
    /// The life of the server that answered last, and since when it remembers what it had of us.
    met: Option<(Generation, u64)>,
    /// Those that have not ended.
    live: BTreeMap<u64, wire::NewJob>,
    /// Those of them that the present life of the server has not taken, and that are not on their way.
    due: BTreeSet<u64>,
    /// Ended, and the server must be told that we know.
    ended: Vec<JobId>,
    /// The server remembers something that we know the end of, so it must be told how far we are.
    is_mark_due: bool,
    /// Acknowledgements wait for no job to go with.
    is_hurried: bool,
    /// Jobs in one frame at most: few when the server had no room lately, to try whether it has some.
    frame_jobs: usize,
    /// The server has no room: jobs wait until they are [tried again](Self::try_again).
    is_paused: bool,
    stream: StreamId,
    /// The present stream was greeted.
    is_greeted: bool,
    /// Frames on their way over the present stream, oldest first.
    sent: VecDeque<Sent>,
}

/// One of the streams of a client, which follow one another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct StreamId(u64);

/// What a frame on its way carries.
#[derive(Debug)]
struct Sent {
    sequences: Vec<u64>,
    acks: Vec<JobId>,
}

/// What is to be said next over a stream.
#[derive(Debug, PartialEq)]
pub(super) enum Next {
    Frame(wire::SubmitFrame),
    /// Nothing, for now.
    Nothing,
    /// Nothing ever: there is a later stream.
    Over,
}

impl Submissions {
    /// A client without submissions; at most `in_flight_max` at a time.
    pub(super) fn new(client: ClientId, in_flight_max: usize) -> Self {
        Submissions {
            client,
            in_flight_max,
            next: 0,
            met: None,
            live: BTreeMap::new(),
            due: BTreeSet::new(),
            ended: Vec::new(),
            is_mark_due: false,
            is_hurried: false,
            frame_jobs: FRAME_JOBS_MAX,
            is_paused: false,
            stream: StreamId::default(),
            is_greeted: false,
            sent: VecDeque::new(),
        }
    }

    /// Numbers a submission and keeps it; its id. The caller sees to it that there is [room](Self::has_room).
    pub(super) fn submit(&mut self, job: wire::NewJob) -> JobId {
        assert!(self.has_room(), "no more submissions are in flight than were allowed");
        let sequence = self.next;
        let id = self.client.job(sequence);
        self.next += 1;
        self.live.insert(sequence, wire::NewJob { id: id.to_string(), ..job });
        self.due.insert(sequence);
        id
    }

    /// Another stream begins. Nobody knows what became of that which was on its way over the last one.
    pub(super) fn open(&mut self) -> StreamId {
        for Sent { sequences, acks } in std::mem::take(&mut self.sent) {
            self.due.extend(sequences.into_iter().filter(|sequence| self.live.contains_key(sequence)));
            self.is_mark_due |= !acks.is_empty();
            self.ended.extend(acks);
        }
        self.stream = StreamId(self.stream.0 + 1);
        self.is_greeted = false;
        self.is_paused = false;
        self.stream
    }

    /// What to say next over this stream.
    pub(super) fn next_frame(&mut self, stream: StreamId) -> Next {
        if stream != self.stream {
            return Next::Over;
        }
        let is_due = self.has_due() || (self.has_acks() && self.is_hurried) || !self.is_greeted;
        if !is_due || self.sent.len() >= FRAMES_MAX {
            return Next::Nothing;
        }
        let lowest_unacknowledged = self.lowest().to_string();
        let client = if self.is_greeted { String::new() } else { self.client.job(0).to_string() };
        self.is_greeted = true;
        let (jobs, sequences) = self.take_due();
        let acks = self.take_acks();
        let acknowledged = acks.iter().map(ToString::to_string).collect();
        self.sent.push_back(Sent { sequences, acks });
        Next::Frame(wire::SubmitFrame { client, jobs, acknowledged, lowest_unacknowledged })
    }

    /// The present stream is with this life of the server, which remembers us since then; whether that is another one than
    /// before, or remembers less. Then everything is due that has not ended and was not just sent there.
    pub(super) fn meet(&mut self, generation: Generation, memory: u64) -> bool {
        let before = self.met.replace((generation, memory));
        let is_another = before.is_some_and(|before| before != (generation, memory));
        if is_another {
            self.due.extend(self.live.keys());
            for sequence in self.sent.iter().flat_map(|sent| &sent.sequences) {
                self.due.remove(sequence);
            }
        }
        is_another
    }

    /// The server dealt with so many more frames; whether there is something to say that waited for that.
    pub(super) fn answered(&mut self, frames: usize) -> bool {
        let was_full = self.sent.len() >= FRAMES_MAX;
        self.sent.drain(..frames.min(self.sent.len()));
        was_full && self.has_due()
    }

    /// Which of these jobs the server had no room for. Whether that is news; it is when it had room for all that came before.
    pub(super) fn postponed(&mut self, ids: &[JobId]) -> bool {
        if ids.is_empty() {
            self.frame_jobs = (self.frame_jobs * 2).min(FRAME_JOBS_MAX);
            return false;
        }
        let ours = ids
            .iter()
            .filter_map(|id| self.sequence(*id))
            .filter(|sequence| self.live.contains_key(sequence));
        self.due.extend(ours.collect::<Vec<_>>());
        self.is_paused = true;
        std::mem::replace(&mut self.frame_jobs, 1) == FRAME_JOBS_MAX
    }

    /// The server may have room again; whether there is something to say that waited for that.
    pub(super) fn try_again(&mut self) -> bool {
        self.is_paused = false;
        self.has_due()
    }

    /// Whether jobs wait until they are [tried again](Self::try_again).
    pub(super) fn is_paused(&self) -> bool {
        self.is_paused
    }

    /// The server says that this job has ended; whether we did not know. It is to be acknowledged then.
    pub(super) fn end(&mut self, id: JobId) -> bool {
        let Some(sequence) = self.sequence(id) else { return false };
        let is_news = self.give_up(sequence);
        if is_news {
            self.ended.push(id);
        } else {
            self.is_mark_due = true;
        }
        is_news
    }

    /// The server will never take this job; whether we still wanted it.
    pub(super) fn refused(&mut self, id: JobId) -> bool {
        self.sequence(id).is_some_and(|sequence| self.give_up(sequence))
    }

    /// Acknowledgements wait no longer for a job to go with; whether there are any.
    pub(super) fn hurry(&mut self) -> bool {
        self.is_hurried = self.has_acks();
        self.is_hurried
    }

    /// Whether there are acknowledgements that wait for a job to go with.
    pub(super) fn has_acks(&self) -> bool {
        !self.ended.is_empty() || self.is_mark_due
    }

    /// Whether there are as many of them as a frame takes.
    pub(super) fn has_many_acks(&self) -> bool {
        self.ended.len() >= FRAME_ACKS_MAX
    }

    /// Whether another submission may be made.
    pub(super) fn has_room(&self) -> bool {
        self.live.len() < self.in_flight_max
    }

    /// Whether everything has ended, and the server knows that we know.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty() && self.sent.iter().all(|sent| sent.acks.is_empty())
    }

    /// Whether jobs are to be sent.
    fn has_due(&self) -> bool {
        !self.due.is_empty() && !self.is_paused
    }

    /// The oldest of those that are due, as many as fit a frame.
    fn take_due(&mut self) -> (Vec<wire::NewJob>, Vec<u64>) {
        let (mut jobs, mut sequences, mut bytes) = (Vec::new(), Vec::new(), 0);
        while jobs.len() < self.frame_jobs
            && self.has_due()
            && let Some(sequence) = self.due.first().copied()
        {
            let job = &self.live[&sequence];
            bytes += job.payload.len();
            if bytes > FRAME_BYTES_MAX && !jobs.is_empty() {
                break;
            }
            jobs.push(job.clone());
            sequences.push(sequence);
            self.due.pop_first();
        }
        (jobs, sequences)
    }

    /// What the server should be told that we know, as much as fits a frame.
    fn take_acks(&mut self) -> Vec<JobId> {
        let rest = self.ended.split_off(self.ended.len().min(FRAME_ACKS_MAX));
        self.is_mark_due = false;
        self.is_hurried &= !rest.is_empty();
        std::mem::replace(&mut self.ended, rest)
    }

    /// The oldest submission that has not ended, or else the next one. Nobody waits for anything below it.
    fn lowest(&self) -> JobId {
        self.client.job(self.live.keys().next().copied().unwrap_or(self.next))
    }

    /// The number of a submission of ours.
    fn sequence(&self, id: JobId) -> Option<u64> {
        let (client, sequence) = id.submission()?;
        (client == self.client && sequence < self.next).then_some(sequence)
    }

    fn give_up(&mut self, sequence: u64) -> bool {
        self.due.remove(&sequence);
        self.live.remove(&sequence).is_some()
    }
}
