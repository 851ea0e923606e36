//! One `psql` that stays connected and is told statement by statement what to do.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use pg_cluster::Cluster;

/// How long an answer that must come may take.
const PATIENCE: Duration = Duration::from_secs(30);
/// How long silence must last to be believed. An answer that is not held up comes within a few milliseconds; on a machine that is
/// slower than this, a test could pass wrongly, never fail wrongly.
const SILENCE: Duration = Duration::from_millis(500);

/// Dropping it ends it.
pub(crate) struct Session {
    psql: Child,
    input: ChildStdin,
    answers: Receiver<String>,
}

impl Session {
    pub(crate) fn open(cluster: &Cluster, url: &str) -> Session {
        let mut psql = Command::new(cluster.binaries().join("psql"))
            .args(["-X", "-q", "-A", "-t", "-d", url])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .expect("psql starts");
        let input = psql.stdin.take().expect("it is piped");
        let output = BufReader::new(psql.stdout.take().expect("it is piped"));
        let (heard, answers) = channel();
        thread::spawn(move || output.lines().map_while(Result::ok).try_for_each(|line| heard.send(line)));
        Session { psql, input, answers }
    }

    /// Sends statements whose answers come one line at a time.
    pub(crate) fn send(&mut self, statements: &str) {
        self.input.write_all(statements.as_bytes()).expect("psql listens");
        self.input.write_all(b";\n").expect("psql listens");
    }

    /// The next line of the answers; `None` when the session was ended.
    pub(crate) fn hear(&mut self) -> Option<String> {
        match self.answers.recv_timeout(PATIENCE) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("no answer in time"),
        }
    }

    /// Sends a statement and hears the first line of its answer.
    pub(crate) fn ask(&mut self, statement: &str) -> String {
        self.send(statement);
        self.hear().expect("an answer")
    }

    /// Whether nothing is heard for a while.
    pub(crate) fn is_silent(&mut self) -> bool {
        self.answers.recv_timeout(SILENCE) == Err(RecvTimeoutError::Timeout)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        let _ = self.psql.kill();
        let _ = self.psql.wait();
    }
}
