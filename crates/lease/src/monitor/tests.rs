//! Tables for the monitor: how the target behaves, what is said and when. Times are milliseconds.

use std::time::Duration;

use model::Instant;

use super::{HeartbeatMonitor, Input, MonitorConfig, Output};

const DEAD: Output = Output::Dead;
const RECOVERED: Output = Output::Recovered;

const fn probe(probe: u64) -> Output {
    Output::Probe { probe }
}

const fn answered(probe: u64) -> Input {
    Input::Answered { probe }
}

const fn failed(probe: u64) -> Input {
    Input::Failed { probe }
}

fn millis(at: u64) -> Instant {
    Instant::from_millis(at)
}

/// The only place that touches the machine: lets a punctual loop run until `until`, telling it `inputs` when they come.
/// An input at the time of a deadline is told before it.
fn check(config: MonitorConfig, until: u64, inputs: &[(u64, Input)], expected: &[(u64, Output)]) {
    let mut monitor = HeartbeatMonitor::new(config, Instant::ZERO);
    let mut inputs = inputs.iter().peekable();
    let mut said = Vec::new();
    loop {
        let deadline = monitor.next_deadline().expect("a monitor never rests").as_nanos() / 1_000_000;
        let now = match inputs.next_if(|(at, _)| *at <= deadline) {
            Some((at, input)) => {
                monitor.handle(millis(*at), *input);
                *at
            }
            None if deadline > until => break,
            None => {
                monitor.handle_deadline(millis(deadline));
                assert!(monitor.next_deadline() > Some(millis(deadline)), "nothing is left undone");
                deadline
            }
        };
        said.extend(std::iter::from_fn(|| monitor.poll_output()).map(|output| (now, output)));
    }
    assert_eq!(inputs.next(), None, "every input is told");
    assert_eq!(said, expected);
}

#[test]
fn a_target_that_answers_is_probed_at_each_interval_and_never_dead() {
    check(
        MonitorConfig::default(),
        15_000,
        &[(10, answered(1)), (5_010, answered(2)), (11_999, answered(3))],
        &[(0, probe(1)), (5_000, probe(2)), (10_000, probe(3)), (15_000, probe(4))],
    );
}

#[test]
fn silence_is_death_after_three_probes_said_once_while_probing_goes_on() {
    check(
        MonitorConfig::default(),
        30_000,
        &[],
        &[
            (0, probe(1)),
            (5_000, probe(2)),
            (10_000, probe(3)),
            (12_000, DEAD),
            (15_000, probe(4)),
            (20_000, probe(5)),
            (25_000, probe(6)),
            (30_000, probe(7)),
        ],
    );
}

#[test]
fn a_refusal_counts_at_once() {
    check(
        MonitorConfig::default(),
        10_000,
        &[(1, failed(1)), (5_001, failed(2)), (10_001, failed(3))],
        &[(0, probe(1)), (5_000, probe(2)), (10_000, probe(3)), (10_001, DEAD)],
    );
}

#[test]
fn only_failures_in_a_row_count() {
    check(
        MonitorConfig::default(),
        30_000,
        &[(10_001, answered(3)), (25_001, answered(6))],
        &[
            (0, probe(1)),
            (5_000, probe(2)),
            (10_000, probe(3)),
            (15_000, probe(4)),
            (20_000, probe(5)),
            (25_000, probe(6)),
            (30_000, probe(7)),
        ],
    );
}

#[test]
fn the_first_answer_after_death_is_recovery_and_the_next_death_takes_as_many_failures_again() {
    check(
        MonitorConfig { interval: Duration::from_secs(1), timeout: Duration::from_secs(1), failures: 2 },
        6_000,
        &[(3_500, answered(4)), (4_500, answered(5))],
        &[
            (0, probe(1)),
            (1_000, probe(2)),
            (2_000, DEAD),
            (2_000, probe(3)),
            (3_000, probe(4)),
            (3_500, RECOVERED),
            (4_000, probe(5)),
            (5_000, probe(6)),
            (6_000, probe(7)),
        ],
    );
    check(
        MonitorConfig { interval: Duration::from_secs(1), timeout: Duration::from_millis(500), failures: 2 },
        5_000,
        &[(2_001, answered(3))],
        &[
            (0, probe(1)),
            (1_000, probe(2)),
            (1_500, DEAD),
            (2_000, probe(3)),
            (2_001, RECOVERED),
            (3_000, probe(4)),
            (4_000, probe(5)),
            (4_500, DEAD),
            (5_000, probe(6)),
        ],
    );
}

