//! The statements for PostgreSQL in a real cluster, under READ COMMITTED: who was first to the row, who waited, who is refused.

use worker::fencing::postgres::{ADVANCE, ADVANCE_OR_RAISE, CREATE_FUNCTION, CREATE_TABLE, STALE_SQLSTATE};

use super::on_the_page;
use crate::postgres::{Database, Session};

/// The statement that compares the fence, of each pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Update,
    Upsert,
    Advance,
    AdvanceOrRaise,
}

const WAYS: [Way; 4] = [Way::Update, Way::Upsert, Way::Advance, Way::AdvanceOrRaise];
/// Those that also work where nothing is there yet.
const CREATING_WAYS: [Way; 3] = [Way::Upsert, Way::Advance, Way::AdvanceOrRaise];

/// The database with the user's own table and the guard.
async fn reports(name: &str) -> Database {
    let database = Database::create(name);
    let mut session = database.session().await;
    assert_eq!(
        session.run("CREATE TABLE reports (id bigint PRIMARY KEY, body text)").await,
        ["CREATE TABLE"]
    );
    assert_eq!(session.run(on_the_page("postgres row-column")).await, ["ALTER TABLE"]);
    assert_eq!(session.run(CREATE_TABLE).await, ["CREATE TABLE"]);
    assert_eq!(session.run(CREATE_FUNCTION).await, ["CREATE FUNCTION"]);
    database
}

/// Somebody who holds the job under this fence, or believes so.
struct Holder {
    session: Session,
    way: Way,
    fence: i64,
}

impl Holder {
    async fn new(database: &Database, way: Way, fence: i64) -> Holder {
        let mut session = database.session().await;
        for (name, statement) in [
            ("Update (bigint, text, bigint)", on_the_page("postgres row-update")),
            ("Upsert (bigint, text, bigint)", on_the_page("postgres row-upsert")),
            ("Advance (text, bigint)", ADVANCE),
            ("AdvanceOrRaise (text, bigint)", ADVANCE_OR_RAISE),
        ] {
            assert_eq!(session.run(&format!("PREPARE {name} AS {statement}")).await, ["PREPARE"]);
        }
        Holder { session, way, fence }
    }

    async fn begin(&mut self) {
        assert_eq!(self.session.run("BEGIN").await, ["BEGIN"]);
    }

    /// Sends the statement that compares the fence.
    async fn send(&mut self) {
        let Holder { way, fence, .. } = *self;
        let arguments = match way {
            Way::Update | Way::Upsert => format!("1, 'by {fence}', {fence}"),
            Way::Advance | Way::AdvanceOrRaise => format!("'report/1', {fence}"),
        };
        self.session.send(&format!("EXECUTE {way:?} ({arguments})")).await;
    }

    /// Whether the fence was taken.
    async fn is_taken(&mut self) -> bool {
        let answer = self.session.answer().await.join(" ");
        let (taken, refused) = match self.way {
            Way::Update => ("UPDATE 1".to_owned(), "UPDATE 0".to_owned()),
            Way::Upsert => ("INSERT 0 1".to_owned(), "INSERT 0 0".to_owned()),
            Way::Advance => (format!("{} INSERT 0 1", self.fence), "INSERT 0 0".to_owned()),
            Way::AdvanceOrRaise => (String::new(), format!("ERROR:  {STALE_SQLSTATE}")),
        };
        assert!(answer == taken || answer == refused, "{:?}: {answer}", self.way);
        answer == taken
    }

    /// Writes behind the guard, where the statement that compares is not the write itself, and commits.
    async fn commit(&mut self) {
        if matches!(self.way, Way::Advance | Way::AdvanceOrRaise) {
            let write = format!(
                "INSERT INTO reports (id, body) VALUES (1, 'by {0}') ON CONFLICT (id) DO UPDATE SET body = 'by {0}'",
                self.fence
            );
            assert_eq!(self.session.run(&write).await, ["INSERT 0 1"]);
        }
        assert_eq!(self.session.run("COMMIT").await, ["COMMIT"]);
    }

    async fn roll_back(&mut self) {
        assert_eq!(self.session.run("ROLLBACK").await, ["ROLLBACK"]);
    }

    /// A whole transaction. Whether it was taken.
    async fn write(&mut self) -> bool {
        self.begin().await;
        self.send().await;
        let is_taken = self.is_taken().await;
        if is_taken {
            self.commit().await;
        } else {
            self.roll_back().await;
        }
        is_taken
    }
}

/// Starts anew with a report that the holder of fence 1 wrote, by every pattern.
async fn first_report(session: &mut Session) {
    session.run("TRUNCATE reports, tenure_fences").await;
    let report = "INSERT INTO reports (id, body, fence) VALUES (1, 'by 1', 1)";
    assert_eq!(session.run(report).await, ["INSERT 0 1"]);
    let guard = "INSERT INTO tenure_fences (resource, fence) VALUES ('report/1', 1)";
    assert_eq!(session.run(guard).await, ["INSERT 0 1"]);
}

async fn body(session: &mut Session) -> Vec<String> {
    session.run("SELECT body FROM reports").await.into_iter().filter(|line| line.starts_with("by")).collect()
}

