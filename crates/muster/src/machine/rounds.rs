//! What is done from time to time: for everybody once per update, for those who are held back also in between.

use model::Instant;

use super::io::{Dismissal, Output};
use super::muster::Muster;
use super::worker::{Check, Worker};
use crate::consensus::Member;
use crate::health::{Health, Unhealthy, health, overdue};
use crate::mutation::Mutation;

impl Muster {
    /// Looks at everybody.
    pub(super) fn update(&mut self) {
        self.update_at = self.now + self.terms.rules.update_every;
        self.settle();
        let too_long = self.terms.rules.settle_within;
        if self.unsettled_since.is_some_and(|since| self.now.since(since) >= too_long) {
            self.consensus.close_queue();
        }
        let members: Vec<Member> = self.workers.keys().copied().collect();
        members.into_iter().for_each(|member| self.look_at(member));
    }

    /// Looks who is permitted by now.
    pub(super) fn settle(&mut self) {
        self.settle_at = None;
        let held_back: Vec<Member> = self.consensus.held_back().collect();
        self.consensus.update();
        held_back.into_iter().for_each(|member| self.judge(member));
        if self.consensus.held_back().next().is_none()
            && let Some(since) = self.unsettled_since.take()
        {
            self.time_to_agree = Some(self.now.since(since));
        }
    }

    /// Tells the present set to all that do not know it.
    pub(super) fn push(&mut self) {
        self.push_at = None;
        for (&member, worker) in &mut self.workers {
            let current = self.consensus.current(member);
            if let Some(id) = current.filter(|id| worker.told != Some(*id)) {
                worker.told = Some(id);
                self.outbox.push_back(Output::Tell { key: worker.key.clone(), id });
            }
        }
    }

    /// Looks whether a worker's health has changed.
    pub(super) fn judge(&mut self, member: Member) {
        let Some(worker) = self.workers.get_mut(&member) else { return };
        worker.stamps.is_permitted = self.consensus.permits(member).is_ok();
        let health = health(self.now, &worker.stamps, &self.terms.rules);
        if health == worker.health {
            return;
        }
        worker.health = health;
        match health {
            Health::Healthy => self.consensus.healthy(member),
            Health::New | Health::Unhealthy(_) | Health::MustDie => self.consensus.unhealthy(member),
        }
        self.outbox.push_back(Output::Health { key: worker.key.clone(), health });
    }

    /// Sends a healthcheck if it is time for one. One that did not come back while it was good for anything is given up.
    pub(super) fn check_if_due(&mut self, member: Member) {
        let (now, rules) = (self.now, &self.terms.rules);
        let Some(worker) = self.workers.get_mut(&member) else { return };
        if worker.stamps.fetched.is_none() || worker.stamps.is_dismissed {
            return;
        }
        let is_older = |stamp: Option<Instant>, age| stamp.is_none_or(|stamp| now.since(stamp) >= age);
        let is_free = is_older(worker.check.map(|check| check.sent), rules.check_good_for());
        if is_free && is_older(worker.check_sent, rules.check_every) {
            self.next_check += 1;
            worker.check = Some(Check { number: self.next_check, sent: now });
            worker.check_sent = Some(now);
            self.outbox.push_back(Output::Check { key: worker.key.clone(), number: self.next_check });
        }
    }

    fn look_at(&mut self, member: Member) {
        self.judge(member);
        let Some(worker) = self.workers.get(&member) else { return };
        if worker.stamps.fetched.is_none() {
            self.outbox.push_back(Output::Fetch { key: worker.key.clone() });
        }
        match overdue(self.now, &worker.stamps, &self.terms.rules).or_else(|| self.overdue_by_mistake(worker))
        {
            Some(health) => self.dismiss(member, Dismissal::Overdue(health)),
            None => self.check_if_due(member),
        }
    }

    fn overdue_by_mistake(&self, worker: &Worker) -> Option<Health> {
        let is_held_back = !self.is_waiting() && worker.health == Health::Unhealthy(Unhealthy::HeldBack);
        let is_old = self.now.since(worker.stamps.joined?) > self.terms.rules.lose_after;
        (self.broken_by(Mutation::HeldBackIsLost) && is_held_back && is_old).then_some(worker.health)
    }
}
