//! What one world is made of: drawn from its seed, fixed for its life.

use std::time::Duration;

use lease::clock_rule::RateError;
use muster::Rules;

use super::mutation::Mutation;
use crate::clock::DriftingClock;
use crate::faults::{Fault, Plan};
use crate::rng::Rng;

/// How far every clock may be off, and what the clock rule assumes, in parts per million.
pub(super) const DRIFT_MAX_PPM: u32 = 1_000;
/// The margin of the clock rule.
pub(super) const SAFETY: Duration = Duration::from_secs(1);
/// How far the wall clock may be off. Two schedulers may so differ by twice that, which is less than a safe wait: fences of
/// a worker that nobody heard of again are older than that.
pub(super) const WALL_STEP_MAX: Duration = Duration::from_secs(10);
/// The longest a task runs.
pub(super) const RUN_MAX: Duration = Duration::from_secs(60);
/// The longest a worker is away, stopped, slow or cut off.
pub(super) const TROUBLE_MAX: Duration = Duration::from_secs(45);
/// The longest a scheduler is away.
pub(super) const DOWN_MAX: Duration = Duration::from_secs(25);
/// The longest a worker that is not connected waits before it tries again.
pub(super) const RECONNECT_MAX: Duration = Duration::from_millis(1_000);

/// The most workers that never last.
const LOOPERS_MAX: u32 = 20;

/// What can go wrong here.
pub(super) const MENU: [Fault; 11] = [
    Fault::Crash,
    Fault::PowerLoss,
    Fault::MassRestart,
    Fault::GracefulStop,
    Fault::InTurn,
    Fault::Pause,
    Fault::SlowCpu,
    Fault::Break,
    Fault::Block,
    Fault::DelaySpikes,
    Fault::WallStep,
];

/// One world's make-up.
#[derive(Clone, Debug)]
pub(super) struct Setup {
    pub(super) seed: u64,
    pub(super) mutation: Option<Mutation>,
    /// The only law that is asked, if not all are.
    pub(super) only_law: Option<&'static str>,
    /// How long things go wrong.
    pub(super) faults_last: Duration,
    pub(super) plan: Plan,
    /// The mean time between deaths of the scheduler, if it dies at all.
    pub(super) scheduler_dies_every: Option<Duration>,
    /// How often, of one, the scheduler dies just after a worker became healthy, while others come and go.
    pub(super) dies_at_worst: f64,
    /// The longest that one who never lasts is away before it tries again.
    pub(super) loop_away_max: Duration,
    /// The longest that a worker is cut off.
    pub(super) block_max: Duration,
    pub(super) scheduler_clock: DriftingClock,
    pub(super) allow_bump_unhealthy: bool,
    pub(super) rules: Rules,
    pub(super) workers: Vec<WorkerSetup>,
    /// The longest that a message is under way when nothing is wrong.
    pub(super) delay_max: Duration,
    /// Between two tasks; no tasks when `None`.
    pub(super) submit_every: Option<Duration>,
    pub(super) clients: u32,
    /// Newcomers queue from so many additions in a row on.
    pub(super) batch_after_min: u32,
    /// How often labels are compared with the truth.
    pub(super) labels_every: Option<Duration>,
}

/// A place for a worker.
#[derive(Clone, Debug)]
pub(super) struct WorkerSetup {
    pub(super) clock: DriftingClock,
    /// How many tasks it runs at a time.
    pub(super) slots: u32,
    /// The number of the seat that its instances want.
    pub(super) seat: Option<u32>,
    /// When it is there for the first time.
    pub(super) starts_at: Duration,
    /// Its process dies soon after every start, and nobody is told.
    pub(super) is_looping: bool,
}