#[tokio::test]
async fn the_holder_writes_and_writes_again_and_a_zombie_is_refused() {
    let database = reports("one_after_the_other").await;
    let mut observer = database.session().await;
    for way in WAYS {
        first_report(&mut observer).await;
        let (mut zombie, mut heir) =
            (Holder::new(&database, way, 7).await, Holder::new(&database, way, 9).await);
        assert!(zombie.write().await, "{way:?}: nobody came after it yet");
        assert!(heir.write().await, "{way:?}: a newer fence");
        assert!(!zombie.write().await, "{way:?}: an older fence");
        assert_eq!(body(&mut observer).await, ["by 9"], "{way:?}");
        assert!(heir.write().await, "{way:?}: the same fence again");
        assert_eq!(body(&mut observer).await, ["by 9"], "{way:?}");
    }
}

#[tokio::test]
async fn a_zombie_that_waits_for_the_row_is_refused_when_the_holder_commits() {
    let database = reports("zombie_waits").await;
    let mut observer = database.session().await;
    for way in WAYS {
        first_report(&mut observer).await;
        check_zombie_waits(&database, &mut observer, way).await;
    }
    // The same race for the very first write, when there is no row to lock yet.
    for way in CREATING_WAYS {
        observer.run("TRUNCATE reports, tenure_fences").await;
        check_zombie_waits(&database, &mut observer, way).await;
    }
}

async fn check_zombie_waits(database: &Database, observer: &mut Session, way: Way) {
    let (mut zombie, mut heir) = (Holder::new(database, way, 7).await, Holder::new(database, way, 9).await);
    zombie.begin().await;
    heir.begin().await;
    heir.send().await;
    assert!(heir.is_taken().await, "{way:?}");
    zombie.send().await;
    observer.sees_waiting(&zombie.session).await;
    heir.commit().await;
    assert!(!zombie.is_taken().await, "{way:?}: its snapshot is older than the commit, the row is not");
    zombie.roll_back().await;
    assert_eq!(body(observer).await, ["by 9"], "{way:?}");
}

#[tokio::test]
async fn a_holder_that_waits_for_a_zombie_writes_on_top_of_it() {
    let database = reports("holder_waits").await;
    let mut observer = database.session().await;
    for way in WAYS {
        first_report(&mut observer).await;
        let (mut zombie, mut heir) =
            (Holder::new(&database, way, 7).await, Holder::new(&database, way, 9).await);
        zombie.begin().await;
        zombie.send().await;
        assert!(zombie.is_taken().await, "{way:?}: it is in time");
        heir.begin().await;
        heir.send().await;
        observer.sees_waiting(&heir.session).await;
        zombie.commit().await;
        assert!(heir.is_taken().await, "{way:?}");
        if matches!(way, Way::Advance | Way::AdvanceOrRaise) {
            assert_eq!(
                body(&mut heir.session).await,
                ["by 7"],
                "{way:?}: behind the guard it sees all that was written"
            );
        }
        heir.commit().await;
        assert_eq!(body(&mut observer).await, ["by 9"], "{way:?}");
        assert!(!zombie.write().await, "{way:?}: now it is too late");
    }
}

#[tokio::test]
async fn a_zombie_that_began_first_and_comes_late_leaves_nothing_behind() {
    let database = reports("zombie_late").await;
    let mut observer = database.session().await;
    for way in WAYS {
        first_report(&mut observer).await;
        let (mut zombie, mut heir) =
            (Holder::new(&database, way, 7).await, Holder::new(&database, way, 9).await);
        zombie.begin().await;
        // It looked, found that it may write, and has even written elsewhere.
        assert_eq!(body(&mut zombie.session).await, ["by 1"], "{way:?}");
        let elsewhere = "INSERT INTO reports (id, body) VALUES (2, 'by 7')";
        assert_eq!(zombie.session.run(elsewhere).await, ["INSERT 0 1"]);
        assert!(heir.write().await, "{way:?}");
        zombie.send().await;
        assert!(!zombie.is_taken().await, "{way:?}");
        zombie.roll_back().await;
        assert_eq!(body(&mut observer).await, ["by 9"], "{way:?}");
    }
}

#[tokio::test]
async fn a_forgotten_check_cannot_pass_where_an_error_is_raised() {
    let database = reports("forgotten_check").await;
    let mut observer = database.session().await;
    assert!(Holder::new(&database, Way::AdvanceOrRaise, 9).await.write().await);
    let mut zombie = Holder::new(&database, Way::AdvanceOrRaise, 7).await;
    zombie.begin().await;
    zombie.send().await;
    assert!(!zombie.is_taken().await);
    // It goes on as if nothing had happened.
    zombie.session.run("UPDATE reports SET body = 'by 7'").await;
    assert_eq!(zombie.session.run("COMMIT").await, ["ROLLBACK"]);
    assert_eq!(body(&mut observer).await, ["by 9"]);
}

#[tokio::test]
async fn a_zombie_frozen_inside_its_transaction_is_put_out_by_the_idle_timeout() {
    let database = reports("zombie_inside").await;
    let (mut zombie, mut heir) =
        (Holder::new(&database, Way::Advance, 7).await, Holder::new(&database, Way::Advance, 9).await);
    zombie.begin().await;
    zombie.send().await;
    assert!(zombie.is_taken().await);
    // From here on, so that a slow machine does not put it out earlier.
    assert_eq!(zombie.session.run("SET idle_in_transaction_session_timeout = '200ms'").await, ["SET"]);
    // It says nothing more. The holder waits until the server has put it out.
    assert!(heir.write().await);
    let last_words = zombie.session.run("COMMIT").await;
    assert!(last_words[0].contains("25P03"), "{last_words:?}");
    assert_eq!(body(&mut heir.session).await, ["by 9"]);
}
