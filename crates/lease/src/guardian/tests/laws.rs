//! Laws of the guardian over random histories: a worker that orders this and that and dies, families that end when they
//! like, a guardian that is stopped now and then.

use std::collections::BTreeMap;

use model::splitmix::SplitMix;

use super::*;

const SEEDS: u64 = 1_000;
const STEPS: usize = 120;

/// A family as it really is.
struct Real {
    exclusive: bool,
    stage: Stage,
    /// The lease it lives on, by the rules.
    until_ms: u64,
    /// That lease is renewed no more for it.
    is_settled: bool,
    is_killed: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Starting,
    Running,
    Leaderless,
}

struct World {
    dice: SplitMix,
    now_ms: u64,
    guardian: Guardian,
    families: BTreeMap<FamilyId, Real>,
    last_family: u64,
    /// What the worker said last.
    hold_ms: Option<u64>,
    keys: u64,
    is_alive: bool,
    has_parted: bool,
    is_over: bool,
    /// Leaves that are not answered yet.
    leaves: Vec<WorkerKey>,
    kills_by_clock: u32,
}

impl World {
    fn new(seed: u64, mutation: Option<Mutation>) -> Self {
        World {
            dice: SplitMix::new(seed),
            now_ms: 0,
            guardian: mutation.map_or_else(Guardian::new, Guardian::broken),
            families: BTreeMap::new(),
            last_family: 0,
            hold_ms: None,
            keys: 0,
            is_alive: true,
            has_parted: false,
            is_over: false,
            leaves: Vec::new(),
            kills_by_clock: 0,
        }
    }

    fn step(&mut self) {
        let is_stopped = self.dice.percent(2);
        let until_ms = self.now_ms + self.dice.below(if is_stopped { 30_000 } else { 1_000 });
        if !is_stopped {
            self.meet_deadlines(until_ms);
        }
        self.now_ms = until_ms;
        match self.dice.below(100) {
            0..70 => self.worker_says(),
            70..99 => self.family_moves(),
            _ => self.worker_dies(),
        }
        self.answer_leaves();
        self.meet_deadlines(self.now_ms);
        self.check();
    }

    fn meet_deadlines(&mut self, until_ms: u64) {
        while let Some(at_ms) = self.guardian.next_deadline().map(|at| at.as_nanos().div_ceil(1_000_000))
            && at_ms <= until_ms
        {
            self.now_ms = self.now_ms.max(at_ms);
            self.guardian.handle_deadline(at(self.now_ms));
            self.carry_out();
            self.check();
        }
    }

    fn input(&mut self, input: Input) {
        self.guardian.handle(at(self.now_ms), input);
        self.carry_out();
    }

    /// A dead worker's last words may still be in the pipe.
    fn worker_says(&mut self) {
        let family = FamilyId(1 + self.dice.below(self.last_family + 1));
        let order = match self.dice.below(20) {
            0 => {
                self.keys += 1;
                Order::Key { key: key(&format!("k{}", self.keys)), nonce: NONCE }
            }
            1..7 => Order::Hold { until: at(self.now_ms + 20_000 - self.dice.below(5_000)) },
            7 => Order::Lease { until: at(self.now_ms + 20_000) },
            8..16 => {
                self.last_family += 1;
                Order::Launch { family: FamilyId(self.last_family), exclusive: self.dice.percent(60) }
            }
            16 | 17 => Order::Terminate { family },
            18 => Order::Kill { family },
            _ if self.dice.percent(5) => Order::Bye,
            _ => return,
        };
        // The guardian looks at the clock before it listens.
        self.settle_due();
        match &order {
            Order::Key { .. } => {
                self.families.values_mut().for_each(|real| real.is_settled = true);
                self.hold_ms = None;
            }
            Order::Hold { until } if self.keys > 0 => {
                let until_ms = until.as_nanos() / 1_000_000;
                let hold_ms = self.hold_ms.unwrap_or(0).max(until_ms);
                self.hold_ms = Some(hold_ms);
                let open = self.families.values_mut().filter(|real| !real.is_settled);
                open.for_each(|real| real.until_ms = hold_ms);
            }
            Order::Terminate { family } | Order::Kill { family } => {
                if let Some(real) = self.families.get_mut(family) {
                    real.is_settled = true;
                }
            }
            Order::Bye => self.has_parted = true,
            Order::Launch { family, exclusive } => {
                let (until_ms, stage) = (self.hold_ms.unwrap_or(0), Stage::Starting);
                let real =
                    Real { exclusive: *exclusive, stage, until_ms, is_settled: false, is_killed: false };
                self.families.insert(*family, real);
            }
            _ => {}
        }
        self.input(Input::Said(order));
    }

