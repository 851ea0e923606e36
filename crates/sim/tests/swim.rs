//! The world of membership as a whole: its laws hold, its runs can be told again, and every deliberate bug is noticed.

use std::num::NonZeroUsize;

use sim::swim::{LAWS, Mutation, Options, faults, replay, run};

/// Short worlds: there are many.
fn options() -> Options {
    Options { periods: 60, ..Options::default() }
}

#[test]
fn no_law_is_broken() {
    let report = run(&Options { seeds: 200, ..options() }, |_| {});
    assert!(report.failures.is_empty(), "{}", report.failures[0]);
    // The worlds must not be idle, or the laws were not tried.
    let stats = &report.stats;
    assert_eq!((report.seeds, stats.converged_after.len()), (200, 200));
    for (what, count) in [
        ("verdicts", stats.verdicts),
        ("verdicts told", stats.told),
        ("verdicts about live nodes", stats.false_verdicts),
        ("refutations", stats.refutations),
        ("returns", stats.returns),
        ("farewells seen", stats.left),
    ] {
        assert!(count > 1_000, "{what}: {count}");
    }
    // A law that nobody asks is kept by anything.
    let never = LAWS.iter().zip(stats.asked).filter(|(_, asked)| *asked == 0);
    assert_eq!(never.map(|(law, _)| *law).collect::<Vec<_>>(), [""; 0]);
    assert_eq!(faults().filter(|fault| !stats.struck.contains_key(fault)).collect::<Vec<_>>(), [""; 0]);
}

/// Rare worlds, each of which broke a law until a rule was found wrong: deaf nodes that condemned others, nodes that were believed
/// because they were still remembered, a voucher that others had just contradicted; nodes behind links dead for ever that
/// stayed dead when their hold was over; nodes of profile `classic` that never heard of each other.
#[test]
fn worlds_that_broke_a_law_once_keep_it() {
    for first_seed in [
        1_258, 1_290, 1_518, 2_445, 3_689, 7_071, 12_589, 16_155, 100_259, 100_502, 101_871, 102_108,
        400_431, 403_250,
    ] {
        let report = run(&Options { seeds: 1, first_seed, ..options() }, |_| {});
        assert!(report.failures.is_empty(), "{}", report.failures[0]);
    }
}

#[test]
fn a_seed_tells_the_same_story_on_any_number_of_threads() {
    let options = Options { seeds: 8, first_seed: 500, ..options() };
    let alone = Options { threads: NonZeroUsize::new(1), ..options.clone() };
    let (many, one) = (run(&options, |_| {}), run(&alone, |_| {}));
    assert_eq!((many.trace_hash, &many.stats), (one.trace_hash, &one.stats));
    let others = run(&Options { first_seed: 501, ..options }, |_| {});
    assert_ne!(many.trace_hash, others.trace_hash);
}

#[test]
fn a_replay_is_the_run_with_words() {
    let options = Options { seeds: 1, first_seed: 3, ..options() };
    let mut lines = 0;
    let replayed = replay(3, &options, &mut |line| lines += usize::from(!line.is_empty()));
    assert_eq!(replayed.trace_hash, run(&options, |_| {}).trace_hash);
    assert!(lines > 100, "{lines} lines");
}

/// Runs seeds until one exposes the bug; the law it broke.
fn caught(mutation: swim::Mutation, only_law: Option<&'static str>) -> Option<&'static str> {
    let batch = Options { seeds: 8, mutation: Some(Mutation::from(mutation)), only_law, ..options() };
    (0..125).find_map(|number| {
        let report = run(&Options { first_seed: 1 + number * batch.seeds, ..batch.clone() }, |_| {});
        let failure = report.failures.into_iter().next()?;
        assert!(LAWS.contains(&failure.violation.law), "{failure}");
        let last = failure.last_events.last().expect("a failure shows what happened last");
        assert!(last.contains("BROKEN") && last.contains(failure.violation.law), "{last}");
        Some(failure.violation.law)
    })
}

macro_rules! caught_by {
    ($($test:ident: $mutation:ident by $($law:literal)|+;)*) => {$(
        #[test]
        fn $test() {
            let law = caught(swim::Mutation::$mutation, None);
            assert!([$(Some($law)),+].contains(&law), "{law:?}");
        }
    )*

        #[test]
        fn every_mutation_is_tried() {
            assert_eq!(swim::Mutation::ALL.as_slice(), [$(swim::Mutation::$mutation),*]);
        }
    };
}

caught_by! {
    an_incarnation_that_is_not_kept_is_caught: IncarnationNotMonotone by "incarnation_went_back";
    a_suspicion_that_outlives_its_refutation_is_caught:
        SuspicionTimerIgnoresRefutation by "condemned_after_refutation";
    a_node_that_never_refutes_is_caught: NeverRefutes by "accused_and_silent";
    one_who_left_and_comes_back_is_caught: LeftForgotten by "left_came_back";
    a_digest_that_counts_the_dead_is_caught: DigestSkipsDeath by "digest_hides_difference";
    datagrams_without_bound_are_caught: UnboundedPiggyback by "datagram_too_long";
    a_verdict_without_opinions_is_caught: OpinionsIgnored by "condemned_by_one";
    a_verdict_of_the_deaf_is_caught: DeafCondemns by "deaf_node_condemned";
    an_earlier_start_that_counts_is_caught: EpochIgnored by "dead_epoch_came_back";
    news_that_never_ends_is_caught: GossipForever by "talks_without_news";
    a_dead_leader_is_caught: LeaderIgnoresDeaths by "leaders_differ";
    a_node_that_never_looks_back_is_caught: ForgetsSeeds by "views_differ";
    an_unreliable_node_believed_at_once_is_caught: HoldDownSkipped by "believed_too_early";
    a_verdict_on_waking_is_caught: SleepCondemns by "woken_node_condemned" | "deaf_node_condemned";
    a_voucher_without_a_review_is_caught: VouchesUnseen by "believed_too_early";
    news_sent_to_everybody_at_once_is_caught: FloodsNews by "grows_without_bound";
    a_late_node_that_is_sure_is_caught: LagIgnored by "late_and_sure";
    an_address_that_is_kept_is_caught: InfoKept by "info_differs" | "views_differ";
    a_log_that_is_ahead_and_untold_is_caught: MarkIgnored by "ahead_and_untold";
    one_who_is_expelled_and_stays_is_caught: StaysExpelled by "over_and_stays";
    a_node_that_measures_over_bad_links_only_is_caught: BadLinksIgnored by "parted_by_bad_links";
}

/// The deaf law may notice this one first; alone, the law that is meant must notice it too.
#[test]
fn a_verdict_on_waking_breaks_the_law_about_waking() {
    let law = "woken_node_condemned";
    assert_eq!(caught(swim::Mutation::SleepCondemns, Some(law)), Some(law));
}
