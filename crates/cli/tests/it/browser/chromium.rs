//! A headless Chromium with a profile of its own. Dropping it ends it with all its processes.

use std::env;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process_group};
use tempfile::TempDir;

/// The names it goes by.
const NAMES: [&str; 4] = ["chromium", "chromium-browser", "google-chrome", "google-chrome-stable"];

pub(super) struct Chromium {
    child: Child,
    _profile: TempDir,
}

impl Chromium {
    /// Opens this page.
    pub(super) fn start(page: &str, flags: &[&str]) -> Self {
        let profile = tempfile::tempdir().expect("a temporary directory");
        let child = Command::new(find())
            .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
            .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
            .args(["--disable-dev-shm-usage", "--no-default-browser-check", "--disable-extensions"])
            .args(["--password-store=basic", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .args(flags)
            .arg(page)
            .env("HOME", profile.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .process_group(0)
            .spawn()
            .expect("chromium starts");
        Chromium { child, _profile: profile }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        let _ = kill_process_group(group, Signal::KILL);
        let _ = self.child.wait();
    }
}

fn find() -> PathBuf {
    let path = env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = env::split_paths(&path).collect();
    NAMES
        .iter()
        .flat_map(|name| folders.iter().map(move |folder| folder.join(name)))
        .find(|file| file.is_file())
        .expect("these tests need Chromium; `cargo xtask chromium` installs it on Debian, as root")
}
