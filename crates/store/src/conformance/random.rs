//! Random histories, played against the store on trial and a memory store beside it. Every answer and every row must
//! agree. A history follows from its seed, so a failure names all that is needed to see it again.

use std::sync::Arc;
use std::time::Duration;

use model::splitmix::SplitMix;
use model::{
    Growth, Hold, HolderEnd, JobId, NewJob, Nonce, Outcome, QueuePatch, RegistryId, Retry, RetryPolicy,
    State, UniqueKey, UniqueScope, When,
};

use super::bench::{
    Bench, FIRST, MANY, SECOND, enlist, enlist_in, enlist_pinging, id, job_in, kind, queue, secs, text,
    worker,
};
use crate::memory::MemoryStore;
use crate::port::{Claim, Enlist, Expired, JobFilter, Progress, Retention, Selection};

const STEPS: u32 = 500;
const QUEUES: [&str; 3] = ["a", "b", "c"];
/// Few ids and keys, so that they meet often.
const IDS: u64 = 48;
const KEYS: u64 = 4;
const REQUESTS: u64 = 30;
const WORKERS: u64 = 4;
const REGISTRIES: [RegistryId; 2] = [FIRST, SECOND];

pub(super) async fn random_history_agrees_with_the_memory_store(bench: &Bench) {
    History::new(bench, 1).play().await;
}

pub(super) async fn second_random_history_agrees_with_the_memory_store(bench: &Bench) {
    History::new(bench, 2).play().await;
}

pub(super) async fn third_random_history_agrees_with_the_memory_store(bench: &Bench) {
    History::new(bench, 3).play().await;
}

/// A history while it is played.
struct History<'a> {
    subject: &'a Bench,
    reference: Bench,
    seed: u64,
    step: u32,
    rng: Rng,
    /// Every claim so far, the stale ones too: zombies come from here.
    claims: Vec<(String, Hold)>,
    /// Everything any reaper has seen so far: late reapers come from here.
    seen: Vec<Expired>,
    retired: u64,
}

/// Calls a verb on both stores and compares the answers. The arguments are names, so that both get the same.
macro_rules! both {
    ($history:ident.$verb:ident($($argument:ident),*)) => {{
        let answer = $history.subject.$verb($($argument.clone()),*).await;
        let expected = $history.reference.$verb($($argument.clone()),*).await;
        let (seed, step) = ($history.seed, $history.step);
        assert_eq!(answer, expected, "{} in step {step} of history {seed}", stringify!($verb));
        answer
    }};
}

impl<'a> History<'a> {
    fn new(subject: &'a Bench, seed: u64) -> Self {
        let reference = Bench::beside(subject, Arc::new(MemoryStore::new(subject.clock().clone())));
        History {
            subject,
            reference,
            seed,
            step: 0,
            rng: Rng(SplitMix::new(seed)),
            claims: Vec::new(),
            seen: Vec::new(),
            retired: 0,
        }
    }

    async fn play(&mut self) {
        for step in 0..STEPS {
            self.step = step;
            match self.rng.below(100) {
                0..15 => self.enqueue().await,
                15..20 => self.promote().await,
                20..36 => self.claim().await,
                36..43 => self.renew().await,
                43..53 => self.finish().await,
                53..57 => self.progress().await,
                57..65 => self.reap().await,
                65..67 => self.push().await,
                67..71 => self.enlist().await,
                71..74 => self.succeed().await,
                74..76 => self.retire().await,
                76..78 => self.readmit().await,
                78..79 => self.extend_leases().await,
                79..83 => self.cancel().await,
                83..87 => self.redrive().await,
                87..89 => self.purge().await,
                89..91 => self.set_queue().await,
                _ => self.let_time_pass(),
            }
            if step % 5 == 0 {
                self.compare().await;
            }
        }
        self.compare().await;
        self.reference.audit().await;
    }

    async fn compare(&self) {
        both!(self.stats());
        both!(self.all());
        for registry in REGISTRIES {
            both!(self.deadlines_in(registry));
            both!(self.expired_in(registry, MANY));
            both!(self.roster(registry));
        }
        for number in 0..self.retired + WORKERS {
            let key = format!("worker-{number}");
            let key = key.as_str();
            both!(self.worker(key));
        }
    }

    async fn enqueue(&mut self) {
        let jobs: Vec<NewJob> = (0..self.rng.below(4)).map(|_| self.new_job()).collect();
        if self.rng.chance(40) {
            let request = format!("request-{}", self.rng.below(REQUESTS));
            let request = request.as_str();
            both!(self.enqueue_as(request, jobs));
        } else {
            both!(self.enqueue(jobs));
        }
    }

