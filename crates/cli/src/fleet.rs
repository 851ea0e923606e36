//! Real processes for `bench` and `demo`: this very binary as a server and as workers, ended by pid when dropped.

use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rustix::process::{Pid, Resource, Rlimit, Signal, getrlimit, kill_process, prlimit};
use serde::Deserialize;
use tokio::io::{AsyncBufReadExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};

/// How long a process gets to come up or to go down.
const PATIENCE: Duration = Duration::from_secs(30);

/// The file this program was started from.
pub(crate) fn this_program() -> Result<PathBuf> {
    std::env::current_exe().context("cannot find this program's own file")
}

/// One process of ours. Dropping it kills it.
pub struct Process {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Process {
    /// Starts the `tenure` binary `exe` with these arguments; its talk goes to `log`.
    pub fn start<S: AsRef<OsStr>>(
        exe: &Path,
        args: impl IntoIterator<Item = S>,
        log: &Path,
    ) -> Result<Process> {
        let log = std::fs::File::options().create(true).append(true).open(log)?;
        let mut command = Command::new(exe);
        let is_setting =
            |name: &OsStr| name == "DATABASE_URL" || name.to_string_lossy().starts_with("TENURE_");
        for (name, _) in std::env::vars_os().filter(|(name, _)| is_setting(name)) {
            // Settings of the user's own server are not meant for this one.
            command.env_remove(name);
        }
        let mut child = command
            .args(args)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(log)
            .kill_on_drop(true)
            .spawn()
            .context("cannot start another process of this program")?;
        let stdout = child.stdout.take().context("the child has no output")?;
        Ok(Process { child, lines: BufReader::new(stdout).lines() })
    }

    /// The next line it prints.
    pub async fn line(&mut self) -> Result<String> {
        match tokio::time::timeout(PATIENCE, self.lines.next_line()).await {
            Ok(Ok(Some(line))) => Ok(line),
            Ok(Ok(None)) => bail!("a process ended early"),
            Ok(Err(error)) => Err(error.into()),
            Err(_) => bail!("a process said nothing for {PATIENCE:?}"),
        }
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) -> Result<()> {
        kill_process(self.pid()?, signal).context("cannot signal a process of ours")
    }

    /// Limits the size of the files it may write, in bytes, or lifts the limit: a disk that is full and has room again.
    pub fn limit_file_size(&self, bytes: Option<u64>) -> Result<()> {
        let maximum = getrlimit(Resource::Fsize).maximum;
        prlimit(Some(self.pid()?), Resource::Fsize, Rlimit { current: bytes.or(maximum), maximum })?;
        Ok(())
    }

    /// Waits for its end.
    pub async fn ended(&mut self) -> Result<ExitStatus> {
        match tokio::time::timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => Ok(status?),
            Err(_) => bail!("a process did not end within {PATIENCE:?}"),
        }
    }

    /// Its process id.
    pub fn pid(&self) -> Result<Pid> {
        self.child.id().and_then(|pid| Pid::from_raw(pid as i32)).context("the process has ended already")
    }
}

/// A server of ours.
pub struct Server {
    /// The process.
    pub process: Process,
    /// Where it listens.
    pub url: String,
    /// Where other nodes reach it, if it is in a cluster.
    pub gossip: Option<SocketAddr>,
}

#[derive(Deserialize)]
struct Announcement {
    url: String,
    gossip: Option<SocketAddr>,
}

impl Server {
    /// Starts a server with its data in `data`, on a free port of the loopback device and with little talk unless `more`
    /// says otherwise.
    pub async fn start(exe: &Path, data: &Path, more: &[&str]) -> Result<Server> {
        let path = data.to_str().context("the data directory's name is not UTF-8")?;
        let mut args = vec!["serve", "--json", "--data", path];
        for (flag, value) in [("--listen", "127.0.0.1:0"), ("--log-level", "warn")] {
            if !more.contains(&flag) {
                args.extend([flag, value]);
            }
        }
        args.extend(more);
        let log = data.with_extension("server.log");
        let mut process = Process::start(exe, args, &log)?;
        let line = process
            .line()
            .await
            .with_context(|| format!("the server did not start: {}", last_words(&log)))?;
        let announcement: Announcement =
            serde_json::from_str(&line).context("the server's first line is not JSON")?;
        Ok(Server { process, url: announcement.url, gossip: announcement.gossip })
    }
}

/// The last line of a log, which usually says why.
fn last_words(log: &Path) -> String {
    let text = std::fs::read_to_string(log).unwrap_or_default();
    text.lines().last().unwrap_or("it said nothing").to_owned()
}
