//! When it is more likely us: limits on accusing, deafness, and sleep.

use std::collections::VecDeque;
use std::time::Duration;

use model::Instant;

use super::Node;
use crate::identity::{Identity, NodeId};
use crate::io::{Event, State};
use crate::mutation::Mutation;
use crate::timers::Timer;

/// So many periods without a word from anybody, and we condemn nobody; if we are well and the others too, we are deaf.
const SILENT_PERIODS: u32 = 3;
/// Both take others to be heard: with fewer, one silent node would be enough.
const DEAF_OTHERS_MIN: usize = 2;
/// So many failed probes at once, and a quarter of the members, and we suspect ourselves.
const FAILED_AT_ONCE_MIN: usize = 3;
/// Most who wait for a round; further ones wait for their next probe.
const WAITING_MAX: usize = 1_024;
/// Somebody who waited longer than this is probed again first.
const WAITING_PERIODS: u32 = 5;
/// For how long we trust ourselves again after we were shown to be wrong about us.
const RELEASED_PERIODS: u32 = 2;

/// What slows us down.
#[derive(Debug)]
pub(super) struct Brakes {
    /// Thousandths of a round that may begin.
    tokens: u64,
    tokens_max: u64,
    filled_at: Instant,
    waiting: VecDeque<(Identity, Instant)>,
    braked: bool,
    released_until: Instant,
    /// Whom we heard last, and the last one before that was another.
    heard: [(Instant, NodeId); 2],
    lonely: bool,
}

impl Brakes {
    pub(super) fn new(now: Instant, per_period: u32) -> Self {
        let tokens_max = u64::from(per_period) * 1_000;
        Brakes {
            tokens: tokens_max,
            tokens_max,
            filled_at: now,
            waiting: VecDeque::new(),
            braked: false,
            released_until: now,
            heard: [(now, NodeId(u32::MAX)), (now, NodeId(u32::MAX))],
            lonely: false,
        }
    }
}

impl Node {
    /// True if a round about this node may begin now; otherwise it waits for its turn.
    pub(super) fn may_accuse(&mut self, target: Identity) -> bool {
        let failed = self.table.in_state(State::ProbeFailed);
        if failed >= FAILED_AT_ONCE_MIN
            && failed * 4 >= self.members_present()
            && self.now >= self.brakes.released_until
        {
            self.brakes.braked = true;
        }
        if !self.brakes.braked && self.take_token() {
            return true;
        }
        if self.brakes.waiting.len() < WAITING_MAX {
            self.brakes.waiting.push_back((target, self.now));
            if self.brakes.waiting.len() == 1 && !self.brakes.braked {
                self.timers.set(self.now + self.token_time(), Timer::Accuse);
            }
        }
        false
    }

    /// Begins rounds that waited, as many as there are tokens.
    pub(super) fn begin_waiting_rounds(&mut self) {
        if self.brakes.braked {
            return;
        }
        while let Some((target, since)) = self.brakes.waiting.front().copied() {
            let fresh = self.now.since(since) < self.periods(WAITING_PERIODS);
            let failed = self.table.get(target.id).is_some_and(|entry| {
                entry.identity() == target && matches!(entry.state, State::ProbeFailed | State::Suspected)
            });
            let wanted = fresh && failed && !self.rounds.contains_key(&target.id);
            if wanted && !self.take_token() {
                self.timers.set(self.now + self.token_time(), Timer::Accuse);
                return;
            }
            self.brakes.waiting.pop_front();
            if wanted {
                self.begin_round(target, false);
            }
        }
    }

    /// Somebody hears us, or answers whom we took for silent: it was not us.
    pub(super) fn release_brakes(&mut self) {
        if self.brakes.braked {
            self.brakes.braked = false;
            self.brakes.released_until = self.now + self.periods(RELEASED_PERIODS);
            self.begin_waiting_rounds();
        }
    }

    /// A probe was answered. Most others may truly be gone, so for each answer one round may begin, brakes or not: if it
    /// is us, the observers will say so.
    pub(super) fn ease_brakes(&mut self) {
        if !self.brakes.braked {
            return;
        }
        while let Some((target, _)) = self.brakes.waiting.pop_front() {
            let failed = self.table.get(target.id).is_some_and(|entry| {
                entry.identity() == target && matches!(entry.state, State::ProbeFailed | State::Suspected)
            });
            if failed && !self.rounds.contains_key(&target.id) {
                self.begin_round(target, false);
                return;
            }
        }
    }

