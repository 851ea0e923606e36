//! What went wrong, on standard error, for whoever reads the worker's.

use std::io::{self, Write};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// The longest complaint: what a pipe that has room at all takes without waiting.
const BYTES_MAX: usize = 4096;

/// Says it if that is possible at once. A reader that is stuck or gone must not hold up a guardian.
pub(super) fn complain(what: &str) {
    let stderr = io::stderr();
    let now = Timespec { tv_sec: 0, tv_nsec: 0 };
    let has_room = poll(&mut [PollFd::new(&stderr, PollFlags::OUT)], Some(&now)).is_ok_and(|ready| ready > 0);
    if has_room {
        let line = format!("guardian: {what}\n");
        let _ = stderr.lock().write_all(&line.as_bytes()[..line.len().min(BYTES_MAX)]);
    }
}