    fn new_job(&mut self) -> NewJob {
        let rng = &mut self.rng;
        let number = rng.below(IDS);
        let now = self.subject.wall();
        let when = match rng.below(10) {
            0..6 => When::Now,
            6..9 => When::After(secs(rng.below(60))),
            _ => When::At(now - secs(rng.below(60))),
        };
        let scope = if rng.chance(30) { UniqueScope::Retained } else { UniqueScope::Live };
        NewJob {
            kind: kind(rng.pick(&["k", "l"])),
            priority: rng.below(3) as i16 - 1,
            when,
            max_attempts: rng.chance(70).then(|| 1 + rng.below(3) as u32),
            max_lost: rng.chance(70).then(|| 1 + rng.below(3) as u32),
            heartbeat_timeout: rng.chance(20).then(|| secs(5 + rng.below(30))),
            retry: rng.chance(30).then(|| fixed(1 + rng.below(20))),
            unique_key: rng.chance(30).then(|| UniqueKey::new(&format!("key-{}", rng.below(KEYS))).unwrap()),
            unique_scope: scope,
            ..job_in(QUEUES[number as usize % QUEUES.len()], number)
        }
    }

    async fn promote(&mut self) {
        let limit = self.rng.upto(4);
        both!(self.promote(limit));
    }

    async fn extend_leases(&mut self) {
        let (registry, by) = (self.registry(), secs(self.rng.below(5)));
        both!(self.extend_leases_in(registry, by));
    }

    async fn claim(&mut self) {
        let holder = self.worker();
        let queues: Vec<_> = QUEUES.into_iter().filter(|_| self.rng.chance(70)).map(queue).collect();
        if queues.is_empty() {
            return;
        }
        let claim = Claim {
            holder: worker(&holder),
            queues,
            limit: self.rng.upto(3),
            bytes_max: if self.rng.chance(30) { self.rng.upto(30) } else { usize::MAX },
            lease: secs(5 + self.rng.below(30)),
            exclusive: self.rng.chance(60),
        };
        let claimed = both!(self.claim_as(claim));
        self.claims.extend(claimed.into_iter().map(|claimed| (holder.clone(), claimed.hold)));
    }

    async fn renew(&mut self) {
        let (holder, holds) = self.holds();
        let (holder, holds) = (holder.as_str(), holds.as_slice());
        let lease = secs(5 + self.rng.below(30));
        both!(self.renew_for(holder, holds, lease));
    }

    async fn finish(&mut self) {
        let (holder, holds) = self.holds();
        let reports: Vec<(Hold, Outcome)> =
            holds.into_iter().map(|hold| (hold, self.rng.outcome())).collect();
        let holder = holder.as_str();
        both!(self.finish_all(holder, reports));
    }

    async fn progress(&mut self) {
        let (holder, holds) = self.holds();
        let notes: Vec<Progress> = holds
            .into_iter()
            .map(|hold| Progress {
                hold,
                note: self.rng.chance(50).then(|| text("note")),
                checkpoint: self.rng.chance(50).then(|| text("checkpoint")),
            })
            .collect();
        let holder = holder.as_str();
        both!(self.progress_all(holder, notes));
    }

    async fn reap(&mut self) {
        let chosen = self.look().await;
        both!(self.reap(chosen));
    }

    async fn push(&mut self) {
        let chosen = self.look().await;
        let by = secs(self.rng.below(40));
        both!(self.push(chosen, by));
    }

    /// Looks for expired leases, and answers some that were seen now or lately.
    async fn look(&mut self) -> Vec<Expired> {
        let (registry, limit) = (self.registry(), self.rng.upto(4));
        let seen = both!(self.expired_in(registry, limit));
        self.seen.extend(seen);
        let recent = self.seen.len().saturating_sub(8);
        self.seen[recent..].iter().filter(|_| self.rng.chance(60)).cloned().collect()
    }

    async fn enlist(&mut self) {
        let workers: Vec<Enlist> = (0..self.rng.below(4)).map(|_| self.new_worker()).collect();
        both!(self.enlist_all(workers));
    }

    fn new_worker(&mut self) -> Enlist {
        let key = self.worker();
        let rng = &mut self.rng;
        Enlist {
            nonce: Nonce::new(if rng.chance(90) { 7 } else { 8 }),
            registry: REGISTRIES[usize::from(rng.chance(30))],
            pings: rng.chance(20),
            grant: secs(rng.below(60)),
            ..enlist(&key)
        }
    }

    async fn succeed(&mut self) {
        let (former, holds) = self.holds();
        let successor = self.worker();
        let (former, successor, holds) = (former.as_str(), successor.as_str(), holds.as_slice());
        if self.rng.chance(70) {
            let registry = self.registry();
            let both = [former, successor].map(|key| enlist_in(registry, key)).to_vec();
            both!(self.enlist_all(both));
        }
        let moved = both!(self.succeed(former, successor, holds));
        // A new worker for the one that is gone.
        self.retired += u64::from(moved.contains(&true));
        let moved = holds.iter().zip(moved).filter(|(_, moved)| *moved);
        self.claims.extend(moved.map(|(hold, _)| (successor.to_owned(), *hold)));
    }

