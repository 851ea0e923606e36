//! The shared memory store keeps every promise of the port but durability, with one handle and with several, and the
//! suite notices when it does not.

use std::panic::{self, AssertUnwindSafe};
use std::pin::pin;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Wake, Waker};

use super::{MemoryStore, Mutation};
use crate::conformance::{BoxFuture, Case, Harness, TestClock, cases, ready, shared_cases};
use crate::port::{JobStore, News};

mod every {
    use super::check;

    crate::conformance_tests!(check);
}

mod shared {
    use super::check;

    crate::conformance_tests!(shared check);
}

fn check(case: Case) {
    ready(case.run(Shared::default()));
}

/// A shared store, made when it is opened.
#[derive(Default)]
struct Shared {
    store: OnceLock<MemoryStore>,
    mutation: Option<Mutation>,
}

impl Shared {
    fn seat(&self, clock: Arc<TestClock>) -> Arc<dyn JobStore> {
        let store = self.store.get_or_init(|| match self.mutation {
            None => MemoryStore::shared(clock),
            Some(mutation) => MemoryStore::shared_broken(clock, mutation),
        });
        Arc::new(store.seat())
    }
}

impl Harness for Shared {
    fn open(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async { self.seat(clock) })
    }

    fn join(&self, clock: Arc<TestClock>) -> BoxFuture<'_, Arc<dyn JobStore>> {
        Box::pin(async { self.seat(clock) })
    }
}

/// Which case must notice which bug.
const NOTICED_BY: [(Mutation, &[&str]); Mutation::OF_REGISTRIES.len()] = {
    use Mutation::*;
    [
        (EnlistIgnoresPings, &["who_pings_and_who_has_a_lease_do_not_share_a_key"]),
        (EnlistByGoneRegistry, &["former_owner_enlists_nobody"]),
        (ExpiredShowsOthers, &["expired_are_those_of_the_registry_and_of_none"]),
        (DeadlinesShowOthers, &["deadlines_are_those_of_the_registry_and_of_none"]),
        (ExtensionMovesOthers, &["extension_moves_the_leases_of_the_registry_and_of_none"]),
        (ReapWithoutRegistryCheck, &["reap_needs_the_registry_that_was_seen", "former_owner_reaps_nobody"]),
        (
            RetireWithoutRegistryCheck,
            &["holder_is_retired_by_its_registry_alone", "former_owner_retires_nobody"],
        ),
        (RetireByGoneRegistry, &["former_owner_retires_nobody"]),
        (
            ReadmitByAnotherRegistry,
            &["holder_is_readmitted_by_its_registry_alone", "former_owner_readmits_nobody"],
        ),
        (SucceedAcrossRegistries, &["succession_stays_in_one_registry"]),
        (RegistryIdGivenAgain, &["registry_ids_never_repeat"]),
        (BeatDoesNotCount, &["beats_are_seen_by_everyone"]),
        (
            TakeOverWithoutBeatsCheck,
            &["take_over_needs_the_beats_that_were_seen", "beat_and_take_over_do_not_both_win"],
        ),
        (TakeOverByGoneRegistry, &["registry_that_is_gone_takes_nobody_over"]),
        (TakeOverItself, &["nobody_takes_over_itself"]),
        (TakeOverLeavesTerminal, &["take_over_moves_everybody_at_once"]),
        (
            TakeOverLeavesRegistry,
            &["beat_of_a_registry_that_was_taken_is_none", "second_take_over_finds_nothing"],
        ),
        (TakeOverCountsLosses, &["loss_by_a_take_over_does_not_count"]),
        (NewsComeBack, &["news_do_not_come_back"]),
    ]
};

#[test]
fn every_bug_about_registries_is_noticed_by_the_case_that_is_about_it() {
    // Every case here is meant to panic; their messages would bury the one that matters.
    let loud = panic::take_hook();
    panic::set_hook(Box::new(|_| {}));
    let failing = |mutation: Option<Mutation>| -> Vec<&'static str> {
        let all = cases().into_iter().chain(shared_cases());
        all.filter(|case| fails(case, mutation)).map(|case| case.name).collect()
    };
    let baseline = failing(None);
    let noticed: Vec<_> = NOTICED_BY
        .iter()
        .map(|(mutation, expected)| (mutation, expected, failing(Some(*mutation))))
        .collect();
    panic::set_hook(loud);

    assert_eq!(baseline, Vec::<&str>::new(), "without a bug no case may fail");
    let mut missed = Vec::new();
    for (mutation, expected, failed) in &noticed {
        println!("{mutation:?}: {} cases fail", failed.len());
        let unnoticed = expected.iter().filter(|case| !failed.contains(case));
        missed.extend(unnoticed.map(|case| format!("{mutation:?} by {case}")));
    }
    assert_eq!(missed, Vec::<String>::new(), "each bug must be noticed by the cases that are about it");
    for mutation in Mutation::OF_REGISTRIES {
        assert!(NOTICED_BY.iter().any(|(other, _)| *other == mutation), "{mutation:?} is not in the table");
    }
}

fn fails(case: &Case, mutation: Option<Mutation>) -> bool {
    let harness = Shared { mutation, ..Shared::default() };
    panic::catch_unwind(AssertUnwindSafe(|| ready(case.run(harness)))).is_err()
}

#[test]
fn news_that_nobody_reads_do_not_pile_up() {
    let store = MemoryStore::shared(Arc::new(TestClock::new()));
    let other = store.seat();
    // More than is kept: at some point all of them make room for a warning.
    (0..5_000).for_each(|_| store.tell(News::Scheduled));
    store.tell(News::Watching);
    let mut heard = vec![ready(other.next_news())];
    while heard.last() != Some(&News::Watching) {
        heard.push(ready(other.next_news()));
    }
    assert_eq!(heard[0], News::Missed);
    assert!(heard.len() < 2_000, "{} were kept", heard.len());
}

#[test]
fn whoever_waits_is_woken_by_news_of_others() {
    #[derive(Default)]
    struct Woken(AtomicU32);

    impl Wake for Woken {
        fn wake(self: Arc<Self>) {
            self.0.fetch_add(1, Ordering::SeqCst);
        }
    }

    let store = MemoryStore::shared(Arc::new(TestClock::new()));
    let other = store.seat();
    let woken = Arc::new(Woken::default());
    let waker = Waker::from(woken.clone());
    let mut waiting = pin!(other.next_news());
    assert!(waiting.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    other.tell(News::Watching);
    assert_eq!(woken.0.load(Ordering::SeqCst), 0, "not by its own");
    store.tell(News::Scheduled);
    assert_eq!(woken.0.load(Ordering::SeqCst), 1);
    assert_eq!(ready(waiting), News::Scheduled);
}

#[test]
#[should_panic(expected = "only a shared store has a seat for another server")]
fn store_for_one_server_has_no_second_seat() {
    let _ = MemoryStore::new(Arc::new(TestClock::new())).seat();
}
