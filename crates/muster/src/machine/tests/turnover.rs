//! Workers that come and die, over and over.

use super::*;

/// One of many crashes in a loop, so slowly that it never makes many additions: it speaks once, never echoes, and its lease is
/// over when the next one is there already. After a restart nobody has been healthy yet, so it would hold back everybody.
#[test]
fn a_slow_crash_loop_does_not_hold_back_a_restarted_fleet() {
    let story = |mutation| {
        let names: Vec<String> = (0..20).map(|number| format!("w{number:02}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let mut stage = Stage::settled(&names, mutation);
        stage.restart();
        let restarted = stage.now;
        // Everybody is back in one round of heartbeats, and the loop goes on.
        let healthy = |stage: &Stage| names.iter().all(|name| stage.muster.may_run(&key(name)));
        for round in 0..20 {
            let looper = format!("loop{round}");
            stage.enter(&looper, UNSEATED);
            let actor = stage.actor(&looper);
            (actor.beats, actor.hears_tells, actor.answers_checks) = (false, false, false);
            let until = stage.now + 15_000;
            while stage.now < until {
                stage.run_until(stage.now + 1_000);
                if round > 0 && stage.now == until - 9_000 {
                    stage.gone(&format!("loop{}", round - 1));
                }
                if healthy(&stage) {
                    return Some(stage.now - restarted);
                }
            }
        }
        None
    };
    let after = story(None).expect("the fleet gets to work");
    // The first of the loop belongs to no set, so the safe wait has to pass; then three heartbeats until newcomers queue, the lease
    // of the last one before that, and a heartbeat.
    assert!(after <= 21_020 + 12_000 + 21_000 + 4_000, "{after} ms");
    assert_eq!(story(Some(Mutation::NoBatching)), None);
}
