//! Whether the files that the store has open are still those in its directory. A file that was removed or replaced can be written
//! to for as long as it is open, and is gone with the process: what is acknowledged then is lost.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use crate::open::DATABASE_FILE;

/// How often they are looked at, at most: a look costs some microseconds, and there may be thousands of commits in a second.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// The open files, as they were when the store was opened.
pub(crate) struct Files {
    known: Vec<(PathBuf, Identity)>,
    /// When all were last seen in their places.
    seen_at: Instant,
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Files {
    /// Notes the files of an open store.
    pub(crate) fn note(dir: &Path) -> Self {
        let names = [DATABASE_FILE, "tenure.db-wal", "tenure.db-shm"];
        let paths = names.map(|name| dir.join(name));
        let known = paths.into_iter().filter_map(|path| identity(&path).map(|identity| (path, identity)));
        Files { known: known.collect(), seen_at: Instant::now() }
    }

    /// A file that is not there any more, or not the one that is open.
    pub(crate) fn first_gone(&mut self) -> Option<&Path> {
        if self.seen_at.elapsed() < LOOK_EVERY {
            return None;
        }
        let gone = self.known.iter().position(|(path, known)| identity(path) != Some(*known));
        if gone.is_none() {
            self.seen_at = Instant::now();
        }
        gone.map(|place| self.known[place].0.as_path())
    }
}

fn identity(path: &Path) -> Option<Identity> {
    let found = fs::metadata(path).ok()?;
    Some(Identity { device: found.dev(), inode: found.ino() })
}
