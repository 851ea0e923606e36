//! Which holds of one worker are exclusive: our records of the claims say so, and the rows. Most workers have none.

use model::Hold;

use super::{Bindings, Standing};
use crate::message::Change;

impl Bindings {
    /// Whether this hold is exclusive; `None` if we do not know.
    pub(in crate::registry) fn exclusiveness(&self, hold: Hold) -> Option<bool> {
        let is_known = match self.standing(hold) {
            Some(standing) => standing != Standing::Checking,
            None => self.records.contains_key(&hold),
        };
        is_known.then(|| self.is_exclusive(hold))
    }

    /// True if anything that is bound or on its way is exclusive, or may turn out to be.
    pub(in crate::registry) fn may_be_exclusive(&self) -> bool {
        self.is_checking() || self.exclusive().next().is_some()
    }

    /// True if anything that is bound is exclusive.
    pub(in crate::registry) fn has_bound_exclusive(&self) -> bool {
        self.exclusive().any(|hold| self.entries.contains_key(&hold))
    }

    /// True if anything that is bound is volatile.
    pub(in crate::registry) fn has_bound_volatile(&self) -> bool {
        self.exclusive().any(|hold| hold.job.is_volatile() && self.entries.contains_key(&hold))
    }

    /// The exclusive binds of a heartbeat that was just applied, or of its full set, that stand: the worker starts none of
    /// them before it hears so.
    pub(in crate::registry) fn bound_by(&self, binds: &[Change], is_full: bool) -> Vec<Hold> {
        if self.rare.is_none() {
            return Vec::new();
        }
        let stands = |hold: &Hold| self.is_exclusive(*hold) && self.standing(*hold) == Some(Standing::Held);
        if is_full {
            self.exclusive().filter(stands).collect()
        } else {
            binds.iter().map(|it| it.hold).filter(stands).collect()
        }
    }

    /// True if this one is known to be.
    pub(in crate::registry) fn is_exclusive(&self, hold: Hold) -> bool {
        self.rare.as_ref().is_some_and(|rare| rare.exclusive.contains(&hold))
    }

    fn exclusive(&self) -> impl Iterator<Item = Hold> {
        self.rare.iter().flat_map(|rare| rare.exclusive.iter().copied())
    }
}
