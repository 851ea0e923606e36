//! Runs worlds of a few dozen nodes under random faults and asks the laws; then calm, in which views must agree.

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::time::Duration;

use swim::{Config, Machine, NodeId, Profile, Suspicion};

use super::books::Books;
use super::change::{Change, Memory};
use super::laws::digest_hides_difference::{self, View};
use super::laws::{
    LAWS, Law, accused_and_silent, info_differs, leaders_differ, parted_by_bad_links, talks_without_news,
    views_differ,
};
use super::machine::{Settings, SwimNode};
use super::mutation::Mutation;
use super::network::Delay;
use super::plan;
use super::protocol::Node;
use super::watch::{LawWatch, Stats};
use super::world::{Setup, World};
use crate::law::Verdict;
use crate::rng::Rng;
use crate::seeds::{self, Outcome, Seeds};
use crate::time::Time;
use crate::trace::Trace;

/// How many periods the last news may take to die away, and how long it is then quiet.
const SETTLE_PERIODS: u32 = 30;
const QUIET_PERIODS: u32 = 10;

/// Where faults last it is looked so often, and each time after so many periods, whether somebody is missing who is connected
/// well enough. So many times it may be so: a process that has just started does not know yet which of its links are bad, and
/// whoever it condemns is kept out for a hold.
const LOOKS: usize = 60;
const LOOK_EVERY_PERIODS: u32 = 2;
const MISSING_MAX: usize = 24;

/// How often all digests are compared.
const DIGESTS_EVERY_PERIODS: u32 = 2;

/// What to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// How many seeds.
    pub seeds: u64,
    /// The first of them.
    pub first_seed: u64,
    /// How long things go wrong, in periods.
    pub periods: u32,
    /// A deliberate bug.
    pub mutation: Option<Mutation>,
    /// The only law to ask; all when `None`. Shows what a law notices that others notice first.
    pub only_law: Option<&'static str>,
    /// How many of the last events a failure shows.
    pub last_events: usize,
    /// Over how many threads; as many as there are cores when `None`.
    pub threads: Option<NonZeroUsize>,
}

impl Default for Options {
    fn default() -> Self {
        Options {
            seeds: 200,
            first_seed: 1,
            periods: 60,
            mutation: None,
            only_law: None,
            last_events: 60,
            threads: None,
        }
    }
}

/// What came of it.
pub type Report = crate::law::Report<Stats>;

/// Runs the seeds. `progress` hears after each how many are done.
pub fn run(options: &Options, mut progress: impl FnMut(u64)) -> Report {
    let seeds = Seeds {
        first: options.first_seed,
        count: options.seeds,
        last_events: options.last_events,
        threads: options.threads,
    };
    seeds.run(Stats::add, |seed, trace| Run::new(seed, options, trace).run(), |done, _| progress(done))
}

/// Runs one seed again and tells everything that happens, line by line.
pub fn replay(seed: u64, options: &Options, line: &mut dyn FnMut(String)) -> Report {
    seeds::replay(seed, |seed, trace| Run::new(seed, options, trace).run(), line)
}

/// The names of all faults that can strike.
pub fn faults() -> impl Iterator<Item = &'static str> {
    plan::names()
}

/// One world with its laws.
struct Run<'a> {
    world: World<'a, SwimNode, LawWatch>,
    config: Config,
    calm_at: Time,
    /// Some faults last; this one is badly connected for ever.
    lasts: bool,
    bad_node: Option<Node>,
}

/// What the laws about the end say.
struct Calm {
    verdict: Verdict,
    asked: [u64; LAWS.len()],
}

impl Calm {
    fn ask(&mut self, law: Law, verdict: impl FnOnce() -> Verdict) {
        if self.verdict.is_ok() {
            self.asked[law.index()] += 1;
            self.verdict = verdict();
        }
    }
}

impl<'a> Run<'a> {
    fn new(seed: u64, options: &Options, trace: Trace<'a>) -> Self {
        let mut rng = Rng::stream(seed, 0, "setup");
        let nodes = rng.between(3, 40) as u32;
        let config = draw_config(seed, &mut rng);
        let setup = Setup {
            seed,
            nodes,
            delay: Delay {
                min: Duration::from_micros(200),
                max: rng.span(Duration::from_millis(1), config.period / 20),
            },
            drift_max_ppm: *rng.pick(&[0, 200]),
            contacts: (0..nodes.min(rng.between(1, 3) as u32)).collect(),
            is_formed: rng.chance(0.5),
            timers_first: rng.chance(0.3),
        };
        let meta_bytes = *rng.pick(&[0, 0, 30, 200]);
        let settings = Settings::new(config.clone(), nodes, meta_bytes)
            .broken(options.mutation.map(Mutation::of_machine));
        let watch = LawWatch::new(Books::new(config.clone(), nodes, setup.is_formed), options.only_law);
        let is_formed = setup.is_formed;
        let mut world = World::new(setup, settings, watch, trace);
        world.tell(|| format!("{nodes} nodes, formed {is_formed}, {config:?}"));
        if !is_formed {
            for node in 0..nodes {
                let at = Time::ZERO + rng.span(Duration::ZERO, config.period * 3);
                world.schedule(at, Change::Start(node, Memory::Lost));
            }
        }
        let begin = Time::ZERO + config.period * 5;
        let calm_at = begin + config.period * options.periods;
        // Whoever asks nobody is not meant to withstand faults that last.
        let may_last = config.opinions.is_some();
        let plan = plan::draw(seed, nodes, config.period, (begin, calm_at), may_last);
        for (at, change) in plan.changes {
            world.schedule(at, change);
        }
        world.watch.stats.struck = plan.struck;
        Run { world, config, calm_at, lasts: plan.lasts, bad_node: plan.bad_node }
    }

