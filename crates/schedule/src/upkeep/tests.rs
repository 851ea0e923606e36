//! Tables for the upkeep machine: what it is told and when, what it starts and when. Times are milliseconds.

use std::time::Duration;

use model::Instant;

use super::{Duty, Input, Output, PROMOTE_LIMIT, PURGE_LIMIT, REAP_LIMIT, Upkeep};

/// The only place that touches the machine.
#[derive(Default)]
struct Desk {
    upkeep: Upkeep,
    now: u64,
}

impl Desk {
    /// A server just started over a store without any jobs.
    fn idle() -> Self {
        let mut desk = Desk::default();
        desk.tell(0, Input::Started { longest_lease: None });
        assert_eq!(desk.run(0), [(0, READ)]);
        desk.tell(0, NO_DEADLINES);
        desk
    }

    /// Tells it something at this time.
    fn tell(&mut self, at: u64, input: Input) {
        assert!(at >= self.now, "time runs forward");
        self.now = at;
        self.upkeep.handle(millis(at), input);
        assert_eq!(self.upkeep.poll_output(), None, "inputs only move deadlines");
    }

    /// Lets time pass with a punctual loop: every deadline is handled when it comes.
    fn run(&mut self, until: u64) -> Vec<(u64, Output)> {
        let mut started = Vec::new();
        while let Some(deadline) = self.upkeep.next_deadline()
            && deadline <= millis(until)
        {
            self.now = self.now.max(deadline.as_nanos() / 1_000_000);
            started.extend(self.wake());
        }
        self.now = until;
        started
    }

    /// Lets time pass without the loop running, then wakes it.
    fn freeze(&mut self, until: u64) -> Vec<(u64, Output)> {
        self.now = until;
        self.wake()
    }

    fn wake(&mut self) -> Vec<(u64, Output)> {
        self.upkeep.handle_deadline(millis(self.now));
        std::iter::from_fn(|| self.upkeep.poll_output()).map(|output| (self.now, output)).collect()
    }
}

fn millis(at: u64) -> Instant {
    Instant::from_millis(at)
}

fn ms(span: u64) -> Duration {
    Duration::from_millis(span)
}

const READ: Output = Output::ReadDeadlines;
const PROMOTE: Output = Output::Promote { limit: PROMOTE_LIMIT };
const PURGE: Output = Output::Purge { limit: PURGE_LIMIT };
const NO_DEADLINES: Input = Input::Deadlines { next_run_in: None, next_lease_in: None, longest_lease: None };
const NONE_PROMOTED: Input = Input::Promoted { count: 0, limit: PROMOTE_LIMIT };
const NONE_REAPED: Input = Input::ReapDone { found: 0, limit: REAP_LIMIT };
const NOTHING: [(u64, Output); 0] = [];

fn reap(at: u64) -> (u64, Output) {
    (at, Output::Reap { limit: REAP_LIMIT, not_after: millis(at + 1_000) })
}

fn extend(at: u64, by: u64) -> (u64, Output) {
    (at, Output::ExtendLeases { by: ms(by) })
}

fn run_due(after: u64) -> Input {
    Input::RunDue { after: ms(after) }
}

fn granted(lease: u64) -> Input {
    Input::LeaseGranted { lease: ms(lease) }
}

fn next_run(after: u64) -> Input {
    Input::Deadlines { next_run_in: Some(ms(after)), next_lease_in: None, longest_lease: None }
}

fn next_lease(after: u64, longest: u64) -> Input {
    Input::Deadlines { next_run_in: None, next_lease_in: Some(ms(after)), longest_lease: Some(ms(longest)) }
}

#[test]
fn idle_server_only_looks_at_retention() {
    let mut desk = Desk::idle();
    for minute in 1..5 {
        assert_eq!(desk.upkeep.next_deadline(), Some(millis(minute * 60_000)), "no tick, no reading");
        assert_eq!(desk.run(minute * 60_000), [(minute * 60_000, PURGE)]);
        desk.tell(minute * 60_000, Input::PurgeDone { removed: 0, limit: PURGE_LIMIT });
    }
}

#[test]
fn promotes_exactly_when_the_earliest_job_is_due() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(7_000));
    desk.tell(1_000, run_due(2_000));
    desk.tell(1_000, run_due(9_000));
    assert_eq!(desk.run(2_999), NOTHING);
    assert_eq!(desk.run(3_000), [(3_000, PROMOTE)]);
    desk.tell(3_001, Input::Promoted { count: 1, limit: PROMOTE_LIMIT });
    assert_eq!(desk.run(3_001), [(3_001, READ)]);
    desk.tell(3_002, next_run(3_998));
    assert_eq!(desk.run(7_000), [(7_000, PROMOTE)]);
}

