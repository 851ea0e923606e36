//! Demand meets ready work: which worker session asks the store next, over which queues, for how many jobs.
//!
//! Demand is credits, the free slots a session has told. A claim reserves credits while it is in flight, so a worker
//! never gets more jobs than it has slots. Sessions stand in line for each of their queues and are served in that
//! order; whoever was served joins the end.
//!
//! ```text
//!                    a signal: Ready, Joined, a failed claim
//!         ┌──────────────────────────────────────────────────────────────────────┐
//!         ▼                                                                      │
//!   possibly ready ── a short answer over several queues ──► doubtful            │
//!         ▲  └────────── a short answer over it alone ──────────┼──────────────► dry
//!         └───────────────────── a full answer ─────────────────┘
//! ```
//!
//! The store is not read here: that a queue has work is only ever guessed from signals (a commit made jobs available)
//! and from answers (a claim over one queue that got fewer jobs than it asked for has emptied it). A claim over several
//! may come up short because somebody else is taking from one of them; each is then asked alone. The guess errs towards
//! one claim too many. A paused queue needs nothing: the store gives nothing from it, and resuming is a signal.
//!
//! A signal wakes one session and not the whole line; each full answer makes room for one more claim in flight. So a
//! thousand idle workers cost one claim per enqueue, and a backlog reaches twice as many with every round trip.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use model::{Backoff, Instant, QueueName};

/// Most jobs asked for in one claim; a session with more credits asks again when its turn comes.
pub const CLAIM_LIMIT_MAX: u32 = 1_000;
/// Most claims in flight over one queue; further sessions wait in line for an answer.
pub const CLAIMS_PER_QUEUE_MAX: u32 = 128;

/// One worker's connection, named by the driver. Never used again for another one, so that an answer that comes late
/// cannot be taken for somebody else's.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub u64);

/// Something happened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Input {
    /// A worker connected. Its queues are assumed possibly ready, since after a restart nothing is known of them.
    Joined {
        /// The connection.
        session: SessionId,
        /// What it serves.
        queues: Vec<QueueName>,
    },
    /// From now on a worker serves these queues and no others; none at all is possible. Ignored for a session that left.
    Serves {
        /// The connection.
        session: SessionId,
        /// What it serves.
        queues: Vec<QueueName>,
    },
    /// A worker has this many more free slots. Ignored for a session that left.
    Credits {
        /// The connection.
        session: SessionId,
        /// Slots that became free.
        add: u32,
    },
    /// A worker disconnected, or wants no more jobs. Jobs that a claim still in flight brings must be handed back.
    Left {
        /// The connection.
        session: SessionId,
    },
    /// A commit made jobs available: enqueue, promotion, retry, hand-back, rescue, re-drive or resume.
    Ready {
        /// Where they are.
        queue: QueueName,
    },
    /// The store answered a claim. Also expected when the session left meanwhile.
    ClaimDone {
        /// Whose claim.
        session: SessionId,
        /// The claim's limit.
        asked: u32,
        /// How many jobs it brought.
        got: u32,
    },
    /// The store could not serve a claim: its credits come back, and everybody waits a little. Also expected when the
    /// session left meanwhile.
    ClaimFailed {
        /// Whose claim.
        session: SessionId,
        /// The claim's limit.
        asked: u32,
    },
}

/// Do this.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Claim jobs for this session; answer with [`Input::ClaimDone`] or [`Input::ClaimFailed`].
    Claim {
        /// For whom.
        session: SessionId,
        /// Those of its queues that may have work; never empty.
        queues: Arc<[QueueName]>,
        /// At most this many; never zero.
        limit: u32,
    },
}

/// The machine. After each input, drain [`poll_output`](Self::poll_output) before giving the next one.
#[derive(Debug, Default)]
pub struct Dispatcher {
    sessions: BTreeMap<SessionId, Session>,
    /// The queues that some session serves.
    queues: BTreeMap<QueueName, Queue>,
    /// How many signals there were. Each claim notes the number, which tells whether one came after it.
    signals: u64,
    /// The next free place in line.
    next_place: u64,
    /// When to claim again after the store failed. While set, nobody claims.
    resume_at: Option<Instant>,
    backoff: Backoff,
    /// The claims in flight of sessions that left, until they are answered.
    orphans: BTreeMap<SessionId, ClaimInFlight>,
    outputs: VecDeque<Output>,
}

