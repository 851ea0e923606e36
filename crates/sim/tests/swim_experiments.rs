//! What the experiments of the membership world must find, as small as it can be shown.

use sim::swim::experiments::{self, Amount, Cell, Findings, Subject};

fn worlds(seeds: u64, nodes: u32) -> Amount {
    Amount { seeds, first_seed: 1, nodes: vec![nodes], threads: None }
}

/// The numbers of a column, one for each row; what did not happen is infinitely late.
fn column(findings: &Findings, name: &str) -> Vec<f64> {
    let at = findings.columns.iter().position(|column| *column == name).expect("there is such a column");
    let number = |cell: &Cell| match cell {
        Cell::Count(count) => *count as f64,
        Cell::Number(number, _) => *number,
        Cell::Missing => f64::INFINITY,
        Cell::Text(text) => panic!("{text} is no number"),
    };
    findings.rows.iter().map(|row| number(&row[at])).collect()
}

fn named(profile: &str) -> Subject<sim::swim::SwimNode> {
    Subject::named(profile, None, None).expect("a profile")
}

/// Both for a whole partition and for one that comes and goes.
#[test]
fn halves_of_profile_classic_find_each_other_again() {
    let findings = experiments::partition(&named("classic"), &worlds(3, 32), &mut |_, _| {});
    assert_eq!(column(&findings, "not_healed"), [0.0, 0.0], "{:?}", findings.rows);
    assert!(column(&findings, "healed_after_max").iter().all(|after| *after < 120.0), "{:?}", findings.rows);
}

/// In step, all nodes probe the same one at one moment, and the crashed one only when a whole round is over: 500 s.
#[test]
fn a_crash_among_256_of_profile_classic_is_noticed_long_before_a_round_is_over() {
    let findings = experiments::detection(&named("classic"), &worlds(4, 256), &mut |_, _| {});
    assert!(column(&findings, "first_p999")[0] < 60.0, "{:?}", findings.rows);
}
