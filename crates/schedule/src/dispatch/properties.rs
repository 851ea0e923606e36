//! Laws of the dispatcher over random histories: a small world with a store, late signals, late answers, outages,
//! retired workers and sessions that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use model::splitmix::SplitMix;
use model::{Instant, QueueName};

use super::{CLAIM_LIMIT_MAX, CLAIMS_PER_QUEUE_MAX, Dispatcher, Input, Output, SessionId};

const SEEDS: u64 = 2_000;
const STEPS: usize = 200;

struct World {
    rng: SplitMix,
    now: Instant,
    dispatcher: Dispatcher,
    names: Vec<QueueName>,
    /// Available jobs that no claim has locked.
    jobs: BTreeMap<QueueName, u32>,
    /// Commits whose signal is still on its way.
    signals: Vec<QueueName>,
    sessions: BTreeMap<SessionId, Member>,
    claims: Vec<Claim>,
    next_session: u64,
}

struct Member {
    queues: Vec<QueueName>,
    /// Free slots: told as credits, and no job assigned.
    free: u32,
    /// Jobs that it holds, by queue.
    held: Vec<QueueName>,
    /// Declared terminal in the store; it has not left yet.
    is_retired: bool,
}

struct Claim {
    session: SessionId,
    queues: Arc<[QueueName]>,
    limit: u32,
    /// The jobs it locked, once the store came to it.
    locked: Option<Vec<QueueName>>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut rng = SplitMix::new(seed);
        let count = 1 + rng.below(3);
        let names: Vec<QueueName> =
            (0..count).map(|n| QueueName::new(&format!("q{n}")).expect("a valid name")).collect();
        World {
            rng,
            now: Instant::ZERO,
            dispatcher: Dispatcher::new(),
            jobs: names.iter().map(|name| (name.clone(), 0)).collect(),
            names,
            signals: Vec::new(),
            sessions: BTreeMap::new(),
            claims: Vec::new(),
            next_session: 0,
        }
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..8 => self.join(),
            8..12 => self.leave(),
            12..14 => self.retire(),
            14..17 => self.change_queues(),
            17..26 => self.offer_slots(),
            26..46 => self.enqueue(),
            46..60 => self.deliver_signal(),
            60..72 => self.execute_claim(),
            72..84 => self.answer_claim(),
            84..87 => self.fail_claim(),
            87..95 => self.finish_or_hand_back(),
            _ => self.pass_time(),
        }
        self.check_no_lost_wake_up();
    }

    fn join(&mut self) {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        let mut queues: Vec<QueueName> = self.names.clone();
        queues.retain(|_| self.rng.percent(60));
        let member = Member { queues: queues.clone(), free: 0, held: Vec::new(), is_retired: false };
        self.sessions.insert(session, member);
        self.tell(Input::Joined { session, queues });
    }

    fn leave(&mut self) {
        let Some(session) = self.any_session() else { return };
        let member = self.sessions.remove(&session).expect("just picked");
        // What it held is taken back by a commit of its own.
        member.held.into_iter().for_each(|queue| self.make_available(queue, 1));
        self.tell(Input::Left { session });
    }

    fn retire(&mut self) {
        let Some(session) = self.any_session() else { return };
        self.sessions.get_mut(&session).expect("just picked").is_retired = true;
    }

    fn change_queues(&mut self) {
        let Some(session) = self.any_session() else { return };
        let mut queues: Vec<QueueName> = self.names.clone();
        queues.retain(|_| self.rng.percent(60));
        self.sessions.get_mut(&session).expect("just picked").queues.clone_from(&queues);
        self.tell(Input::Serves { session, queues });
    }

    fn offer_slots(&mut self) {
        let Some(session) = self.any_session() else { return };
        let add = if self.rng.percent(5) { 3_000 } else { 1 + self.rng.below(4) as u32 };
        self.sessions.get_mut(&session).expect("just picked").free += add;
        self.tell(Input::Credits { session, add });
    }

    fn enqueue(&mut self) {
        let queue = self.rng.pick(&self.names).expect("there are queues").clone();
        let count = if self.rng.percent(5) { 2_500 } else { 1 + self.rng.below(5) as u32 };
        self.make_available(queue, count);
    }

    fn deliver_signal(&mut self) {
        if !self.signals.is_empty() {
            let queue = self.signals.remove(self.rng.below(self.signals.len() as u64) as usize);
            self.tell(Input::Ready { queue });
        }
    }

    /// The store comes to a claim: it locks what it finds. The answer travels on its own.
    fn execute_claim(&mut self) {
        let waiting: Vec<usize> =
            (0..self.claims.len()).filter(|n| self.claims[*n].locked.is_none()).collect();
        let Some(index) = self.rng.pick(&waiting).copied() else { return };
        let claim = &mut self.claims[index];
        let mut locked = Vec::new();
        if let Some(member) = self.sessions.get(&claim.session).filter(|member| !member.is_retired) {
            // A queue that it may not serve any more gives it nothing, however full it is.
            for name in claim.queues.iter().filter(|name| member.queues.contains(name)) {
                let jobs = self.jobs.get_mut(name).expect("queues are fixed");
                let take = (*jobs).min(claim.limit - locked.len() as u32);
                *jobs -= take;
                locked.extend((0..take).map(|_| name.clone()));
            }
        }
        claim.locked = Some(locked);
    }

    fn answer_claim(&mut self) {
        let executed: Vec<usize> =
            (0..self.claims.len()).filter(|n| self.claims[*n].locked.is_some()).collect();
        let Some(index) = self.rng.pick(&executed).copied() else { return };
        let claim = self.claims.swap_remove(index);
        let jobs = claim.locked.expect("only executed claims are answered");
        let got = jobs.len() as u32;
        match self.sessions.get_mut(&claim.session) {
            Some(member) => {
                assert!(
                    got <= member.free,
                    "{:?} has {} slots and gets {got} jobs",
                    claim.session,
                    member.free
                );
                member.free -= got;
                member.held.extend(jobs);
            }
            None => jobs.into_iter().for_each(|queue| self.make_available(queue, 1)),
        }
        self.tell(Input::ClaimDone { session: claim.session, asked: claim.limit, got });
    }

    /// The store fails a claim, perhaps after it locked rows; those are free again.
    fn fail_claim(&mut self) {
        if self.claims.is_empty() {
            return;
        }
        let claim = self.claims.swap_remove(self.rng.below(self.claims.len() as u64) as usize);
        for queue in claim.locked.unwrap_or_default() {
            *self.jobs.get_mut(&queue).expect("queues are fixed") += 1;
        }
        self.tell(Input::ClaimFailed { session: claim.session, asked: claim.limit });
    }

    fn finish_or_hand_back(&mut self) {
        let Some(session) = self.any_session() else { return };
        let Some(queue) = self.sessions.get_mut(&session).expect("just picked").held.pop() else { return };
        if self.rng.percent(20) {
            self.make_available(queue, 1);
        }
        self.sessions.get_mut(&session).expect("just picked").free += 1;
        self.tell(Input::Credits { session, add: 1 });
    }

    fn pass_time(&mut self) {
        self.now = self.now + Duration::from_millis(self.rng.below(400));
        self.dispatcher.handle_deadline(self.now);
        self.drain();
    }

    fn make_available(&mut self, queue: QueueName, count: u32) {
        *self.jobs.get_mut(&queue).expect("queues are fixed") += count;
        self.signals.push(queue);
    }

    fn any_session(&mut self) -> Option<SessionId> {
        let all: Vec<SessionId> = self.sessions.keys().copied().collect();
        self.rng.pick(&all).copied()
    }

    fn tell(&mut self, input: Input) {
        self.dispatcher.handle(self.now, input);
        self.drain();
    }

    /// Takes the outputs. Law: one claim per session, over its own queues, for no more jobs than it has free slots.
    fn drain(&mut self) {
        while let Some(Output::Claim { session, queues, limit }) = self.dispatcher.poll_output() {
            let member = self.sessions.get(&session).expect("claims are made for connected sessions");
            assert!(
                self.claims.iter().all(|claim| claim.session != session),
                "{session:?} has two claims in flight"
            );
            assert!((1..=CLAIM_LIMIT_MAX).contains(&limit), "{session:?} asks for {limit}");
            assert!(limit <= member.free, "{session:?} asks for {limit} and has {} free slots", member.free);
            assert!(!queues.is_empty() && queues.iter().all(|name| member.queues.contains(name)));
            self.claims.push(Claim { session, queues, limit, locked: None });
        }
    }

    /// Law: work that a session could have that has free slots and waits for no answer is being asked for by somebody
    /// connected, or a timer will see to it.
    fn check_no_lost_wake_up(&self) {
        if self.dispatcher.next_deadline().is_some() {
            return;
        }
        for (name, _) in self.jobs.iter().filter(|(_, jobs)| **jobs > 0) {
            let serving = || self.sessions.iter().filter(|(_, member)| member.queues.contains(name));
            let waits = |id: SessionId| self.claims.iter().any(|claim| claim.session == id);
            let is_wanted = serving().any(|(id, member)| member.free > 0 && !waits(*id));
            // A retired session's empty hands may mislead until it leaves.
            let is_known = !self.signals.contains(name) && serving().all(|(_, member)| !member.is_retired);
            let is_asked_for = self.claims.iter().any(|claim| {
                let member = self.sessions.get(&claim.session);
                claim.queues.contains(name) && member.is_some_and(|member| member.queues.contains(name))
            });
            assert!(!is_wanted || !is_known || is_asked_for, "nobody asks for the jobs in {name}");
        }
    }

    /// Faults stop: everything on its way arrives. Law: nobody with a free slot is left with work in its queues.
    fn settle(&mut self) {
        let retired: Vec<SessionId> =
            self.sessions.iter().filter(|(_, member)| member.is_retired).map(|(id, _)| *id).collect();
        for session in retired {
            let member = self.sessions.remove(&session).expect("just listed");
            member.held.into_iter().for_each(|queue| self.make_available(queue, 1));
            self.tell(Input::Left { session });
        }
        for _ in 0..20_000 {
            if let Some(deadline) = self.dispatcher.next_deadline() {
                self.now = self.now.max(deadline);
                self.dispatcher.handle_deadline(self.now);
                self.drain();
            }
            if self.signals.is_empty() && self.claims.is_empty() && self.dispatcher.next_deadline().is_none()
            {
                break;
            }
            self.deliver_signal();
            self.execute_claim();
            self.answer_claim();
            self.check_no_lost_wake_up();
        }
        assert!(self.signals.is_empty() && self.claims.is_empty(), "claims go on without end");
        for (id, member) in self.sessions.iter().filter(|(_, member)| member.free > 0) {
            let left: Vec<_> = member.queues.iter().filter(|name| self.jobs[*name] > 0).collect();
            assert!(left.is_empty(), "{id:?} has {} free slots and {left:?} have work", member.free);
            assert_eq!(self.dispatcher.credits(*id), Some(member.free), "{id:?}: credits are free slots");
        }
    }
}

