//! The kernel's list of our children.
//!
//! Everyone who descends from a job is either below one of our children or one of them: when a process dies, its children
//! become ours. Only we remove anyone from the list, by reaping, and newcomers are put at its end; so whoever is not found
//! by a reading from front to back, and not below someone who is, was gone before it ended.
//!
//! The list is a thread's. Orphans go to the first thread of their new parent, which is the one that reads it; leaders stay
//! with the thread that started them. A leader can also put a sibling beside itself (`CLONE_PARENT`), so those lists are
//! looked at too when nobody may be missed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use rustix::process::{Pid, WaitOptions, getpgid, getpgrp, getpid, getsid, waitpid};

use crate::procfs;

/// How much of a list is read at a time.
const CHUNK_BYTES: usize = 4096;

pub(super) struct Children {
    orphans: List,
    /// Of the threads that start leaders.
    siblings: Vec<List>,
    program: PathBuf,
}

struct List(File);

impl Children {
    /// Those of the first thread. An error means that this kernel has no such list (`CONFIG_PROC_CHILDREN`).
    pub(super) fn open() -> io::Result<Children> {
        let program = fs::read_link("/proc/self/exe")?;
        Ok(Children { orphans: List::of(getpid())?, siblings: Vec::new(), program })
    }

    /// This thread starts leaders.
    pub(super) fn add_thread(&mut self, thread: Pid) -> io::Result<()> {
        self.siblings.push(List::of(thread)?);
        Ok(())
    }

    /// Reaps the orphans who are dead, and returns the others.
    pub(super) fn orphans(&self) -> io::Result<Vec<Pid>> {
        loop {
            let mut orphans = self.orphans.read()?;
            let before = orphans.len();
            orphans.retain(|orphan| !reap(*orphan));
            // One who died after the list was read may have left children that were not on it.
            if orphans.len() == before {
                return Ok(orphans);
            }
        }
    }

    /// Those who live beside leaders and are none; the dead ones are reaped. To be asked before the orphans, who may be
    /// theirs.
    pub(super) fn siblings(
        &self,
        is_leader: impl Fn(Pid) -> bool,
        is_starting: bool,
    ) -> io::Result<Vec<Pid>> {
        let mut siblings = Vec::new();
        for list in &self.siblings {
            siblings.extend(list.read()?.into_iter().filter(|child| !is_leader(*child)));
        }
        siblings.retain(|child| {
            if procfs::stat(*child).is_none_or(|stat| stat.is_zombie) {
                let is_anothers = is_starting && may_be_newborn(*child);
                return !is_anothers && !reap(*child);
            }
            // Before its exec a leader still runs our own program.
            !fs::read_link(format!("/proc/{child}/exe")).is_ok_and(|program| program == self.program)
        });
        Ok(siblings)
    }
}

impl List {
    fn of(thread: Pid) -> io::Result<List> {
        File::open(format!("/proc/self/task/{thread}/children")).map(List)
    }

    fn read(&self) -> io::Result<Vec<Pid>> {
        let mut text = Vec::new();
        loop {
            let length = text.len();
            text.resize(length + CHUNK_BYTES, 0);
            let read = self.0.read_at(&mut text[length..], length as u64)?;
            text.truncate(length + read);
            if read == 0 {
                break;
            }
        }
        let words = text.split(|byte| *byte == b' ').filter_map(|word| str::from_utf8(word).ok());
        Ok(words.filter_map(|word| Pid::from_raw(word.parse().ok()?)).collect())
    }
}

/// Whether it may be a leader that was not announced yet, whom we must neither reap nor kill: one is in our session, and in
/// our group until it leads its own.
pub(super) fn may_be_newborn(child: Pid) -> bool {
    getpgid(Some(child)).is_ok_and(|group| group == child || group == getpgrp())
        && getsid(Some(child)).ok() == getsid(None).ok()
}

/// Whether it was dead; it is gone for good then.
fn reap(child: Pid) -> bool {
    !matches!(waitpid(Some(child), WaitOptions::NOHANG), Ok(None))
}