#[test]
fn late_and_unknown_answers_count_for_nothing() {
    // Each answer comes when its probe has already failed, before and after the next was sent; none saves the target.
    check(
        MonitorConfig::default(),
        15_000,
        &[(3_000, answered(1)), (5_500, answered(1)), (8_000, answered(2)), (11_000, answered(9))],
        &[(0, probe(1)), (5_000, probe(2)), (10_000, probe(3)), (12_000, DEAD), (15_000, probe(4))],
    );
    // Nor does it recover a dead one.
    check(
        MonitorConfig { failures: 1, ..MonitorConfig::default() },
        5_000,
        &[(3_000, answered(1)), (5_001, answered(1)), (5_002, answered(2))],
        &[(0, probe(1)), (2_000, DEAD), (5_000, probe(2)), (5_002, RECOVERED)],
    );
}

#[test]
fn a_probe_counts_once_whatever_is_said_of_it() {
    check(
        MonitorConfig { failures: 2, ..MonitorConfig::default() },
        5_000,
        &[(1, failed(1)), (2, failed(1)), (3, answered(1)), (5_001, answered(2)), (5_002, failed(2))],
        &[(0, probe(1)), (5_000, probe(2))],
    );
    check(
        MonitorConfig { failures: 2, ..MonitorConfig::default() },
        5_000,
        &[(1, failed(1)), (3, answered(1)), (5_001, failed(2))],
        &[(0, probe(1)), (5_000, probe(2)), (5_001, DEAD)],
    );
}

#[test]
fn standing_still_is_one_failure_at_most_and_none_if_the_answer_waits() {
    let config = MonitorConfig { failures: 2, ..MonitorConfig::default() };
    let mut monitor = HeartbeatMonitor::new(config, Instant::ZERO);
    let mut wake = |at, input: Option<Input>| {
        input.into_iter().for_each(|input| monitor.handle(millis(at), input));
        monitor.handle_deadline(millis(at));
        std::iter::from_fn(|| monitor.poll_output()).collect::<Vec<_>>()
    };
    assert_eq!(wake(0, None), [probe(1)]);
    assert_eq!(wake(3_600_000, None), [probe(2)], "one probe, not an hour of them");
    assert_eq!(wake(7_200_000, Some(answered(2))), [probe(3)], "its answer waited in the inbox");
    assert_eq!(wake(7_202_000, None), [], "and wiped out the failure before it");
    assert_eq!(wake(7_205_000, None), [probe(4)]);
    assert_eq!(wake(7_207_000, None), [DEAD]);
}

#[test]
fn a_wake_up_too_early_does_nothing() {
    let mut monitor = HeartbeatMonitor::new(MonitorConfig::default(), millis(1_000));
    monitor.handle_deadline(millis(999));
    assert_eq!(monitor.poll_output(), None);
    assert_eq!(monitor.next_deadline(), Some(millis(1_000)));
    monitor.handle_deadline(millis(1_000));
    assert_eq!(monitor.poll_output(), Some(probe(1)));
    assert_eq!(monitor.next_deadline(), Some(millis(3_000)));
    monitor.handle_deadline(millis(2_999));
    assert_eq!((monitor.poll_output(), monitor.is_dead()), (None, false));
}

#[test]
fn presets_are_sound_and_nonsense_is_refused() {
    let good = MonitorConfig::default();
    for preset in [MonitorConfig::aggressive(), good, MonitorConfig::conservative()] {
        assert_eq!(preset.check(), Ok(preset));
    }
    for (bad, why) in [
        (MonitorConfig { timeout: Duration::ZERO, ..good }, "probe timeout of 0ns"),
        (MonitorConfig { timeout: Duration::from_secs(6), ..good }, "probe timeout of 6s"),
        (MonitorConfig { interval: Duration::ZERO, ..good }, "probe timeout of 2s"),
        (MonitorConfig { failures: 0, ..good }, "at least one failure"),
    ] {
        let refusal = bad.check().unwrap_err().0;
        assert!(refusal.contains(why), "{refusal}");
    }
}