#[test]
fn full_batch_goes_on_at_once_and_a_short_one_asks_what_comes_next() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(0));
    assert_eq!(desk.run(0), [(0, PROMOTE)]);
    desk.tell(5, Input::Promoted { count: PROMOTE_LIMIT, limit: PROMOTE_LIMIT });
    assert_eq!(desk.run(5), [(5, PROMOTE)]);
    desk.tell(9, Input::Promoted { count: PROMOTE_LIMIT - 1, limit: PROMOTE_LIMIT });
    assert_eq!(desk.run(9), [(9, READ)]);
    desk.tell(9, NO_DEADLINES);
    assert_eq!(desk.upkeep.next_deadline(), Some(millis(60_000)), "only retention is left");
}

#[test]
fn job_scheduled_while_promoting_or_reading_is_not_forgotten() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(1_000));
    assert_eq!(desk.run(1_000), [(1_000, PROMOTE)]);
    desk.tell(1_001, run_due(100));
    assert_eq!(desk.run(1_200), NOTHING, "one promotion at a time");
    desk.tell(1_200, NONE_PROMOTED);
    assert_eq!(desk.run(1_205), [(1_200, READ), (1_205, PROMOTE)]);
    desk.tell(1_206, NONE_PROMOTED);
    desk.tell(1_207, run_due(50));
    desk.tell(1_208, NO_DEADLINES);
    assert_eq!(
        desk.run(1_257),
        [(1_208, READ), (1_257, PROMOTE)],
        "the answer was on its way before the job came"
    );
}

#[test]
fn reads_afresh_every_ten_seconds_while_jobs_are_scheduled() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(25_000));
    assert_eq!(desk.run(10_000), [(10_000, READ)]);
    desk.tell(10_001, next_run(14_999));
    assert_eq!(desk.run(20_001), [(20_001, READ)]);
    desk.tell(20_001, next_run(1)); // The wall clock was stepped forward.
    assert_eq!(desk.run(20_002), [(20_002, PROMOTE)]);
}

#[test]
fn stepped_wall_clock_is_looked_at_at_once() {
    let mut desk = Desk::idle();
    desk.tell(10, Input::WallStepped);
    assert_eq!(desk.run(10), [(10, READ)]);
    desk.tell(11, Input::WallStepped);
    assert_eq!(desk.run(11), NOTHING, "one reading at a time");
    desk.tell(12, NO_DEADLINES);
    assert_eq!(desk.run(12), [(12, READ)], "the second step came after the first reading began");
}

#[test]
fn rescue_starts_when_the_earliest_lease_is_over() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(20_000));
    desk.tell(1_000, granted(5_000));
    assert_eq!(desk.run(5_999), NOTHING);
    assert_eq!(desk.run(6_000), [reap(6_000)]);
    desk.tell(6_001, Input::ReapDone { found: REAP_LIMIT, limit: REAP_LIMIT });
    assert_eq!(desk.run(6_001), [reap(6_001)], "a full batch goes on at once");
    desk.tell(6_002, Input::ReapDone { found: 3, limit: REAP_LIMIT });
    assert_eq!(desk.run(6_002), [(6_002, READ)]);
    desk.tell(6_003, next_lease(13_997, 20_000));
    assert_eq!(desk.run(20_000), [reap(20_000)]);
}

#[test]
fn renewed_leases_cost_one_empty_pass_per_lease() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(20_000));
    let mut passes = 0;
    for _ in 0..9 {
        // The holder renews every few seconds, of which nothing is told.
        let started = desk.run(desk.now + 20_000 - desk.now % 20_000);
        passes += started.iter().filter(|(_, output)| matches!(output, Output::Reap { .. })).count();
        desk.tell(desk.now, NONE_REAPED);
        desk.run(desk.now);
        desk.tell(desk.now, next_lease(20_000, 20_000));
    }
    assert_eq!(passes, 9);
}

#[test]
fn ticks_only_while_leases_exist() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(1_000));
    assert_eq!(desk.upkeep.next_deadline(), Some(millis(250)));
    assert_eq!(desk.run(1_000), [reap(1_000)]);
    desk.tell(1_000, NONE_REAPED);
    assert_eq!(desk.run(1_000), [(1_000, READ)]);
    desk.tell(1_001, granted(500));
    desk.tell(1_002, NO_DEADLINES);
    assert_eq!(desk.upkeep.next_deadline(), Some(millis(1_250)), "that lease is younger than the answer");
    assert_eq!(desk.run(1_501), [reap(1_501)]);
    desk.tell(1_501, NONE_REAPED);
    desk.run(1_501);
    desk.tell(1_502, NO_DEADLINES);
    assert_eq!(desk.upkeep.next_deadline(), Some(millis(60_000)), "only retention is left");
}

