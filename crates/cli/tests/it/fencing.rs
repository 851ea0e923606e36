//! The user's own fence: the user's own database refuses what a zombie writes. First the statements by themselves, then a real
//! zombie. What `docs/fencing.md` shows is what runs here.

mod postgres;
mod sqlite;

use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use cli::fleet::Process;
use rusqlite::{Connection, OptionalExtension as _, TransactionBehavior};
use rustix::fs::{CWD, FileType, Mode, mknodat};
use rustix::process::Signal;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};
use worker::{JobContext, JobError, Worker, fencing};

use crate::postgres::Database;
use crate::support::{Fleet, tenure};

const PAGE: &str = include_str!("../../../../docs/fencing.md");
/// How long a job may take to get where the test wants it, the end of a lease included.
const PATIENCE: Duration = Duration::from_secs(30);

/// The SQL that the page shows under this name.
fn on_the_page(name: &str) -> &'static str {
    block(&format!("```sql {name}\n"))
}

fn block(opening: &str) -> &'static str {
    let (_, rest) =
        PAGE.split_once(opening).unwrap_or_else(|| panic!("docs/fencing.md has a block {opening:?}"));
    rest.split_once("\n```").expect("the block ends").0
}

/// A folder with the page's shell script, and a `make-report` beside it that says when it begins and waits for its text.
struct Scripts<'a> {
    home: &'a Path,
    told: Lines<BufReader<pipe::Receiver>>,
}

impl<'a> Scripts<'a> {
    fn new(home: &'a Path) -> Self {
        std::fs::write(home.join("report.sh"), block("```sh\n")).expect("it can be written");
        // Both ends of the pipes stay open here, so that nobody waits for the other to open it.
        let make = "#!/bin/sh\necho \"$NAME begins\" > \"$HOME/told\"\nread -r text < \"$HOME/text-$NAME\"\necho \"$text\"\n";
        std::fs::write(home.join("make-report"), make).expect("it can be written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(home.join("make-report"), executable).expect("it is ours");
        let told = pipe_at(home.join("told"));
        let told = pipe::OpenOptions::new().read_write(true).open_receiver(told).expect("a pipe");
        Scripts { home, told: BufReader::new(told).lines() }
    }

    /// Starts a worker that runs the page's script for each job, and says how that ended.
    fn worker(&self, fleet: &Fleet, database: &Database, name: &str) -> Process {
        let home = self.home.display();
        let path = format!(
            "PATH={home}:{}:{}",
            database.bin().display(),
            std::env::var("PATH").expect("a search path")
        );
        let run = r#"sh "$HOME/report.sh" 2> "$HOME/$NAME.err"; code=$?; echo "$NAME ends $code" > "$HOME/told"; exit $code"#;
        let mut args: Vec<String> =
            ["worker", "--server", &fleet.server.url, "--queue", "q", "--", "env"].map(str::to_owned).into();
        args.extend([path, format!("HOME={home}"), format!("NAME={name}")]);
        args.extend(database.environment());
        args.extend(["sh", "-c", run].map(str::to_owned));
        Process::start(tenure(), args, &self.home.join(format!("{name}.log"))).expect("the worker starts")
    }

    /// Hears this from the scripts next.
    async fn hear(&mut self, expected: &str) {
        let line = tokio::time::timeout(PATIENCE, self.told.next_line()).await.expect(expected);
        assert_eq!(line.expect("text"), Some(expected.to_owned()));
    }

    fn errors_of(&self, name: &str) -> String {
        std::fs::read_to_string(self.home.join(format!("{name}.err"))).expect("it has begun")
    }
}

/// Gives a script the text that it waits for.
struct Text(pipe::Sender);

impl Text {
    fn of(home: &Path, name: &str) -> Text {
        let path = pipe_at(home.join(format!("text-{name}")));
        Text(pipe::OpenOptions::new().read_write(true).open_sender(path).expect("a pipe"))
    }

