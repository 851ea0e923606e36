//! What a worker keeps its guardian told of: every key before it is used, and how long it may act under it before
//! anything is started on the strength of that.

use lease::guardian::Order;
use lease::ledger::Ledger;
use model::Instant;

use super::super::guardian::{GuardianId, GuardianInput};
use super::super::outside::Outside;

/// The way to the guardian, if there is one.
#[derive(Debug)]
pub(super) struct Guard {
    guardian: Option<GuardianId>,
    /// The end of the present key's hold for exclusive jobs as the guardian knows it.
    told_hold: Option<Instant>,
    /// The end of the present key's lease as the guardian knows it.
    told_lease: Option<Instant>,
}

impl Guard {
    pub(super) fn new(guardian: Option<GuardianId>) -> Self {
        Guard { guardian, told_hold: None, told_lease: None }
    }

    pub(super) fn guardian(&self) -> Option<GuardianId> {
        self.guardian
    }

    pub(super) fn tell(&self, outside: &mut Outside<'_>, order: Order) {
        if let Some(guardian) = self.guardian {
            outside.tell_guardian(guardian, GuardianInput::Said(order));
        }
    }

    /// The ledger has a new key.
    pub(super) fn tell_key(&mut self, outside: &mut Outside<'_>, ledger: &Ledger) {
        self.told_hold = None;
        self.told_lease = None;
        self.tell(outside, Order::Key { key: ledger.key().clone(), nonce: ledger.nonce() });
    }

    /// The end of the lease, or of the hold for exclusive jobs, may have moved.
    pub(super) fn tell_hold(&mut self, outside: &mut Outside<'_>, ledger: &Ledger) {
        let (hold, lease) = (ledger.exclusive_hold_until(), ledger.hold_until());
        if hold != self.told_hold
            && let Some(until) = hold
        {
            self.told_hold = hold;
            self.tell(outside, Order::Hold { until });
        }
        // The lease is at least as long, and known to be.
        if lease > hold
            && lease != self.told_lease
            && let Some(until) = lease
        {
            self.told_lease = lease;
            self.tell(outside, Order::Lease { until });
        }
    }
}
