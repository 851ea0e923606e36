//! What a killed process leaves behind, and the next one sweeps away.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// Another process with a cluster in a temporary directory below this one.
struct Other {
    process: Child,
    home: PathBuf,
}

impl Other {
    fn start(temporary: &Path) -> Other {
        let mut process = Command::new(env!("CARGO_BIN_EXE_pg-cluster"))
            .env("TMPDIR", temporary)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("our own program");
        let mut output = BufReader::new(process.stdout.take().expect("it is piped"));
        let mut line = || {
            let mut line = String::new();
            output.read_line(&mut line).expect("text");
            line.trim().to_owned()
        };
        assert!(line().starts_with("postgresql://"));
        let home = PathBuf::from(line());
        Other { process, home }
    }

    /// Its postmaster's id.
    fn postmaster(&self) -> String {
        let noted = fs::read_to_string(self.home.join("data/postmaster.pid")).expect("it runs");
        noted.lines().next().expect("an id").to_owned()
    }
}

fn is_running(process: &str, home: &Path) -> bool {
    let command = fs::read(format!("/proc/{process}/cmdline")).unwrap_or_default();
    String::from_utf8_lossy(&command).contains(&home.display().to_string())
}

#[test]
fn the_cluster_of_a_killed_process_is_ended_and_removed_by_the_next_one() {
    let temporary = tempfile::tempdir().expect("a directory");
    // The server's user must get through it.
    fs::set_permissions(temporary.path(), fs::Permissions::from_mode(0o755)).expect("it is ours");
    let mut killed = Other::start(temporary.path());
    let orphan = killed.postmaster();
    killed.process.kill().expect("it runs");
    killed.process.wait().expect("it ends");
    assert!(is_running(&orphan, &killed.home), "it does not die with its process");

    let mut next = Other::start(temporary.path());
    assert!(!is_running(&orphan, &killed.home));
    assert!(!killed.home.exists());

    // This one ends in order, with its standard input.
    let postmaster = next.postmaster();
    assert!(is_running(&postmaster, &next.home));
    drop(next.process.stdin.take());
    assert!(next.process.wait().expect("it ends").success());
    assert!(!is_running(&postmaster, &next.home));
    assert!(!next.home.exists());
}