#[test]
fn retention_goes_on_while_batches_are_full() {
    let mut desk = Desk::idle();
    assert_eq!(desk.run(60_000), [(60_000, PURGE)]);
    desk.tell(60_010, Input::PurgeDone { removed: PURGE_LIMIT as u64, limit: PURGE_LIMIT });
    desk.tell(60_010, run_due(0));
    assert_eq!(
        desk.run(60_010),
        [(60_010, PROMOTE), (60_010, PURGE)],
        "other work comes between the batches"
    );
    desk.tell(60_020, Input::PurgeDone { removed: 1, limit: PURGE_LIMIT });
    desk.tell(60_020, Input::Promoted { count: 1, limit: PROMOTE_LIMIT });
    assert_eq!(desk.run(60_020), [(60_020, READ)]);
    desk.tell(60_020, NO_DEADLINES);
    assert_eq!(desk.run(120_020), [(120_020, PURGE)]);
}

#[test]
fn failed_duties_are_tried_again_ever_more_slowly() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(0));
    let mut starts = Vec::new();
    for _ in 0..8 {
        let started = desk.run(desk.now + 5_000);
        let at = started.iter().find(|(_, output)| *output == PROMOTE).expect("tried again").0;
        starts.push(at);
        desk.now = at;
        desk.tell(at, Input::Failed { duty: Duty::Promote });
        if started.iter().any(|(_, output)| *output == READ) {
            desk.tell(at, next_run(0));
        }
    }
    let waits: Vec<u64> = starts.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert_eq!(waits, [100, 200, 400, 800, 1_600, 3_200, 5_000]);
}

#[test]
fn success_makes_the_next_failure_the_first_again() {
    for duty in [Duty::Promote, Duty::Reap, Duty::Purge, Duty::Extend, Duty::Read] {
        let mut desk = Desk::idle();
        let (start, done) = match duty {
            Duty::Promote => (run_due(0), NONE_PROMOTED),
            Duty::Reap => (granted(0), NONE_REAPED),
            Duty::Purge => (NO_DEADLINES, Input::PurgeDone { removed: 0, limit: PURGE_LIMIT }),
            Duty::Extend => (Input::StoreStalled { lasted: ms(2_000) }, Input::Extended),
            Duty::Read => (Input::WallStepped, NO_DEADLINES),
        };
        let is_it = |output: &Output| match output {
            Output::Promote { .. } => duty == Duty::Promote,
            Output::Reap { .. } => duty == Duty::Reap,
            Output::Purge { .. } => duty == Duty::Purge,
            Output::ExtendLeases { .. } => duty == Duty::Extend,
            Output::ReadDeadlines => duty == Duty::Read,
        };
        let next = |desk: &mut Desk| loop {
            let deadline =
                desk.upkeep.next_deadline().expect("it will be tried again").as_nanos() / 1_000_000;
            let until = deadline.max(desk.now);
            if desk.run(until).iter().any(|(_, output)| is_it(output)) {
                return desk.now;
            }
        };
        desk.tell(10, start);
        let first = next(&mut desk);
        desk.tell(first, Input::Failed { duty });
        let second = next(&mut desk);
        desk.tell(second, Input::Failed { duty });
        let third = next(&mut desk);
        assert_eq!([second - first, third - second], [100, 200], "{duty:?}");
        desk.tell(third, done);
        desk.run(third + 10_000);
        desk.tell(third + 10_000, start);
        let again = next(&mut desk);
        desk.tell(again, Input::Failed { duty });
        assert_eq!(next(&mut desk) - again, 100, "{duty:?}");
    }
}

#[test]
fn store_that_contradicts_itself_does_not_make_us_spin() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(0));
    let mut passes = 0;
    while desk.now < 1_000 {
        let deadline = desk.upkeep.next_deadline().expect("a lease is known").as_nanos() / 1_000_000;
        for (_, output) in desk.run(deadline.max(desk.now)) {
            match output {
                Output::Reap { .. } => {
                    passes += 1;
                    desk.tell(desk.now, NONE_REAPED);
                }
                READ => desk.tell(desk.now, next_lease(0, 20_000)),
                other => panic!("{other:?}"),
            }
        }
    }
    assert!((100..=201).contains(&passes), "{passes} passes in a second");
}

