//! stderr of the long-running commands, written by a thread of its own. A pipe that nobody reads stops whoever writes to it,
//! so nobody else may: server and worker put their lines into a bounded queue. What does not fit is dropped and counted.

use std::borrow::Cow;
use std::io::{self, Write};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock};
use std::thread;
use std::time::{Duration, Instant};

use crate::terminal;

/// Bytes that may wait for the reader of stderr; further lines are dropped.
const QUEUE_BYTES_MAX: usize = 1 << 20;
/// How long a process that ends waits for the reader of its last lines.
const FLUSH_MAX: Duration = Duration::from_secs(1);

/// The queue of this process, from the moment it logs.
static QUEUE: OnceLock<Arc<Queue>> = OnceLock::new();

/// Lines that wait to be written.
#[derive(Default)]
pub(crate) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: Vec<u8>,
    /// The thread writes what it took out of `waiting`.
    is_writing: bool,
    has_thread: bool,
    /// Lines dropped since this was last said.
    dropped: u64,
    dropped_total: u64,
}

/// From now on lines are queued. They are written once [`start_thread`] was called, or at the end of the process.
pub(crate) fn queue() -> Arc<Queue> {
    Arc::clone(QUEUE.get_or_init(Arc::default))
}

/// Begins to write what was queued. Comes after whatever needs a process without threads.
pub(crate) fn start_thread() -> io::Result<()> {
    let queue = queue();
    let mut state = queue.lock();
    if state.has_thread {
        return Ok(());
    }
    let writer = Arc::clone(&queue);
    thread::Builder::new().name("log".to_owned()).spawn(move || {
        writer.write_to(io::stderr(), |lines| tracing::warn!(lines, "log lines dropped: nobody read stderr"));
    })?;
    state.has_thread = true;
    Ok(())
}

/// How many lines were dropped in the life of this process.
pub(crate) fn dropped() -> u64 {
    QUEUE.get().map_or(0, |queue| queue.lock().dropped_total)
}

/// Writes a line: behind what is queued, or at once in a process that queues nothing.
pub(crate) fn write_line(line: &str) {
    match QUEUE.get() {
        Some(queue) => queue.push(format!("{line}\n").as_bytes()),
        // Nobody is left to tell if stderr is closed.
        None => _ = writeln!(io::stderr().lock(), "{line}"),
    }
}

/// Sees the queued lines out, for as long as somebody reads them. For the end of a process.
pub(crate) fn flush() {
    if let Some(queue) = QUEUE.get() {
        queue.flush(FLUSH_MAX, io::stderr());
    }
}

impl Queue {
    /// Appends a line, if it fits.
    fn push(&self, line: &[u8]) {
        let mut state = self.lock();
        if state.waiting.len() + line.len() > QUEUE_BYTES_MAX {
            state.dropped += 1;
            state.dropped_total += 1;
            return;
        }
        state.waiting.extend_from_slice(line);
        drop(state);
        self.changed.notify_all();
    }

    /// Writes whatever comes, for ever.
    fn write_to(&self, mut out: impl Write, say_dropped: impl Fn(u64)) {
        loop {
            let mut state = self.lock();
            while state.waiting.is_empty() {
                state = self.changed.wait(state).expect("no panic while holding the lock");
            }
            let bytes = std::mem::take(&mut state.waiting);
            let dropped = std::mem::take(&mut state.dropped);
            state.is_writing = true;
            drop(state);
            // Nobody is left to tell if stderr is closed.
            let _ = out.write_all(&bytes).and_then(|()| out.flush());
            // Lines are dropped behind those that filled the queue, which were written just now.
            if dropped > 0 {
                say_dropped(dropped);
            }
            self.lock().is_writing = false;
            self.changed.notify_all();
        }
    }

    fn flush(&self, within: Duration, mut out: impl Write) {
        let until = Instant::now() + within;
        let mut state = self.lock();
        if !state.has_thread {
            let bytes = std::mem::take(&mut state.waiting);
            drop(state);
            let _ = out.write_all(&bytes);
            return;
        }
        while state.is_writing || !state.waiting.is_empty() {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).expect("no panic while holding the lock").0;
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no panic while holding the lock")
    }
}

/// What the formatter of log lines writes to. It hands over each line whole.
pub(crate) struct Line {
    pub(crate) queue: Arc<Queue>,
    /// For people, who may look at it on a terminal.
    pub(crate) is_text: bool,
}

impl Write for Line {
    fn write(&mut self, line: &[u8]) -> io::Result<usize> {
        let shown = if self.is_text { terminal::clean_log_line(line) } else { Cow::Borrowed(line) };
        self.queue.push(&shown);
        Ok(line.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{self, Receiver, Sender};

    use super::*;

    /// A stderr whose reader takes one write for each word from the test.
    struct Pipe {
        begun: Sender<()>,
        reads: Receiver<()>,
        written: Sender<Vec<u8>>,
    }

    impl Write for Pipe {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.begun.send(()).map_err(io::Error::other)?;
            self.reads.recv().map_err(io::Error::other)?;
            self.written.send(bytes.to_vec()).map_err(io::Error::other)?;
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_reader_that_stands_still_stops_nobody_and_what_is_dropped_is_said() {
        let queue = Arc::new(Queue::default());
        queue.lock().has_thread = true;
        let (begun, has_begun) = mpsc::channel();
        let (read, reads) = mpsc::channel();
        let (written, seen) = mpsc::channel();
        let (say, said) = mpsc::channel();
        let writer = Arc::clone(&queue);
        thread::spawn(move || writer.write_to(Pipe { begun, reads, written }, |lines| _ = say.send(lines)));

        let line = [b'x'; 1024];
        let fits = QUEUE_BYTES_MAX / line.len();
        queue.push(&line);
        // The thread has the first line in its hands, and stands still.
        has_begun.recv().unwrap();
        for _ in 0..fits + 7 {
            queue.push(&line);
        }
        assert_eq!(queue.lock().dropped_total, 7);
        queue.flush(Duration::from_millis(1), io::sink());

        read.send(()).unwrap();
        read.send(()).unwrap();
        assert_eq!(seen.recv().unwrap().len(), line.len());
        assert_eq!(seen.recv().unwrap().len(), fits * line.len());
        assert_eq!(said.recv().unwrap(), 7, "said once, behind what was written");
        queue.flush(Duration::from_secs(60), io::sink());
        assert!(queue.lock().waiting.is_empty());
    }

    #[test]
    fn without_a_thread_the_end_of_the_process_writes() {
        let queue = Queue::default();
        queue.push(b"one\n");
        queue.push(b"two\n");
        let mut out = Vec::new();
        queue.flush(Duration::ZERO, &mut out);
        assert_eq!(out, b"one\ntwo\n");
    }
}
