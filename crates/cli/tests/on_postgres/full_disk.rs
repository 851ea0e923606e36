//! The database's disk is full: nothing is acknowledged, the server says so, and goes on by itself when there is room again.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use pg_cluster::Cluster;
use serde_json::json;

use crate::servers::{Servers, until};
use crate::support::http;

/// A disk of a few megabytes below this directory, and for the same user.
struct SmallDisk(PathBuf);

impl SmallDisk {
    /// None if we may not mount one.
    fn mount(home: &Path, megabytes: usize) -> Option<SmallDisk> {
        let path = home.join("small");
        let owner = fs::metadata(home).expect("it is there");
        fs::create_dir(&path).expect("it is ours");
        let size = format!("size={megabytes}m");
        let mount = Command::new("mount").args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(&path).output();
        if !mount.is_ok_and(|output| output.status.success()) {
            return None;
        }
        let disk = SmallDisk(path);
        fs::set_permissions(&disk.0, fs::Permissions::from_mode(0o700)).expect("it is ours");
        chown(&disk.0, Some(owner.uid()), Some(owner.gid())).expect("it is ours");
        Some(disk)
    }

    /// Takes all the room there is, with a file.
    fn fill(&self) -> PathBuf {
        let path = self.0.join("filler");
        let mut file = fs::File::create(&path).expect("there is room for a name");
        while file.write_all(&[1; 4096]).is_ok() {}
        path
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // What has open files in it goes when they do.
        let _ = Command::new("umount").args(["--lazy"]).arg(&self.0).status();
    }
}

#[tokio::test]
async fn while_the_databases_disk_is_full_no_job_is_taken_and_the_server_is_not_ready() {
    let cluster = Cluster::start().expect("a cluster");
    let Some(disk) = SmallDisk::mount(cluster.home(), 32) else {
        println!("not run: this user may not mount a small disk");
        return;
    };
    let place = disk.0.display();
    cluster.psql("postgres", &format!("CREATE TABLESPACE small LOCATION '{place}'")).expect("SQL");
    cluster.psql("postgres", "CREATE DATABASE jobs TABLESPACE small").expect("SQL");
    let servers = Servers::start(&[&cluster.url("jobs")], &[]).await;
    let server = servers.urls[0].as_str();
    // They lie in the table itself, which has room left in its last page for a few at most.
    let job = json!({"queue": "q", "payload": "x".repeat(1500)}).to_string();
    let enqueue = async || http(server, "POST", "/v1/jobs", &job).await;
    let ready = async || http(server, "GET", "/readyz", "").await;
    assert_eq!(enqueue().await.0, 200);
    assert_eq!(ready().await.0, 200);

    let filler = disk.fill();
    let mut acknowledged = 1;
    let refusal = loop {
        let (status, answer) = enqueue().await;
        if status != 200 {
            break (status, answer);
        }
        acknowledged += 1;
    };
    assert_eq!(refusal.0, 503, "{refusal:?}");
    assert!(refusal.1.contains("No space left on device"), "{refusal:?}");
    // An answer is good for a second.
    let why = until("the server says that it is not ready", || async {
        let (status, why) = ready().await;
        (status != 200).then_some((status, why))
    });
    let (status, why) = why.await;
    assert!(status == 503 && why.contains("No space left on device"), "{why}");
    assert_eq!(http(server, "GET", "/healthz", "").await.0, 200, "the process is well");
    for _ in 0..20 {
        assert_eq!((enqueue().await.0, ready().await.0), (503, 503), "it says no as long as it is so");
    }

    fs::remove_file(filler).expect("it is there");
    until("the server is ready", || async { (ready().await.0 == 200).then_some(()) }).await;
    assert_eq!(enqueue().await.0, 200);
    acknowledged += 1;
    let stored = cluster.psql("jobs", "SELECT count(*) FROM tenure.jobs").expect("SQL");
    assert_eq!(stored, acknowledged.to_string(), "what was acknowledged, and nothing else");
}
