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
    /// The end of the present key's lease as the guardian knows it.
    told_hold: Option<Instant>,
}

impl Guard {
    pub(super) fn new(guardian: Option<GuardianId>) -> Self {
        Guard { guardian, told_hold: None }
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
        self.tell(outside, Order::Key { key: ledger.key().clone(), nonce: ledger.nonce() });
    }

    /// The end of the lease may have moved.
    pub(super) fn tell_hold(&mut self, outside: &mut Outside<'_>, ledger: &Ledger) {
        let hold = ledger.hold_until();
        if hold != self.told_hold
            && let Some(until) = hold
        {
            self.told_hold = hold;
            self.tell(outside, Order::Hold { until });
        }
    }
}