#[derive(Debug)]
struct Session {
    queues: Arc<[QueueName]>,
    /// Free slots that no claim has reserved.
    credits: u32,
    /// Its place in the lines of all its queues; only while it has credits and no claim in flight.
    place: Option<u64>,
    claim: Option<ClaimInFlight>,
}

#[derive(Debug)]
struct ClaimInFlight {
    queues: Arc<[QueueName]>,
    limit: u32,
    /// The queue in whose line it was made, and whose window it fills; `None` once its session does not serve that any
    /// more.
    sponsor: Option<QueueName>,
    /// The number of signals when it was made.
    signals: u64,
}

#[derive(Debug)]
struct Queue {
    /// Sessions that serve it.
    workers: usize,
    /// Sessions that want jobs, by place.
    line: BTreeMap<u64, SessionId>,
    stock: Stock,
    /// The number of its latest signal.
    signal: u64,
    /// Claims in flight that were made in this line. Those made in another line that also name this queue do not
    /// count: else sessions that serve both queues could keep those that serve only this one from ever asking.
    sponsored: u32,
    /// How many claims may be in flight at once from this line; at least one.
    window: u32,
}

/// What we believe of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stock {
    PossiblyReady,
    /// A claim over it and others came up short, so the next one in its line is over it alone.
    Doubtful,
    Dry {
        said_by: SessionId,
    },
}

impl Dispatcher {
    /// A dispatcher that knows no sessions yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Something happened.
    pub fn handle(&mut self, now: Instant, input: Input) {
        match input {
            Input::Joined { session, queues } => self.join(session, queues),
            Input::Serves { session, queues } => self.change_queues(session, queues),
            Input::Credits { session, add } => self.add_credits(session, add),
            Input::Left { session } => self.leave(session),
            Input::Ready { queue } => {
                self.signal(&queue);
                self.serve(&[queue]);
            }
            Input::ClaimDone { session, asked, got } => self.claim_done(session, asked, got),
            Input::ClaimFailed { session, asked } => self.claim_failed(now, session, asked),
        }
    }

    /// Wake me then. Only set after the store failed.
    pub fn next_deadline(&self) -> Option<Instant> {
        self.resume_at
    }

    /// It is then: the store is tried again.
    pub fn handle_deadline(&mut self, now: Instant) {
        if self.resume_at.is_none_or(|resume_at| now < resume_at) {
            return;
        }
        self.resume_at = None;
        let queues: Vec<QueueName> = self.queues.keys().cloned().collect();
        self.serve(&queues);
    }

    /// Do this for me; drain until `None`.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// True if a connected session serves the queue.
    pub fn serves(&self, queue: &QueueName) -> bool {
        self.queues.contains_key(queue)
    }

    /// How many connected sessions serve the queue.
    pub fn workers_for(&self, queue: &QueueName) -> usize {
        self.queues.get(queue).map_or(0, |queue| queue.workers)
    }

    /// The connected sessions.
    pub fn sessions(&self) -> impl ExactSizeIterator<Item = SessionId> {
        self.sessions.keys().copied()
    }

    /// The free slots of a session that no claim has reserved; `None` if it is not connected.
    pub fn credits(&self, session: SessionId) -> Option<u32> {
        self.sessions.get(&session).map(|session| session.credits)
    }

    fn join(&mut self, id: SessionId, mut queues: Vec<QueueName>) {
        queues.sort();
        queues.dedup();
        for name in &queues {
            self.add_worker(name);
        }
        self.serve(&queues);
        let session = Session { queues: queues.into(), credits: 0, place: None, claim: None };
        let known = self.sessions.insert(id, session);
        assert!(known.is_none(), "{id:?} joined twice; a session id is never used again");
    }

    fn change_queues(&mut self, id: SessionId, mut queues: Vec<QueueName>) {
        queues.sort();
        queues.dedup();
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let before = std::mem::replace(&mut session.queues, queues.into());
        let (now, place) = (Arc::clone(&session.queues), session.place);
        let is_gone = |name: &&QueueName| !now.contains(name);
        let sponsor = session.claim.as_mut().and_then(|claim| claim.sponsor.take_if(|name| is_gone(&&*name)));
        if let Some(sponsor) = sponsor {
            self.queue_mut(&sponsor).sponsored -= 1;
        }
        for name in before.iter().filter(is_gone) {
            self.remove_worker(name, id, place);
        }
        for name in now.iter().filter(|name| !before.contains(name)) {
            self.add_worker(name);
            if let Some(place) = place {
                self.queue_mut(name).line.insert(place, id);
            }
        }
        self.serve(&before);
        self.serve(&now);
    }

