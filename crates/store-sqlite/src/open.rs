//! Opening a data directory: the lock, the file, its schema, the pragmas, and the time we were away.

use std::fmt;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use model::Clock;
use rusqlite::{Connection, OpenFlags};

use crate::books::Books;
use crate::db::{Db, Mutations};
use crate::error::{OpenError, Trouble};
use crate::files::Files;
use crate::lock::DirLock;
use crate::migrate;
use crate::private;
use crate::reap::register_functions;
use crate::time::{StoreClock, adopt_running};

/// The database, inside the data directory. SQLite puts `-wal` and `-shm` files beside it.
pub const DATABASE_FILE: &str = "tenure.db";
/// The file whose lock says that a server uses the directory; it holds the server's process id.
pub const LOCK_FILE: &str = "tenure.lock";

/// The first SQLite without the WAL-reset bug, which can lose committed writes.
const SQLITE_VERSION_MIN: i32 = 3_051_003;
/// Chosen by measurement: see `docs/decisions`. Larger pages make every small commit longer.
const PAGE_BYTES: i64 = 4096;
/// The hot pages are few, and SQLite walks the whole cache at some commits; the system's cache does the rest.
const CACHE_BYTES: i64 = 16 << 20;
/// How long the log grows before its pages are copied into the database.
const CHECKPOINT_BYTES: i64 = 8 << 20;
/// A log that grew beyond this (a long read held it) is cut when it is reset.
const LOG_KEPT_BYTES: i64 = 64 << 20;

/// Told after each commit: how long it took and how many requests it carried.
pub type OnCommit = Arc<dyn Fn(Duration, usize) + Send + Sync>;

/// How to open the store.
#[derive(Clone)]
pub struct SqliteOptions {
    /// The data directory; created if it is missing.
    pub path: PathBuf,
    /// Wait at each commit until the disk has it. Without it a crash of the machine (not of the process) can lose the
    /// last commits.
    pub fsync: bool,
    /// Told after each commit.
    pub on_commit: Option<OnCommit>,
    /// Largest size of the database in pages; a commit beyond it fails as on a full disk. For tests.
    #[doc(hidden)]
    pub pages_max: Option<u32>,
}

impl SqliteOptions {
    /// Durable, in this directory.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        SqliteOptions { path: path.into(), fsync: true, on_commit: None, pages_max: None }
    }
}

impl fmt::Debug for SqliteOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteOptions")
            .field("path", &self.path)
            .field("fsync", &self.fsync)
            .finish_non_exhaustive()
    }
}

/// The version of the SQLite that is built in, as `3.51.3`.
pub fn sqlite_version() -> &'static str {
    rusqlite::version()
}

/// Everything the threads need.
pub(crate) struct Opened {
    pub(crate) lock: DirLock,
    pub(crate) files: Files,
    pub(crate) writer: Db,
    pub(crate) reader: Db,
    pub(crate) searcher: Db,
    pub(crate) books: Books,
    pub(crate) clock: StoreClock,
}

pub(crate) fn open(
    options: &SqliteOptions,
    clock: Arc<dyn Clock>,
    mutations: Mutations,
) -> Result<Opened, OpenError> {
    if rusqlite::version_number() < SQLITE_VERSION_MIN {
        return Err(OpenError::UnsafeSqlite(rusqlite::version()));
    }
    let dir = options.path.as_path();
    create_dir(dir)?;
    let lock = DirLock::take(dir)?;
    private::close_to_others(dir)?;
    let mut connection = connect(dir)?;
    migrate::run_missing(dir, &mut connection)?;
    let settle = || -> Result<_, Trouble> {
        configure(&connection, options)?;
        register_functions(&connection)?;
        let writer = Db::new(connection, mutations.clone())?;
        let clock = StoreClock::start(&writer, clock)?;
        let transaction = writer.connection.unchecked_transaction()?;
        adopt_running(&writer, clock.now().lease)?;
        transaction.commit()?;
        let books = Books::load(&writer)?;
        let reader = Db::new(connect_reader(dir)?, mutations.clone())?;
        let searcher = Db::new(connect_reader(dir)?, mutations)?;
        Ok((writer, reader, searcher, books, clock))
    };
    let (writer, reader, searcher, books, clock) = settle().map_err(|trouble| wrap(dir, trouble))?;
    let files = Files::note(dir);
    Ok(Opened { lock, files, writer, reader, searcher, books, clock })
}

pub(crate) fn create_dir(dir: &Path) -> Result<(), OpenError> {
    // Payloads may be secrets: only this user may look inside.
    DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .map_err(|error| OpenError::NotWritable { path: dir.to_owned(), error })
}

/// Opens the file, creating it if it is missing, in WAL mode. Reading the journal mode also proves that it is a
/// database.
pub(crate) fn connect(dir: &Path) -> Result<Connection, OpenError> {
    let file = dir.join(DATABASE_FILE);
    let open = || {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(&file, flags)?;
        connection.pragma_update(None, "page_size", PAGE_BYTES)?;
        connection.pragma_update(None, "journal_mode", "WAL")?;
        Ok(connection)
    };
    open().map_err(|error| OpenError::from_sqlite(dir, &file, error))
}

fn configure(connection: &Connection, options: &SqliteOptions) -> rusqlite::Result<()> {
    let synchronous = if options.fsync { "FULL" } else { "OFF" };
    connection.pragma_update(None, "synchronous", synchronous)?;
    connection.pragma_update(None, "foreign_keys", false)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_BYTES / 1024)?;
    connection.pragma_update(None, "wal_autocheckpoint", CHECKPOINT_BYTES / PAGE_BYTES)?;
    connection.pragma_update(None, "journal_size_limit", LOG_KEPT_BYTES)?;
    if let Some(pages) = options.pages_max {
        connection.pragma_update(None, "max_page_count", pages)?;
    }
    Ok(())
}

fn connect_reader(dir: &Path) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(dir.join(DATABASE_FILE), flags)?;
    connection.pragma_update(None, "temp_store", "MEMORY")?;
    connection.pragma_update(None, "cache_size", -CACHE_BYTES / 1024)?;
    Ok(connection)
}

fn wrap(dir: &Path, trouble: Trouble) -> OpenError {
    let file = dir.join(DATABASE_FILE);
    match trouble {
        Trouble::Sqlite(error) => OpenError::from_sqlite(dir, &file, error),
        Trouble::Invalid(_) | Trouble::Damaged(_) | Trouble::FileGone(_) => OpenError::NotADatabase { file },
    }
}
