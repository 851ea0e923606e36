//! What one client has submitted and not seen the end of. Plain computation: no clock, no connection.
//!
//! A life of the server is known by its generation, and generations are only ever compared for equality. A submission counts
//! as accepted if the life that took it is the one known now; whoever names another life makes everything that has not ended
//! due again. An answer of a life that was left meanwhile counts for nothing: what it took is due already. So a submission
//! may be sent too often, which ids make harmless, but never too rarely.

use std::collections::{BTreeMap, BTreeSet};

use model::{ClientId, Generation, JobId};
use rpc::wire;

/// Most jobs in one call.
pub(super) const BATCH_JOBS_MAX: usize = 1_000;
/// Bytes of payload after which a call is closed; a single job may be larger.
pub(super) const BATCH_BYTES_MAX: usize = 2 << 20;
/// Most ids in one acknowledgement.
pub(super) const ACKS_MAX: usize = 5_000;

/// The submissions of one client.
#[derive(Debug)]
pub(super) struct Submissions {
    client: ClientId,
    in_flight_max: usize,
    /// The number of the next submission.
    next: u64,
    /// The life of the server that answered last.
    generation: Option<Generation>,
    /// Those that have not ended.
    live: BTreeMap<u64, wire::NewJob>,
    /// Those of them that the present life of the server has not taken, and that are not on their way.
    due: BTreeSet<u64>,
    /// Jobs in the next call at most: halved when a call is refused, until the one that is to blame is found.
    batch_max: usize,
    /// Ended, and the server must be told that we know.
    ended: Vec<JobId>,
    /// The server remembers something that we know the end of, so it must be told how far we are.
    is_mark_due: bool,
    /// Acknowledgements on their way.
    acks_sent: usize,
}

/// Some submissions on their way.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) jobs: Vec<wire::NewJob>,
    /// The oldest submission that has not ended. Nobody waits for anything below it.
    pub(super) lowest: JobId,
    sent: Sent,
}

/// Which submissions are on their way, and what was known when they were sent.
#[derive(Debug)]
pub(super) struct Sent {
    sequences: Vec<u64>,
    generation: Option<Generation>,
}

/// Some acknowledgements on their way.
#[derive(Debug)]
pub(super) struct Acks {
    /// Those that have ended.
    pub(super) ids: Vec<JobId>,
    /// See [`Batch::lowest`].
    pub(super) lowest: JobId,
}

/// What to make of a call that can never succeed as it was.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Refusal {
    /// One of several jobs is to blame: smaller calls will show which.
    Smaller,
    /// This one. It is given up.
    GivenUp(JobId),
    /// The only one has ended meanwhile.
    Ended,
}

