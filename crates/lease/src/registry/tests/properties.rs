//! Laws of the registry over random histories, and that they notice bugs.

use std::panic;

use super::Bug;
use super::world::World;
use crate::registry::Mutation;

const SEEDS: u64 = 1_000;
const STEPS: usize = 250;

fn keeps_the_laws(seed: u64, bug: Bug) -> bool {
    let story = panic::catch_unwind(|| {
        let mut world = World::new(seed, bug);
        (0..STEPS).for_each(|_| world.step());
        world.settle();
    });
    story.is_ok()
}

#[test]
fn nothing_acknowledged_is_lost_and_in_the_end_everybody_agrees() {
    for seed in 0..SEEDS {
        assert!(keeps_the_laws(seed, None), "seed {seed} breaks a law (see above)");
    }
}

#[test]
fn bugs_break_laws() {
    use Mutation::*;
    let bugs = [
        ExpiresMovesEarlier,
        DeltasClearedOnMismatch,
        RestartGraceSkipped,
        JudgedBeforeRestored,
        UnsyncedIsNotBound,
        FullSetUndoesLaterBind,
        EndedIsRevived,
        RefusedMarkForgotten,
        RetireAskedOnce,
        UnbindNotFinal,
        BoundBeforeChecked,
        BindNotChecked,
        StopToldOnce,
        TakesBackSilentExclusive,
        KickHandsOverAtOnce,
        GoneWithItsSession,
        RepeatedBindIgnored,
        ExclusiveHoldWhenNotOurs,
        BindsWhenNotOurs,
        JudgesWhenNotOurs,
        TakenOverIsUnknown,
        UnsureIsTakenBack,
    ];
    for bug in bugs {
        assert!((0..SEEDS).any(|seed| !keeps_the_laws(seed, Some(bug))), "{bug:?} breaks no law");
    }
}
