//! Second opinions: before a node is suspected or condemned, its observers are asked.
//!
//! ```text
//!            L of all voters bad: suspected                  H of them bad: condemned
//!   round ──────────────────────────────────────────► … ──────────────────────────────► over
//!     │        enough good that H is out of reach: over, it was our link
//!     └─ time out: H of those present ─► condemned;  most silent ─► others are asked;  L..H ─► measured again
//! ```
//!
//! Who the observers are is a hash of (node, candidate), so everybody with the same view asks the same ones, and one
//! measurement answers all.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::time::Duration;

use model::Instant;
use model::splitmix::mix;

use super::Node;
use super::tally::Tally;
use crate::config::Opinions;
use crate::identity::{Identity, Incarnation, NodeId};
use crate::io::{Reason, State};
use crate::message::{Message, Status, View};
use crate::timers::Timer;

/// How often an observer is asked in one round.
const ASKED_MAX: u32 = 3;
/// How many sets of observers are asked when most are silent.
const WAVES_MAX: u32 = 3;
/// How often is measured while opinions differ.
const MEASURED_MAX: u32 = 3;
/// With fewer observers than this a verdict must be found so many times.
const FEW_OBSERVERS: usize = 5;
const VERDICTS_OF_FEW: u32 = 2;
/// For how many periods a suspicion that another's round brought is left to that round.
const LEFT_TO_OTHERS_PERIODS: u32 = 2;

/// A round of questions about one node.
#[derive(Debug)]
pub(super) struct Round {
    target: Identity,
    incarnation: Incarnation,
    number: u32,
    began: Instant,
    voters: Vec<Voter>,
    /// Everybody asked in any wave.
    tried: BTreeSet<NodeId>,
    asked: u32,
    wave: u32,
    measured: u32,
    /// How many measurements came to a verdict.
    verdicts: u32,
    /// Nothing is said before the verdict: the node keeps contradicting, and has nothing to contradict meanwhile.
    silent: bool,
}

/// Somebody who is asked, and the answer.
#[derive(Debug)]
pub(super) struct Voter {
    pub(super) node: Identity,
    pub(super) addr: SocketAddr,
    pub(super) view: Option<View>,
}

impl Round {
    fn tally(&self) -> Tally {
        let count = |view| self.voters.iter().filter(|voter| voter.view == view).count();
        Tally {
            expected: self.voters.len() + 1,
            bad: 1 + count(Some(View::Bad)),
            good: count(Some(View::Good)),
            silent: count(None),
        }
    }
}

impl Node {
    /// Our probe of this node failed. A round begins as soon as the brakes let it.
    pub(super) fn want_opinions(&mut self, target: Identity) {
        if self.rounds.contains_key(&target.id) {
            return;
        }
        let others_care = self.suspicions.get(&target.id).is_some_and(|suspected| {
            self.now.since(suspected.began) < self.periods(LEFT_TO_OTHERS_PERIODS)
                && suspected.accuser() != self.me.id
        });
        if others_care || !self.may_accuse(target) {
            return;
        }
        self.begin_round(target, false);
    }

    pub(super) fn begin_round(&mut self, target: Identity, silent: bool) {
        let Some(rule) = self.config.opinions else { return };
        let Some(entry) = self.table.get(target.id).filter(|entry| entry.epoch == target.epoch) else {
            return;
        };
        let incarnation = entry.incarnation;
        let mut tried = BTreeSet::new();
        let voters = self.observers_of(target.id, rule.observers, &mut tried);
        if voters.is_empty() {
            // There is nobody else: what we see ourselves is enough.
            self.conclude(target, Status::Suspect, Reason::NoAnswer);
            return;
        }
        let number = self.next_number();
        let round = Round {
            target,
            incarnation,
            number,
            began: self.now,
            voters,
            tried,
            asked: 0,
            wave: 1,
            measured: 1,
            verdicts: 0,
            silent,
        };
        self.rounds.insert(target.id, round);
        self.set_round_timers(target.id, &rule);
    }

    fn set_round_timers(&mut self, id: NodeId, rule: &Opinions) {
        let ends = self.now + self.round_time(rule);
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.began = self.now;
        round.asked = 0;
        let number = round.number;
        self.timers.set(ends, Timer::RoundEnd { round: number });
        self.ask_again(number);
    }

