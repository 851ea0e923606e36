//! The two things that have no safe form: what a leader does between fork and exec, and giving memory back. The only unsafe
//! place of the project.

use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::process::Command;

use rustix::mm::{Advice, madvise};
use rustix::process::{Pid, Signal, getppid, set_parent_process_death_signal};

/// Ties a leader to the guardian: it joins its cgroup, if it has one, and dies when the guardian does.
#[expect(unsafe_code, reason = "there is no other way to do something in the child before its exec")]
pub(super) fn tie(command: &mut Command, guardian: Pid, entrance: Option<OwnedFd>) {
    let tie = move || {
        if let Some(entrance) = &entrance {
            rustix::io::write(entrance, b"0")?;
        }
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // A guardian that died before the line above would never send the signal.
        if getppid() != Some(guardian) {
            return Err(io::Error::from(rustix::io::Errno::SRCH));
        }
        Ok(())
    };
    // SAFETY: the closure runs in the forked child and makes three system calls (write, prctl, getppid) through rustix,
    // which issues them directly. It takes no lock, allocates nothing (an error is a bare number), and touches no memory but
    // its own captured values; the descriptor it borrows lives as long as it does.
    unsafe { command.pre_exec(tie) };
}

/// Gives back the parts of program and libraries that only the start needed. What is needed again is read again.
#[expect(unsafe_code, reason = "telling the kernel about memory has no safe form")]
pub(super) fn shed() {
    for (start, length) in untouched_files(&fs::read_to_string("/proc/self/smaps").unwrap_or_default()) {
        // SAFETY: the mapping is one of a file, not writable, and has no page that differs from it (`Anonymous: 0`), so
        // dropping its pages loses nothing: the next access finds the same bytes in the file, which stays open as long as it
        // is mapped. A mapping that is gone by now is an error, which is ignored.
        let _ = unsafe { madvise(start as *mut _, length, Advice::LinuxDontNeed) };
    }
}

/// Start and length of every mapping in this listing that shows a file as it is, and cannot be written.
fn untouched_files(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut candidate = None;
    for line in smaps.lines() {
        let mut words = line.split_ascii_whitespace();
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if let Some((start, end)) = first.split_once('-') {
            let number = |text| usize::from_str_radix(text, 16).ok();
            let is_file = words.nth(2).is_some_and(|inode| inode != "0");
            candidate = match (number(start), number(end)) {
                (Some(start), Some(end)) if is_file && ["r--p", "r-xp"].contains(&second) => {
                    Some((start, end.saturating_sub(start)))
                }
                _ => None,
            };
        } else if first == "Anonymous:" && second == "0" {
            found.extend(candidate.take());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_untouched_read_only_files_are_shed() {
        let mapping = |range: &str, rights: &str, inode: u32, anonymous: u32| {
            format!(
                "{range} {rights} 00000000 fe:00 {inode}   /bin/x\nRss: 8 kB\nAnonymous:   {anonymous} kB\nSwap: 0 kB\n"
            )
        };
        let smaps = [
            mapping("1000-3000", "r-xp", 7, 0),
            mapping("3000-4000", "r--p", 7, 4),
            mapping("4000-5000", "rw-p", 7, 0),
            mapping("5000-6000", "r--p", 0, 0),
            mapping("6000-7000", "r--p", 7, 0),
        ]
        .concat();
        assert_eq!(untouched_files(&smaps), [(0x1000, 0x2000), (0x6000, 0x1000)]);
        assert_eq!(untouched_files("no listing - at all\nAnonymous: 0 kB"), []);
    }
}
