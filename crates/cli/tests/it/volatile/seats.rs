//! Two processes that want to sit in one place.

use cli::fleet::Process;
use worker::SubmitOptions;

use super::runs::{read, task_until};
use super::{job, until, worker_with};
use crate::support::Fleet;

fn seated(fleet: &Fleet, name: &str, script: &str) -> Process {
    worker_with(fleet, name, &["v"], &["--seat", "rack7"], script)
}

/// Who was bumped has stopped what it ran before that runs elsewhere, learns why, and goes.
#[tokio::test]
async fn the_later_start_takes_the_seat_and_the_task_when_the_other_has_stopped() {
    let fleet = Fleet::start(&["--volatile-only", "--lease", "3s", "--unsafe-initial-wait", "0s"]).await;
    let (log, release) = (fleet.home.path().join("runs"), fleet.home.path().join("release"));
    let script = task_until(&release, &log);
    let runs = async |count: usize| {
        let ask = || async {
            let jobs = read(&log);
            let runs = jobs.into_values().next()?;
            (runs.len() == count).then_some(runs)
        };
        until("so many runs of the job", ask).await
    };
    let mut ann = seated(&fleet, "ann", &script);
    let submitter = fleet.client.submitter(SubmitOptions::default());
    let ticket = submitter.submit(job("v", "")).await.expect("there is room");
    runs(1).await;
    let _bob = seated(&fleet, "bob", &script);
    runs(2).await;
    std::fs::write(&release, "").expect("the directory is there");
    let end = tokio::time::timeout(super::PATIENCE, ticket).await;
    assert!(end.expect("it ends in time").expect("it is taken").is_completed());
    let both = runs(2).await;
    assert!(both[0].last < both[1].first && both[0].fence < both[1].fence, "{both:?}");
    assert!(!both[0].has_ended && both[1].has_ended, "{both:?}");

    assert!(ann.ended().await.expect("it has a status").success(), "it drained");
    let said = std::fs::read_to_string(fleet.home.path().join("ann.log")).expect("it has a log");
    assert!(said.contains("sits in its seat and started later"), "{said}");
    let status = fleet.client.muster_status().await.expect("answered");
    assert_eq!(status.double_starts, 0, "{status:?}");
}
