//! `tenure demo` itself: the same processes, signals and verdict that a new user sees first.

use std::process::Command;

use crate::support::tenure;

#[test]
fn the_demo_keeps_every_promise_and_prints_its_figures() {
    let output =
        Command::new(tenure()).args(["demo", "--jobs", "300", "--json"]).output().expect("the binary starts");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("one JSON object");
    let number = |key: &str| figures[key].as_u64().unwrap_or_else(|| panic!("{key} is missing in {figures}"));
    for (key, expected) in [
        ("jobs", 300),
        ("completed", 300),
        ("dead", 0),
        ("lost_jobs", 0),
        ("duplicate_effects_same_fence", 0),
    ] {
        assert_eq!(number(key), expected, "{key} in {figures}");
    }
    assert!(number("stale_writes_refused") > 0 && number("rescues") > 0, "{figures}");
    assert!(number("rescue_ms_p50") <= number("rescue_ms_p99"), "{figures}");
}