    fn settle_due(&mut self) {
        for real in self.families.values_mut() {
            real.is_settled |= self.now_ms + 6_000 >= real.until_ms;
        }
    }

    fn family_moves(&mut self) {
        let place = self.dice.below(4) as usize;
        let Some((&family, real)) = self.families.iter_mut().nth(place) else { return };
        match real.stage {
            Stage::Starting => {
                let runs = self.dice.percent(90);
                if runs {
                    real.stage = Stage::Running;
                } else {
                    self.families.remove(&family);
                }
                self.input(Input::Launched { family, runs });
            }
            Stage::Running if self.dice.percent(50) => {
                real.stage = Stage::Leaderless;
                real.is_settled = true;
                self.input(Input::LeaderExited { family });
            }
            Stage::Leaderless => {
                self.families.remove(&family);
                self.input(Input::Emptied { family });
            }
            Stage::Running => {}
        }
    }

    fn worker_dies(&mut self) {
        if std::mem::take(&mut self.is_alive) {
            self.input(Input::WorkerDied);
            let spared = self.families.values().any(|real| real.stage != Stage::Starting && !real.is_killed);
            assert!(!spared, "a family outlives its worker");
        }
    }

    fn answer_leaves(&mut self) {
        if self.dice.percent(50)
            && let Some(key) = self.leaves.pop()
        {
            let taken = self.dice.percent(50);
            self.input(Input::LeaveAnswered { key, taken });
        }
    }

    fn carry_out(&mut self) {
        while let Some(output) = self.guardian.poll_output() {
            assert!(!self.is_over || matches!(output, Output::Refused { .. }), "{output:?} after the exit");
            match output {
                Output::Launch { family } => {
                    assert!(self.is_alive && !self.has_parted, "{family:?} is started for nobody");
                    let real = &self.families[&family];
                    let is_late = self.hold_ms.is_none_or(|hold_ms| hold_ms <= self.now_ms + 6_000);
                    assert!(!real.exclusive || !is_late, "{family:?} is started too late");
                }
                Output::Refused { family } => {
                    self.families.remove(&family);
                }
                Output::Kill { family } => {
                    let real = self.families.get_mut(&family).expect("it is not gone");
                    real.is_killed = true;
                    self.kills_by_clock += u32::from(self.is_alive && real.stage == Stage::Running);
                }
                Output::Ended { family } => {
                    assert!(!self.families.contains_key(&family), "{family:?} has not ended");
                }
                Output::Leave { key, leave, .. } => {
                    assert!(!self.is_alive && !self.has_parted && leave.crashed);
                    assert!(!leave.all_stopped || self.families.is_empty(), "not all have stopped");
                    assert!(!self.leaves.contains(&key), "one leave at a time");
                    self.leaves.push(key);
                }
                Output::Exit => {
                    assert!(!self.is_alive && self.families.is_empty(), "something is left to guard");
                    self.is_over = true;
                }
                Output::Terminate { .. } | Output::KillWorker => {}
            }
        }
    }

    fn check(&mut self) {
        self.settle_due();
        for (family, real) in &self.families {
            let is_due = real.exclusive && real.until_ms <= self.now_ms + 1_000;
            let is_spared = real.stage != Stage::Starting && !real.is_killed;
            assert!(!(is_due && is_spared), "{family:?} outlives its lease");
        }
    }

    /// The worker is dead, all families end, servers answer: then the guardian goes.
    fn end(&mut self) {
        self.worker_dies();
        for _ in 0..400 {
            self.now_ms += 500;
            self.guardian.handle_deadline(at(self.now_ms));
            self.carry_out();
            self.family_moves();
            self.answer_leaves();
        }
        assert!(self.is_over, "the guardian stays although nothing is left");
    }
}

/// One history; how often a running family was killed while the worker lived, or an error if a law was broken.
fn run(seed: u64, mutation: Option<Mutation>) -> std::thread::Result<u32> {
    std::panic::catch_unwind(|| {
        let mut world = World::new(seed, mutation);
        for _ in 0..STEPS {
            world.step();
        }
        world.end();
        world.kills_by_clock
    })
}

#[test]
fn random_histories_keep_the_laws() {
    let mut kills = 0;
    for seed in 0..SEEDS {
        kills += run(seed, None).unwrap_or_else(|_| panic!("seed {seed} breaks a law"));
    }
    assert!(kills > SEEDS as u32, "the histories are too tame: {kills} kills");
}

#[test]
fn random_histories_notice_every_mutation() {
    for mutation in Mutation::ALL {
        let is_noticed = (0..20).any(|seed| run(seed, Some(mutation)).is_err());
        assert!(is_noticed, "{mutation:?}");
    }
}
