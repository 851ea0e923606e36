//! What can go wrong: on opening ([`OpenError`]), and inside a verb ([`Trouble`], which callers see as [`StoreError`]).

use std::io;
use std::path::{Path, PathBuf};

use model::Invalid;
use rusqlite::ErrorCode;
use store::StoreError;
use thiserror::Error;

/// The data directory cannot be used. Nothing in it was changed. The text says how to mend it.
#[derive(Debug, Error)]
pub enum OpenError {
    /// Another process has the directory open.
    #[error(
        "another tenure server{} is using {}; stop it or choose another --data directory",
        .pid.map(|pid| format!(" (pid {pid})")).unwrap_or_default(), .dir.display()
    )]
    InUse {
        /// The data directory.
        dir: PathBuf,
        /// The other process, if its lock file says.
        pid: Option<u32>,
    },
    /// The file is not ours.
    #[error("{} is not a tenure database; move it away or choose another --data directory", .file.display())]
    NotADatabase {
        /// The file.
        file: PathBuf,
    },
    /// The file was written by a later release.
    #[error(
        "the data in {} was written by a newer tenure (schema {found}, this one knows {known}); upgrade tenure",
        .dir.display()
    )]
    Newer {
        /// The data directory.
        dir: PathBuf,
        /// The file's schema.
        found: u32,
        /// The latest schema this program knows.
        known: u32,
    },
    /// The file is a symbolic link: whoever may make files in the directory would say where the data goes.
    #[error("{} is a symbolic link; put the file itself there, or choose the directory it is in with --data", .file.display())]
    Link {
        /// The link.
        file: PathBuf,
    },
    /// The directory or a file in it cannot be created or written.
    #[error("cannot write to {}: {error}; make it writable for this user or choose another --data directory", .path.display())]
    NotWritable {
        /// What could not be written.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
    /// There is no room to open in.
    #[error("the disk is full; free space in {} and start again", .dir.display())]
    DiskFull {
        /// The data directory.
        dir: PathBuf,
    },
    /// The linked SQLite can lose committed data (fixed in 3.51.3).
    #[error(
        "this program was built with SQLite {0}, which can lose committed data; build it with the bundled one"
    )]
    UnsafeSqlite(&'static str),
    /// SQLite failed in another way.
    #[error("cannot open the database in {}: {error}; see that the disk has space and is healthy", .dir.display())]
    Sqlite {
        /// The data directory.
        dir: PathBuf,
        /// What SQLite said.
        error: rusqlite::Error,
    },
}

impl OpenError {
    /// Sorts an SQLite error by what its reader can do about it.
    pub(crate) fn from_sqlite(dir: &Path, file: &Path, error: rusqlite::Error) -> Self {
        match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase) => OpenError::NotADatabase { file: file.to_owned() },
            Some(ErrorCode::ReadOnly | ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => {
                OpenError::NotWritable { path: file.to_owned(), error: io::Error::other(error) }
            }
            Some(ErrorCode::DiskFull) => OpenError::DiskFull { dir: dir.to_owned() },
            _ => OpenError::Sqlite { dir: dir.to_owned(), error },
        }
    }
}

/// Why a verb stopped half-way; its transaction is rolled back.
#[derive(Debug, Error)]
pub(crate) enum Trouble {
    #[error(transparent)]
    Sqlite(#[from] rusqlite::Error),
    #[error(transparent)]
    Invalid(#[from] Invalid),
    #[error("{0}")]
    Damaged(String),
    /// Another file is in this place than the one that is open, or none.
    #[error("{} was removed or replaced", .0.display())]
    FileGone(PathBuf),
}

impl Trouble {
    /// True if the store as a whole cannot write or read now, so that trying the group's members one by one is idle.
    pub(crate) fn is_outage(&self) -> bool {
        use ErrorCode::*;
        let error = match self {
            Trouble::Sqlite(error) => error,
            Trouble::FileGone(_) => return true,
            Trouble::Invalid(_) | Trouble::Damaged(_) => return false,
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                DiskFull
                    | SystemIoFailure
                    | DatabaseBusy
                    | DatabaseLocked
                    | CannotOpen
                    | ReadOnly
                    | PermissionDenied
                    | OutOfMemory
                    | FileLockingProtocolFailed
                    | OperationInterrupted
            )
        )
    }

    /// What the caller is told.
    pub(crate) fn to_store_error(&self, dir: &Path) -> StoreError {
        let error = match self {
            Trouble::Invalid(invalid) => return StoreError::Invalid(invalid.clone()),
            Trouble::Damaged(what) => return StoreError::Corrupt(what.clone()),
            Trouble::FileGone(path) => {
                return StoreError::Unavailable(format!(
                    "{} was removed or replaced while the server uses it, so nothing is accepted any more; stop the server, \
                     put the right files into {}, and start it again",
                    path.display(),
                    dir.display()
                ));
            }
            Trouble::Sqlite(error) => error,
        };
        let dir = dir.display();
        match error.sqlite_error_code() {
            Some(ErrorCode::DiskFull) => {
                StoreError::Unavailable(format!("disk is full; free space in {dir}"))
            }
            Some(ErrorCode::SystemIoFailure) => {
                StoreError::Unavailable(format!("cannot read or write in {dir} ({error}); check the disk"))
            }
            Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable(format!(
                "the database in {dir} is locked by another program; close it, do not open a live database"
            )),
            _ if self.is_outage() => {
                StoreError::Unavailable(format!("cannot use the database in {dir} ({error})"))
            }
            _ => StoreError::Corrupt(format!("the database in {dir} gave an unexpected answer ({error})")),
        }
    }
}

/// The answer when the threads behind the store are gone.
pub(crate) fn stopped() -> StoreError {
    StoreError::Unavailable("the store has stopped; restart the server".to_owned())
}
