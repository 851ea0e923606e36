//! Tables for the silence watch: who pinged when, who is silent and when. Times are milliseconds.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Instant;

use super::{Input, Output, PassiveConfig, SilenceWatch};

/// The only place that touches the machine: a watch, and the caller's book of last pings.
struct Desk {
    watch: SilenceWatch<&'static str>,
    pings: BTreeMap<&'static str, u64>,
    now: u64,
}

impl Desk {
    fn new() -> Self {
        Self::with(PassiveConfig::default())
    }

    fn with(config: PassiveConfig) -> Self {
        Desk { watch: SilenceWatch::new(config, Instant::ZERO), pings: BTreeMap::new(), now: 0 }
    }

    /// A ping; the first one joins.
    fn ping(&mut self, at: u64, member: &'static str) {
        if self.pings.insert(member, at).is_none() {
            self.watch.handle(millis(at), Input::Joined { member, last_ping: millis(at) });
        }
    }

    fn leave(&mut self, member: &'static str) {
        self.pings.remove(member).expect("only who is there can leave");
    }

    /// Lets time pass with a punctual loop; returns who fell silent and when.
    fn run(&mut self, until: u64) -> Vec<(u64, &'static str)> {
        let mut silent = Vec::new();
        while let Some(deadline) = self.watch.next_deadline()
            && deadline <= millis(until)
        {
            silent.extend(self.wake(deadline.as_nanos() / 1_000_000));
        }
        self.now = until;
        silent
    }

    /// Handles the deadline at this time, late or not.
    fn wake(&mut self, at: u64) -> Vec<(u64, &'static str)> {
        self.now = at;
        let pings = &self.pings;
        self.watch.handle_deadline(millis(at), |member| pings.get(member).copied().map(millis));
        self.silent()
    }

    fn check_now(&mut self, at: u64) -> Vec<(u64, &'static str)> {
        self.now = at;
        let pings = &self.pings;
        self.watch.check(millis(at), |member| pings.get(member).copied().map(millis));
        self.silent()
    }

    fn silent(&mut self) -> Vec<(u64, &'static str)> {
        let mut silent = Vec::new();
        while let Some(Output::Silent { member, last_ping }) = self.watch.poll_output() {
            assert_eq!(self.pings.remove(member).map(millis), Some(last_ping), "{member}");
            silent.push((self.now, member));
        }
        silent
    }
}

fn millis(at: u64) -> Instant {
    Instant::from_millis(at)
}

const NOBODY: [(u64, &str); 0] = [];

#[test]
fn the_first_check_comes_after_one_interval_and_then_each_interval() {
    let mut desk = Desk::new();
    assert_eq!(desk.watch.next_deadline(), Some(millis(5_000)));
    assert_eq!(desk.wake(4_999), NOBODY);
    assert_eq!(desk.watch.next_deadline(), Some(millis(5_000)), "too early to count");
    desk.run(5_000);
    assert_eq!(desk.watch.next_deadline(), Some(millis(10_000)));
    desk.wake(10_300);
    assert_eq!(desk.watch.next_deadline(), Some(millis(15_000)), "a late check does not move the next");
}

#[test]
fn silence_beyond_the_timeout_is_found_once_at_the_next_check() {
    let mut desk = Desk::new();
    desk.ping(0, "at a check");
    desk.ping(1, "just after");
    desk.ping(4_999, "just before the next");
    // A silence of exactly the timeout is not beyond it.
    assert_eq!(desk.run(19_999), NOBODY);
    assert_eq!(
        desk.run(60_000),
        [(20_000, "at a check"), (20_000, "just after"), (20_000, "just before the next")]
    );
    assert_eq!(desk.watch.watched(), 0);
}

#[test]
fn who_pings_is_never_silent_and_who_stops_is_counted_from_its_last_ping() {
    let mut desk = Desk::new();
    for ping in 0..20 {
        desk.ping(ping * 5_000, "steady");
        assert_eq!(desk.run(ping * 5_000), NOBODY);
    }
    assert_eq!(desk.run(200_000), [(115_000, "steady")], "after 95 s + 15 s, at the next check");
}

#[test]
fn who_left_is_forgotten_without_a_word() {
    let mut desk = Desk::new();
    desk.ping(0, "leaver");
    desk.ping(0, "stayer");
    desk.run(5_000);
    desk.leave("leaver");
    assert_eq!(desk.watch.watched(), 2, "it is dropped when it would be looked at anyway");
    assert_eq!(desk.run(60_000), [(20_000, "stayer")]);
    assert_eq!(desk.watch.watched(), 0);
}