    pub(super) fn take_token(&mut self) -> bool {
        let per_period = self.brakes.tokens_max;
        let gained = self.now.since(self.brakes.filled_at).as_nanos() * u128::from(per_period)
            / self.config.period.as_nanos().max(1);
        if gained > 0 {
            self.brakes.filled_at = self.now;
            self.brakes.tokens =
                (self.brakes.tokens + gained.min(u128::from(per_period)) as u64).min(per_period);
        }
        let taken = self.brakes.tokens >= 1_000;
        self.brakes.tokens -= if taken { 1_000 } else { 0 };
        taken
    }

    pub(super) fn is_braked(&self) -> bool {
        self.brakes.braked
    }

    /// How long until there is another token, at most.
    fn token_time(&self) -> Duration {
        self.config.period / self.config.accusations_per_period.max(1) + Duration::from_micros(1)
    }

    /// A datagram of another node arrived.
    pub(super) fn hear(&mut self, from: NodeId) {
        let was_deaf = self.is_deaf();
        if self.brakes.heard[0].1 != from {
            self.brakes.heard[1] = self.brakes.heard[0];
        }
        self.brakes.heard[0] = (self.now, from);
        if was_deaf && self.config.opinions.is_some() && !self.is_broken(Mutation::DeafCondemns) {
            // What we did not hear meanwhile, nobody could have told us.
            self.start_anew();
        }
    }

    /// True if we heard somebody other than this node since then (or there is nobody else).
    pub(super) fn heard_since(&self, then: Instant, except: NodeId) -> bool {
        let others = self.table.present().saturating_sub(1);
        let deaf_counts = self.is_broken(Mutation::DeafCondemns);
        others == 0 || deaf_counts || self.brakes.heard.iter().any(|(at, who)| *who != except && *at > then)
    }

    /// True if nobody was heard for long, and there are some who could be. Those who do not answer our probes count too: that
    /// is what deafness looks like.
    pub(super) fn is_deaf(&self) -> bool {
        self.table.present() >= DEAF_OTHERS_MIN && self.silence() >= self.silence_max()
    }

    /// How long nobody may be heard before we are deaf, and whatever runs begins anew. Whoever probes less often is answered
    /// less often, and when many do not answer the few who do are heard less often too: beginning anew whenever one of
    /// them is heard, we would never come to an end.
    fn silence_max(&self) -> Duration {
        let silence = self.periods(SILENT_PERIODS - 1) + self.health.stretch(self.config.period);
        let (present, alive) = (self.table.present(), self.table.in_state(State::Alive));
        silence * (present / alive.max(1)).max(1) as u32
    }

    /// True if silence is no evidence now: nobody at all is heard. However much we doubt ourselves and however few are
    /// left, this does not stretch as deafness does: a verdict can wait until somebody is heard, and then it is known that it
    /// was not us.
    pub(super) fn must_not_condemn(&self) -> bool {
        self.config.opinions.is_some()
            && self.table.present() >= DEAF_OTHERS_MIN
            && self.silence() >= self.periods(SILENT_PERIODS)
            && !self.is_broken(Mutation::DeafCondemns)
    }

    /// For how long nobody was heard.
    fn silence(&self) -> Duration {
        self.now.since(self.brakes.heard[0].0)
    }

    /// We slept, or were deaf: whatever ran meanwhile gets its full time again.
    pub(super) fn start_anew(&mut self) {
        self.void_probe();
        self.scouts.clear();
        self.restart_suspicions();
        self.restart_rounds();
        self.restart_measurements();
        self.postpone_reviews();
        self.checks.clear();
        self.brakes.waiting.clear();
    }

    pub(super) fn review_loneliness(&mut self) {
        let dead = self.table.in_state(State::Dead);
        let bad = self.table.in_state(State::Suspected) + dead;
        let others = self.table.present() + dead;
        let lonely = bad * 2 > others || self.is_deaf() || self.brakes.braked;
        if lonely != self.brakes.lonely {
            self.brakes.lonely = lonely;
            self.event(if lonely { Event::Lonely } else { Event::Reunited });
        }
    }

    pub(crate) fn is_lonely(&self) -> bool {
        self.brakes.lonely
    }
}
