//! Vouching: whoever condemned a node that is not believed since finds out when it is reliable again.
//!
//! ```text
//!   condemned ── after a while ──► review: observers are asked ── most find it good, several times ──► vouched for
//!                     ▲                         │
//!                     └──────── otherwise ──────┘
//! ```
//!
//! A review neither suspects nor condemns. The node itself cannot end its hold: it speaks well enough, but does not answer.
//! Others believe the voucher at once, and the node without one when it is heard after a long while, should its judges be
//! gone.

use super::Node;
use super::asker::{Voter, measuring_time};
use crate::identity::{Identity, NodeId};
use crate::io::State;
use crate::message::{Message, Status, Update, View};
use crate::mutation::Mutation;
use crate::queue::Rank;
use crate::timers::Timer;

/// So many good reviews in a row it takes: one alone says nothing of a node that is good and bad by turns.
const GOOD_REVIEWS: u32 = 3;
/// When trouble is widespread it says enough, and comes this soon: it was the network, which is well again or is not.
const GOOD_REVIEWS_WHEN_WIDESPREAD: u32 = 1;
const REVIEW_WHEN_WIDESPREAD_PERIODS: u32 = 2;

/// A node that we condemned.
#[derive(Debug)]
pub(super) struct Review {
    target: Identity,
    /// Names the timer that counts, and the round while one runs.
    number: u32,
    step: Step,
    voters: Vec<Voter>,
    /// What we see ourselves, in case there is nobody to ask.
    own: Option<View>,
    /// Reviews that found it good, without one in between that did not.
    good: u32,
}

/// How far a review is. Observers are asked at once, half a period later, and when their answer should have been there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Waits,
    AskedOnce,
    AskedTwice,
    AskedThrice,
}

impl Node {
    /// We condemned this node.
    pub(super) fn review_later(&mut self, target: Identity) {
        if self.config.opinions.is_none() {
            return;
        }
        let review = Review { target, number: 0, step: Step::Waits, voters: Vec::new(), own: None, good: 0 };
        self.reviews.insert(target.id, review);
        self.postpone_review(target.id);
    }

    /// Somebody else condemned a node that we condemned before: what we found good since then, they found bad. We begin anew.
    pub(super) fn review_anew(&mut self, target: Identity) {
        if self.reviews.get(&target.id).is_some_and(|review| review.target == target) {
            self.review_later(target);
        }
    }

    fn postpone_review(&mut self, id: NodeId) {
        let number = self.next_number();
        let Some(review) = self.reviews.get_mut(&id) else { return };
        review.number = number;
        review.step = Step::Waits;
        review.voters.clear();
        review.own = None;
        let soon = self.periods(REVIEW_WHEN_WIDESPREAD_PERIODS).min(self.config.review_every);
        let pause = if self.is_trouble_widespread() { soon } else { self.config.review_every };
        self.timers.set(self.now + pause, Timer::Review { number });
    }

    fn is_trouble_widespread(&mut self) -> bool {
        self.flaps.forget_deaths(self.now, &self.config);
        self.flaps.is_widespread(self.members_for_flaps())
    }

    /// We slept, or were deaf: what was said, or not said, meanwhile counts for nothing.
    pub(super) fn postpone_reviews(&mut self) {
        let running = self.reviews.iter().filter(|(_, review)| review.step != Step::Waits);
        let running: Vec<NodeId> = running.map(|(id, _)| *id).collect();
        for id in running {
            self.postpone_review(id);
        }
    }

    /// The next step of a review.
    pub(super) fn review(&mut self, number: u32) {
        let Some(rule) = self.config.opinions else { return };
        let Some(review) = self.reviews.values().find(|review| review.number == number) else { return };
        let (target, step) = (review.target, review.step);
        let Some(entry) = self.table.get(target.id).filter(|entry| entry.identity() == target) else {
            self.reviews.remove(&target.id);
            return;
        };
        if entry.state == State::Dead && !self.is_serving(target.id) {
            // It does not even contradict, or is not heard any more: whatever was good before is over.
            self.review_later(target);
            return;
        }
        // We believe it already; those may not who heard of more deaths than we did.
        let believed = entry.state.is_present() && !self.flaps.is_notorious(target.id);
        if believed || entry.state == State::Left {
            self.reviews.remove(&target.id);
            return;
        }
        let half = self.config.period / 2;
        let measured = measuring_time(&rule, self.config.probe_timeout);
        let (next, wait) = match step {
            Step::Waits if self.is_broken(Mutation::VouchesUnseen) => return self.vouch(target),
            Step::Waits => {
                self.begin_review(target);
                (Step::AskedOnce, half)
            }
            Step::AskedOnce => (Step::AskedTwice, measured.saturating_sub(half)),
            Step::AskedTwice => (Step::AskedThrice, half),
            Step::AskedThrice => return self.end_review(target),
        };
        if let Some(review) = self.reviews.get_mut(&target.id) {
            review.step = next;
        }
        self.timers.set(self.now + wait, Timer::Review { number });
        self.ask_for_review(target);
    }

