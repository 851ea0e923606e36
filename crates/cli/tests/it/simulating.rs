//! `tenure sim`: what it says of laws that hold, of rules that are left out, and of questions that make no sense.

use serde_json::Value;

use crate::offline::check;

fn json(args: &[&str], code: i32) -> Value {
    let (stdout, _) = check(&[&["sim", "muster", "--json"], args].concat(), code);
    serde_json::from_str(&stdout).expect("JSON")
}

#[test]
fn worlds_in_which_the_laws_hold_exit_0() {
    let found = json(&["--seeds", "3", "--workers", "20", "--seconds", "60"], 0);
    assert_eq!((&found["seeds"], &found["failed"]), (&Value::from(3), &Value::from(0)), "{found}");
    let found = json(&["--model", "2x1", "--ends", "0"], 0);
    assert_eq!(
        (&found["complete"], &found["law"], &found["violation"]),
        (&true.into(), &Value::Null, &Value::Null)
    );
}

#[test]
fn a_rule_that_is_left_out_ends_in_the_story_of_two_copies() {
    let found = json(&["--model", "2x1", "--ends", "0", "--break", "gate"], 1);
    assert_eq!(
        (&found["broken_rule"], &found["law"]),
        (&"gate_removed".into(), &"never_running_twice".into())
    );
    let violation = found["violation"].as_str().expect("a sentence");
    assert!(violation.starts_with("never_running_twice: task 1 runs on w"), "{violation}");
    let story = found["story"].as_array().expect("a list");
    let starts =
        story.iter().filter(|line| line.as_str().is_some_and(|line| line.ends_with("starts task 1")));
    assert_eq!(starts.count(), 2, "{story:?}");
}

#[test]
fn a_bug_is_judged_by_the_law_that_was_asked_for() {
    let bug = ["--model", "2x0", "--ends", "0", "--break", "exit_reentered"];
    assert_eq!(json(&bug, 0)["violation"], Value::Null, "no task runs twice by it");
    let found = json(&[&bug[..], &["--law", "exit_is_one_way"]].concat(), 1);
    assert_eq!(found["law"], "exit_is_one_way");
}

#[test]
fn a_model_that_is_too_large_is_refused() {
    for (model, ends, most) in [("3x1", "2", 1), ("2x2", "4", 3)] {
        let (_, stderr) = check(&["sim", "muster", "--model", model, "--ends", ends], 2);
        assert!(stderr.contains(&format!("--ends may be {most} at most")), "{stderr}");
    }
}
