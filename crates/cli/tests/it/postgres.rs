//! A test's own database in the cluster that all tests share, and sessions on it through PostgreSQL's own `psql`.

use std::path::Path;
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use pg_cluster::{Cluster, USER};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// How long a statement may take, or may take to wait for a lock.
const PATIENCE: Duration = Duration::from_secs(30);
/// Follows each statement's answer.
const END: &str = "-- end of the answer --";

/// A database of one test. The last one to be dropped ends the cluster.
pub(crate) struct Database {
    cluster: Arc<Cluster>,
    name: String,
}

impl Database {
    /// Creates one of this name, which no other test may use.
    pub(crate) fn create(name: &str) -> Database {
        let cluster = Cluster::shared();
        cluster.create_database(name).unwrap_or_else(|error| panic!("{error}"));
        Database { cluster, name: name.to_owned() }
    }

    /// A new session.
    pub(crate) async fn session(&self) -> Session {
        Session::open(&self.cluster, &self.name).await
    }

    /// What a program needs in its environment to find it.
    pub(crate) fn environment(&self) -> [String; 5] {
        [
            "PGHOST=127.0.0.1".to_owned(),
            format!("PGPORT={}", self.cluster.port()),
            format!("PGUSER={USER}"),
            format!("PGPASSWORD={}", self.cluster.password()),
            format!("PGDATABASE={}", self.name),
        ]
    }

    /// Where the client is.
    pub(crate) fn bin(&self) -> &Path {
        self.cluster.binaries()
    }
}

/// One `psql` that is told statement by statement what to do. Dropping it ends it.
pub(crate) struct Session {
    _psql: Child,
    input: ChildStdin,
    output: Lines<BufReader<ChildStdout>>,
    /// The server's process that serves it.
    backend: String,
}

impl Session {
    async fn open(cluster: &Cluster, database: &str) -> Session {
        // Errors belong to the answers, in the order in which they come. They are told by their SQLSTATE.
        let mut psql = tokio::process::Command::new("sh")
            .args(["-c", r#"exec "$0" "$@" 2>&1"#])
            .arg(cluster.binaries().join("psql"))
            .args(["-X", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-d", &cluster.url(database)])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()
            .expect("psql starts");
        let input = psql.stdin.take().expect("it is piped");
        let output = BufReader::new(psql.stdout.take().expect("it is piped")).lines();
        let mut session = Session { _psql: psql, input, output, backend: String::new() };
        session.backend = session.run("SELECT pg_backend_pid()").await.remove(0);
        session
    }

    /// Runs a statement. The answer has its rows, then what was done, such as `UPDATE 1` or `ERROR:  23505`.
    pub(crate) async fn run(&mut self, statement: &str) -> Vec<String> {
        self.send(statement).await;
        self.answer().await
    }

    /// Sends a statement that may have to wait; its [`answer`](Self::answer) must be heard before the next one.
    pub(crate) async fn send(&mut self, statement: &str) {
        let text = format!("{};\n\\echo {END}\n", statement.trim_end_matches(';'));
        self.input.write_all(text.as_bytes()).await.expect("psql listens");
    }

    /// What the statement that was sent came to.
    pub(crate) async fn answer(&mut self) -> Vec<String> {
        let mut answer = Vec::new();
        let hearing = async {
            // A session that was ended has last words, and no end of the answer.
            while let Some(line) = self.output.next_line().await.expect("text").filter(|line| line != END) {
                answer.push(line);
            }
        };
        tokio::time::timeout(PATIENCE, hearing).await.expect("the statement ends in time");
        answer
    }

    /// Returns when another session's statement waits for a lock.
    pub(crate) async fn sees_waiting(&mut self, other: &Session) {
        let question = format!("SELECT cardinality(pg_blocking_pids({})) > 0", other.backend);
        let seeing = async { while self.run(&question).await[0] != "t" {} };
        tokio::time::timeout(PATIENCE, seeing).await.expect("the other session waits");
    }
}