impl Submissions {
    /// A client without submissions; at most `in_flight_max` at a time.
    pub(super) fn new(client: ClientId, in_flight_max: usize) -> Self {
        Submissions {
            client,
            in_flight_max,
            next: 0,
            generation: None,
            live: BTreeMap::new(),
            due: BTreeSet::new(),
            batch_max: BATCH_JOBS_MAX,
            ended: Vec::new(),
            is_mark_due: false,
            acks_sent: 0,
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

    /// The oldest of those that are due, as many as fit a call.
    pub(super) fn take_due(&mut self) -> Option<Batch> {
        let lowest = self.lowest();
        let (mut jobs, mut sequences, mut bytes) = (Vec::new(), Vec::new(), 0);
        while jobs.len() < self.batch_max
            && let Some(sequence) = self.due.first().copied()
        {
            let job = &self.live[&sequence];
            bytes += job.payload.len();
            if bytes > BATCH_BYTES_MAX && !jobs.is_empty() {
                break;
            }
            jobs.push(job.clone());
            sequences.push(sequence);
            self.due.pop_first();
        }
        let sent = Sent { sequences, generation: self.generation };
        (!jobs.is_empty()).then_some(Batch { jobs, lowest, sent })
    }

    /// This life of the server took what was sent; whether that is news about its life.
    pub(super) fn accepted(&mut self, sent: Sent, by: Generation) -> bool {
        self.batch_max = (self.batch_max * 2).min(BATCH_JOBS_MAX);
        if self.generation.is_none() || self.generation == Some(by) {
            self.generation = Some(by);
            // Those that became due meanwhile, because this life was met elsewhere while it took them.
            for sequence in sent.sequences {
                self.due.remove(&sequence);
            }
            return false;
        }
        // Said by a life that has been left since: everything is due already.
        let is_left = sent.generation == Some(by);
        // Otherwise nobody knows which of the two lives is the later one. Everything is sent again, these too.
        !is_left && self.meet(by)
    }

    /// Nobody knows whether it was taken.
    pub(super) fn failed(&mut self, sent: Sent) {
        self.due.extend(sent.sequences.into_iter().filter(|sequence| self.live.contains_key(sequence)));
    }

    /// It can never be taken as it is.
    pub(super) fn refused(&mut self, sent: Sent) -> Refusal {
        if let [sequence] = sent.sequences[..] {
            return match self.give_up(sequence) {
                true => Refusal::GivenUp(self.client.job(sequence)),
                false => Refusal::Ended,
            };
        }
        self.batch_max = sent.sequences.len() / 2;
        self.failed(sent);
        Refusal::Smaller
    }

    /// This life of the server answers; whether it is another one than before. Then everything that has not ended is due.
    pub(super) fn meet(&mut self, generation: Generation) -> bool {
        let before = self.generation.replace(generation);
        let is_another = before.is_some_and(|before| before != generation);
        if is_another {
            self.due.extend(self.live.keys());
        }
        is_another
    }

    /// The server says that this job has ended; whether we did not know. It is to be acknowledged then.
    pub(super) fn end(&mut self, id: JobId) -> bool {
        let Some((client, sequence)) = id.submission() else { return false };
        if client != self.client || sequence >= self.next {
            return false;
        }
        let is_news = self.give_up(sequence);
        if is_news {
            self.ended.push(id);
        } else {
            self.is_mark_due = true;
        }
        is_news
    }

    /// What the server should be told that we know, as much as fits a call.
    pub(super) fn take_acks(&mut self) -> Option<Acks> {
        if self.ended.is_empty() && !self.is_mark_due {
            return None;
        }
        self.is_mark_due = false;
        let rest = self.ended.split_off(self.ended.len().min(ACKS_MAX));
        let ids = std::mem::replace(&mut self.ended, rest);
        self.acks_sent += ids.len();
        Some(Acks { ids, lowest: self.lowest() })
    }

    /// The server knows. How many submissions there is room for now that there was none for before.
    pub(super) fn acknowledged(&mut self, acks: &Acks) -> usize {
        self.acks_sent -= acks.ids.len();
        acks.ids.len()
    }

    /// Nobody knows whether the server knows.
    pub(super) fn acks_failed(&mut self, acks: Acks) {
        self.acks_sent -= acks.ids.len();
        self.ended.extend(acks.ids);
        self.is_mark_due = true;
    }

    /// The life of the server that answered last.
    pub(super) fn generation(&self) -> Option<Generation> {
        self.generation
    }

    /// Whether another submission may be made.
    pub(super) fn has_room(&self) -> bool {
        self.live.len() + self.ended.len() + self.acks_sent < self.in_flight_max
    }

    /// Whether everything has ended, and the server knows that we know.
    pub(super) fn is_idle(&self) -> bool {
        self.live.is_empty() && self.ended.is_empty() && self.acks_sent == 0
    }

    /// Any id of this client.
    pub(super) fn any_id(&self) -> JobId {
        self.client.job(0)
    }

    /// The oldest submission that has not ended, or else the next one.
    fn lowest(&self) -> JobId {
        self.client.job(self.live.keys().next().copied().unwrap_or(self.next))
    }

    fn give_up(&mut self, sequence: u64) -> bool {
        self.due.remove(&sequence);
        self.live.remove(&sequence).is_some()
    }
}

impl Batch {
    /// The jobs and the mark to send, and what to say when that has been answered.
    pub(super) fn into_parts(self) -> (Vec<wire::NewJob>, JobId, Sent) {
        (self.jobs, self.lowest, self.sent)
    }
}