    fn run(mut self) -> Outcome<Stats> {
        while self.world.now() < self.calm_at && !self.is_over() {
            let next = self.world.now() + self.config.period * DIGESTS_EVERY_PERIODS;
            self.world.run_until(next.min(self.calm_at));
            self.compare_digests();
        }
        // Changes of that very moment come first.
        self.world.run_for(Duration::from_nanos(1));
        self.converge();
        self.stay_quiet();
        if let Some(violation) = self.world.watch.violation().cloned() {
            self.world.tell(|| format!("BROKEN {violation}"));
        }
        let mut stats = std::mem::take(&mut self.world.watch.stats);
        stats.events = self.world.events();
        let (hash, at) = (self.world.hash(), self.world.now());
        Outcome { stats, hash, at, violation: self.world.watch.violation().cloned() }
    }

    fn is_over(&self) -> bool {
        self.world.watch.violation().is_some()
    }

    /// Looks every few periods whether all views agree; at the latest after the bound they must.
    fn converge(&mut self) {
        let bound = self.calm_at + calm_bound(&self.config, self.world.len());
        while !self.is_over() {
            let calm = self.agree();
            if calm.verdict.is_ok() || self.world.now() >= bound {
                let took = self.world.now().since(self.calm_at).as_nanos() as u64;
                self.world.watch.stats.converged_after.push(took);
                self.settle(calm);
                return;
            }
            self.world.run_for(self.config.period * 2);
            self.compare_digests();
        }
    }

    fn settle(&mut self, calm: Calm) {
        self.world.watch.count(&calm.asked);
        self.world.watch.fail(calm.verdict);
    }

    /// All views of live nodes whose digests are equal must be.
    fn compare_digests(&mut self) {
        if self.config.profile == Profile::Classic {
            // It has none.
            return;
        }
        let mut views: BTreeMap<u64, (Node, View)> = BTreeMap::new();
        let mut verdict = Ok(());
        for by in self.world.watch.books.live() {
            let Some(machine) = self.machine(by) else { continue };
            let present = machine.members().filter(|member| member.state.is_present());
            let view: View = present.map(|member| (member.identity, member.incarnation)).collect();
            let digest = machine.digest();
            let (other, known) = views.entry(digest).or_insert_with(|| (by, view.clone()));
            verdict =
                verdict.and(digest_hides_difference::check((by, digest, &view), (*other, digest, known)));
        }
        self.world.watch.ask(digest_hides_difference::LAW, verdict);
    }

    fn machine(&self, node: Node) -> Option<&Machine> {
        self.world.node(node).map(SwimNode::machine)
    }

    /// Asks the laws about what must be so in the end; the first that is not.
    fn agree(&self) -> Calm {
        let mut calm = Calm { verdict: Ok(()), asked: [0; LAWS.len()] };
        if self.lasts {
            self.agree_all_the_same(&mut calm);
        } else {
            self.agree_on_everything(&mut calm);
        }
        calm
    }

    fn agree_on_everything(&self, calm: &mut Calm) {
        let books = &self.world.watch.books;
        let live: Vec<Node> = books.live().collect();
        for by in live.iter().copied() {
            let Some(machine) = self.machine(by) else { continue };
            for about in 0..self.world.len() {
                let other = self.machine(about).filter(|_| by != about && books.is_live(about));
                let knows = machine.member(NodeId(about));
                if let (Some(seen), Some(other)) = (books.seen(by, about), other)
                    && seen.identity == other.me()
                {
                    let is_at = other.incarnation();
                    let accused = || accused_and_silent::check_calm(by, about, seen, is_at);
                    calm.ask(accused_and_silent::LAW, accused);
                }
                let has = knows.as_ref().map(|member| (member.identity, member.state));
                let live_epoch = books.is_live(about).then(|| books.truths[about as usize].epoch);
                calm.ask(views_differ::LAW, || views_differ::check((by, about), has, live_epoch));
                if let (Some(knows), Some(tells)) =
                    (knows, other.and_then(|other| other.member(NodeId(about))))
                    && self.config.profile != Profile::Classic
                {
                    let same = || info_differs::check((by, about), &knows.info, &tells.info);
                    calm.ask(info_differs::LAW, same);
                }
            }
            let prefers = machine.leader_preference().0;
            calm.ask(leaders_differ::LAW, || leaders_differ::check(by, prefers, live[0]));
        }
    }