#[test]
fn frozen_server_gives_the_time_back_and_takes_no_job() {
    let mut desk = Desk::idle();
    (0..3).for_each(|n| desk.tell(n, granted(30_000)));
    assert_eq!(desk.run(10_000), NOTHING);
    // SIGSTOP for a minute. All three leases ran out; the holders could not renew.
    let stopped_at = 10_250;
    assert_eq!(desk.freeze(70_000), [extend(70_000, 70_000 - stopped_at), (70_000, PURGE)]);
    desk.tell(70_001, Input::PurgeDone { removed: 0, limit: PURGE_LIMIT });
    desk.tell(70_002, Input::Extended);
    assert_eq!(desk.run(99_999), NOTHING, "one longest lease of peace");
    assert_eq!(desk.run(100_000), [reap(100_000)]);
}

#[test]
fn what_waited_in_the_inbox_of_a_frozen_server_does_not_act_first() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(30_000));
    assert_eq!(desk.run(30_000), [reap(30_000)]);
    assert_eq!(desk.run(30_200), NOTHING);
    desk.tell(40_000, Input::ReapDone { found: REAP_LIMIT, limit: REAP_LIMIT });
    assert_eq!(desk.run(40_000), [extend(40_000, 9_750)]);
    desk.tell(40_001, Input::Extended);
    assert_eq!(desk.run(69_999), [(60_000, PURGE)]);
    assert_eq!(desk.run(70_000), [reap(70_000)]);
}

#[test]
fn old_news_that_no_lease_exists_does_not_hide_a_stall() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(1_000));
    assert_eq!(desk.run(1_000), [reap(1_000)]);
    desk.tell(1_001, NONE_REAPED);
    assert_eq!(desk.run(1_002), [(1_001, READ)]);
    desk.tell(9_250, NO_DEADLINES);
    desk.tell(9_250, granted(3_000));
    assert_eq!(desk.run(9_250), [extend(9_250, 8_000)], "the claim was made before the server froze");
}

#[test]
fn short_hiccup_changes_nothing() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(10_000));
    assert_eq!(desk.run(9_000), NOTHING);
    assert_eq!(desk.freeze(10_250), [reap(10_250)], "exactly the tolerance after the tick of 9,250");
}

#[test]
fn hiccup_beyond_the_tolerance_counts() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(10_000));
    assert_eq!(desk.run(9_000), NOTHING);
    assert_eq!(desk.freeze(10_251), [extend(10_251, 1_001)]);
}

#[test]
fn late_loop_without_leases_is_nobodys_loss() {
    let mut desk = Desk::idle();
    desk.tell(0, run_due(1_000));
    assert_eq!(desk.freeze(50_000), [(50_000, PROMOTE), (50_000, READ)]);
}

#[test]
fn store_that_refuses_renewals_counts_like_our_own_stall() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(10_000));
    assert_eq!(desk.run(9_990), NOTHING);
    desk.tell(9_990, Input::StoreStalled { lasted: ms(1_000) });
    assert_eq!(desk.run(9_990), NOTHING, "not longer than the tolerance");
    desk.tell(9_991, Input::StoreStalled { lasted: ms(1_001) });
    assert_eq!(desk.run(9_991), [extend(9_991, 1_001)]);
    desk.tell(9_992, Input::Extended);
    assert_eq!(desk.run(19_990), NOTHING, "for one lease");
    assert_eq!(desk.run(19_991), [reap(19_991)]);
}

#[test]
fn same_stall_told_twice_is_made_up_for_once() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(60_000));
    assert_eq!(desk.run(10_000), NOTHING);
    assert_eq!(desk.freeze(15_250), [extend(15_250, 5_000)]);
    desk.tell(15_300, Input::StoreStalled { lasted: ms(6_000) });
    assert_eq!(desk.run(15_300), NOTHING, "one extension at a time");
    desk.tell(15_400, Input::Extended);
    assert_eq!(desk.run(15_400), [extend(15_400, 50)], "only what came after our own stall");
    desk.tell(16_300, Input::StoreStalled { lasted: ms(7_000) });
    desk.tell(17_300, Input::StoreStalled { lasted: ms(8_000) });
    desk.tell(17_300, Input::Extended);
    assert_eq!(desk.freeze(17_300), [extend(17_300, 2_000)], "a long stall is told as it goes on");
    desk.tell(17_400, Input::Extended);
    assert_eq!(desk.run(59_999), [], "paused from the last report for one longest lease");
    assert_eq!(desk.upkeep.reap_from(), millis(77_300));
}

