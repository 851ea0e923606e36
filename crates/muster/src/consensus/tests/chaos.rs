//! Random worlds: one task, a few workers, schedulers that die at any moment, words that are lost or late. The task must never run twice.
//!
//! Time is order: a worker's own clock stops what it runs before a scheduler calls it lost, and before a scheduler that has not
//! heard of it ends its safe wait.

use model::splitmix::SplitMix;

use super::*;

#[derive(Debug, Default)]
struct Worker {
    kept: Option<SetId>,
    /// The scheduler that it belongs to.
    scheduler: Option<Generation>,
    /// What schedulers told it and it has not heard yet.
    under_way: Vec<SetId>,
    is_running: bool,
    /// The network does not let it through.
    is_cut_off: bool,
    /// Its lease is over by its own clock: it runs nothing and never speaks again.
    is_over: bool,
}

struct World {
    random: SplitMix,
    mutation: Option<Mutation>,
    consensus: Consensus,
    generation: Generation,
    workers: Vec<Worker>,
    /// Whom the scheduler has heard of, and whose tasks it knows.
    heard: BTreeSet<u32>,
    fetched: BTreeSet<u32>,
    /// Where the scheduler believes the task to be.
    believed: Option<u32>,
    starts: u32,
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        let generation = Generation(1);
        World {
            random: SplitMix::new(seed),
            mutation,
            consensus: Self::scheduler(generation, mutation),
            generation,
            workers: (0..2).map(|_| Worker::default()).collect(),
            heard: BTreeSet::new(),
            fetched: BTreeSet::new(),
            believed: None,
            starts: 0,
        }
    }

    fn scheduler(generation: Generation, mutation: Option<Mutation>) -> Consensus {
        let terms = Terms { batch_after_min: 2, ..Terms::default() };
        match mutation {
            Some(mutation) => Consensus::broken(generation, terms, mutation),
            None => Consensus::new(generation, terms),
        }
    }

    /// One thing happens. Whether the task runs twice now.
    fn step(&mut self) -> bool {
        let alive: Vec<u32> =
            (0..self.workers.len() as u32).filter(|&worker| !self.workers[worker as usize].is_over).collect();
        let Some(&worker) = self.random.pick(&alive) else {
            self.workers.push(Worker::default());
            return false;
        };
        let is_cut_off = self.workers[worker as usize].is_cut_off;
        match self.random.below(600) {
            0..500 if is_cut_off => {}
            0..160 => self.beat(worker),
            160..320 => self.hear(worker),
            320..400 => self.fetch(worker),
            400..500 => return self.start(worker),
            500..560 => self.consensus.update(),
            560..572 => self.cut_off(worker),
            572..577 => self.end(worker),
            577 => self.lease_over(worker),
            578..583 => self.lose_somebody(),
            583..586 => self.safe_wait_over(),
            586..592 => self.restart(),
            _ if alive.len() < 3 => self.workers.push(Worker::default()),
            _ => {}
        }
        false
    }

    /// A heartbeat arrives; its answer is under way, or lost.
    fn beat(&mut self, index: u32) {
        let is_answered = self.random.below(4) > 0;
        let worker = &mut self.workers[index as usize];
        if self.heard.insert(index) {
            self.consensus.join(Member(index), identity(index), worker.kept);
        } else if let Some(kept) = worker.kept {
            self.consensus.echoed(Member(index), kept);
        }
        if is_answered {
            worker.scheduler = Some(self.generation);
            worker.under_way.extend(self.consensus.current(Member(index)));
        }
    }

    fn hear(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        let Some(scheduler) = worker.scheduler else { return };
        for told in worker.under_way.drain(..) {
            worker.kept = keep(worker.kept, scheduler, told);
        }
    }

    /// The network lets it through no more, or again. The scheduler notices.
    fn cut_off(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        worker.is_cut_off = !worker.is_cut_off;
        if worker.is_cut_off {
            self.consensus.unhealthy(Member(index));
        }
    }

    fn fetch(&mut self, index: u32) {
        if self.heard.contains(&index) && self.fetched.insert(index) {
            self.consensus.fetched(Member(index));
            if self.workers[index as usize].is_running {
                self.believed = Some(index);
            }
        }
    }

    fn start(&mut self, index: u32) -> bool {
        let is_free = self.believed.is_none() && self.fetched.contains(&index);
        let belongs = self.workers[index as usize].scheduler == Some(self.generation);
        if !is_free || !belongs {
            return false;
        }
        if self.consensus.permits(Member(index)).is_err() {
            return false;
        }
        self.consensus.healthy(Member(index));
        let runs_already = self.workers.iter().any(|worker| worker.is_running);
        self.workers[index as usize].is_running = true;
        self.believed = Some(index);
        self.starts += 1;
        runs_already
    }

    fn end(&mut self, index: u32) {
        if self.fetched.contains(&index) && self.workers[index as usize].is_running {
            self.workers[index as usize].is_running = false;
            self.believed = self.believed.filter(|at| *at != index);
        }
    }

    fn lease_over(&mut self, index: u32) {
        let worker = &mut self.workers[index as usize];
        // Before it belonged to a scheduler it has no lease.
        if worker.scheduler.is_some() {
            worker.is_running = false;
            worker.is_over = true;
        }
    }

    fn lose_somebody(&mut self) {
        let over: Vec<u32> =
            self.heard.iter().copied().filter(|&index| self.workers[index as usize].is_over).collect();
        if let Some(&index) = self.random.pick(&over) {
            self.heard.remove(&index);
            self.fetched.remove(&index);
            self.consensus.lost(Member(index));
            self.believed = self.believed.filter(|at| *at != index);
        }
    }

    fn safe_wait_over(&mut self) {
        for index in 0..self.workers.len() as u32 {
            if !self.heard.contains(&index) {
                self.lease_over(index);
            }
        }
        self.consensus.safe_wait_over();
    }

    fn restart(&mut self) {
        self.generation = Generation(self.generation.0 + 1);
        self.consensus = Self::scheduler(self.generation, self.mutation);
        self.heard.clear();
        self.fetched.clear();
        self.believed = None;
    }
}

/// Whether the task ran twice in the world of this seed, and how often it was started.
fn run(seed: u64, mutation: Option<Mutation>) -> (bool, u32) {
    let mut world = World::new(seed, mutation);
    let ran_twice = (0..1_000).any(|_| world.step());
    (ran_twice, world.starts)
}

#[test]
fn the_task_never_runs_twice() {
    let mut starts = 0;
    for seed in 0..2_000 {
        let (ran_twice, started) = run(seed, None);
        assert!(!ran_twice, "seed {seed}");
        starts += started;
    }
    assert!(starts > 1_000, "the worlds are alive: {starts} starts");
}

#[test]
fn without_the_rules_it_does() {
    for mutation in [
        Mutation::GateRemoved,
        Mutation::NewIgnored,
        Mutation::IdsDuringWait,
        Mutation::HashIgnored,
        Mutation::UnhealthyExcluded,
        Mutation::TellingIsEnough,
    ] {
        let found = (0..10_000).find(|seed| run(*seed, Some(mutation)).0);
        assert!(found.is_some(), "{mutation:?} does no harm");
    }
}
