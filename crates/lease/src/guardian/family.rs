//! One family: whether it runs, until when it may, and what was ordered for it.

use model::Instant;

use super::keys::KeyNumber;
use super::{FamilyId, Output};
use crate::clock_rule::Stopping;

#[derive(Debug)]
pub(super) struct Family {
    id: FamilyId,
    is_exclusive: bool,
    /// Which of the worker's keys it was started under.
    key: KeyNumber,
    /// It was started. Before that there is nobody who could be asked to end.
    is_running: bool,
    demand: Demand,
    /// The end of the lease it lives on, once that is settled: a family that was asked to end, or whose key was given up,
    /// gains nothing by later renewals.
    until: Option<Instant>,
}

/// What was asked of a family; each is more than the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Demand {
    Nothing,
    Terminate,
    Kill,
}

impl Family {
    /// A family that is about to be started.
    pub(super) fn new(id: FamilyId, is_exclusive: bool, key: KeyNumber) -> Self {
        Family { id, is_exclusive, key, is_running: false, demand: Demand::Nothing, until: None }
    }

    /// It was started; what was asked of it meanwhile follows.
    pub(super) fn started(&mut self) -> Option<Output> {
        self.is_running = true;
        self.order()
    }

    /// Asks this much of it; `hold` is the end of the present key's lease. The order, if it is news.
    pub(super) fn ask(&mut self, demand: Demand, hold: Option<Instant>) -> Option<Output> {
        if demand <= self.demand {
            return None;
        }
        self.demand = demand;
        self.settle(hold);
        self.order()
    }

    /// From now on it lives on what is left of this lease.
    pub(super) fn settle(&mut self, hold: Option<Instant>) {
        self.until = self.until.or(hold);
    }

    /// What the clock rule asks of it now.
    pub(super) fn due(&self, now: Instant, stopping: Stopping, hold: Option<Instant>) -> Demand {
        match self.until.or(hold).filter(|_| self.is_exclusive) {
            Some(until) if stopping.kill_at(until) <= now => Demand::Kill,
            Some(until) if stopping.stop_at(until) <= now => Demand::Terminate,
            _ => Demand::Nothing,
        }
    }

    pub(super) fn next_deadline(&self, stopping: Stopping, hold: Option<Instant>) -> Option<Instant> {
        let until = self.until.or(hold).filter(|_| self.is_exclusive)?;
        match self.demand {
            Demand::Nothing => Some(stopping.stop_at(until)),
            Demand::Terminate => Some(stopping.kill_at(until)),
            Demand::Kill => None,
        }
    }

    pub(super) fn is_running(&self) -> bool {
        self.is_running
    }

    /// The key it was started under, if it is exclusive.
    pub(super) fn exclusive_under(&self) -> Option<KeyNumber> {
        self.is_exclusive.then_some(self.key)
    }

    fn order(&self) -> Option<Output> {
        let family = self.id;
        match self.demand {
            Demand::Terminate if self.is_running => Some(Output::Terminate { family }),
            Demand::Kill if self.is_running => Some(Output::Kill { family }),
            _ => None,
        }
    }
}
