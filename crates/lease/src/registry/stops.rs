//! The stop list of one worker: what it is told in every answer until it has let go.

use std::collections::BTreeMap;
use std::ops::Bound;

use model::{Hold, Limits};

use crate::message::{Stop, StopOrder};

/// Most stops in one answer; the rest follow in the next ones.
pub const STOPS_MAX: usize = 1_000;

/// Stops by hold.
#[derive(Debug, Default)]
pub(super) struct Stops {
    orders: BTreeMap<Hold, StopOrder>,
    /// Where the last page ended, if there was more than one page.
    told_to: Option<Hold>,
}

impl Stops {
    /// Adds an order. Beyond [`Limits::BOUND_MAX`] it is left out: the worker hears of it when it has let go of others.
    pub(super) fn add(&mut self, hold: Hold, reason: StopOrder) {
        if self.orders.len() < Limits::BOUND_MAX || self.orders.contains_key(&hold) {
            self.orders.insert(hold, reason);
        }
    }

    /// The worker has let go of it.
    pub(super) fn remove(&mut self, hold: Hold) {
        self.orders.remove(&hold);
    }

    /// True if it is to be stopped.
    pub(super) fn contains(&self, hold: Hold) -> bool {
        self.orders.contains_key(&hold)
    }

    /// Keeps only the stops of these.
    pub(super) fn retain(&mut self, is_kept: impl Fn(&Hold) -> bool) {
        self.orders.retain(|hold, _| is_kept(hold));
    }

    /// Forgets them all.
    pub(super) fn clear(&mut self) {
        self.orders.clear();
    }

    /// The next at most [`STOPS_MAX`], going round.
    pub(super) fn page(&mut self) -> Vec<Stop> {
        let stop = |(hold, reason): (&Hold, &StopOrder)| Stop { hold: *hold, reason: *reason };
        if self.orders.len() <= STOPS_MAX {
            self.told_to = None;
            return self.orders.iter().map(stop).collect();
        }
        let after = self.told_to.map_or(Bound::Unbounded, Bound::Excluded);
        let rest = self.orders.range((after, Bound::Unbounded));
        let page: Vec<Stop> = rest.chain(&self.orders).take(STOPS_MAX).map(stop).collect();
        self.told_to = page.last().map(|last| last.hold);
        page
    }

    /// True when nothing is to be stopped.
    pub(super) fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use model::{Fence, JobId};

    use super::*;

    #[test]
    fn orders_are_bounded_and_those_that_are_there_may_still_change() {
        let hold =
            |n: usize| Hold { job: JobId::from_bytes((n as u128).to_be_bytes()), fence: Fence::new(1) };
        let mut stops = Stops::default();
        (0..=Limits::BOUND_MAX).for_each(|n| stops.add(hold(n), StopOrder::Cancelled));
        assert_eq!(stops.orders.len(), Limits::BOUND_MAX);
        stops.add(hold(0), StopOrder::Lost);
        assert_eq!(stops.page()[0], Stop { hold: hold(0), reason: StopOrder::Lost });
    }
}