    async fn give(&mut self, text: &str) {
        self.0.write_all(format!("{text}\n").as_bytes()).await.expect("the pipe takes a line");
    }
}

fn pipe_at(path: PathBuf) -> PathBuf {
    mknodat(CWD, &path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).expect("a pipe can be made");
    path
}

#[tokio::test]
async fn the_shell_job_of_a_frozen_worker_is_refused_by_the_users_own_table() {
    let database = Database::create("zombie_shell");
    let mut session = database.session().await;
    session.run("CREATE TABLE reports (id bigint PRIMARY KEY, body text)").await;
    session.run("INSERT INTO reports VALUES (1, 'nothing yet')").await;
    session.run(fencing::postgres::CREATE_TABLE).await;
    session.run(fencing::postgres::CREATE_FUNCTION).await;

    let fleet = Fleet::start(&["--lease", "1s"]).await;
    let mut scripts = Scripts::new(fleet.home.path());
    let mut text_of_zombie = Text::of(fleet.home.path(), "zombie");
    let mut text_of_heir = Text::of(fleet.home.path(), "heir");
    let id = fleet.enqueue(1).await[0];

    let zombie = scripts.worker(&fleet, &database, "zombie");
    scripts.hear("zombie begins").await;
    let begun = fleet.job(id).await.fence;
    // Only the worker is frozen: its shell does not know, and would go on for as long as it likes.
    zombie.signal(Signal::STOP).expect("it was running");

    let _heir = scripts.worker(&fleet, &database, "heir");
    scripts.hear("heir begins").await;
    let taken_over = fleet.job(id).await.fence;
    assert!(taken_over > begun, "a new claim has a new fence");
    text_of_heir.give("by the heir").await;
    scripts.hear("heir ends 0").await;

    text_of_zombie.give("by the zombie").await;
    scripts.hear("zombie ends 3").await;
    let errors = scripts.errors_of("zombie");
    assert!(errors.contains(&format!("stale fence {begun} for report/1")), "{errors}");

    zombie.signal(Signal::CONT).expect("it is still there");
    let shown = fleet.ended(&[id]).await.remove(0);
    assert_eq!((shown.state.as_str(), shown.fence, shown.lost), ("completed", taken_over, 1));
    assert_eq!(session.run("SELECT body FROM reports").await[0], "by the heir");
    let guard = session.run("SELECT fence FROM tenure_fences WHERE resource = 'report/1'").await;
    assert_eq!(guard[0], taken_over.to_string());
}

/// Writes a report to the user's own database, behind the guard. Whether the fence was taken.
fn write_behind_guard(file: &Path, fence: i64) -> rusqlite::Result<bool> {
    let mut db = Connection::open(file)?;
    let transaction = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
    let guard = ("report/1", fence);
    let advanced =
        transaction.query_row(fencing::sqlite::ADVANCE, guard, |row| row.get::<_, i64>(0)).optional()?;
    if advanced.is_some() {
        transaction.execute("UPDATE reports SET body = ?1", [format!("by {fence}")])?;
        transaction.commit()?;
    }
    Ok(advanced.is_some())
}

#[tokio::test]
async fn a_handler_deaf_to_its_loss_is_refused_by_the_users_own_table() {
    let fleet = Fleet::start(&[]).await;
    let file = fleet.home.path().join("reports.db");
    let db = Connection::open(&file).expect("a new file");
    db.execute_batch("CREATE TABLE reports (body TEXT); INSERT INTO reports VALUES ('nothing yet')")
        .expect("SQL");
    db.execute_batch(fencing::sqlite::CREATE_TABLE).expect("SQL");

    // Each start says under which fence, waits until it is let go, whatever happens meanwhile, and writes.
    let (begins, mut begun) = mpsc::unbounded_channel();
    let handler = move |ctx: JobContext, _: Bytes| {
        let (file, begins) = (file.clone(), begins.clone());
        async move {
            let ((go, gate), (told, verdict)) = (oneshot::channel::<()>(), oneshot::channel());
            let fence = ctx.fence().get();
            let _ = begins.send((fence, go, verdict));
            let _ = gate.await;
            let _ = told.send(write_behind_guard(&file, fence));
            Ok::<Bytes, JobError>(Bytes::new())
        }
    };
    let id = fleet.enqueue(1).await[0];
    // A worker that is patient with handlers that do not stop, and has room for both.
    let worker = Worker::builder(&fleet.server.url)
        .queue("q")
        .concurrency(2)
        .grace(2 * PATIENCE)
        .kill_wait(PATIENCE)
        .handle_raw("*", handler)
        .build()
        .expect("a valid worker");
    let key = worker.key().clone();
    let running = tokio::spawn(worker.run_until(std::future::pending()));
    let (zombie, let_zombie_go, zombie_took) = begun.recv().await.expect("the job begins");
    // It is told that its job is lost, and the job begins again, under the worker's new key.
    let (status, shown) = fleet.http("POST", &format!("/v1/workers/{key}/kick"), "").await;
    assert_eq!(status, 200, "{shown}");
    let (heir, let_heir_go, heir_took) = begun.recv().await.expect("the job begins again");
    assert!(heir > zombie, "a new claim has a new fence");

    let_heir_go.send(()).expect("it waits");
    assert_eq!(heir_took.await.expect("it writes"), Ok(true));
    let_zombie_go.send(()).expect("it waits");
    assert_eq!(zombie_took.await.expect("it tries to write"), Ok(false));
    let body: String = db.query_row("SELECT body FROM reports", [], |row| row.get(0)).expect("a report");
    assert_eq!(body, format!("by {heir}"));
    assert_eq!(fleet.ended(&[id]).await[0].fence, heir);
    running.abort();
}
