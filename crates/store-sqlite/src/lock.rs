//! One server per data directory: an advisory lock on a file that names its owner. The system drops the lock with the
//! process, however it ends.

use std::fs::{File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use crate::error::OpenError;
use crate::open::LOCK_FILE;

/// Held as long as the store is open.
#[derive(Debug)]
pub(crate) struct DirLock {
    _file: File,
}

impl DirLock {
    pub(crate) fn take(dir: &Path) -> Result<Self, OpenError> {
        let path = dir.join(LOCK_FILE);
        let not_writable = |error| OpenError::NotWritable { path: path.clone(), error };
        let mut file = OpenOptions::new()
            .read(true)
            .write(true)
            .create(true)
            .truncate(false)
            .open(&path)
            .map_err(not_writable)?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                let mut text = String::new();
                // Who it is only serves the message.
                let _ = file.read_to_string(&mut text);
                return Err(OpenError::InUse { dir: dir.to_owned(), pid: text.trim().parse().ok() });
            }
            Err(TryLockError::Error(error)) => return Err(not_writable(error)),
        }
        file.set_len(0).map_err(not_writable)?;
        writeln!(file, "{}", std::process::id()).map_err(not_writable)?;
        Ok(DirLock { _file: file })
    }
}