    /// Asks the silent ones: at once, half a period later, and when their answer should have been there.
    pub(super) fn ask_again(&mut self, number: u32) {
        let Some(rule) = self.config.opinions else { return };
        let Some(round) = self.rounds.values_mut().find(|round| round.number == number) else { return };
        round.asked += 1;
        let next = match round.asked {
            1 => Some(round.began + self.config.period / 2),
            2 => Some(round.began + measuring_time(&rule, self.config.probe_timeout)),
            _ => None,
        };
        let (target, incarnation) = (round.target, round.incarnation);
        let silent: Vec<(Identity, SocketAddr)> = round
            .voters
            .iter()
            .filter(|voter| voter.view.is_none())
            .map(|voter| (voter.node, voter.addr))
            .collect();
        if let Some(next) = next.filter(|_| round.asked < ASKED_MAX) {
            self.timers.set(next.max(self.now), Timer::AskAgain { round: number });
        }
        let Some(addr) = self.table.get(target.id).map(|entry| entry.info.addr) else { return };
        for (observer, there) in silent {
            self.send(observer, there, Message::Ask { round: number, target, addr, incarnation });
        }
    }

    pub(super) fn opinion(&mut self, from: Identity, number: u32, target: Identity, view: View) {
        let Some(round) = self.rounds.get_mut(&target.id).filter(|round| round.number == number) else {
            self.review_opinion(from, number, target, view);
            return;
        };
        let Some(voter) = round.voters.iter_mut().find(|voter| voter.node == from) else { return };
        voter.view = Some(view);
        if view != View::Unable {
            // Somebody hears us, and we hear somebody.
            self.release_brakes();
        }
        if view == View::Good
            && let Some(suspected) = self.suspicions.get_mut(&target.id)
        {
            suspected.answers = true;
        }
        self.weigh(target.id);
    }

    fn weigh(&mut self, id: NodeId) {
        let Some(rule) = self.config.opinions else { return };
        let Some(round) = self.rounds.get(&id) else { return };
        let (tally, target, silent) = (round.tally(), round.target, round.silent);
        if tally.is_verdict(&rule) {
            self.condemn(id, tally);
        } else if tally.is_acquittal(&rule) {
            self.acquit(id);
        } else {
            let suspected = self.table.get(id).is_some_and(|entry| entry.state == State::Suspected);
            if tally.is_suspect(&rule) && !silent && !suspected {
                self.conclude(target, Status::Suspect, tally.reason());
                self.tell_suspect(target);
            }
            if tally.silent == 0 {
                self.end_round(id);
            }
        }
    }

    pub(super) fn round_timed_out(&mut self, number: u32) {
        let Some(round) = self.rounds.values().find(|round| round.number == number) else { return };
        self.end_round(round.target.id);
    }

    /// All have answered, or time is over.
    fn end_round(&mut self, id: NodeId) {
        let Some(rule) = self.config.opinions else { return };
        let Some(round) = self.rounds.get(&id) else { return };
        let tally = round.tally();
        let links_are_bad = self.has_bad_links();
        if tally.is_verdict_of_those_present(&rule, links_are_bad) {
            self.condemn(id, tally);
        } else if tally.lacks_voters(links_are_bad) && self.ask_others(id, &rule) {
            // The next wave is under way.
        } else if tally.reaches(rule.condemn_percent, tally.present()) {
            // Too few could tell, or nobody; none of them finds it good.
            self.leave_suspected(id, tally);
        } else if tally.bad >= 2 && tally.reaches(rule.suspect_percent, tally.present()) {
            self.measure_again(id);
        } else {
            self.acquit(id);
        }
    }

    /// Replaces the silent observers by the next ones. False if there are none, or it was done often enough.
    fn ask_others(&mut self, id: NodeId, rule: &Opinions) -> bool {
        let Some(mut round) = self.rounds.remove(&id) else { return false };
        let missing = round.tally().silent;
        let others = if round.wave < WAVES_MAX {
            self.observers_of(id, missing, &mut round.tried)
        } else {
            Vec::new()
        };
        let found = !others.is_empty();
        if found {
            round.wave += 1;
            round.voters.retain(|voter| voter.view.is_some());
            round.voters.extend(others);
            round.number = self.next_number();
            // Those who answered already had the question under its old number, and are not asked again.
        }
        self.rounds.insert(id, round);
        if found {
            self.set_round_timers(id, rule);
        }
        found
    }

    /// Opinions differ: once more, and then it is left to the suspicion.
    fn measure_again(&mut self, id: NodeId) {
        let Some(rule) = self.config.opinions else { return };
        let number = self.next_number();
        let Some(round) = self.rounds.get_mut(&id) else { return };
        if round.measured >= MEASURED_MAX {
            let tally = round.tally();
            self.leave_suspected(id, tally);
            return;
        }
        round.measured += 1;
        round.number = number;
        for voter in &mut round.voters {
            voter.view = None;
        }
        self.set_round_timers(id, &rule);
    }

