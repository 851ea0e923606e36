//! The silence watch against the plainest detector there is, which scans everybody at each check; and what a million
//! members cost.

use std::collections::BTreeMap;
use std::time::Duration;

use model::Instant;
use model::splitmix::SplitMix;

use super::{Input, Output, PassiveConfig, SilenceWatch};

/// Members by number, each with its last ping. A number is used once.
type Pings = BTreeMap<u64, Instant>;

fn drain(watch: &mut SilenceWatch<u64>) -> Vec<u64> {
    let mut silent: Vec<u64> =
        std::iter::from_fn(|| watch.poll_output()).map(|Output::Silent { member, .. }| member).collect();
    silent.sort_unstable();
    silent
}

#[test]
fn finds_whom_a_full_scan_finds_and_nobody_else() {
    for seed in 0..300 {
        let mut random = SplitMix::new(seed);
        let check_every = Duration::from_millis(1 + random.below(5_000));
        let config = PassiveConfig {
            timeout: 3 * check_every + Duration::from_millis(random.below(20_000)),
            check_every,
        };
        let start = Instant::from_millis(random.below(1_000_000));
        let mut watch = SilenceWatch::new(config, start);
        let mut pings = Pings::new();
        let (mut began, mut now, mut joined, mut died) = (start, start, 0, 0);
        for _ in 0..2_000 {
            let next_check = watch.next_deadline().expect("a watch always has a next check");
            // Mostly small steps; the loop is punctual, or late by less than counts as standing still.
            let step = now + Duration::from_nanos(random.below(check_every.as_nanos() as u64 / 4 + 1));
            if step >= next_check {
                now = next_check + Duration::from_nanos(random.below(config.timeout.as_nanos() as u64 / 3));
                watch.handle_deadline(now, |member| pings.get(member).copied());
                // A late check may leave those to the next who could be dead only since it was due.
                let due = now - late_by(now, began, check_every);
                let scan = |at: Instant| {
                    let silent =
                        |(_, last): &(&u64, &Instant)| at.since((**last).max(began)) > config.timeout;
                    pings.iter().filter(silent).map(|(member, _)| *member).collect::<Vec<u64>>()
                };
                let (found, at_least, at_most) = (drain(&mut watch), scan(due), scan(now));
                assert!(at_least.iter().all(|member| found.contains(member)), "seed {seed}: missed someone");
                assert!(found.iter().all(|member| at_most.contains(member)), "seed {seed}: killed someone");
                died += found.len();
                pings.retain(|member, _| !found.contains(member));
                continue;
            }
            now = step;
            match random.below(20) {
                0..4 => {
                    pings.insert(joined, now);
                    watch.handle(now, Input::Joined { member: joined, last_ping: now });
                    joined += 1;
                }
                4 => {
                    pings.remove(&random.below(joined + 1));
                }
                5 if random.below(50) == 0 => {
                    watch.handle(now, Input::Started);
                    began = now;
                }
                _ => {
                    if let Some(last) = pings.get_mut(&random.below(joined + 1)) {
                        *last = now;
                    }
                }
            }
        }
        assert!(died > 0 && joined > 50, "seed {seed} shows nothing: {joined} joined, {died} died");
    }
}

/// How long ago the latest check was due.
fn late_by(now: Instant, began: Instant, check_every: Duration) -> Duration {
    Duration::from_nanos((now.since(began).as_nanos() % check_every.as_nanos()) as u64)
}

#[test]
fn a_check_over_a_million_looks_only_at_what_is_due() {
    const MEMBERS: u64 = 1_000_000;
    const PING_NANOS: u64 = 5_000_000_000;
    // They join within 15 s and ping every 5 s, each in a phase of its own; one in a thousand stops at a time of its
    // own.
    let first_ping =
        |member: u64| member % 3 * PING_NANOS + member.wrapping_mul(0x9e37_79b9_7f4a_7c15) % PING_NANOS;
    let last_possible =
        |member: u64| if member % 1_000 == 7 { 20_000_000_000 + member * 30_000 } else { u64::MAX };
    let last_ping = |member: u64, now: Instant| {
        let until = now.as_nanos().min(last_possible(member));
        Instant::from_nanos(until - (until - first_ping(member)) % PING_NANOS)
    };
    let config = PassiveConfig::default();
    let mut watch = SilenceWatch::new(config, Instant::ZERO);
    let mut dead = 0;
    for check in 1..=20 {
        if check <= 3 {
            for member in (check - 1..MEMBERS).step_by(3) {
                let last_ping = Instant::from_nanos(first_ping(member));
                watch.handle(last_ping, Input::Joined { member, last_ping });
            }
        }
        let before = watch.looked_at();
        let now = watch.next_deadline().expect("a watch always has a next check");
        watch.handle_deadline(now, |member| Some(last_ping(*member, now)));
        // Everybody is due at every third check, and those who fell silent once more.
        let looked_at = watch.looked_at() - before;
        let most = if check <= 3 { 0 } else { MEMBERS / 3 + MEMBERS / 1_000 + 1 };
        assert!(looked_at <= most, "check {check} looked at {looked_at}");
        while let Some(Output::Silent { member, last_ping: last }) = watch.poll_output() {
            assert_eq!(last, last_ping(member, now));
            assert!(last_possible(member) < u64::MAX, "{member} still pings");
            let silence = now.since(last);
            assert!(
                silence > config.timeout && silence <= config.timeout + config.check_every,
                "{silence:?}"
            );
            dead += 1;
        }
    }
    assert_eq!(dead, MEMBERS / 1_000);
    assert_eq!(watch.watched() as u64, MEMBERS - dead);
}