    async fn readmit(&mut self) {
        let holder = self.worker();
        let holder = holder.as_str();
        let (silent, registry, counted) = (HolderEnd::Silent, self.registry(), self.rng.chance(50));
        let pinger = Enlist { registry, ..enlist_pinging(holder) };
        both!(self.enlist(pinger));
        both!(self.retire_by(registry, holder, silent));
        if self.rng.chance(70) {
            both!(self.reap_holder(holder, counted));
        }
        let registry = if self.rng.chance(80) { registry } else { self.registry() };
        both!(self.readmit_by(registry, holder));
    }

    async fn retire(&mut self) {
        let (any, oldest) = (self.worker(), format!("worker-{}", self.retired));
        let (any, oldest, queues) = (any.as_str(), oldest.as_str(), QUEUES.as_slice());
        let counted = self.rng.chance(50);
        both!(self.reap_holder(any, counted));
        let end = HolderEnd::ALL[self.rng.upto(HolderEnd::ALL.len() as u64 - 1)];
        let registry = self.registry();
        both!(self.retire_by(registry, oldest, end));
        self.retired += 1;
        both!(self.claim_from(oldest, queues, MANY));
        both!(self.reap_holder(oldest, counted));
    }

    async fn cancel(&mut self) {
        let ids = self.ids();
        both!(self.cancel_all(ids));
    }

    async fn redrive(&mut self) {
        let selection = if self.rng.chance(50) {
            Selection::Ids(self.ids())
        } else {
            let states = if self.rng.chance(50) { vec![State::Dead] } else { vec![] };
            let after = self.rng.chance(50).then(|| id(self.rng.below(IDS)));
            Selection::Filter { filter: JobFilter { states, ..JobFilter::default() }, after }
        };
        let limit = self.rng.upto(3);
        both!(self.redrive_all(selection, limit));
    }

    async fn purge(&mut self) {
        let mut retention = || secs(self.rng.below(120));
        let retention = Retention { completed: retention(), dead: retention() };
        both!(self.purge(retention, MANY));
    }

    async fn set_queue(&mut self) {
        let queue = self.rng.pick(&QUEUES);
        let rng = &mut self.rng;
        let patch = QueuePatch {
            paused: Some(rng.chance(25)),
            exclusive: rng.chance(50).then(|| rng.chance(50)),
            volatile: None,
            heartbeat_timeout: rng.chance(30).then(|| rng.chance(50).then(|| secs(10))),
            max_attempts: rng.chance(30).then(|| rng.chance(50).then_some(2)),
            retry: rng.chance(30).then(|| rng.chance(50).then(|| fixed(3))),
        };
        both!(self.set_queue(queue, patch));
    }

    fn let_time_pass(&mut self) {
        let clock = self.subject.clock();
        clock.advance(Duration::from_micros(self.rng.below(20_000_000)));
        if self.rng.chance(5) {
            clock.advance(Retention::WORKERS);
        }
        if self.rng.chance(15) {
            clock.step_wall(self.rng.below(120_000) as i64 - 60_000);
        }
    }

    /// One of the registries, the first mostly.
    fn registry(&mut self) -> RegistryId {
        REGISTRIES[usize::from(self.rng.chance(30))]
    }

    /// One of the workers of the moment; older ones have been retired.
    fn worker(&mut self) -> String {
        format!("worker-{}", self.retired + self.rng.below(WORKERS))
    }

    /// Some holds, recent ones mostly, and a worker that has most of them.
    fn holds(&mut self) -> (String, Vec<Hold>) {
        let recent = self.claims.len().saturating_sub(12);
        let Some((holder, _)) = self.claims.get(recent + self.rng.upto(11)) else {
            return (self.worker(), Vec::new());
        };
        let holder = holder.clone();
        let chosen: Vec<Hold> = self.claims[recent..]
            .iter()
            .filter(|(other, _)| self.rng.chance(if *other == holder { 60 } else { 10 }))
            .map(|(_, hold)| *hold)
            .collect();
        (holder, chosen)
    }

    fn ids(&mut self) -> Vec<JobId> {
        (0..self.rng.below(4)).map(|_| id(self.rng.below(IDS))).collect()
    }
}

fn fixed(delay: u64) -> RetryPolicy {
    RetryPolicy { growth: Growth::Fixed, base: secs(delay), delay_max: secs(delay) }
}

/// Choices from one seed, the same everywhere.
struct Rng(SplitMix);

impl Rng {
    /// A number below `limit`.
    fn below(&mut self, limit: u64) -> u64 {
        self.0.below(limit)
    }

    /// A count from 0 to `most`.
    fn upto(&mut self, most: u64) -> usize {
        self.below(most + 1) as usize
    }

    fn chance(&mut self, percent: u64) -> bool {
        self.0.percent(percent)
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[self.0.index(choices.len())]
    }

    fn outcome(&mut self) -> Outcome {
        let retry = match self.below(10) {
            0..6 => Retry::ByPolicy,
            6..9 => Retry::After(secs(self.below(10))),
            _ => Retry::Never,
        };
        match self.below(10) {
            0..4 => Outcome::Completed { result: text("result") },
            4..8 => Outcome::Failed { error: format!("boom {}", self.below(10)), retry },
            _ => Outcome::HandedBack,
        }
    }
}