#[test]
fn failed_extension_stays_owed_and_holds_rescues_back() {
    let mut desk = Desk::idle();
    desk.run(5_000);
    desk.tell(5_000, granted(500));
    desk.tell(5_000, Input::StoreStalled { lasted: ms(2_000) });
    assert_eq!(desk.run(5_000), [extend(5_000, 2_000)]);
    desk.tell(5_000, Input::Failed { duty: Duty::Extend });
    // The store is away for longer than the pause.
    let mut tries = Vec::new();
    while desk.now < 40_000 {
        for (at, output) in desk.run(desk.now + 50) {
            assert_eq!((at, output), extend(at, 2_000), "nothing else is started");
            tries.push(at);
            desk.tell(desk.now, Input::Failed { duty: Duty::Extend });
        }
    }
    assert_eq!(tries.len(), 11, "{tries:?}");
    desk.tell(40_000, Input::StoreStalled { lasted: ms(3_000) });
    let started = desk.run(45_000);
    assert_eq!(started, [extend(started[0].0, 5_000)], "both stalls");
    desk.tell(45_000, Input::Extended);
    assert_eq!(desk.run(45_000), [reap(45_000)], "as soon as nothing is owed");
}

#[test]
fn nothing_is_taken_back_in_the_first_longest_lease_after_a_start() {
    let mut desk = Desk::default();
    desk.tell(1_000, Input::Started { longest_lease: Some(ms(7_000)) });
    assert_eq!(desk.run(1_000), [(1_000, READ)]);
    desk.tell(1_001, next_lease(0, 7_000));
    assert_eq!(desk.run(7_999), NOTHING);
    assert_eq!(desk.run(8_000), [reap(8_000)]);
}

#[test]
fn pause_lasts_as_long_as_the_longest_lease_known() {
    let pause = |told: &[(u64, Input)]| {
        let mut desk = Desk::idle();
        told.iter().for_each(|(at, input)| {
            desk.run(*at);
            desk.tell(*at, *input);
        });
        let at = desk.now;
        desk.tell(at, Input::StoreStalled { lasted: ms(2_000) });
        desk.upkeep.reap_from().since(millis(at)).as_millis()
    };
    assert_eq!(pause(&[]), 0, "nobody holds anything");
    assert_eq!(pause(&[(0, granted(5_000))]), 5_000);
    assert_eq!(pause(&[(0, granted(86_400_000))]), 60_000, "one long lease does not keep everybody waiting");
    assert_eq!(pause(&[(0, granted(50_000)), (1, granted(1_000))]), 50_000);
    let read = [(0, granted(50_000)), (1, Input::WallStepped), (2, next_lease(1_000, 30_000))];
    assert_eq!(pause(&read), 30_000, "the long one is finished");
    let raced = [(0, Input::WallStepped), (2, granted(50_000)), (3, next_lease(1_000, 30_000))];
    assert_eq!(pause(&raced), 50_000, "the long one is younger than the answer");
}

#[test]
fn a_pass_that_began_before_the_stall_was_noticed_takes_nothing_back() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(2_000));
    assert_eq!(desk.run(2_000), [reap(2_000)]);
    assert!(desk.upkeep.may_take_back(millis(2_000)));
    // While rows are read it turns out that a claim has been waiting for its commit all the time.
    desk.tell(2_010, Input::StoreStalled { lasted: ms(2_010) });
    assert!(!desk.upkeep.may_take_back(millis(2_010)), "nobody has got the time back");
    desk.tell(2_010, Input::Failed { duty: Duty::Reap });
    assert_eq!(desk.run(2_010), [extend(2_010, 2_010)]);
    assert!(!desk.upkeep.may_take_back(millis(2_010)), "it is on its way");
    assert_eq!(desk.run(4_000), NOTHING);
    desk.tell(4_000, Input::Extended);
    assert!(!desk.upkeep.may_take_back(millis(4_000)), "holders have one lease to be heard in");
    assert!(desk.upkeep.may_take_back(millis(4_010)));
    assert_eq!(desk.run(4_010), [reap(4_010)]);
}

#[test]
fn a_slow_commit_told_again_as_it_goes_on_is_made_up_for_once() {
    let mut desk = Desk::idle();
    desk.tell(0, granted(60_000));
    let mut extended = Duration::ZERO;
    for told in [1_500, 2_500, 4_000] {
        assert_eq!(desk.run(told), NOTHING);
        desk.tell(told, Input::StoreStalled { lasted: ms(told) });
        for (_, output) in desk.run(told) {
            let Output::ExtendLeases { by } = output else { panic!("{output:?}") };
            extended += by;
        }
        desk.tell(told, Input::Extended);
    }
    assert_eq!(extended, ms(4_000));
}
