//! The guardian dies.

use std::path::{Path, PathBuf};
use std::time::Duration;

use guardian::{Conditions, Guardian, GuardianLost, Isolation, LaunchError};
use rustix::process::Signal;
use tokio::time::timeout;

use crate::support::{PATIENCE, PROGRAM, Play, PlayedWorker, Witness, attached, exclusive, guardians, shell};

#[tokio::test]
async fn a_killed_guardian_takes_everyone_with_it() {
    for (mode, guardian) in guardians() {
        attached(&guardian);
        let mut witness = Witness::new();
        // What leaves group, session and environment can only be found in a namespace or a cgroup.
        let is_clean = guardian.protection().namespace || guardian.protection().cgroups;
        let hold = witness.hold();
        let command = format!(
            "{}; (env -i PATH=$PATH sh -c '{hold} sleep 1000' &); {hold} sleep 1000",
            witness.detached(is_clean)
        );
        let mut family = guardian.launch(exclusive(shell("doomed", &command))).await.expect("a family");
        witness.knocked(3).await;
        guardian.kill();
        let end = timeout(PATIENCE, family.ended()).await.expect("it is noticed");
        // Otherwise it is true here, and not known: one who forks fast enough is never seen.
        assert_eq!(end, Err(GuardianLost { all_gone: is_clean }), "{mode}");
        assert!(!witness.is_held(), "someone is left in {mode}");
        timeout(PATIENCE, guardian.lost()).await.expect("it is noticed");
        let refused = guardian.launch(shell("next", "exit 0")).await.expect_err("no guardian");
        assert!(matches!(refused, LaunchError::NoGuardian), "{refused}");
        assert_eq!(family.ended().await, end, "it may be asked again");
    }
}

#[tokio::test]
async fn leaders_die_with_their_guardian_when_nobody_is_left_to_end_them() {
    for how in ["ordinary", "exclusive"] {
        let mut witness = Witness::new();
        let command = format!("{} exec sleep 1000", witness.hold());
        let hold = Duration::from_secs(600);
        let play = Play { isolation: "groups", servers: "", hold, how, command: &command };
        let worker = PlayedWorker::start(&play);
        witness.knocked(1).await;
        worker.process.signal(Signal::STOP);
        worker.guardian.signal(Signal::KILL);
        witness.wait_until_released();
    }
}

/// The directory of a guardian's cgroups, by its number.
fn cgroup_of(guardian: u32) -> Option<PathBuf> {
    let name = format!("tenure-{guardian}");
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").expect("/proc");
    let points = mounts.lines().filter(|line| line.contains(" - cgroup2 "));
    let mut below = points.map(|line| PathBuf::from(line.split(' ').nth(4).expect("a mount point")));
    below.find_map(|root| find(&root, &name))
}

fn find(root: &Path, name: &str) -> Option<PathBuf> {
    let entries = std::fs::read_dir(root).ok()?.flatten().map(|entry| entry.path());
    entries.filter(|path| path.is_dir()).find_map(|path| {
        if path.file_name().is_some_and(|it| it == name) { Some(path) } else { find(&path, name) }
    })
}

#[tokio::test]
async fn what_worker_and_guardian_leave_in_a_cgroup_is_ended_by_the_next_guardian() {
    let mut witness = Witness::new();
    let command = format!("{}; sleep 1000", witness.detached(true));
    let hold = Duration::from_secs(600);
    let play = Play { isolation: "groups", servers: "", hold, how: "exclusive", command: &command };
    let mut worker = PlayedWorker::start(&play);
    witness.knocked(1).await;
    let directory = cgroup_of(worker.guardian.number());
    worker.process.signal(Signal::STOP);
    worker.guardian.signal(Signal::KILL);
    worker.guardian.wait();
    worker.kill();
    let next = Guardian::start_program(Path::new(PROGRAM), &Conditions::isolated(Isolation::Groups))
        .expect("a guardian");
    let limit = "processes that outlive a SIGKILL of both worker and guardian";
    assert!(next.protection().limits().contains(&limit));
    match directory {
        Some(directory) => {
            assert!(next.protection().cgroups);
            witness.wait_until_released();
            // Another one that starts at the same time may be at it.
            let is_gone = || {
                Guardian::start_program(Path::new(PROGRAM), &Conditions::isolated(Isolation::Groups))
                    .expect("a guardian");
                !directory.exists()
            };
            assert!((0..20).any(|_| is_gone()), "a dead guardian's directory is removed");
        }
        None => assert!(!next.protection().cgroups, "where there are cgroups they are used"),
    }
}
