//! Who dies again and again, and how long such a node is not believed.
//!
//! When many die within a short while it is the network that comes and goes, and not each of them: such deaths count for
//! nobody, and whoever was judged meanwhile is soon looked at again.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use model::Instant;

use crate::config::Config;
use crate::identity::{Incarnation, NodeId};

/// How many periods it takes until one point is forgiven.
const FORGIVEN_AFTER_PERIODS: u32 = 300;
/// From this penalty on, a contradiction is believed only after a while.
const HELD_FROM: u32 = 3;
/// A death, and a death as unreliable.
const DEATH: u32 = 1;
const UNRELIABLE: u32 = 2;
/// So many contradictions within so many periods make a node one to be looked at closely.
const RESTLESS: usize = 3;
const RESTLESS_WITHIN_PERIODS: u32 = 10;

/// Trouble is widespread if this share of all members, and so many, died within so many periods.
const WIDESPREAD_ONE_IN: usize = 16;
const WIDESPREAD_MIN: usize = 3;
const WIDESPREAD_PERIODS: u32 = 60;

/// The history of those who have one.
#[derive(Debug, Default)]
pub(crate) struct Flaps {
    by_node: BTreeMap<NodeId, Flap>,
    /// Deaths of the last while, oldest first; for each node only the last one counts.
    deaths: VecDeque<(Instant, NodeId)>,
    /// How many nodes these are about.
    died_lately: usize,
}

#[derive(Debug, Default)]
struct Flap {
    penalty: u32,
    counted_at: Instant,
    /// The last death that is among those of the last while.
    died_at: Option<Instant>,
    /// The highest incarnation that was judged as unreliable.
    judged: Option<Incarnation>,
    /// The highest incarnation somebody vouched for since the last death, and when we heard of it.
    vouched: Option<(Incarnation, Instant)>,
    /// When we condemned it ourselves, by opinions.
    condemned_at: Option<Instant>,
    held: Option<Incarnation>,
    held_until: Instant,
    probation_until: Instant,
    contradicted_at: [Instant; RESTLESS],
    contradicted: usize,
}

impl Flaps {
    /// A node died, one of so many.
    pub(crate) fn died(
        &mut self,
        now: Instant,
        id: NodeId,
        unreliable: bool,
        members: usize,
        config: &Config,
    ) {
        self.note_death(now, id, config);
        let counts = !self.is_widespread(members);
        let flap = self.by_node.entry(id).or_default();
        flap.settle(now, config);
        if counts {
            flap.penalty = flap.penalty.saturating_add(if unreliable { UNRELIABLE } else { DEATH });
        }
        flap.held = None;
        flap.vouched = None;
    }

    fn note_death(&mut self, now: Instant, id: NodeId, config: &Config) {
        self.forget_deaths(now, config);
        let flap = self.by_node.entry(id).or_default();
        if flap.died_at.replace(now).is_none() {
            self.died_lately += 1;
        }
        self.deaths.push_back((now, id));
    }

    /// Those of long ago do not count any more.
    pub(crate) fn forget_deaths(&mut self, now: Instant, config: &Config) {
        while let Some((at, id)) = self.deaths.front().copied() {
            if now.since(at) < config.period * WIDESPREAD_PERIODS {
                return;
            }
            self.deaths.pop_front();
            if let Some(flap) = self.by_node.get_mut(&id).filter(|flap| flap.died_at == Some(at)) {
                flap.died_at = None;
                self.died_lately -= 1;
            }
        }
    }

    /// True if so many of so many members died lately that it is more likely the network.
    pub(crate) fn is_widespread(&self, members: usize) -> bool {
        self.died_lately >= WIDESPREAD_MIN && self.died_lately * WIDESPREAD_ONE_IN >= members
    }

    /// A node is judged as unreliable. False if that is no news.
    pub(crate) fn judged(&mut self, id: NodeId, incarnation: Incarnation) -> bool {
        let flap = self.by_node.entry(id).or_default();
        let news = flap.judged < Some(incarnation);
        flap.judged = flap.judged.max(Some(incarnation));
        news
    }

    /// True if its next death would be one too many. Such a verdict is a judgement, so that it reaches everybody however
    /// soon it is contradicted.
    pub(crate) fn is_notorious(&self, id: NodeId) -> bool {
        self.by_node.get(&id).is_some_and(|flap| flap.judged.is_some() || flap.penalty + DEATH >= HELD_FROM)
    }

    /// The incarnation in which a node that is not believed now was judged as unreliable.
    pub(crate) fn judgement(&self, id: NodeId) -> Option<Incarnation> {
        self.by_node.get(&id).and_then(|flap| flap.judged)
    }

    /// Somebody vouches for a node. False if that is no news.
    pub(crate) fn vouched(&mut self, now: Instant, id: NodeId, incarnation: Incarnation) -> bool {
        let flap = self.by_node.entry(id).or_default();
        let news = flap.vouched.is_none_or(|(known, _)| known < incarnation);
        if news {
            flap.vouched = Some((incarnation, now));
        }
        news
    }

