//! The seeds of one world under its laws: run them all, tell one of them again. Every world runs through here.

use std::num::NonZeroUsize;
use std::panic::{self, AssertUnwindSafe};

use crate::law::{Failure, Report, Violation};
use crate::run;
use crate::time::Time;
use crate::trace::{Hash, Tail, Trace};

/// How a run ended.
#[derive(Debug)]
pub(crate) struct Outcome<S> {
    pub(crate) stats: S,
    pub(crate) hash: u64,
    pub(crate) at: Time,
    pub(crate) violation: Option<Violation>,
}

/// Which seeds, and how.
pub(crate) struct Seeds {
    pub(crate) first: u64,
    pub(crate) count: u64,
    /// How many of the last events a failure shows.
    pub(crate) last_events: usize,
    /// As many as there are cores when `None`.
    pub(crate) threads: Option<NonZeroUsize>,
}

impl Seeds {
    /// Runs them; `world` is one run of one seed, `add` adds its numbers to those of others. `progress` hears after each how many are done and how many of them failed.
    pub(crate) fn run<S: Default + Send>(
        &self,
        add: fn(&mut S, &S),
        world: impl Fn(u64, Trace<'_>) -> Outcome<S> + Sync,
        mut progress: impl FnMut(u64, u64),
    ) -> Report<S> {
        let mut report = Report::default();
        let mut hash = Hash::default();
        run::seeds(
            self.first,
            self.count,
            self.threads,
            |seed| self.run_one(seed, &world),
            |_, (outcome, failure)| {
                report.seeds += 1;
                add(&mut report.stats, &outcome.stats);
                hash.add(outcome.hash);
                report.failures.extend(failure);
                progress(report.seeds, report.failures.len() as u64);
            },
        );
        report.trace_hash = hash.get();
        report
    }

    /// One run; one that fails is told again for its last events.
    fn run_one<S: Default + Send>(
        &self,
        seed: u64,
        world: &impl Fn(u64, Trace<'_>) -> Outcome<S>,
    ) -> (Outcome<S>, Option<Failure>) {
        let outcome = survive(|| world(seed, Trace::silent()));
        let Some(violation) = outcome.violation.clone() else { return (outcome, None) };
        let mut tail = Tail::new(self.last_events);
        let mut keep = |line| tail.push(line);
        let again = survive(|| world(seed, Trace::told(&mut keep)));
        assert_eq!(again.hash, outcome.hash, "a seed tells the same story whenever it is told");
        let failure = Failure { seed, violation, at: outcome.at, last_events: tail.into_lines() };
        (outcome, Some(failure))
    }
}

/// Runs one seed again and tells everything that happens, line by line.
pub(crate) fn replay<S: Default + Send>(
    seed: u64,
    world: impl FnOnce(u64, Trace<'_>) -> Outcome<S>,
    line: &mut dyn FnMut(String),
) -> Report<S> {
    let Outcome { stats, hash, at, violation } = survive(|| world(seed, Trace::told(line)));
    let failure = violation.map(|violation| Failure { seed, violation, at, last_events: Vec::new() });
    let mut trace_hash = Hash::default();
    trace_hash.add(hash);
    Report { seeds: 1, stats, trace_hash: trace_hash.get(), failures: failure.into_iter().collect() }
}

/// A machine that panics has found a promise of its own broken; its seed must not be lost with it.
fn survive<S: Default>(run: impl FnOnce() -> Outcome<S>) -> Outcome<S> {
    panic::catch_unwind(AssertUnwindSafe(run)).unwrap_or_else(|panicked| {
        let text = panicked.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panicked.downcast_ref::<&str>().copied()).unwrap_or("without words");
        let violation = Violation { law: "panicked", what: text.to_owned() };
        Outcome { stats: S::default(), hash: 0, at: Time::ZERO, violation: Some(violation) }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_is_a_failure_and_not_the_end() {
        let outcome: Outcome<()> = survive(|| panic!("lease {} must hold", 7));
        let violation = outcome.violation.expect("it was broken");
        assert_eq!((violation.law, violation.what.as_str()), ("panicked", "lease 7 must hold"));
    }
}
