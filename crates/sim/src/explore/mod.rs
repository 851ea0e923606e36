//! A small explicit-state model checker: every state that a model can reach, breadth first, each asked whether it is lawful.
//!
//! A [`Model`] says what can happen in a state; [`search`] visits everything that follows, once. Breadth first, so that the first
//! unlawful state is reached by as few steps as any; the steps are found again from what was kept and told as a
//! [`Counterexample`]. Of a state that was visited only its fingerprint and that of the state before it are kept, 16 bytes
//! together; whole states live only as long as they wait to be expanded.
//!
//! A fingerprint has 64 bits, so two different states may be taken for one and what follows from the second be missed. Among
//! `n` states that happens with a probability of about `n² / 2^65`: 3 in 100,000 for 30 million states, 3 in 1,000 for 300
//! million. A violation that is found is real in any case, because it is played again step by step.

mod counterexample;
mod fingerprint;
mod search;
#[cfg(test)]
mod tests;
mod visited;

use std::fmt::Debug;
use std::hash::Hash;

pub use self::counterexample::Counterexample;
pub use self::fingerprint::fingerprint;
pub use self::search::{Limits, Outcome, Progress, search};

/// What can happen, and what must not.
pub trait Model: Sync {
    /// A situation. Two that are equal have the same future.
    type State: Clone + Hash + Eq + Send + Sync;
    /// Something that happens.
    type Action: Clone + Debug + Send;

    /// Where it begins.
    fn initial(&self) -> Self::State;

    /// Everything that may happen next, in the same order every time. It may name actions that turn out to change nothing.
    fn actions(&self, state: &Self::State, into: &mut Vec<Self::Action>);

    /// What comes of it; `None` if it cannot happen, or changes nothing.
    fn next(&self, state: &Self::State, action: &Self::Action) -> Option<Self::State>;

    /// Whether the state is lawful; otherwise the law and how it is broken.
    fn check(&self, state: &Self::State) -> Result<(), String>;

    /// The one state that stands for all that differ only in what nobody can tell apart. Visited are these alone.
    fn canonical(&self, state: Self::State) -> Self::State {
        state
    }

    /// A line about what happened, for people.
    fn tell(&self, _before: &Self::State, action: &Self::Action, _after: &Self::State) -> String {
        format!("{action:?}")
    }
}
