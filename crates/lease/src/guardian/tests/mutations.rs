//! The cases notice every deliberate bug.

use std::panic::{self, AssertUnwindSafe};

use super::*;

type Case = (&'static str, fn(&mut Rig));

const CASES: [Case; 5] = [
    ("leave is taken when all families are gone", death::leave_is_taken_when_all_families_are_gone),
    ("a family has ended when nobody of it is left", families::a_family_has_ended_when_nobody_of_it_is_left),
    (
        "exclusive families are killed in time",
        deadlines::exclusive_families_are_killed_before_the_lease_is_over,
    ),
    ("nothing is started for a dead worker", death::nothing_is_started_for_a_dead_worker),
    ("a lease alone keeps no exclusive family", deadlines::a_lease_alone_keeps_no_exclusive_family),
];

#[test]
fn every_mutation_is_noticed_by_the_case_that_is_about_it() {
    assert_eq!(failing(None), Vec::<&str>::new(), "without a bug no case may fail");
    for (mutation, (expected, _)) in Mutation::ALL.into_iter().zip(CASES) {
        let failed = failing(Some(mutation));
        assert_eq!(failed, [expected], "{mutation:?}");
    }
}

/// The cases that a guardian with this bug fails.
fn failing(mutation: Option<Mutation>) -> Vec<&'static str> {
    let fails = |run: fn(&mut Rig)| {
        panic::catch_unwind(AssertUnwindSafe(|| run(&mut Rig::broken(mutation)))).is_err()
    };
    CASES.into_iter().filter(|(_, run)| fails(*run)).map(|(name, _)| name).collect()
}
