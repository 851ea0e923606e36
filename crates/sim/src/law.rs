//! What must never happen, and the report when it did.

use std::fmt;

use crate::time::Time;

/// A law was broken: the end of a run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// Which law; it is named after what it forbids.
    pub law: &'static str,
    /// What happened, with names and numbers.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.law, self.what)
    }
}

/// What a law says about an event.
pub type Verdict = Result<(), Violation>;

/// A run that broke a law; its seed tells the same story again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The seed.
    pub seed: u64,
    /// What was broken.
    pub violation: Violation,
    /// When.
    pub at: Time,
    /// The last events, oldest first.
    pub last_events: Vec<String>,
}

/// What came of many seeds of one world.
#[derive(Clone, Debug, Default)]
pub struct Report<S> {
    /// How many seeds were run.
    pub seeds: u64,
    /// All their numbers together.
    pub stats: S,
    /// The hash of the hashes of all runs, in the order of the seeds.
    pub trace_hash: u64,
    /// The runs that broke a law.
    pub failures: Vec<Failure>,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "seed {} broke {} at {} s", self.seed, self.violation, self.at)?;
        self.last_events.iter().try_for_each(|line| writeln!(f, "{line}"))
    }
}