#[test]
fn the_silent_may_join_afresh() {
    let mut desk = Desk::new();
    desk.ping(0, "phoenix");
    assert_eq!(desk.run(20_000), [(20_000, "phoenix")]);
    desk.ping(21_000, "phoenix");
    assert_eq!(desk.run(60_000), [(40_000, "phoenix")]);
}

#[test]
fn a_start_gives_everybody_a_full_timeout_and_counts_checks_anew() {
    let mut desk = Desk::new();
    desk.ping(0, "old");
    desk.ping(4_000, "older than the next start");
    desk.watch.handle(millis(3_601_234), Input::Started);
    assert_eq!(desk.watch.next_deadline(), Some(millis(3_606_234)));
    desk.ping(3_602_000, "old");
    assert_eq!(desk.run(3_621_233), NOBODY);
    assert_eq!(
        desk.run(3_700_000),
        [(3_621_234, "old"), (3_621_234, "older than the next start")],
        "both checks at which they could be dead fall together"
    );
}

#[test]
fn standing_still_kills_nobody_and_gives_everybody_a_full_timeout() {
    let mut desk = Desk::new();
    desk.ping(0, "waiting to be read");
    desk.ping(0, "dead");
    desk.run(5_000);
    // The check of 10 s comes at 100 s.
    assert_eq!(desk.wake(100_000), NOBODY);
    desk.ping(100_001, "waiting to be read");
    assert_eq!(desk.watch.next_deadline(), Some(millis(105_000)));
    desk.ping(114_000, "waiting to be read");
    assert_eq!(desk.run(120_000), [(120_000, "dead")]);
    assert_eq!(desk.run(140_000), [(130_000, "waiting to be read")]);
}

#[test]
fn a_hiccup_is_not_standing_still() {
    let mut desk = Desk::new();
    desk.ping(0, "dead");
    desk.run(15_000);
    assert_eq!(desk.wake(24_999), [(24_999, "dead")], "the check of 20 s, almost five seconds late");
}

#[test]
fn a_check_out_of_turn_is_to_the_instant_and_moves_no_check() {
    let mut desk = Desk::new();
    desk.ping(1_000, "early");
    desk.ping(2_000, "late");
    assert_eq!(desk.check_now(16_000), NOBODY, "not beyond the timeout");
    assert_eq!(
        desk.check_now(16_001),
        [(16_001, "early")],
        "though no check was run for longer than a timeout"
    );
    assert_eq!(desk.watch.next_deadline(), Some(millis(5_000)));
    assert_eq!(desk.check_now(60_000), [(60_000, "late")]);
}

#[test]
fn a_check_out_of_turn_does_not_count_the_silence_before_a_start() {
    let mut desk = Desk::with(PassiveConfig { timeout: Duration::from_secs(16), ..PassiveConfig::default() });
    desk.ping(0, "w");
    desk.watch.handle(millis(10_000), Input::Started);
    for silent_for in [15_000, 15_999, 16_000] {
        assert_eq!(desk.check_now(10_000 + silent_for), NOBODY);
    }
    assert_eq!(desk.watch.looked_at(), 3, "it is in the bucket that a check looks into");
    assert_eq!(desk.check_now(26_001), [(26_001, "w")]);
}

#[test]
fn presets_are_sound_and_their_relations_are_checked() {
    let good = PassiveConfig::default();
    for preset in [PassiveConfig::aggressive(), good, PassiveConfig::conservative()] {
        assert_eq!(preset.check(preset.timeout / 3), Ok(preset));
    }
    let refusal = good.check(Duration::from_millis(5_001)).unwrap_err().0;
    assert!(refusal.starts_with("ping interval of 5.001s is too long"), "{refusal}");
    assert!(refusal.ends_with("at most 5s"), "{refusal}");
    for check_every in [Duration::ZERO, Duration::from_millis(5_001)] {
        let refusal = PassiveConfig { check_every, ..good }.check(Duration::from_secs(1)).unwrap_err().0;
        assert!(refusal.starts_with("check interval of"), "{refusal}");
    }
    assert!(PassiveConfig { timeout: Duration::ZERO, ..good }.check(Duration::ZERO).is_err());
}
