//! The kernel's list of our children.
//!
//! Everyone who descends from a job is either below one of our children or one of them: when a process dies, its children
//! become ours. Only we remove anyone from the list, by reaping, and newcomers are put at its end; so whoever is not found
//! by a reading from front to back, and not below someone who is, was gone before it ended.
//!
//! This needs the process to be single-threaded: the list is a thread's.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use rustix::process::{Pid, WaitOptions, getpid, waitpid};

/// How much of the list is read at a time.
const CHUNK_BYTES: usize = 4096;

pub(super) struct Children {
    list: File,
}

impl Children {
    /// An error means that this kernel has no such list (`CONFIG_PROC_CHILDREN`).
    pub(super) fn open() -> io::Result<Children> {
        let list = File::open(format!("/proc/self/task/{}/children", getpid()))?;
        Ok(Children { list })
    }

    /// Reaps those who are dead and lead no family, and returns those who live and lead none.
    pub(super) fn strays(&self, is_leader: impl Fn(Pid) -> bool) -> io::Result<Vec<Pid>> {
        loop {
            let mut strays = self.read()?;
            strays.retain(|child| !is_leader(*child));
            let before = strays.len();
            strays.retain(|stray| !reap(*stray));
            // One who died after the list was read may have left children that were not on it.
            if strays.len() == before {
                return Ok(strays);
            }
        }
    }

    fn read(&self) -> io::Result<Vec<Pid>> {
        let mut text = Vec::new();
        loop {
            let length = text.len();
            text.resize(length + CHUNK_BYTES, 0);
            let read = self.list.read_at(&mut text[length..], length as u64)?;
            text.truncate(length + read);
            // The kernel fills what it is given, up to a number that does not fit.
            if read < CHUNK_BYTES / 2 {
                break;
            }
        }
        let words = text.split(|byte| *byte == b' ').filter_map(|word| str::from_utf8(word).ok());
        Ok(words.filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect())
    }
}

/// Whether it was dead; it is gone for good then.
fn reap(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}
