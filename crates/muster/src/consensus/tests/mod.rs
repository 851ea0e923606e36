//! Scenarios. Each is told twice: as it must go, and as it goes when the rule that it is about is broken on purpose.

mod chaos;
mod labels;
mod restarts;
mod turnover;
mod wait;

use std::collections::{BTreeMap, BTreeSet};

use model::{Generation, WorkerKey};

use super::{Consensus, HeldBack, How, Member, Terms, Wait};
use crate::mutation::Mutation;
use crate::set::{Identity, SetId, keep};

/// Workers with what they keep, and the scheduler of the day.
struct Scene {
    consensus: Consensus,
    mutation: Option<Mutation>,
    generation: Generation,
    kept: BTreeMap<u32, Option<SetId>>,
    /// Whom the present scheduler knows.
    known: BTreeSet<u32>,
}

fn identity(worker: u32) -> Identity {
    Identity::of(&WorkerKey::new(&format!("w{worker}")).unwrap())
}

impl Scene {
    fn new(mutation: Option<Mutation>) -> Self {
        let generation = Generation(1);
        Scene {
            consensus: Self::scheduler(generation, mutation),
            mutation,
            generation,
            kept: BTreeMap::new(),
            known: BTreeSet::new(),
        }
    }

    /// A scheduler that has left its wait, and these workers, settled.
    fn settled(workers: &[u32], mutation: Option<Mutation>) -> Self {
        let mut scene = Self::new(mutation);
        workers.iter().for_each(|&worker| scene.report(worker));
        scene.consensus.safe_wait_over();
        scene.consensus.update();
        scene.settle();
        workers.iter().for_each(|&worker| assert!(scene.run(worker).is_ok()));
        scene
    }

    fn scheduler(generation: Generation, mutation: Option<Mutation>) -> Consensus {
        match mutation {
            Some(mutation) => Consensus::broken(generation, Terms::default(), mutation),
            None => Consensus::new(generation, Terms::default()),
        }
    }

    /// The scheduler dies and another one starts, which knows nobody.
    fn restart(&mut self) {
        self.generation = Generation(self.generation.0 + 1);
        self.consensus = Self::scheduler(self.generation, self.mutation);
        self.known.clear();
    }

    /// A heartbeat and its answer.
    fn beat(&mut self, worker: u32) {
        let kept = self.kept.entry(worker).or_default();
        let member = Member(worker);
        if self.known.insert(worker) {
            self.consensus.join(member, identity(worker), *kept);
        } else if let Some(kept) = *kept {
            self.consensus.echoed(member, kept);
        }
        if let Some(told) = self.consensus.current(member) {
            *kept = keep(*kept, self.generation, told);
        }
    }

    /// A heartbeat, and the answer to what it runs.
    fn report(&mut self, worker: u32) {
        self.beat(worker);
        self.consensus.fetched(Member(worker));
        self.consensus.update();
    }

    /// Everybody beats until all has been told and echoed.
    fn settle(&mut self) {
        let known: Vec<u32> = self.known.iter().copied().collect();
        for _ in 0..2 {
            known.iter().for_each(|&worker| self.beat(worker));
        }
        self.consensus.update();
    }

    /// Its lease is over.
    fn lose(&mut self, worker: u32) {
        self.consensus.lost(Member(worker));
        self.known.remove(&worker);
        self.kept.remove(&worker);
    }

    /// The scheduler wants to start a task there.
    fn run(&mut self, worker: u32) -> Result<(), HeldBack> {
        let permission = self.consensus.permits(Member(worker));
        match permission {
            Ok(()) => self.consensus.healthy(Member(worker)),
            Err(_) => self.consensus.unhealthy(Member(worker)),
        }
        permission
    }

    fn how(&self) -> Option<How> {
        match self.consensus.wait() {
            Wait::Waiting(_) => None,
            Wait::Over { how } => Some(how),
        }
    }
}
