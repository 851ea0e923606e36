//! A cluster's directory: made for it, removed with it, and swept away by the next cluster if our process was killed.
//!
//! The server cannot be made to die with us, so a killed process leaves it running. Its directory is named after the process and
//! locked by it, which tells whoever starts a cluster later that nobody needs it any more.

use std::fs::{self, File, Permissions};
use std::io::Write as _;
use std::os::unix::fs::{PermissionsExt as _, chown};
use std::path::{Path, PathBuf};
use std::{env, process};

use tempfile::{NamedTempFile, TempDir};

use crate::error::ClusterError;
use crate::processes::Postmaster;
use crate::programs::{Programs, ServerUser};

/// How the names of all of them begin; the id of the process follows, then something that tells them apart.
const PREFIX: &str = "tenure-pg-";

/// The directory. Dropping it removes it.
#[derive(Debug)]
pub(crate) struct Home {
    directory: TempDir,
    /// Held until we end, however we end.
    _lock: File,
    /// Whom what lies in it belongs to, if not us.
    user: Option<ServerUser>,
}

impl Home {
    /// Makes one, after removing those that processes before us left behind.
    pub(crate) fn new(programs: &Programs) -> Result<Home, ClusterError> {
        let parent = temporary()?;
        sweep(&parent);
        let create = || -> std::io::Result<Home> {
            let directory = tempfile::Builder::new()
                .prefix(&format!("{PREFIX}{}-", process::id()))
                // Whoever may enter reaches the socket.
                .permissions(Permissions::from_mode(0o700))
                .tempdir_in(&parent)?;
            let lock = File::open(&directory)?;
            lock.lock()?;
            if let Some(ServerUser { user, group }) = programs.user() {
                chown(&directory, Some(user), Some(group))?;
            }
            Ok(Home { directory, _lock: lock, user: programs.user() })
        };
        create().map_err(ClusterError::system(format!("make a directory in {}", parent.display())))
    }

    pub(crate) fn path(&self) -> &Path {
        self.directory.path()
    }

    /// A file that only the server's user can open, for as long as it is held.
    pub(crate) fn secret(&self, name: &str, text: &str) -> Result<NamedTempFile, ClusterError> {
        let create = || -> std::io::Result<NamedTempFile> {
            let mut file = NamedTempFile::new_in(self.path())?;
            file.write_all(text.as_bytes())?;
            if let Some(ServerUser { user, group }) = self.user {
                chown(&file, Some(user), Some(group))?;
            }
            Ok(file)
        };
        create().map_err(ClusterError::system(format!("write the {name} down")))
    }

    /// Where the server keeps everything.
    pub(crate) fn data(&self) -> PathBuf {
        data(self.path())
    }

    /// Where the server writes what happens.
    pub(crate) fn log(&self) -> PathBuf {
        self.path().join("server.log")
    }
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}

/// In the form in which a server's command line shows it, too.
fn temporary() -> Result<PathBuf, ClusterError> {
    let directory = env::temp_dir();
    fs::canonicalize(&directory)
        .map_err(ClusterError::system(format!("use {} for temporary files", directory.display())))
}

/// Ends the clusters of processes that are no more and removes their directories. What is not ours to remove stays.
fn sweep(parent: &Path) {
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        let is_abandoned = entry.file_name().to_str().and_then(owner).is_some_and(|owner| !is_alive(owner));
        if is_abandoned {
            sweep_one(&entry.path());
        }
    }
}

fn sweep_one(home: &Path) {
    // The owner may live where we cannot see its id, such as in another container with the same directory for temporary files.
    // And of several sweepers one is enough.
    let Ok(lock) = File::open(home) else { return };
    if lock.try_lock().is_err() {
        return;
    }
    if let Some(postmaster) = Postmaster::of(&data(home)) {
        postmaster.kill();
    }
    let _ = fs::remove_dir_all(home);
}

/// The process that made the directory of this name.
fn owner(name: &str) -> Option<u32> {
    name.strip_prefix(PREFIX)?.split_once('-')?.0.parse().ok()
}

fn is_alive(process: u32) -> bool {
    Path::new("/proc").join(process.to_string()).exists()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_owner_is_in_the_name() {
        assert_eq!(owner("tenure-pg-4711-aB3x"), Some(4711));
        assert_eq!(owner("tenure-pg-4711"), None);
        assert_eq!(owner("tenure-4711-aB3x"), None);
    }

    #[test]
    fn only_what_a_dead_process_left_unlocked_is_swept() {
        let parent = tempfile::tempdir().expect("a directory");
        // Ours to wait for, so its id belongs to nobody afterwards.
        let mut child = process::Command::new("true").spawn().expect("it is everywhere");
        let dead = child.id();
        child.wait().expect("it ends");
        let place = |owner: u32, name: &str| {
            let home = parent.path().join(format!("{PREFIX}{owner}-{name}"));
            fs::create_dir(&home).expect("a new directory");
            home
        };
        let (abandoned, elsewhere, ours) = (place(dead, "a"), place(dead, "b"), place(process::id(), "c"));
        let foreign = parent.path().join("foreign");
        fs::create_dir(&foreign).expect("a new directory");
        let lock = File::open(&elsewhere).expect("a directory");
        lock.lock().expect("nobody has it");
        sweep(parent.path());
        let left = [&abandoned, &elsewhere, &ours, &foreign].map(|path| path.exists());
        assert_eq!(left, [false, true, true, true]);
    }
    #[test]
    fn a_stranger_with_the_id_of_the_server_that_was_is_left_alone() {
        let parent = tempfile::tempdir().expect("a directory");
        let mut dead = process::Command::new("true").spawn().expect("it is everywhere");
        dead.wait().expect("it ends");
        let home = parent.path().join(format!("{PREFIX}{}-a", dead.id()));
        fs::create_dir_all(data(&home)).expect("a new directory");
        let waits = || process::Command::new("cat").stdin(process::Stdio::piped()).spawn();
        let mut stranger = waits().expect("it is everywhere");
        fs::write(data(&home).join("postmaster.pid"), format!("{}\n", stranger.id())).expect("a new file");
        sweep(parent.path());
        assert!(!home.exists());
        assert_eq!(stranger.try_wait().expect("it is ours"), None, "it was not killed");
        drop(stranger.stdin.take());
        assert!(stranger.wait().expect("it is ours").success());
    }
}
