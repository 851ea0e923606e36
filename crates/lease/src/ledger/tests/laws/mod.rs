//! Laws of the ledger over random histories: a small registry, a network that loses and delays answers, a process that
//! is stopped now and then, handlers that do not listen, an operator who kicks, a server that forgets everything.

mod registry;
mod world;

use self::world::World;
use super::*;

const SEEDS: u64 = 500;
const STEPS: usize = 300;

/// What happened in a history, so that a tame one can be told from an interesting one.
#[derive(Debug, Default)]
struct Tally {
    lapses: u32,
    dooms: u32,
    exclusive_starts: u32,
    /// Those of them that did not wait for their bind.
    starts_at_once: u32,
    farewells: u32,
    /// Exclusive jobs that were told to stop although the lease was renewed.
    withheld: u32,
    /// Lives of the server.
    lives: u32,
}

/// One history, or an error if a law was broken.
fn run(seed: u64, mutation: Option<Mutation>) -> std::thread::Result<Tally> {
    std::panic::catch_unwind(|| {
        let mut world = World::new(seed, mutation);
        for _ in 0..STEPS {
            world.step();
        }
        world.heal();
        world.tally
    })
}

#[test]
fn random_histories_keep_the_laws() {
    let mut sum = Tally::default();
    for seed in 0..SEEDS {
        let tally = run(seed, None).unwrap_or_else(|_| panic!("seed {seed} breaks a law"));
        sum.lapses += tally.lapses;
        sum.dooms += tally.dooms;
        sum.exclusive_starts += tally.exclusive_starts;
        sum.farewells += tally.farewells;
        sum.withheld += tally.withheld;
        sum.starts_at_once += tally.starts_at_once;
        sum.lives += tally.lives;
    }
    let starts = [sum.exclusive_starts - sum.starts_at_once, sum.starts_at_once];
    let least = [sum.lapses, sum.dooms, sum.farewells, sum.lives].into_iter().chain(starts).min();
    let is_wild = least > Some(SEEDS as u32 / 3) && sum.withheld > SEEDS as u32 / 25;
    assert!(is_wild, "the histories are too tame: {sum:?}");
}

#[test]
fn random_histories_notice_what_breaks_the_laws() {
    use Mutation::*;
    // These need clocks that drift, starts that are delayed beyond their stream, a process that outlives its doom, or a second
    // server; and a key that ends too early breaks nothing but the work.
    let needs_more = |bug: &Mutation| {
        matches!(bug, RateErrorIgnored | StartsUnchecked | ExclusiveInherited)
            || matches!(bug, TrustsEveryServer | LapsesWithExclusiveHold)
    };
    for mutation in Mutation::ALL.into_iter().filter(|bug| !needs_more(bug)) {
        let is_noticed = (0..40).any(|seed| run(seed, Some(mutation)).is_err());
        assert!(is_noticed, "{mutation:?}");
    }
}