#[test]
fn slots_are_never_oversold_and_no_wake_up_is_lost() {
    for seed in 0..SEEDS {
        let story = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            (0..STEPS).for_each(|_| world.step());
            world.settle();
        });
        assert!(story.is_ok(), "seed {seed} breaks a law (see above)");
    }
}

#[test]
fn everybody_in_a_long_line_is_served_equally() {
    for seed in 0..20 {
        let mut rng = SplitMix::new(seed);
        let queue = QueueName::new("q").expect("a valid name");
        let mut dispatcher = Dispatcher::new();
        // More sessions than may have a claim in flight, with very different credits.
        let count = u64::from(CLAIMS_PER_QUEUE_MAX) + 1 + rng.below(200);
        for n in 0..count {
            let session = SessionId(n);
            let add = if rng.percent(30) { 10_000 } else { 1 };
            dispatcher.handle(Instant::ZERO, Input::Joined { session, queues: vec![queue.clone()] });
            dispatcher.handle(Instant::ZERO, Input::Credits { session, add });
        }
        let mut served = vec![0_u64; count as usize];
        let mut in_flight = Vec::new();
        for _ in 0..count * 50 {
            in_flight.extend(std::iter::from_fn(|| dispatcher.poll_output()));
            let index = if rng.percent(50) { 0 } else { rng.below(in_flight.len() as u64) as usize };
            let Output::Claim { session, limit, .. } = in_flight.remove(index);
            served[session.0 as usize] += 1;
            dispatcher.handle(Instant::ZERO, Input::ClaimDone { session, asked: limit, got: limit });
            dispatcher.handle(Instant::ZERO, Input::Credits { session, add: limit });
        }
        let (least, most) = (served.iter().min(), served.iter().max());
        assert!(
            least >= Some(&25) && most <= Some(&80),
            "seed {seed}: fifty turns each on average, yet {served:?}"
        );
    }
}
