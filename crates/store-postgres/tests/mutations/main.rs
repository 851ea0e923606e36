//! Each guard in the SQL is there for a reason: without it, the case of the suite that is about it fails.

use std::collections::{BTreeMap, BTreeSet};
use std::panic;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use common::Database;
use store::JobStore;
use store::conformance::{self, BoxFuture, Harness, TestClock};
use store_postgres::{PostgresOptions, PostgresStore};
use tokio::time::timeout;

mod buried;
#[path = "../common/mod.rs"]
mod common;
mod jobs;
mod races;
mod workers;

/// Runs at the same time: most of a run is waiting for the database.
const THREADS: usize = 4;

/// Far more than any case takes.
const TIME_LIMIT: Duration = Duration::from_secs(120);
const HANGS: &str = "the case hangs";
/// What a panic says that is not about the promise of a case.
const NOT_THE_CASE: [&str; 4] = [
    HANGS,
    "no verb of the suite may fail as a whole",
    "the suite has no case named",
    "no statement contains",
];

/// How `reap` compares a job with what was seen of it.
const SEEN: &str = "(j.state, j.fence, j.lease_until, j.holder)
            IS NOT DISTINCT FROM (2::smallint, seen.fence, seen.lease_until, seen.holder)";

/// What is done to the statements, and which case must notice.
struct Mutation {
    name: &'static str,
    from: &'static str,
    to: &'static str,
    noticed_by: &'static str,
}

const fn mutation(
    name: &'static str,
    from: &'static str,
    to: &'static str,
    noticed_by: &'static str,
) -> Mutation {
    Mutation { name, from, to, noticed_by }
}

/// One run of a case, with or without a mutation.
type Run = (&'static str, Option<(&'static str, &'static str)>);

/// How it went.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Outcome {
    Passed,
    Noticed,
    /// Not the case failed but the database or the store, which says nothing about the case.
    Refused(String),
}

#[test]
fn every_mutation_is_noticed_by_the_case_that_is_about_it() {
    let all: Vec<&Mutation> = jobs::MUTATIONS.iter().chain(workers::MUTATIONS).collect();
    let mutated = all.iter().map(|mutation| (mutation.noticed_by, Some((mutation.from, mutation.to))));
    let untouched = all.iter().map(|mutation| (mutation.noticed_by, None));
    let outcomes = run_all(mutated.chain(untouched).collect());
    let mut wrong = Vec::new();
    for mutation in all {
        let (case, change) = (mutation.noticed_by, Some((mutation.from, mutation.to)));
        let with_and_without = (&outcomes[&(case, change)], &outcomes[&(case, None)]);
        if with_and_without != (&Outcome::Noticed, &Outcome::Passed) {
            wrong.push((mutation.name, with_and_without));
        }
    }
    assert_eq!(wrong, [], "each case must fail with its mutation and pass without");
}

fn run_all(runs: BTreeSet<Run>) -> BTreeMap<Run, Outcome> {
    // Most are meant to panic; their messages would bury the one that matters.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let runs: Vec<Run> = runs.into_iter().collect();
    let (next, outcomes) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(run) = runs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let outcome = outcome(*run);
                    outcomes.lock().unwrap().insert(*run, outcome);
                }
            });
        }
    });
    panic::set_hook(loud);
    outcomes.into_inner().unwrap()
}

fn outcome((case, replacement): Run) -> Outcome {
    let run = || {
        let case = conformance::case(case);
        let database = Database::fresh();
        let url = database.cluster.url(&database.name);
        let harness = Mutated { url, replacements: replacement.into_iter().collect() };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { timeout(TIME_LIMIT, case.run(harness)).await.expect(HANGS) });
    };
    let Err(panic) = panic::catch_unwind(run) else {
        return Outcome::Passed;
    };
    let said = panic.downcast_ref::<String>().cloned();
    let said = said.or_else(|| panic.downcast_ref::<&str>().map(|said| (*said).to_owned()));
    match said {
        Some(said) if NOT_THE_CASE.iter().any(|words| said.contains(words)) => Outcome::Refused(said),
        _ => Outcome::Noticed,
    }
}

#[test]
#[should_panic(expected = "no statement contains")]
fn mutation_that_changes_nothing_is_refused() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let options = PostgresOptions::new("postgresql://nobody@127.0.0.1:1/nowhere");
    let _ = runtime.block_on(PostgresStore::connect_mutated(options, &[("no such text", "")]));
}

struct Mutated {
    url: String,
    replacements: Vec<(&'static str, &'static str)>,
}

impl Harness for Mutated {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        let options = PostgresOptions { clock: Some(clock), ..PostgresOptions::new(&self.url) };
        Box::pin(async {
            let store = PostgresStore::connect_mutated(options, &self.replacements).await.unwrap();
            Arc::new(store) as Arc<dyn JobStore>
        })
    }

    fn join(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        self.open(clock)
    }
}
