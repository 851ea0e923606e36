//! Nobody but this user may read what jobs carry, whatever directory they are in: an administrator may have made it, open to all.

use std::fs::{self, Permissions};
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::OpenError;
use crate::open::{DATABASE_FILE, LOCK_FILE};

/// What group and others may do.
const OTHERS: u32 = 0o077;

/// Closes to others the files that are there. SQLite gives its own the mode of the database.
pub(crate) fn close_to_others(dir: &Path) -> Result<(), OpenError> {
    for name in [DATABASE_FILE, "tenure.db-wal", "tenure.db-shm", LOCK_FILE] {
        close(&dir.join(name)).map_err(|error| OpenError::NotWritable { path: dir.to_owned(), error })?;
    }
    if fs::metadata(dir).is_ok_and(|found| found.permissions().mode() & OTHERS != 0) {
        tracing::warn!(
            dir = %dir.display(),
            "other users may look into the data directory; its files are closed to them, but better: chmod 700"
        );
    }
    Ok(())
}

fn close(path: &Path) -> io::Result<()> {
    let mode = match fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => found.permissions().mode(),
        _ => return Ok(()),
    };
    if mode & OTHERS == 0 {
        return Ok(());
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))
}
