//! What cannot be opened says so in a sentence, and what can is opened with care.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::sync::Arc;

use rusqlite::Connection;
use store::conformance::TestClock;
use store_sqlite::{DATABASE_FILE, LOCK_FILE, SqliteOptions, SqliteStore, migrations, schema_version};

fn open(dir: &Path) -> Result<SqliteStore, String> {
    SqliteStore::open(SqliteOptions::new(dir), Arc::new(TestClock::new())).map_err(|error| error.to_string())
}

fn refusal(dir: &Path) -> String {
    open(dir).expect_err("must be refused")
}

#[test]
fn missing_directory_is_created_for_its_owner_alone() {
    let parent = tempfile::tempdir().unwrap();
    let dir = parent.path().join("a/b");
    open(&dir).unwrap();
    assert_eq!(fs::metadata(&dir).unwrap().permissions().mode() & 0o777, 0o700);
    assert_eq!(schema_version(&dir).unwrap(), Some(migrations().len() as u32));
}

/// As a service manager makes it, or an administrator.
#[test]
fn files_are_closed_to_others_though_their_directory_is_open() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let modes = || -> Vec<(String, u32)> {
        let entries = fs::read_dir(dir.path()).unwrap().map(Result::unwrap);
        let mode = |entry: &fs::DirEntry| entry.metadata().unwrap().permissions().mode() & 0o777;
        entries.map(|entry| (entry.file_name().into_string().unwrap(), mode(&entry))).collect()
    };
    let store = open(dir.path()).unwrap();
    assert_eq!(modes().len(), 4, "{:?}", modes());
    assert!(modes().iter().all(|(_, mode)| *mode == 0o600), "{:?}", modes());
    store.close();
    // Those of an earlier release, too.
    for (name, _) in modes() {
        fs::set_permissions(dir.path().join(name), fs::Permissions::from_mode(0o644)).unwrap();
    }
    let store = open(dir.path()).unwrap();
    assert!(modes().iter().all(|(_, mode)| *mode == 0o600), "{:?}", modes());
    store.close();
}

#[test]
fn database_that_is_a_link_is_refused() {
    let (dir, elsewhere) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let target = elsewhere.path().join("target");
    std::os::unix::fs::symlink(&target, dir.path().join(DATABASE_FILE)).unwrap();
    let error = refusal(dir.path());
    assert!(error.contains("tenure.db is a symbolic link"), "{error}");
    assert!(!target.exists(), "nothing was written through it");
}

#[test]
fn second_server_on_one_directory_is_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    assert_eq!(
        refusal(dir.path()),
        format!(
            "another tenure server (pid {}) is using {}; stop it or choose another --data directory",
            std::process::id(),
            dir.path().display()
        )
    );
    first.close();
    open(dir.path()).unwrap();
}

#[test]
fn second_server_is_refused_though_somebody_removed_the_lock_file() {
    let dir = tempfile::tempdir().unwrap();
    let first = open(dir.path()).unwrap();
    fs::remove_file(dir.path().join(LOCK_FILE)).unwrap();
    // Twice: the first try leaves a lock file that nobody holds.
    for _ in 0..2 {
        let error = refusal(dir.path());
        assert!(error.starts_with("another tenure server is using "), "{error}");
    }
    first.close();
    open(dir.path()).unwrap();
}

#[test]
fn lock_file_of_a_dead_server_stops_nobody() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join(LOCK_FILE), "123456\n").unwrap();
    let store = open(dir.path()).unwrap();
    let text = fs::read_to_string(dir.path().join(LOCK_FILE)).unwrap();
    assert_eq!(text, format!("{}\n", std::process::id()), "the new owner's id, and nothing left of the old");
    drop(store);
}

#[test]
fn file_that_is_no_database_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE_FILE);
    let garbage = "not a database at all, ".repeat(100);
    fs::write(&file, &garbage).unwrap();
    assert_eq!(
        refusal(dir.path()),
        format!(
            "{} is not a tenure database; move it away or choose another --data directory",
            file.display()
        )
    );
    assert_eq!(fs::read_to_string(&file).unwrap(), garbage);
    assert!(schema_version(dir.path()).is_err());
}

#[test]
fn database_of_another_program_is_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join(DATABASE_FILE);
    Connection::open(&file).unwrap().execute_batch("CREATE TABLE jobs (mine)").unwrap();
    assert!(refusal(dir.path()).contains("is not a tenure database"), "{}", refusal(dir.path()));
    let columns: i64 = Connection::open(&file)
        .unwrap()
        .query_row("SELECT count(*) FROM pragma_table_info('jobs')", [], |row| row.get(0))
        .unwrap();
    assert_eq!(columns, 1, "its table is as it was");
}

#[test]
fn newer_schema_asks_for_an_upgrade() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap();
    let database = Connection::open(dir.path().join(DATABASE_FILE)).unwrap();
    database.pragma_update(None, "user_version", 7).unwrap();
    drop(database);
    assert_eq!(
        refusal(dir.path()),
        format!(
            "the data in {} was written by a newer tenure (schema 7, this one knows {}); upgrade tenure",
            dir.path().display(),
            migrations().len()
        )
    );
}

#[test]
fn path_that_is_no_directory_is_refused() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let refusal = refusal(&file);
    assert!(refusal.starts_with(&format!("cannot write to {}", file.display())), "{refusal}");
    assert!(refusal.ends_with("choose another --data directory"), "{refusal}");
}

#[test]
fn closing_leaves_one_file_and_no_log() {
    let dir = tempfile::tempdir().unwrap();
    open(dir.path()).unwrap().close();
    let mut names: Vec<_> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    names.sort();
    assert_eq!(names, [DATABASE_FILE, LOCK_FILE]);
}