    /// Some faults last. Whoever is connected well enough sees all others who are.
    fn agree_all_the_same(&self, calm: &mut Calm) {
        let books = &self.world.watch.books;
        let good: Vec<Node> = books.live().filter(|node| self.bad_node != Some(*node)).collect();
        for by in good.iter().copied() {
            let Some(machine) = self.machine(by) else { continue };
            for about in good.iter().copied().filter(|about| *about != by) {
                let has = machine.member(NodeId(about)).map(|member| (member.identity, member.state));
                let epoch = books.truths[about as usize].epoch;
                calm.ask(parted_by_bad_links::LAW, || parted_by_bad_links::check((by, about), has, epoch));
            }
        }
    }

    /// Some faults last: there is always somebody whose probe has just failed, but hardly ever anybody who is missing.
    fn stay_together(&mut self) {
        let (mut asked, mut missing) = ([0; LAWS.len()], Vec::new());
        for _ in 0..LOOKS {
            self.world.run_for(self.config.period * LOOK_EVERY_PERIODS);
            let calm = self.agree();
            asked.iter_mut().zip(calm.asked).for_each(|(sum, count)| *sum += count);
            missing.extend(calm.verdict.err());
        }
        self.world.watch.count(&asked);
        if missing.len() > MISSING_MAX
            && let Some(last) = missing.pop()
        {
            self.world.watch.fail(Err(last));
        }
    }

    fn stay_quiet(&mut self) {
        if self.is_over() {
            return;
        }
        if self.lasts {
            self.stay_together();
            return;
        }
        self.world.run_for(self.config.period * SETTLE_PERIODS);
        let before = self.world.watch.gossip;
        self.world.run_for(self.config.period * QUIET_PERIODS);
        let gossip = self.world.watch.gossip - before;
        let verdict = talks_without_news::check(gossip, u64::from(self.world.len()));
        self.world.watch.ask(talks_without_news::LAW, verdict);
        // Agreement lasts.
        let calm = self.agree();
        self.settle(calm);
    }
}

/// A configuration with short waits, so that a short run meets the end of each.
fn draw_config(seed: u64, rng: &mut Rng) -> Config {
    let usual = if rng.chance(0.5) { Config::lan() } else { Config::fast() };
    let mut config = match Rng::stream(seed, 0, "profile").below(8) {
        0 => Config::wan(),
        1 => return Config::classic(),
        _ => usual,
    };
    match rng.below(6) {
        0 => config.opinions = None,
        1 => {
            config.opinions = None;
            config.health_max = 0;
            config.buddy = false;
            config.suspicion = Suspicion { alpha: 5.0, beta: 1.0, confirmations: 0 };
        }
        _ => {}
    }
    config.stream_ping = rng.chance(0.8);
    config.sync.every = config.period * 20;
    config.hold_down = config.period * 10;
    config.hold_down_max = config.period * 40;
    config.review_every = config.period;
    config
}

/// How long after all faults ended all views must agree. Each part is the worst case of one thing that may still be under way,
/// one after the other:
fn calm_bound(config: &Config, nodes: u32) -> Duration {
    let periods = |count: u32| config.period * count;
    if config.profile == Profile::Classic {
        // Whoever is judged was probed, and nobody is judged in error any more.
        let verdict = config.probe_timeout + config.classic.helper_timeout + config.classic.suspicion;
        // All the dead, all seeds and all lists, in turn; somebody of whom another told may then turn out to be dead.
        let round = periods(nodes) + verdict + config.reach_out_every * 3 * nodes;
        return (round + config.stream_timeout * 2) * 2;
    }
    // Doubt in ourselves wears off by one with each probe, each of which it stretches.
    let doubt = periods((1..=config.health_max + 1).sum());
    // One pass of probes over all members, a node that has just been passed included.
    let probes = periods(2 * nodes);
    // A suspicion that nobody confirms lasts longest.
    let size = f64::from(nodes).log10().max(1.0);
    let suspicion = config.period.mul_f64(config.suspicion.alpha * config.suspicion.beta.max(1.0) * size);
    // Three waves of three measurements each.
    let opinions = config.opinions.map_or(Duration::ZERO, |opinions| {
        (opinions.ping_every * opinions.pings + config.probe_timeout + config.period) * 9
    });
    // All the dead and all seeds in turn, and then everybody is believed again.
    let reach_out = config.reach_out_every * 2 * nodes;
    // A comparison with somebody, twice, each with a stream that takes its time.
    let sync = (config.sync.every + config.stream_timeout) * 2;
    doubt + probes + suspicion + opinions + reach_out + config.hold_down_max + sync
}
