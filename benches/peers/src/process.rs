//! The other half of a measurement: a process that says `ready`, waits for a line, and then reports in lines.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use crate::Result;

/// Nothing that is measured takes longer than this without a word.
const PATIENCE: Duration = Duration::from_secs(600);

/// Killed when dropped.
pub(crate) struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Starts it and waits until it is ready.
    pub(crate) fn start<I: AsRef<str>>(program: &str, args: impl IntoIterator<Item = I>) -> Result<Process> {
        let mut child = Command::new(program)
            .args(args.into_iter().map(|arg| arg.as_ref().to_owned()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program} does not start: {error}"))?;
        let output = child.stdout.take().ok_or("no output")?;
        let mut process = Process { child, lines: read_lines(output) };
        process.expect("ready")?;
        Ok(process)
    }

    /// Lets it begin.
    pub(crate) fn go(&mut self) -> Result<Instant> {
        self.child.stdin.as_mut().ok_or("no input")?.write_all(b"go\n")?;
        Ok(Instant::now())
    }

    /// Its next line.
    pub(crate) fn line(&mut self) -> Result<String> {
        self.line_within(PATIENCE)?.ok_or_else(|| "the other process said nothing for ten minutes".into())
    }

    /// Its next line, or nothing when there was none in this time.
    pub(crate) fn line_within(&mut self, limit: Duration) -> Result<Option<String>> {
        match self.lines.recv_timeout(limit) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err("the other process ended early".into()),
        }
    }

    /// Waits for a line that starts with this word. The rest of that line.
    pub(crate) fn expect(&mut self, word: &str) -> Result<String> {
        let line = self.line()?;
        match line.strip_prefix(word) {
            Some(rest) => Ok(rest.trim().to_owned()),
            None => Err(format!("expected {word:?}, the other process said {line:?}").into()),
        }
    }

    /// Sends `-KILL` or `-STOP`.
    pub(crate) fn signal(&self, signal: &str) -> Result<()> {
        let status = Command::new("kill").args([signal, &self.child.id().to_string()]).status()?;
        if status.success() { Ok(()) } else { Err(format!("kill {signal} failed").into()) }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A thread of its own reads, so that waiting for a line can have a limit.
fn read_lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(std::io::Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    lines
}
