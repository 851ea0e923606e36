//! Laws of ownership over random histories of several servers, and that they notice bugs.

use std::panic;

use super::Bug;
use super::world::World;
use crate::ownership::Mutation;

const SEEDS: u64 = 1_000;
/// How many worlds may pass before a bug shows: that a clock is a thousandth wrong shows in one of nine hundred.
const SEEDS_OF_A_BUG: u64 = 10_000;

fn keeps_the_laws(seed: u64, bug: Bug) -> bool {
    panic::catch_unwind(|| World::new(seed, bug).run()).is_ok()
}

#[test]
fn nobody_owns_beside_another_and_the_dead_are_taken_over() {
    let mut take_overs = 0;
    for seed in 0..SEEDS {
        let story = panic::catch_unwind(|| World::new(seed, None).run());
        assert!(story.is_ok(), "seed {seed} breaks a law (see above)");
        take_overs += story.unwrap_or_default();
    }
    assert!(take_overs > SEEDS, "{take_overs} take-overs are too few to learn from");
}

#[test]
fn bugs_break_laws() {
    use Mutation::*;
    for bug in
        [StampAtReceive, RateErrorIgnored, TakesOverWithoutWaiting, OldSightingCounts, FailedBeatCounts]
    {
        assert!((0..SEEDS_OF_A_BUG).any(|seed| !keeps_the_laws(seed, Some(bug))), "{bug:?} breaks no law");
    }
}
