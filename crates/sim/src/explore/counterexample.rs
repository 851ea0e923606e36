//! How an unlawful state is reached, as a story.

use std::fmt;

use super::Model;
use super::fingerprint::fingerprint;

/// The shortest way from the beginning to a state that a law forbids.
#[derive(Clone, Debug)]
pub struct Counterexample<A> {
    /// Which law, and how it is broken.
    pub violation: String,
    /// What happened, in order.
    pub actions: Vec<A>,
    /// The same, a line each, for people.
    pub story: Vec<String>,
}

/// Plays it again along these fingerprints, of which the first is that of the first state.
pub(super) fn replay<M: Model>(model: &M, path: &[u64], violation: String) -> Counterexample<M::Action> {
    let mut state = model.canonical(model.initial());
    let (mut actions, mut story) = (Vec::new(), Vec::new());
    for print in &path[1..] {
        let mut possible = Vec::new();
        model.actions(&state, &mut possible);
        let step = possible.into_iter().find_map(|action| {
            let next = model.canonical(model.next(&state, &action)?);
            (fingerprint(&next) == *print).then_some((action, next))
        });
        let (action, next) = step.expect("each state on the path was reached from the one before it");
        story.push(model.tell(&state, &action, &next));
        actions.push(action);
        state = next;
    }
    Counterexample { violation, actions, story }
}

impl<A> fmt::Display for Counterexample<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, line) in (1..).zip(&self.story) {
            writeln!(f, "{number:>4}  {line}")?;
        }
        writeln!(f, "      broken: {}", self.violation)
    }
}