    /// No verdict can be had. What there is is enough for a suspicion, unless it is more likely us.
    fn leave_suspected(&mut self, id: NodeId, tally: Tally) {
        let Some(round) = self.rounds.remove(&id) else { return };
        let alone = tally.present() == 1;
        if round.silent || alone && (self.is_braked() || !self.heard_since(round.began, id)) {
            return;
        }
        let reason = if alone { Reason::NoAnswer } else { tally.reason() };
        self.conclude(round.target, Status::Suspect, reason);
        self.tell_suspect(round.target);
        if tally.good > 0
            && let Some(suspected) = self.suspicions.get_mut(&id)
        {
            suspected.answers = true;
        }
    }

    fn condemn(&mut self, id: NodeId, tally: Tally) {
        if self.must_not_condemn() {
            // Those who spoke did so a while ago, and all others may be silent because we do not hear them.
            self.measure_again(id);
            return;
        }
        let Some(round) = self.rounds.get_mut(&id) else { return };
        round.verdicts += 1;
        if round.voters.len() < FEW_OBSERVERS && round.verdicts < VERDICTS_OF_FEW {
            // Few can be unlucky together. The suspect is told, and they look once more.
            let (target, silent) = (round.target, round.silent);
            if !silent {
                self.conclude(target, Status::Suspect, tally.reason());
                self.tell_suspect(target);
            }
            self.measure_again(id);
            return;
        }
        let Some(round) = self.rounds.remove(&id) else { return };
        self.flaps.condemned(self.now, id);
        let judged = round.silent || self.flaps.is_notorious(id);
        let status = if judged { Status::Unreliable } else { Status::Dead };
        self.conclude(round.target, status, tally.reason());
    }

    /// The others find it good: it was our link.
    fn acquit(&mut self, id: NodeId) {
        let Some(round) = self.rounds.remove(&id) else { return };
        self.health.worse_by(1);
        self.answers(round.target);
    }

    /// The node contradicted. Votes about the earlier incarnation are void; if they were bad, or it does nothing but
    /// contradict, it is looked at once more, in silence.
    pub(super) fn round_contradicted(&mut self, node: Identity, incarnation: Incarnation) {
        let Some(rule) = self.config.opinions else { return };
        let Some(round) = self.rounds.get(&node.id) else { return };
        if round.incarnation >= incarnation {
            return;
        }
        let doubtful =
            round.tally().is_suspect(&rule) || self.flaps.is_restless(self.now, node.id, &self.config);
        self.rounds.remove(&node.id);
        if doubtful {
            self.begin_round(node, true);
        }
    }

    /// We condemned this node, and it contradicts: does it answer, or only speak?
    pub(super) fn examine(&mut self, node: Identity) {
        if !self.rounds.contains_key(&node.id) && self.take_token() {
            self.begin_round(node, true);
        }
    }

    /// All rounds begin again: what was said, or not said, while we slept counts for nothing.
    pub(super) fn restart_rounds(&mut self) {
        let rounds = std::mem::take(&mut self.rounds);
        for (_, round) in rounds {
            self.begin_round(round.target, round.silent);
        }
    }

    /// Tells a suspect at once, so that it can contradict before everybody has heard.
    fn tell_suspect(&mut self, node: Identity) {
        if !self.config.buddy {
            return;
        }
        if let Some(addr) = self.table.get(node.id).map(|entry| entry.info.addr) {
            self.send(node, addr, Message::Gossip);
        }
    }

    /// The next `most` observers of a node in hash order that were not tried yet.
    pub(super) fn observers_of(
        &self,
        target: NodeId,
        most: usize,
        tried: &mut BTreeSet<NodeId>,
    ) -> Vec<Voter> {
        let mut best: BTreeSet<(u64, NodeId)> = BTreeSet::new();
        for entry in self.table.iter() {
            if entry.id == target || !entry.state.is_present() || tried.contains(&entry.id) {
                continue;
            }
            let weight = mix(mix(u64::from(target.0)) ^ u64::from(entry.id.0));
            if best.len() < most {
                best.insert((weight, entry.id));
            } else if best.last().is_some_and(|last| (weight, entry.id) < *last) {
                best.pop_last();
                best.insert((weight, entry.id));
            }
        }
        tried.extend(best.iter().map(|(_, id)| *id));
        best.iter()
            .filter_map(|(_, id)| self.table.get(*id))
            .map(|entry| Voter { node: entry.identity(), addr: entry.info.addr, view: None })
            .collect()
    }

    /// How long a round lasts: a measurement, and half a period for the way.
    pub(super) fn round_time(&self, rule: &Opinions) -> Duration {
        measuring_time(rule, self.config.probe_timeout) + self.config.period / 2
    }
}

pub(super) fn measuring_time(rule: &Opinions, probe_timeout: Duration) -> Duration {
    rule.ping_every * rule.pings + probe_timeout
}
