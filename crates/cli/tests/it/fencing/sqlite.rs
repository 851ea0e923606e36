//! The statements for SQLite, by two connections to one file: who was first to write, who waited, who is refused.

use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use rusqlite::{Connection, OptionalExtension as _, Transaction, TransactionBehavior};
use tempfile::TempDir;
use worker::fencing::sqlite::{ADVANCE, CREATE_TABLE, CREATE_TRIGGER, STALE_MESSAGE};

use super::on_the_page;

/// How the fence is compared, by each pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Update,
    Upsert,
    Advance,
    /// As `Advance`, with the trigger.
    AdvanceOrRaise,
}

const WAYS: [Way; 4] = [Way::Update, Way::Upsert, Way::Advance, Way::AdvanceOrRaise];

/// A database with the user's own table and the guard, and a report in it that the holder of fence 1 wrote.
struct Reports {
    way: Way,
    file: PathBuf,
    _home: TempDir,
}

impl Reports {
    fn new(way: Way) -> Reports {
        let home = tempfile::tempdir().expect("a temporary directory");
        let reports = Reports { way, file: home.path().join("reports.db"), _home: home };
        let db = reports.open();
        db.execute_batch(
            "PRAGMA journal_mode = WAL; CREATE TABLE reports (id INTEGER PRIMARY KEY, body TEXT)",
        )
        .expect("a new file");
        for statement in [on_the_page("sqlite row-column"), CREATE_TABLE] {
            db.execute_batch(statement).expect("valid SQL");
        }
        if way == Way::AdvanceOrRaise {
            db.execute_batch(CREATE_TRIGGER).expect("valid SQL");
        }
        db.execute_batch("INSERT INTO reports (id, body, fence) VALUES (1, 'by 1', 1)").expect("valid SQL");
        reports
    }

    fn open(&self) -> Connection {
        Connection::open(&self.file).expect("the file can be opened")
    }

    /// Compares the fence and, if it is taken, writes. Whether it was.
    fn write_in(&self, transaction: &Transaction<'_>, fence: i64) -> bool {
        let body = format!("by {fence}");
        let row = |statement: &str| {
            transaction.execute(statement.trim_end_matches(';'), (1, &body, fence)).expect("valid SQL") == 1
        };
        match self.way {
            Way::Update => row(on_the_page("sqlite row-update")),
            Way::Upsert => row(on_the_page("sqlite row-upsert")),
            Way::Advance | Way::AdvanceOrRaise => {
                let is_taken = self.advance(transaction, fence);
                if is_taken {
                    transaction.execute("UPDATE reports SET body = ?1", [&body]).expect("valid SQL");
                }
                is_taken
            }
        }
    }

    fn advance(&self, transaction: &Transaction<'_>, fence: i64) -> bool {
        let answer =
            transaction.query_row(ADVANCE, ("report/1", fence), |row| row.get::<_, i64>(0)).optional();
        match answer {
            Ok(None) => assert_ne!(self.way, Way::AdvanceOrRaise, "the trigger makes it an error"),
            Ok(Some(advanced)) => assert_eq!(advanced, fence),
            Err(ref error) => {
                assert_eq!((self.way, error.to_string()), (Way::AdvanceOrRaise, STALE_MESSAGE.to_owned()));
                let code = error.sqlite_error().map(|error| error.extended_code);
                assert_eq!(code, Some(rusqlite::ffi::SQLITE_CONSTRAINT_TRIGGER));
            }
        }
        matches!(answer, Ok(Some(_)))
    }

    /// A whole transaction. Whether the fence was taken.
    fn write(&self, db: &mut Connection, fence: i64) -> bool {
        let transaction = immediate(db);
        let is_taken = self.write_in(&transaction, fence);
        // Dropped otherwise, which rolls back.
        if is_taken {
            transaction.commit().expect("it can be committed");
        }
        is_taken
    }

    fn body(&self) -> String {
        let query = "SELECT group_concat(body) FROM reports";
        self.open().query_row(query, [], |row| row.get(0)).expect("a report")
    }
}

fn immediate(db: &mut Connection) -> Transaction<'_> {
    db.transaction_with_behavior(TransactionBehavior::Immediate).expect("nobody keeps it for ever")
}

/// Makes the connection wait for others that write, and says by `told` that it does.
macro_rules! wait_and_tell {
    ($db:expr, $told:ident) => {
        $db.busy_handler(Some(|_| {
            $told.store(true, Ordering::SeqCst);
            thread::yield_now();
            true
        }))
        .expect("a handler can be set")
    };
}