    fn begin_review(&mut self, target: Identity) {
        let Some(rule) = self.config.opinions else { return };
        let voters = self.observers_of(target.id, rule.observers, &mut Default::default());
        let Some(entry) = self.table.get(target.id) else { return };
        let (addr, incarnation) = (entry.info.addr, entry.incarnation);
        if voters.is_empty() {
            // There is nobody else: we look ourselves.
            self.begin_measurement(Vec::new(), target, addr, incarnation);
        }
        if let Some(review) = self.reviews.get_mut(&target.id) {
            review.voters = voters;
            review.own = None;
        }
    }

    fn ask_for_review(&mut self, target: Identity) {
        let Some(review) = self.reviews.get(&target.id) else { return };
        let Some(entry) = self.table.get(target.id) else { return };
        let (round, addr, incarnation) = (review.number, entry.info.addr, entry.incarnation);
        let silent = review.voters.iter().filter(|voter| voter.view.is_none());
        let silent: Vec<_> = silent.map(|voter| (voter.node, voter.addr)).collect();
        for (observer, there) in silent {
            self.send(observer, there, Message::Ask { round, target, addr, incarnation });
        }
    }

    pub(super) fn review_opinion(&mut self, from: Identity, number: u32, target: Identity, view: View) {
        if let Some(review) = self.reviews.get_mut(&target.id).filter(|review| review.number == number)
            && let Some(voter) = review.voters.iter_mut().find(|voter| voter.node == from)
        {
            voter.view = Some(view);
            self.end_review_early(target);
        }
    }

    /// Enough found it good: the others need not be waited for.
    fn end_review_early(&mut self, target: Identity) {
        let Some(rule) = self.config.opinions else { return };
        let Some(review) = self.reviews.get(&target.id) else { return };
        let good = review.voters.iter().filter(|voter| voter.view == Some(View::Good)).count();
        if good * 100 >= rule.condemn_percent as usize * review.voters.len() && self.is_serving(target.id) {
            self.end_review(target);
        }
    }

    /// A measurement of ours is over.
    pub(super) fn review_measured(&mut self, target: Identity, view: View) {
        if let Some(review) = self.reviews.get_mut(&target.id).filter(|review| review.target == target) {
            review.own = Some(view);
        }
    }

    fn end_review(&mut self, target: Identity) {
        let Some(rule) = self.config.opinions else { return };
        let Some(review) = self.reviews.get_mut(&target.id) else { return };
        let count = |view| review.voters.iter().filter(|voter| voter.view == Some(view)).count();
        let (good, bad) = (count(View::Good), count(View::Bad));
        let is_good = match review.voters.len() {
            0 => review.own == Some(View::Good),
            // Where links are bad some are always silent. As few as can condemn must be heard.
            asked => (good + bad) * 3 >= asked && good * 100 >= rule.condemn_percent as usize * (good + bad),
        };
        review.good = if is_good { review.good + 1 } else { 0 };
        let good = review.good;
        let wanted = if self.is_trouble_widespread() { GOOD_REVIEWS_WHEN_WIDESPREAD } else { GOOD_REVIEWS };
        if good >= wanted {
            self.vouch(target);
        } else {
            self.postpone_review(target.id);
        }
    }

    /// It answers. Everybody may believe it again, and we do.
    fn vouch(&mut self, target: Identity) {
        self.reviews.remove(&target.id);
        let Some(entry) = self.table.get(target.id) else { return };
        let (incarnation, state) = (entry.incarnation, entry.state);
        let info = Some(entry.info.clone());
        let voucher = Update { node: target, incarnation, status: Status::Alive, by: self.me.id, info };
        self.flaps.vouched(self.now, target.id, incarnation);
        self.spread(voucher, Rank::Verdict);
        if state == State::Dead {
            self.believe(target, incarnation, state);
        }
    }
}
