//! The data directory and the database in it.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use clock::SystemClock;
use store_sqlite::{DATABASE_FILE, LOCK_FILE, OpenError};

use super::Finding;
use super::server::Health;
use crate::storage;

const MIB: u64 = 1 << 20;
/// Below this a busy server may fill the disk before anyone looks.
const SPACE_LOW: u64 = 1024 * MIB;
/// Below this commits may fail any moment.
const SPACE_MIN: u64 = 100 * MIB;

/// Is the directory there, writable, and closed to others?
pub(super) fn directory(data: &Path) -> Finding {
    let name = "data directory";
    let shown = data.display();
    let metadata = match fs::metadata(data) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return missing_directory(data),
        Err(error) => {
            return Finding::fail(name, format!("cannot look at {shown}: {error}"), "choose another --data");
        }
    };
    if !metadata.is_dir() {
        return Finding::fail(
            name,
            format!("{shown} is not a directory"),
            "move it away or choose another --data",
        );
    }
    if let Err(error) = tempfile::tempfile_in(data) {
        let mend = "make it writable for this user or choose another --data";
        return Finding::fail(name, format!("cannot write to {shown}: {error}"), mend);
    }
    let mode = metadata.permissions().mode() & 0o777;
    if mode & 0o077 != 0 {
        let mend = format!("payloads may be secrets: chmod 700 {shown}");
        return Finding::warn(name, format!("{shown} is open to other users (mode {mode:03o})"), mend);
    }
    Finding::ok(name, format!("{shown} is writable, for this user only"))
}

fn missing_directory(data: &Path) -> Finding {
    let name = "data directory";
    let shown = data.display();
    let parent = existing_parent(data);
    if let Err(error) = tempfile::tempfile_in(parent) {
        let found = format!("{shown} does not exist and cannot be created: {error}");
        return Finding::fail(name, found, "choose another --data");
    }
    Finding::ok(name, format!("{shown} does not exist yet; `tenure serve` creates it"))
}

/// Is there room on its disk?
pub(super) fn space(data: &Path) -> Finding {
    let name = "free space";
    match rustix::fs::statvfs(existing_parent(data)) {
        Ok(disk) => judge_space(disk.f_bavail.saturating_mul(disk.f_frsize)),
        Err(error) => Finding::warn(name, format!("cannot be read: {error}"), "check the disk by hand"),
    }
}

fn judge_space(bytes: u64) -> Finding {
    let name = "free space";
    let found = format!("{} MiB", bytes / MIB);
    if bytes < SPACE_MIN {
        Finding::fail(name, found, "free some: enqueues fail when the disk is full")
    } else if bytes < SPACE_LOW {
        Finding::warn(name, found, "free some before it runs out, or shorten --retain-completed")
    } else {
        Finding::ok(name, found)
    }
}

/// Can this program keep data at all? Tried in a directory of its own.
pub(super) fn sqlite() -> Finding {
    let name = "sqlite";
    let scratch = match tempfile::tempdir() {
        Ok(scratch) => scratch,
        Err(error) => {
            return Finding::warn(name, format!("cannot make a temporary directory: {error}"), "set TMPDIR");
        }
    };
    match storage::open_scratch(scratch.path(), Arc::new(SystemClock)) {
        Ok(()) => {
            let version = store_sqlite::sqlite_version();
            Finding::ok(name, format!("{version}; a new store can be made and opened"))
        }
        Err(error) => Finding::fail(name, error.to_string(), "install a release build of tenure"),
    }
}

/// Is the database ours, of a schema we know, and not held by someone who does not answer?
pub(super) fn database(data: &Path, health: &Health) -> Finding {
    let name = "database";
    if let Some(pid) = holder(data) {
        let who = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
        if health.is_reachable() {
            return Finding::ok(name, format!("in use by {who}, and a server answers"));
        }
        let mend = format!("if {who} is a server, name its address with --server; else stop it");
        return Finding::fail(name, format!("in use by {who}, and no server answers"), mend);
    }
    let known = store_sqlite::migrations().last().map_or(0, |step| step.number);
    match store_sqlite::schema_version(data) {
        Ok(None) => Finding::ok(name, "none yet; `tenure serve` makes one"),
        Ok(Some(found)) if found == known => {
            Finding::ok(name, format!("{DATABASE_FILE} has schema {found}, as this program"))
        }
        Ok(Some(found)) if found < known => {
            let mend = "`tenure serve` migrates it; see what would be done with `tenure migrate --dry-run`";
            Finding::warn(name, format!("{DATABASE_FILE} has schema {found}, this program {known}"), mend)
        }
        Ok(Some(found)) => {
            let found = format!("{DATABASE_FILE} has schema {found}, this program knows only {known}");
            Finding::fail(name, found, "upgrade tenure")
        }
        Err(error) => Finding::fail(name, error.to_string(), mend_for(&error)),
    }
}

fn mend_for(error: &OpenError) -> &'static str {
    match error {
        OpenError::NotADatabase { .. } => "restore a backup, or start with an empty directory",
        _ => "mend what the sentence says, then look again",
    }
}

/// Who has the directory locked: the process that the lock file names, if it names one.
fn holder(data: &Path) -> Option<Option<u32>> {
    let path = data.join(LOCK_FILE);
    let file = fs::File::open(&path).ok()?;
    match file.try_lock_shared() {
        Err(fs::TryLockError::WouldBlock) => {
            Some(fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok()))
        }
        // Closing the file drops the lock at once.
        Ok(()) | Err(fs::TryLockError::Error(_)) => None,
    }
}

fn existing_parent(path: &Path) -> &Path {
    let parent = path.ancestors().find(|parent| parent.exists());
    // The empty path is the parent of a bare name and stands for the current directory.
    parent.unwrap_or(Path::new("."))
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn a_directory_open_to_others_is_a_warning() {
        let dir = tempfile::tempdir().unwrap();
        let with_mode = |mode| {
            fs::set_permissions(dir.path(), fs::Permissions::from_mode(mode)).unwrap();
            directory(dir.path()).status
        };
        assert_eq!(with_mode(0o700), Status::Ok);
        assert_eq!(with_mode(0o755), Status::Warn);
    }

    #[test]
    fn a_missing_directory_is_fine_if_it_can_be_made() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(directory(&dir.path().join("a/b")).status, Status::Ok);
        assert_eq!(directory(Path::new("no-such-directory-here")).status, Status::Ok);
        fs::write(dir.path().join("file"), "").unwrap();
        assert_eq!(directory(&dir.path().join("file")).status, Status::Fail);
    }

    #[test]
    fn space_is_judged_by_what_is_left() {
        assert_eq!(judge_space(10 * MIB).status, Status::Fail);
        assert_eq!(judge_space(500 * MIB).status, Status::Warn);
        assert_eq!(judge_space(5_000 * MIB).status, Status::Ok);
    }

    #[test]
    fn a_file_that_is_no_database_is_trouble_and_stays_as_it_is() {
        let dir = tempfile::tempdir().unwrap();
        assert_eq!(database(dir.path(), &Health::Unreachable("no".into())).status, Status::Ok);
        let file = dir.path().join(DATABASE_FILE);
        let text = "not a database, but long enough to be looked at as if it were one".repeat(20);
        fs::write(&file, &text).unwrap();
        assert_eq!(database(dir.path(), &Health::Unreachable("no".into())).status, Status::Fail);
        assert_eq!(fs::read_to_string(&file).unwrap(), text);
    }
}
