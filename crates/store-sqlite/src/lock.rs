//! One server per data directory: advisory locks on a file that names its owner, and on the database itself, in case somebody
//! tidies the first away. The system drops them with the process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;

use crate::error::OpenError;
use crate::open::{DATABASE_FILE, LOCK_FILE};

/// Held as long as the store is open. The database's file must not be closed before: SQLite's own locks in this process
/// would go with it.
#[derive(Debug)]
pub(crate) struct DirLock {
    _owner: File,
    _database: File,
}

impl DirLock {
    /// Takes the directory. Makes both files if they are missing.
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(LOCK_FILE);
        let mut owner = lock(dir, path.clone())?;
        let database = lock(dir, dir.join(DATABASE_FILE))?;
        let named = owner.set_len(0).and_then(|()| writeln!(owner, "{}", std::process::id()));
        named.map_err(|error| OpenError::NotWritable { path, error })?;
        Ok(DirLock { _owner: owner, _database: database })
    }
}

/// Opens the file itself, not what a link of this name points to, and locks it.
fn lock(dir: &Path, path: PathBuf) -> Result<File, OpenError> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false);
    options.mode(0o600).custom_flags(OFlags::NOFOLLOW.bits() as i32);
    let file = match options.open(&path) {
        Ok(file) => file,
        Err(error) if is_link(&error) => return Err(OpenError::Link { file: path }),
        Err(error) => return Err(OpenError::NotWritable { path, error }),
    };
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(OpenError::InUse { dir: dir.to_owned(), pid: owner(dir) }),
        Err(TryLockError::Error(error)) => Err(OpenError::NotWritable { path, error }),
    }
}

fn is_link(error: &io::Error) -> bool {
    Errno::from_io_error(error) == Some(Errno::LOOP)
}

/// Who it is, if the file says so. Only serves the message.
fn owner(dir: &Path) -> Option<u32> {
    let mut text = String::new();
    File::open(dir.join(LOCK_FILE)).ok()?.read_to_string(&mut text).ok()?;
    text.trim().parse().ok()
}
