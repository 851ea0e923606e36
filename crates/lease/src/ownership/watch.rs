//! The other registries: whose counter stands still, and since when.

use std::collections::{BTreeMap, BTreeSet};

use model::{Instant, RegistryId};

use super::io::{Sighting, Terms};
use super::mutation::Mutation;

/// What was seen of the others.
#[derive(Debug, Default)]
pub(super) struct Watch {
    mutation: Option<Mutation>,
    seen: BTreeMap<RegistryId, Suspect>,
    /// Those whose take-over is under way, whichever registry of ours is to get their workers.
    taking: BTreeSet<RegistryId>,
    /// When the last answer was received.
    last_answer: Option<Instant>,
}

#[derive(Debug)]
struct Suspect {
    sighting: Sighting,
    /// It may be taken over if a call that is sent then shows it like this.
    ripe_at: Instant,
}

impl Watch {
    /// Nobody was seen.
    pub(super) fn new(mutation: Option<Mutation>) -> Self {
        Watch { mutation, ..Self::default() }
    }

    /// An answer shows these, to a call that was sent then: whom to take over. They are under way from now on.
    pub(super) fn look(
        &mut self,
        now: Instant,
        sent: Instant,
        terms: &Terms,
        others: impl Iterator<Item = Sighting>,
    ) -> Vec<Sighting> {
        let trusts_old = self.has(Mutation::OldSightingCounts);
        // Half the time, so that a server which the store comes back to as it does to us has the other half to say so.
        let is_regular = self.last_answer.is_some_and(|last| now.since(last) <= terms.owned_for / 2);
        let mut before = std::mem::take(&mut self.seen);
        if !is_regular && !trusts_old {
            before.clear();
        }
        self.last_answer = Some(now);
        let asked_at = if trusts_old { now } else { sent };
        let mut ripe = Vec::new();
        for sighting in others {
            let known = before.remove(&sighting.registry).filter(|known| known.sighting == sighting);
            let suspect = known.unwrap_or_else(|| Suspect {
                sighting,
                ripe_at: if sighting.resigned { asked_at } else { self.patience_ends(now, terms) },
            });
            let is_ripe = suspect.ripe_at <= asked_at || self.has(Mutation::TakesOverWithoutWaiting);
            self.seen.insert(sighting.registry, suspect);
            if is_ripe && (self.taking.insert(sighting.registry) || self.has(Mutation::TakesOverTwice)) {
                ripe.push(sighting);
            }
        }
        ripe
    }

    /// A take-over was answered. What shows that registry next must have been asked after this.
    pub(super) fn taken(&mut self, now: Instant, from: RegistryId) {
        if self.taking.remove(&from)
            && let Some(suspect) = self.seen.get_mut(&from)
        {
            suspect.ripe_at = suspect.ripe_at.max(now);
        }
    }

    /// What was seen is worth nothing any more.
    pub(super) fn forget(&mut self) {
        self.seen.clear();
        self.last_answer = None;
    }

    fn patience_ends(&self, now: Instant, terms: &Terms) -> Instant {
        let is_naive = self.has(Mutation::RateErrorIgnored);
        now + if is_naive { terms.owned_for } else { terms.rate_error.longer(terms.owned_for) }
    }

    fn has(&self, mutation: Mutation) -> bool {
        self.mutation == Some(mutation)
    }
}