    /// The highest incarnation of a node that somebody vouched for since its last death.
    pub(crate) fn voucher(&self, id: NodeId) -> Option<Incarnation> {
        self.by_node.get(&id).and_then(|flap| flap.vouched).map(|(incarnation, _)| incarnation)
    }

    pub(crate) fn condemned(&mut self, now: Instant, id: NodeId) {
        self.by_node.entry(id).or_default().condemned_at = Some(now);
    }

    /// True if we condemned it ourselves a short while ago.
    pub(crate) fn was_condemned(&self, now: Instant, id: NodeId, config: &Config) -> bool {
        self.by_node
            .get(&id)
            .and_then(|flap| flap.condemned_at)
            .is_some_and(|at| now.since(at) < config.period * RESTLESS_WITHIN_PERIODS)
    }

    /// A node contradicts its death. Says until when it is not believed, if so.
    pub(crate) fn hold(
        &mut self,
        now: Instant,
        id: NodeId,
        incarnation: Incarnation,
        unreliable: bool,
        members: usize,
        config: &Config,
    ) -> Option<Instant> {
        self.forget_deaths(now, config);
        let widespread = self.is_widespread(members);
        let flap = self.by_node.entry(id).or_default();
        flap.settle(now, config);
        if flap.held.is_some() {
            flap.held = Some(incarnation);
            // It speaks, and its time is over.
            return Some(flap.held_until).filter(|until| *until > now);
        }
        if (flap.penalty < HELD_FROM || widespread) && !unreliable {
            return None;
        }
        flap.held = Some(incarnation);
        flap.held_until = now + if unreliable { config.hold_down_max } else { config.hold_down };
        Some(flap.held_until)
    }

    /// True if this node's contradiction is known, and not believed yet.
    pub(crate) fn is_held(&self, id: NodeId) -> bool {
        self.by_node.get(&id).is_some_and(|flap| flap.held.is_some())
    }

    /// True if it was held, and its time is over.
    pub(crate) fn has_served(&self, now: Instant, id: NodeId) -> bool {
        self.by_node.get(&id).is_some_and(|flap| flap.held.is_some() && flap.held_until <= now)
    }

    /// The node is believed again, and on probation.
    pub(crate) fn returned(&mut self, now: Instant, id: NodeId, probation: Duration) {
        let flap = self.by_node.entry(id).or_default();
        flap.held = None;
        flap.probation_until = now + probation;
    }

    pub(crate) fn is_on_probation(&self, now: Instant, id: NodeId) -> bool {
        self.by_node.get(&id).is_some_and(|flap| now < flap.probation_until)
    }

    /// The node contradicted a suspicion or a death.
    pub(crate) fn contradicted(&mut self, now: Instant, id: NodeId) {
        let flap = self.by_node.entry(id).or_default();
        flap.contradicted_at.rotate_left(1);
        flap.contradicted_at[RESTLESS - 1] = now;
        flap.contradicted = (flap.contradicted + 1).min(RESTLESS);
    }

    /// True if it contradicted several times within a short while.
    pub(crate) fn is_restless(&self, now: Instant, id: NodeId, config: &Config) -> bool {
        self.by_node.get(&id).is_some_and(|flap| {
            flap.contradicted == RESTLESS
                && now.since(flap.contradicted_at[0]) < config.period * RESTLESS_WITHIN_PERIODS
        })
    }

    /// A new start of the node, or nobody knows it any more.
    pub(crate) fn forget(&mut self, id: NodeId) {
        if self.by_node.remove(&id).is_some_and(|flap| flap.died_at.is_some()) {
            self.died_lately -= 1;
        }
    }

    /// Drops histories that have no effect any more.
    pub(crate) fn sweep(&mut self, now: Instant, config: &Config) {
        self.forget_deaths(now, config);
        self.by_node.retain(|_, flap| {
            flap.settle(now, config);
            flap.penalty > 0
                || flap.died_at.is_some()
                || flap.held.is_some()
                || flap.vouched.is_some_and(|(_, at)| now.since(at) < config.hold_down_max)
                || now < flap.probation_until
                || now.since(flap.contradicted_at[RESTLESS - 1]) < config.period * RESTLESS_WITHIN_PERIODS
        });
    }
}

impl Flap {
    fn settle(&mut self, now: Instant, config: &Config) {
        if self.penalty == 0 {
            self.counted_at = now;
            return;
        }
        let unit = config.period * FORGIVEN_AFTER_PERIODS;
        let forgiven = (now.since(self.counted_at).as_nanos() / unit.as_nanos().max(1)) as u32;
        self.penalty = self.penalty.saturating_sub(forgiven);
        self.counted_at = self.counted_at + unit.saturating_mul(forgiven);
    }
}
