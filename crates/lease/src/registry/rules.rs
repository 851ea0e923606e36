//! The registry's terms as rules, with the one deliberate bug that a test may have switched on.

use std::time::Duration;

use model::Instant;

use super::io::Terms;
use super::mutation::Mutation;
use super::owned::Owned;
use crate::clock_rule;
use crate::message::Token;

/// What every judgement goes by.
#[derive(Debug)]
pub(super) struct Rules {
    pub(super) terms: Terms,
    pub(super) mutation: Option<Mutation>,
    pub(super) owned: Owned,
}

impl Rules {
    /// True when this bug is switched on.
    pub(super) fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }

    /// True while the registry is ours for certain.
    pub(super) fn is_ours(&self, now: Instant) -> bool {
        self.owned.is_certain(now)
    }

    /// True while nobody may be judged.
    pub(super) fn suspends_judgement(&self, now: Instant) -> bool {
        !self.is_ours(now) && !self.has(Mutation::JudgesWhenNotOurs)
    }

    /// Before when a worker of this expiry and largest grant must not be ended: silence while we could not judge does not
    /// count against it.
    pub(super) fn judged_from(&self, expires: Instant, largest_grant: Duration) -> Instant {
        match self.owned.judging_since() {
            Some(since) if !self.has(Mutation::CutOffCountsAgainstWorkers) => {
                expires.max(self.grace(since, largest_grant))
            }
            _ => expires,
        }
    }

    /// True if an unknown worker that shows this token is one from a life before, of which nothing else is known.
    pub(super) fn is_from_before(&self, token: Option<Token>) -> bool {
        !self.terms.durable && token.is_some_and(|token| token.generation != self.terms.generation)
    }

    /// The lease for this wish.
    pub(super) fn grant(&self, wish: Duration) -> Duration {
        if wish.is_zero() {
            return self.terms.lease_default;
        }
        wish.max(self.terms.lease_min).min(self.terms.lease_max)
    }

    /// When a lease is over that was renewed now.
    pub(super) fn expires(&self, before: Instant, now: Instant, lease: Duration) -> Instant {
        let before = if self.has(Mutation::ExpiresMovesEarlier) { Instant::ZERO } else { before };
        clock_rule::expires(before, now, lease, self.terms.rate_error)
    }

    /// When a worker's time is over that must find us again after a restart or a stall of ours.
    pub(super) fn grace(&self, now: Instant, largest_grant: Duration) -> Instant {
        now + self.terms.rate_error.longer(largest_grant)
    }
}
