//! The cases notice every deliberate bug, and the case that is about it is among those that do.

use std::panic;

use super::{Bug, Case, beats, take_over};
use crate::ownership::Mutation;

/// Which case must notice which bug.
const NOTICED_BY: [(Mutation, &[&str]); Mutation::ALL.len()] = {
    use Mutation::*;
    [
        (
            StampAtReceive,
            &["beat_counts_from_when_it_was_sent", "founding_counts_as_a_beat_and_the_next_follows_at_once"],
        ),
        (RateErrorIgnored, &["beat_counts_from_when_it_was_sent", "time_is_longer_than_the_owners"]),
        (TakesOverWithoutWaiting, &["counter_that_stands_still_is_taken_over_when_the_time_is_over"]),
        (
            OldSightingCounts,
            &[
                "frozen_server_knows_nothing_of_the_others",
                "answer_that_lay_unread_convinces_nobody",
                "store_that_comes_back_gives_everybody_the_whole_time",
            ],
        ),
        (FailedBeatCounts, &["failed_beat_is_tried_again_soon_and_counts_for_nothing"]),
        (TakesOverItself, &["our_own_registry_is_never_taken_over"]),
        (TakesOverTwice, &["one_take_over_at_a_time_for_each", "disowned_server_starts_from_nothing"]),
        (OldHearsayCounts, &["others_are_believed_only_if_they_looked_after_we_had_it"]),
        (
            FoundsWithoutPause,
            &[
                "lost_registry_is_followed_by_another_after_a_pause",
                "registries_lost_in_a_row_are_founded_more_and_more_slowly",
            ],
        ),
    ]
};

fn fails(name: &str, bug: Bug) -> bool {
    let mut all = [beats::CASES, take_over::CASES].into_iter().flatten();
    let (_, case): &Case = all.find(|(it, _)| *it == name).expect("the table names cases");
    panic::catch_unwind(|| case(bug)).is_err()
}

#[test]
fn every_bug_is_noticed_by_the_cases_that_are_about_it() {
    let mut missed = Vec::new();
    for (mutation, expected) in NOTICED_BY {
        for case in expected {
            assert!(!fails(case, None), "{case} fails without a bug");
            if !fails(case, Some(mutation)) {
                missed.push(format!("{mutation:?} by {case}"));
            }
        }
    }
    assert_eq!(missed, Vec::<String>::new(), "each bug must be noticed by the cases that are about it");
    for mutation in Mutation::ALL {
        assert!(NOTICED_BY.iter().any(|(other, _)| *other == mutation), "{mutation:?} is not in the table");
    }
}
