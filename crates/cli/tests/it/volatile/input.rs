//! What is refused about volatile queues, and in which words.

use std::process::Command;

use super::{call, said};
use crate::support::{Fleet, tenure};

const DURABLE_ID: &str = "0198c0de-7a1b-7c3d-8e4f-5a6b7c8d9e0f";
const VOLATILE_ID: &str = "0198c0de-7a1b-8c3d-8e4f-5b0000000001";

#[tokio::test]
async fn a_queue_changes_its_nature_only_while_it_is_empty() {
    // While it waits for its workers no queue becomes durable.
    let fleet = Fleet::start(&["--unsafe-initial-wait", "0s"]).await;
    let tenure = async |args: &[&str], code| {
        let (stdout, stderr) = said(&call(&fleet.server.url, args, fleet.home.path()).await, code);
        format!("{stdout}{stderr}")
    };
    fleet.enqueue(1).await;
    let refused = tenure(&["queues", "set", "q", "--volatile"], 5).await;
    assert!(refused.contains("error: queue q has 1 jobs that have not ended"), "{refused}");
    let set = tenure(&["queues", "set", "v", "--volatile"], 0).await;
    assert!(set.starts_with("v: volatile, "), "{set}");
    let listed = tenure(&["queues", "list"], 0).await;
    assert!(listed.lines().any(|line| line.starts_with("v ") && line.ends_with("volatile")), "{listed}");

    let note = tenure(&["enqueue", "v", "1"], 0).await;
    assert!(note.contains("which is volatile: it takes one that can stop them for certain"), "{note}");
    let refused = tenure(&["queues", "set", "v", "--volatile=false"], 5).await;
    assert!(refused.contains("error: queue v has 1 jobs that have not ended"), "{refused}");
    let refused = tenure(&["enqueue", "v", "1", "--id", DURABLE_ID], 2).await;
    assert!(refused.contains("volatile"), "{refused}");
    let refused = tenure(&["enqueue", "q", "1", "--id", VOLATILE_ID], 2).await;
    assert!(refused.contains("volatile"), "{refused}");
}

#[tokio::test]
async fn a_server_with_volatile_queues_only_has_no_others() {
    let fleet = Fleet::start(&["--volatile-only"]).await;
    let tenure = async |args: &[&str], code| {
        let (stdout, stderr) = said(&call(&fleet.server.url, args, fleet.home.path()).await, code);
        format!("{stdout}{stderr}")
    };
    let refused = tenure(&["queues", "set", "q", "--volatile=false"], 2).await;
    assert!(refused.contains("error: "), "{refused}");
    let refused = tenure(&["enqueue", "q", "1", "--id", DURABLE_ID], 2).await;
    assert!(refused.contains("volatile"), "{refused}");
    assert!(!fleet.home.path().join("data").exists(), "nothing was written");
}

#[test]
fn settings_that_cannot_go_together_are_refused_in_words() {
    for (args, why) in [
        (&["serve", "--volatile-only", "--store", "sqlite"][..], "the store is to be sqlite; choose one"),
        (&["serve", "--store", "memory", "--initial-wait", "30s"], "the memory store has none"),
        (
            &["serve", "--database-url", "postgresql://db/a", "--allow-bump-unhealthy"],
            "the postgres store has none; they need --store sqlite or --volatile-only",
        ),
        (
            &["serve", "--initial-wait", "30s", "--unsafe-initial-wait", "1s"],
            "unsafe-initial-wait cuts it short; choose one",
        ),
        (&["serve", "--initial-wait", "30"], "has no unit"),
        (&["serve", "--volatile-memory", "1GB"], "write 512MiB or 2GiB"),
        (&["serve", "--volatile-memory", "63MiB"], "give volatile jobs 64.0MiB or more"),
        (&["serve", "--store", "memory", "--volatile-memory", "1GiB"], "the memory store has none"),
        (&["queues", "set", "v", "--volatile=maybe"], "possible values: true, false"),
        (&["worker", "--queue", "v", "--seat", "a b", "--", "cat"], "seat"),
        (&["muster", "status", "--wait", "--watch"], "cannot be used with"),
        (&["muster", "status", "--timeout", "1s"], "--wait"),
        (&["bench", "claim", "--store", "volatile"], "tenure bench --store volatile"),
    ] {
        let output = Command::new(tenure()).args(args).env_remove("TENURE_STORE").output();
        let (_, stderr) = said(&output.expect("the binary starts"), 2);
        assert!(stderr.starts_with("error: ") && stderr.contains(why), "{args:?}: {stderr}");
    }
}
