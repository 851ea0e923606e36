//! A private PostgreSQL cluster in a temporary directory, reached by a Unix socket alone, and sessions on it through its own
//! `psql`.

use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout};

/// How long a statement may take, or may take to wait for a lock.
const PATIENCE: Duration = Duration::from_secs(30);
/// The cluster's superuser; who may reach the socket is trusted.
const USER: &str = "tenure";
/// Follows each statement's answer.
const END: &str = "-- end of the answer --";

/// A running cluster. Dropping it stops it.
pub(crate) struct Cluster {
    home: TempDir,
    bin: PathBuf,
}

impl Cluster {
    /// The cluster of all tests that run at this time; the last one to drop it stops it.
    pub(crate) fn shared() -> Arc<Cluster> {
        static SHARED: Mutex<Weak<Cluster>> = Mutex::new(Weak::new());
        // A test that failed to start one leaves none behind.
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        shared.upgrade().unwrap_or_else(|| {
            let cluster = Arc::new(Cluster::start());
            *shared = Arc::downgrade(&cluster);
            cluster
        })
    }

    fn start() -> Cluster {
        let bin = find().expect("PostgreSQL's server binaries are installed; `cargo xtask postgres` does it");
        let cluster = Cluster { home: tempfile::tempdir().expect("a temporary directory"), bin };
        if let Some((user, group)) = server_user() {
            chown(cluster.home.path(), Some(user), Some(group)).expect("we are root");
        }
        cluster.server("initdb", &["--no-sync", "--auth=trust", "--encoding=UTF8", "--locale=C", "-U", USER]);
        // Its directory is also where its socket lies. Nothing here must survive a power failure.
        let options = format!("-k '{}' -c listen_addresses='' -F", cluster.home.path().display());
        cluster.server("pg_ctl", &["start", "-w", "-l", "server.log", "-o", &options]);
        cluster
    }

    /// Creates a database of this name, which no other test may use.
    pub(crate) async fn database(self: &Arc<Self>, name: &str) -> Database {
        let mut session = Session::open(self, "postgres").await;
        assert_eq!(session.run(&format!("CREATE DATABASE {name}")).await, ["CREATE DATABASE"]);
        Database { cluster: Arc::clone(self), name: name.to_owned() }
    }

    /// Runs one of the server's own programs to its end, as a user who may.
    fn server(&self, program: &str, args: &[&str]) {
        let home = self.home.path();
        let mut command = Command::new(self.bin.join(program));
        command.arg("-D").arg(home.join("data")).args(args).current_dir(home);
        // Files instead of pipes, since a server that stays would keep a pipe open.
        let talk = || std::fs::File::options().create(true).append(true).open(home.join("start.log"));
        command.stdin(Stdio::null()).stdout(talk().expect("a log")).stderr(talk().expect("a log"));
        if let Some((user, group)) = server_user() {
            command.uid(user).gid(group);
        }
        let status = command.status().expect("it can be started");
        let log = |name: &str| std::fs::read_to_string(home.join(name)).unwrap_or_default();
        assert!(status.success(), "{program}: {status}\n{}{}", log("start.log"), log("server.log"));
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // By the process id in its data directory. A cluster that failed to start has none.
        if self.home.path().join("data/postmaster.pid").exists() {
            self.server("pg_ctl", &["stop", "-w", "-m", "immediate"]);
        }
    }
}

/// A database of one test.
pub(crate) struct Database {
    cluster: Arc<Cluster>,
    name: String,
}

impl Database {
    /// A new session.
    pub(crate) async fn session(&self) -> Session {
        Session::open(&self.cluster, &self.name).await
    }

    /// What a program needs in its environment to find it.
    pub(crate) fn environment(&self) -> [String; 3] {
        let host = self.cluster.home.path().display();
        [format!("PGHOST={host}"), format!("PGUSER={USER}"), format!("PGDATABASE={}", self.name)]
    }

    /// Where the client is.
    pub(crate) fn bin(&self) -> &Path {
        &self.cluster.bin
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
            .arg(cluster.bin.join("psql"))
            .args(["-X", "-A", "-t", "-v", "VERBOSITY=sqlstate", "-U", USER, "-d", database, "-h"])
            .arg(cluster.home.path())
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

/// Where the server's binaries are: on the path, or the newest version where Debian keeps them.
fn find() -> Option<PathBuf> {
    let is_complete = |folder: &PathBuf| {
        ["initdb", "pg_ctl", "postgres", "psql"].iter().all(|name| folder.join(name).is_file())
    };
    let version = |entry: std::fs::DirEntry| {
        let number: u32 = entry.file_name().to_str()?.split('.').next()?.parse().ok()?;
        Some((number, entry.path().join("bin")))
    };
    std::env::split_paths(&std::env::var_os("PATH").unwrap_or_default()).find(is_complete).or_else(|| {
        let installed = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten().filter_map(version);
        installed.filter(|(_, folder)| is_complete(folder)).max().map(|(_, folder)| folder)
    })
}

/// User and group for the server, which refuses to run as root; `None` when we are somebody else already.
fn server_user() -> Option<(u32, u32)> {
    if !rustix::process::geteuid().is_root() {
        return None;
    }
    let users = std::fs::read_to_string("/etc/passwd").expect("the list of users");
    let entry = |name: &str| {
        let mut fields =
            users.lines().map(|line| line.split(':')).find(|line| line.clone().next() == Some(name))?;
        // name:password:user:group:…
        Some((fields.nth(2)?.parse().ok()?, fields.next()?.parse().ok()?))
    };
    Some(entry("postgres").or_else(|| entry("nobody")).expect("a user who is not root"))
}
