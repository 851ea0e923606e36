//! May a new worker be given tasks? Only when no set of workers could agree, at the next restart, without it.
//!
//! Its own echo must name a set with everybody that is here; nobody may be in limbo; and the lowest label of all must not be
//! older than the first set with the new one. Unhealthy members count: they may come back first, and agree.

use std::fmt;

use super::history::Step;
use super::state::{Consensus, Member, Standing};
use crate::mutation::Mutation;
use crate::set::Version;

/// Why a worker may not be given tasks yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldBack {
    /// It is not a member, or no longer.
    NotMember,
    /// The scheduler is in its wait.
    Waiting,
    /// Too many come at once: it is admitted when those before it are permitted.
    Queued,
    /// It has not said yet that it knows the set of all that are here.
    Behind {
        /// What it said last.
        echoed: Option<Version>,
        /// The oldest version that would do.
        needed: Version,
    },
    /// This one has not said what set it knows, and so may hold one from another scheduler.
    Limbo {
        /// Who.
        by: Member,
    },
    /// This one could agree with others on a set that is too old to contain the new one.
    Older {
        /// Who.
        by: Member,
        /// The oldest version it could agree on.
        label: Version,
        /// The oldest version that would do.
        needed: Version,
    },
}

impl HeldBack {
    /// Who it has to wait for, if that is somebody else.
    pub fn by(self) -> Option<Member> {
        match self {
            HeldBack::Limbo { by } | HeldBack::Older { by, .. } => Some(by),
            HeldBack::NotMember | HeldBack::Waiting | HeldBack::Queued | HeldBack::Behind { .. } => None,
        }
    }
}

impl fmt::Display for HeldBack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HeldBack::NotMember => f.write_str("it is not a member of the set"),
            HeldBack::Waiting => f.write_str("the server is in its initial wait"),
            HeldBack::Queued => f.write_str("it is queued until those before it are permitted"),
            HeldBack::Behind { echoed: Some(echoed), needed } => {
                write!(f, "it knows version {} of the set and needs {}", echoed.0, needed.0)
            }
            HeldBack::Behind { echoed: None, needed } => {
                write!(f, "it knows no version of the set and needs {}", needed.0)
            }
            HeldBack::Limbo { .. } => f.write_str("another worker has not said yet which set it knows"),
            HeldBack::Older { label, needed, .. } => {
                write!(f, "another worker could agree on version {}, older than {}", label.0, needed.0)
            }
        }
    }
}

impl Consensus {
    /// Whether this member may be given tasks as far as the set of workers is concerned. Once it may, it may for as long as this
    /// scheduler lives.
    pub fn permits(&self, member: Member) -> Result<(), HeldBack> {
        if self.is_waiting() {
            return Err(HeldBack::Waiting);
        }
        if self.is_queued(member) {
            return Err(HeldBack::Queued);
        }
        let entry = self.present.get(&member).ok_or(HeldBack::NotMember)?;
        let was_permitted = !self.held_back.contains(&member) && !self.broken_by(Mutation::LatchForgotten);
        if was_permitted || self.broken_by(Mutation::GateRemoved) {
            return Ok(());
        }
        // Later sets than this one only lack who died. To ask for the very latest would hold everybody back while others die.
        let newest = self.history.newest();
        if entry.echoed < Some(newest) {
            let version = |step| self.history.version(step);
            return Err(HeldBack::Behind { echoed: entry.echoed.map(version), needed: version(newest) });
        }
        self.nobody_older_than(entry.first)
    }

    /// Whether no label is older than this version, and nobody is in limbo.
    fn nobody_older_than(&self, first: Step) -> Result<(), HeldBack> {
        let lowest_label = (Standing::Label(Step::default()), Member(0));
        let mut standings = if self.broken_by(Mutation::LimboIgnored) {
            self.standings.range(lowest_label..)
        } else {
            self.standings.range(..)
        };
        match standings.next() {
            Some(&(Standing::Limbo(_), by)) => Err(HeldBack::Limbo { by }),
            Some(&(Standing::Label(label), by)) if label < first => Err(HeldBack::Older {
                by,
                label: self.history.version(label),
                needed: self.history.version(first),
            }),
            _ => Ok(()),
        }
    }

    /// Notes who is permitted by now. It stays so, whoever joins later: see the module's fourth step.
    pub(super) fn note_permitted(&mut self) {
        let permitted: Vec<Member> =
            self.held_back.iter().copied().filter(|member| self.permits(*member).is_ok()).collect();
        for member in permitted {
            self.held_back.remove(&member);
        }
    }
}