#[test]
fn the_holder_writes_and_writes_again_and_a_zombie_is_refused() {
    for way in WAYS {
        let reports = Reports::new(way);
        let (mut zombie, mut heir) = (reports.open(), reports.open());
        assert!(reports.write(&mut zombie, 7), "{way:?}: nobody came after it yet");
        assert!(reports.write(&mut heir, 9), "{way:?}: a newer fence");
        assert!(!reports.write(&mut zombie, 7), "{way:?}: an older fence");
        assert_eq!(reports.body(), "by 9", "{way:?}");
        assert!(reports.write(&mut heir, 9), "{way:?}: the same fence again");
    }
}

#[test]
fn a_zombie_that_waits_for_the_writer_is_refused_when_it_commits() {
    static ZOMBIE_WAITS: AtomicBool = AtomicBool::new(false);
    for way in WAYS {
        ZOMBIE_WAITS.store(false, Ordering::SeqCst);
        let reports = Reports::new(way);
        let (mut zombie, mut heir) = (reports.open(), reports.open());
        wait_and_tell!(zombie, ZOMBIE_WAITS);
        let writing = immediate(&mut heir);
        assert!(reports.write_in(&writing, 9), "{way:?}");
        thread::scope(|scope| {
            let late = scope.spawn(|| reports.write(&mut zombie, 7));
            while !ZOMBIE_WAITS.load(Ordering::SeqCst) {
                assert!(!late.is_finished(), "{way:?}: it must wait");
                thread::yield_now();
            }
            writing.commit().expect("it can be committed");
            assert!(!late.join().expect("no panic"), "{way:?}: an older fence");
        });
        assert_eq!(reports.body(), "by 9", "{way:?}");
    }
}

#[test]
fn a_holder_that_waits_for_a_zombie_writes_on_top_of_it() {
    static HEIR_WAITS: AtomicBool = AtomicBool::new(false);
    for way in WAYS {
        HEIR_WAITS.store(false, Ordering::SeqCst);
        let reports = Reports::new(way);
        let (mut zombie, mut heir) = (reports.open(), reports.open());
        wait_and_tell!(heir, HEIR_WAITS);
        let writing = immediate(&mut zombie);
        assert!(reports.write_in(&writing, 7), "{way:?}: it is in time");
        thread::scope(|scope| {
            let next = scope.spawn(|| reports.write(&mut heir, 9));
            while !HEIR_WAITS.load(Ordering::SeqCst) {
                assert!(!next.is_finished(), "{way:?}: it must wait");
                thread::yield_now();
            }
            writing.commit().expect("it can be committed");
            assert!(next.join().expect("no panic"), "{way:?}: a newer fence");
        });
        assert_eq!(reports.body(), "by 9", "{way:?}");
        assert!(!reports.write(&mut zombie, 7), "{way:?}: now it is too late");
    }
}

#[test]
fn a_zombie_that_read_first_cannot_write_after_the_holder() {
    for way in WAYS {
        let reports = Reports::new(way);
        let (mut zombie, mut heir) = (reports.open(), reports.open());
        // A plain BEGIN: it looks, and finds that it may write.
        let stale = zombie.transaction().expect("a transaction");
        let seen: i64 = stale.query_row("SELECT fence FROM reports", [], |row| row.get(0)).expect("a report");
        assert_eq!(seen, 1, "{way:?}");
        assert!(reports.write(&mut heir, 9), "{way:?}");
        let refused = stale.execute("UPDATE reports SET body = 'by 7'", []).expect_err("its snapshot is old");
        assert_eq!(refused.sqlite_error_code(), Some(rusqlite::ErrorCode::DatabaseBusy), "{way:?}");
        drop(stale);
        assert!(!reports.write(&mut zombie, 7), "{way:?}: once more, from the start");
        assert_eq!(reports.body(), "by 9", "{way:?}");
    }
}

#[test]
fn a_refused_zombie_takes_back_what_it_wrote_before() {
    for way in WAYS {
        let reports = Reports::new(way);
        let (mut zombie, mut heir) = (reports.open(), reports.open());
        assert!(reports.write(&mut heir, 9), "{way:?}");
        let writing = immediate(&mut zombie);
        writing.execute("INSERT INTO reports (id, body) VALUES (2, 'by 7')", []).expect("valid SQL");
        assert!(!reports.write_in(&writing, 7), "{way:?}");
        writing.rollback().expect("still open, whatever was raised");
        assert_eq!(reports.body(), "by 9", "{way:?}");
    }
}