impl Setup {
    pub(super) fn draw(
        seed: u64,
        workers_max: u32,
        faults_last: Duration,
        mutation: Option<Mutation>,
    ) -> Self {
        let mut rng = Rng::stream(seed, 0, "setup");
        let rng = &mut rng;
        let secs = Duration::from_secs;
        let workers = draw_size(rng, workers_max);
        // A tenth, or what a world can carry: every newcomer is told to everybody.
        let loopers = if rng.chance(0.4) { workers.div_ceil(10).min(LOOPERS_MAX) } else { 0 };
        // In half of the worlds everybody is there from the beginning, in the others some come later.
        let late = if rng.chance(0.5) { 0.0 } else { 0.3 };
        let has_seats = rng.chance(0.4);
        let worker = |rng: &mut Rng, number: u32| WorkerSetup {
            clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            slots: rng.between(1, 2) as u32,
            // Most sit where nobody else wants to; some want the seat of the one before.
            seat: has_seats.then(|| if number % 5 == 4 && rng.chance(0.3) { number - 1 } else { number }),
            starts_at: if rng.chance(late) {
                rng.span(secs(1), faults_last)
            } else {
                rng.span(secs(0), secs(2))
            },
            is_looping: number > 0 && number <= loopers,
        };
        let workers: Vec<WorkerSetup> = (0..workers).map(|number| worker(rng, number)).collect();
        let slots: u32 = workers.iter().map(|worker| worker.slots).sum();
        // In some worlds nothing is wrong with the workers, so that they agree again and again.
        let menu =
            if rng.chance(0.25) { vec![Fault::InTurn, Fault::Break, Fault::WallStep] } else { MENU.to_vec() };
        let is_small = workers.len() <= 60;
        Setup {
            seed,
            mutation,
            only_law: None,
            faults_last,
            plan: Plan::draw(&menu, &mut Rng::stream(seed, 0, "plan"), secs(3), secs(120)),
            scheduler_dies_every: rng.chance(0.9).then(|| rng.span_of_any_size(secs(8), secs(90))),
            dies_at_worst: *rng.pick(&[0.0, 0.01]),
            // In larger worlds less often, for the same reason.
            loop_away_max: secs(5) + secs(1) * loopers * (workers.len() as u32 / 50),
            block_max: TROUBLE_MAX,
            scheduler_clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            allow_bump_unhealthy: rng.chance(0.5),
            rules: Rules::default(),
            workers,
            delay_max: rng.span_of_any_size(Duration::from_millis(2), Duration::from_millis(200)),
            // About as much work as there is room for.
            submit_every: Some((RUN_MAX / 4 / slots).max(Duration::from_millis(20))),
            clients: rng.between(1, 4) as u32,
            batch_after_min: *rng.pick(&[2, 8]),
            labels_every: is_small.then(|| secs(3)),
        }
    }

    /// The same world where the rules are tightest: few workers, often cut off for just less than a lease, some of them two to a
    /// seat, and a scheduler that dies at the worst moments.
    pub(super) fn at_the_edge(mut self) -> Self {
        let rng = &mut Rng::stream(self.seed, 0, "edge");
        let secs = Duration::from_secs;
        self.workers.truncate(rng.between(2, 5) as usize);
        let has_seats = rng.chance(0.4);
        for (number, worker) in self.workers.iter_mut().enumerate() {
            worker.seat = has_seats.then_some(number as u32 / 2);
            worker.is_looping = false;
            worker.slots = 2;
            worker.starts_at = rng.span(Duration::ZERO, secs(60));
        }
        let workers = [Fault::Crash, Fault::PowerLoss, Fault::Block, Fault::DelaySpikes, Fault::Break];
        let chosen: Vec<Fault> =
            workers.into_iter().filter(|_| rng.chance(0.6)).chain([Fault::WallStep]).collect();
        self.plan = Plan::of(&chosen, rng.span_of_any_size(secs(4), secs(30)));
        self.scheduler_dies_every = Some(secs(60));
        self.dies_at_worst = 0.3;
        self.block_max = self.rules.lease;
        self.submit_every = Some(secs(3));
        self.labels_every = Some(secs(1));
        self
    }

    /// A world in which nothing happens that is not asked for: everybody is there, nothing goes wrong, there are no tasks.
    pub(super) fn quiet(seed: u64, workers: u32) -> Self {
        let rng = &mut Rng::stream(seed, 0, "quiet");
        let spread = Rules::default().heartbeat;
        let worker = |_| WorkerSetup {
            clock: DriftingClock::drawn(rng, DRIFT_MAX_PPM),
            slots: 1,
            seat: None,
            starts_at: rng.span(Duration::ZERO, spread),
            is_looping: false,
        };
        Setup {
            seed,
            mutation: None,
            only_law: None,
            faults_last: Duration::MAX,
            plan: Plan::of(&[], Duration::ZERO),
            scheduler_dies_every: None,
            dies_at_worst: 0.0,
            loop_away_max: Duration::from_secs(5),
            block_max: TROUBLE_MAX,
            scheduler_clock: DriftingClock::TRUE,
            allow_bump_unhealthy: false,
            rules: Rules::default(),
            workers: (0..workers).map(worker).collect(),
            delay_max: Duration::from_millis(5),
            submit_every: None,
            clients: 0,
            batch_after_min: muster::consensus::Terms::default().batch_after_min,
            labels_every: None,
        }
    }

    /// What both sides assume.
    pub(super) fn rate_error(&self) -> RateError {
        RateError::ppm(DRIFT_MAX_PPM)
    }

    /// After so long whoever was not heard of has stopped.
    pub(super) fn safe_wait(&self) -> Duration {
        self.rate_error().longer(self.rules.lease) + SAFETY
    }

    pub(super) fn is_broken_by(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}

/// Small and large worlds alike; the large form is always as large as it may be.
fn draw_size(rng: &mut Rng, workers_max: u32) -> u32 {
    if workers_max > 1_000 {
        return workers_max;
    }
    let bits = rng.between(1, u64::from(workers_max.ilog2()));
    rng.between(1 << bits, (2 << bits) - 1).clamp(2, u64::from(workers_max)) as u32
}