    fn add_worker(&mut self, name: &QueueName) {
        self.queues.entry(name.clone()).or_insert_with(Queue::new).workers += 1;
        self.signal(name);
    }

    fn remove_worker(&mut self, name: &QueueName, id: SessionId, place: Option<u64>) {
        let queue = self.queue_mut(name);
        queue.workers -= 1;
        if let Some(place) = place {
            queue.line.remove(&place);
        }
        let was_dried = queue.stock == Stock::Dry { said_by: id };
        if queue.workers == 0 {
            self.queues.remove(name);
        } else if was_dried {
            // A retired worker gets nothing from a full queue, so its word on the queue goes with it.
            self.signal(name);
        }
    }

    fn add_credits(&mut self, id: SessionId, add: u32) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        session.credits = session.credits.saturating_add(add);
        self.stand_in_line(id);
    }

    fn leave(&mut self, id: SessionId) {
        let Some(session) = self.sessions.remove(&id) else { return };
        if let Some(claim) = session.claim {
            self.end_sponsorship(&claim);
            self.orphans.insert(id, claim);
        }
        for name in session.queues.iter() {
            self.remove_worker(name, id, session.place);
        }
        self.serve(&session.queues);
    }

    fn claim_done(&mut self, id: SessionId, asked: u32, got: u32) {
        let claim = self.end_claim(id, asked);
        assert!(
            got <= asked,
            "{id:?} asked for {asked} jobs and got {got}; a store never gives more than was asked"
        );
        self.backoff.reset();
        let Some(session) = self.sessions.get(&id) else { return };
        let served = Arc::clone(&session.queues);
        // What it does not serve any more it cannot have emptied: it may have got nothing for that very reason.
        let is_alone = claim.queues.len() == 1;
        for name in claim.queues.iter().filter(|name| served.contains(name)) {
            let queue = self.queue_mut(name);
            if got == asked {
                queue.widen(is_alone);
            } else {
                queue.came_up_short(id, claim.signals, is_alone);
            }
        }
        self.give_back(id, asked - got);
    }

    fn claim_failed(&mut self, now: Instant, id: SessionId, asked: u32) {
        // A claim that fails while all are waiting was made before: it belongs to the same outage.
        if self.resume_at.is_none() {
            self.resume_at = Some(now + self.backoff.next_delay());
        }
        let claim = self.end_claim(id, asked);
        for name in claim.queues.iter() {
            // Another claim may have come up short because this one had the rows locked.
            self.signal(name);
            if let Some(queue) = self.queues.get_mut(name) {
                queue.window = 1;
            }
        }
        if self.sessions.contains_key(&id) {
            self.give_back(id, asked);
        }
    }

    /// The claim that an answer belongs to.
    fn end_claim(&mut self, id: SessionId, asked: u32) -> ClaimInFlight {
        let claim = match self.sessions.get_mut(&id) {
            Some(session) => session.claim.take(),
            None => self.orphans.remove(&id),
        };
        let claim = claim.expect("each claim is answered once, and nothing else is");
        assert_eq!(asked, claim.limit, "an answer must repeat what {id:?} asked for");
        if self.sessions.contains_key(&id) {
            self.end_sponsorship(&claim);
        }
        claim
    }

    fn end_sponsorship(&mut self, claim: &ClaimInFlight) {
        if let Some(sponsor) = &claim.sponsor {
            self.queue_mut(sponsor).sponsored -= 1;
        }
    }

    /// Returns reserved credits that brought no job, and lets the session ask again at the end of the line.
    fn give_back(&mut self, id: SessionId, credits: u32) {
        let session = self.sessions.get_mut(&id).expect("its claim was just taken");
        session.credits = session.credits.saturating_add(credits);
        let queues = Arc::clone(&session.queues);
        self.stand_in_line(id);
        // Also without credits of its own left: the answer made room for the next in line.
        self.serve(&queues);
    }

    /// The queue may have work. What nobody serves is assumed ready when somebody joins, and needs no memory.
    fn signal(&mut self, name: &QueueName) {
        let Some(queue) = self.queues.get_mut(name) else { return };
        self.signals += 1;
        queue.stock = Stock::PossiblyReady;
        queue.signal = self.signals;
        // Room for one more: claims in flight may have looked before the jobs were there.
        queue.window = queue.window.max(queue.sponsored + 1).min(CLAIMS_PER_QUEUE_MAX);
    }

    /// Puts a session that has credits and no claim in flight into the lines of its queues.
    fn stand_in_line(&mut self, id: SessionId) {
        let session = self.sessions.get_mut(&id).expect("only known sessions stand in line");
        if session.credits == 0 || session.claim.is_some() || session.place.is_some() {
            return;
        }
        let place = self.next_place;
        self.next_place += 1;
        session.place = Some(place);
        let queues = Arc::clone(&session.queues);
        for name in queues.iter() {
            self.queue_mut(name).line.insert(place, id);
        }
        self.serve(&queues);
    }

    /// Makes all the claims that these queues now allow.
    fn serve(&mut self, queues: &[QueueName]) {
        for name in queues {
            while self.resume_at.is_none()
                && let Some(next) = self.queues.get(name).and_then(Queue::next_in_line)
            {
                self.claim(next, name);
            }
        }
    }

    fn claim(&mut self, id: SessionId, sponsor: &QueueName) {
        let session = self.sessions.get_mut(&id).expect("a session that leaves leaves the line");
        let place = session.place.take().expect("a session in line has a place");
        let limit = session.credits.min(CLAIM_LIMIT_MAX);
        session.credits -= limit;

        let may_have_work = |name: &&QueueName| self.queues[*name].may_have_work();
        let queues: Arc<[QueueName]> = if self.queues[sponsor].stock == Stock::Doubtful {
            Arc::from([sponsor.clone()])
        } else if session.queues.iter().all(|name| may_have_work(&name)) {
            Arc::clone(&session.queues)
        } else {
            session.queues.iter().filter(may_have_work).cloned().collect()
        };
        let served = Arc::clone(&session.queues);
        session.claim = Some(ClaimInFlight {
            queues: Arc::clone(&queues),
            limit,
            sponsor: Some(sponsor.clone()),
            signals: self.signals,
        });
        for name in served.iter() {
            self.queue_mut(name).line.remove(&place);
        }
        self.queue_mut(sponsor).sponsored += 1;
        self.outputs.push_back(Output::Claim { session: id, queues, limit });
    }

    fn queue_mut(&mut self, name: &QueueName) -> &mut Queue {
        self.queues.get_mut(name).expect("the queues of a session are known while it is")
    }
}

impl Queue {
    fn new() -> Self {
        Queue {
            workers: 0,
            line: BTreeMap::new(),
            stock: Stock::PossiblyReady,
            signal: 0,
            sponsored: 0,
            window: 1,
        }
    }

    /// A claim got all it asked for: there may be more, and one more session may ask at once. Over several queues it may all
    /// have come from the others.
    fn widen(&mut self, is_alone: bool) {
        self.window = (self.window + 1).min(CLAIMS_PER_QUEUE_MAX);
        if is_alone && self.stock == Stock::Doubtful {
            self.stock = Stock::PossiblyReady;
        }
    }

    /// A claim made after `signals` signals left nothing behind, if it was over this queue alone. That is the present state
    /// unless a signal came since.
    fn came_up_short(&mut self, by: SessionId, signals: u64, is_alone: bool) {
        self.window = (self.window / 2).max(1);
        if self.signal > signals {
            return;
        }
        match self.stock {
            _ if is_alone => self.stock = Stock::Dry { said_by: by },
            Stock::PossiblyReady => self.stock = Stock::Doubtful,
            Stock::Doubtful | Stock::Dry { .. } => {}
        }
    }

    fn may_have_work(&self) -> bool {
        !matches!(self.stock, Stock::Dry { .. })
    }

    /// Who may claim now.
    fn next_in_line(&self) -> Option<SessionId> {
        let may_claim = self.may_have_work() && self.sponsored < self.window;
        self.line.first_key_value().filter(|_| may_claim).map(|(_, session)| *session)
    }
}

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;
