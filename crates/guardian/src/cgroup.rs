//! cgroup v2 directories: one for a guardian, below it one for each exclusive family.

use std::fs::{self, File};
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};

/// How a guardian's directory is named; its process number follows.
const PREFIX: &str = "tenure-";
/// A directory may be taken for a dead guardian's between its making and its locking. Then it is made again.
const TRIES_MAX: u32 = 16;
/// For the kernel to finish off those who were killed in a dead guardian's cgroup.
const EMPTY_WAIT: Timespec = Timespec { tv_sec: 1, tv_nsec: 0 };

/// A cgroup, by its directory.
#[derive(Debug)]
pub(crate) struct Cgroup {
    path: PathBuf,
}

impl Cgroup {
    /// The one at this path.
    pub(crate) fn at(path: impl Into<PathBuf>) -> Cgroup {
        Cgroup { path: path.into() }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// A new cgroup below it.
    pub(crate) fn branch(&self, name: &str) -> io::Result<Cgroup> {
        let path = self.path.join(name);
        fs::create_dir(&path)?;
        Ok(Cgroup { path })
    }

    /// Where a process writes "0" to join it.
    pub(crate) fn entrance(&self) -> io::Result<OwnedFd> {
        Ok(File::options().write(true).open(self.path.join("cgroup.procs"))?.into())
    }

    /// Ends everyone in it and below it, at one blow.
    pub(crate) fn kill_all(&self) {
        // An error means that it is gone already, or that looking at it will tell.
        let _ = fs::write(self.path.join("cgroup.kill"), "1");
    }

    /// Nobody is in it or below it.
    pub(crate) fn is_empty(&self) -> bool {
        match fs::read_to_string(self.path.join("cgroup.events")) {
            Ok(events) => events.lines().any(|line| line == "populated 0"),
            // Only an empty one can have been removed.
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }

    /// Waits until nobody is in it or below it, but not for long.
    fn wait_until_empty(&self) {
        let Ok(events) = File::open(self.path.join("cgroup.events")) else { return };
        while !self.is_empty() {
            let mut news = [PollFd::new(&events, PollFlags::PRI)];
            if !poll(&mut news, Some(&EMPTY_WAIT)).is_ok_and(|ready| ready > 0) {
                return;
            }
        }
    }

    /// Removes it and everything below it, as far as it is empty.
    pub(crate) fn remove_all(&self) {
        for below in directories(&self.path) {
            let _ = fs::remove_dir(below);
        }
        let _ = fs::remove_dir(&self.path);
    }

    /// Whether a process with these memberships, as `/proc` shows them, is in it.
    pub(crate) fn has(&self, memberships: &str) -> bool {
        // Where the tree is mounted matters little: the last two names, a guardian's and a family's, are unique in it.
        let mut names = self.path.iter().rev();
        let (Some(family), Some(guardian)) = (names.next(), names.next()) else { return false };
        let tail = Path::new(guardian).join(family);
        memberships
            .lines()
            .filter_map(|line| line.strip_prefix("0::"))
            .any(|path| Path::new(path).ends_with(&tail))
    }
}

/// The directory of a living guardian. Locked as long as it lives, which is how others know.
#[derive(Debug)]
pub(crate) struct Grove {
    cgroup: Arc<Cgroup>,
    _lock: File,
}

impl Grove {
    /// Makes a directory for this guardian below the cgroup it is in itself, and removes those of guardians that are
    /// dead, together with what they have left running. `None` where there is no cgroup v2 that we may write to.
    pub(crate) fn plant(guardian: u32) -> Option<Grove> {
        let own = own_cgroup()?;
        for other in directories(&own).filter(|path| is_guardians(path)) {
            fell_if_dead(&other);
        }
        for attempt in 0..TRIES_MAX {
            // Numbers repeat where several PID namespaces share a cgroup.
            let suffix = if attempt == 0 { String::new() } else { format!("-{attempt}") };
            let path = own.join(format!("{PREFIX}{guardian}{suffix}"));
            let _ = fs::create_dir(&path);
            let lock = File::open(&path).ok()?;
            if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() && path.exists() {
                let grove = Grove { cgroup: Arc::new(Cgroup::at(path)), _lock: lock };
                return if grove.is_useful() { Some(grove) } else { None };
            }
        }
        None
    }

    /// Everything of this guardian.
    pub(crate) fn cgroup(&self) -> &Arc<Cgroup> {
        &self.cgroup
    }

    /// Whether processes can be put into it and killed in it; old kernels and threaded cgroups cannot.
    fn is_useful(&self) -> bool {
        let kind = fs::read_to_string(self.cgroup.path.join("cgroup.type")).unwrap_or_default();
        let has_kill = self.cgroup.path.join("cgroup.kill").exists();
        let is_useful = has_kill && kind.trim() == "domain" && self.cgroup.entrance().is_ok();
        if !is_useful {
            self.cgroup.remove_all();
        }
        is_useful
    }
}

impl Drop for Grove {
    fn drop(&mut self) {
        self.cgroup.remove_all();
    }
}

fn directories(path: &Path) -> impl Iterator<Item = PathBuf> {
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    entries.filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir())).map(|entry| entry.path())
}

fn is_guardians(path: &Path) -> bool {
    let number = path.file_name().and_then(|name| name.to_str()?.strip_prefix(PREFIX));
    number.is_some_and(|number| number.split('-').all(|part| part.parse::<u32>().is_ok()))
}

fn fell_if_dead(path: &Path) {
    let Ok(lock) = File::open(path) else { return };
    if flock(&lock, FlockOperation::NonBlockingLockExclusive).is_ok() {
        let cgroup = Cgroup::at(path);
        cgroup.kill_all();
        cgroup.wait_until_empty();
        cgroup.remove_all();
    }
}

/// The directory of the cgroup this process is in.
fn own_cgroup() -> Option<PathBuf> {
    let memberships = fs::read_to_string("/proc/self/cgroup").ok()?;
    let mounts = fs::read_to_string("/proc/self/mountinfo").ok()?;
    own_in(&memberships, &mounts)
}

fn own_in(memberships: &str, mounts: &str) -> Option<PathBuf> {
    let own = Path::new(memberships.lines().find_map(|line| line.strip_prefix("0::"))?);
    mounts.lines().find_map(|line| {
        // "36 35 98:0 <root> <mount point> <options> … - <type> <source> <options>"
        let (front, back) = line.split_once(" - ")?;
        if back.split(' ').next()? != "cgroup2" {
            return None;
        }
        let mut fields = front.split(' ').skip(3);
        let (root, point) = (fields.next()?, fields.next()?);
        Some(Path::new(point).join(own.strip_prefix(root).ok()?))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIFIED: &str = "30 23 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw";
    const HYBRID: &str = "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n\
                          31 23 0:27 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw";
    const CONTAINER: &str = "30 23 0:26 /pods/a /sys/fs/cgroup ro - cgroup2 cgroup2 rw";

    #[test]
    fn our_cgroup_is_found_below_its_mount() {
        for (memberships, mounts, expected) in [
            ("0::/user.slice/x", UNIFIED, Some("/sys/fs/cgroup/user.slice/x")),
            ("4:memory:/m\n0::/", HYBRID, Some("/sys/fs/cgroup/unified/")),
            ("0::/pods/a/b", CONTAINER, Some("/sys/fs/cgroup/b")),
            ("0::/elsewhere", CONTAINER, None),
            ("4:memory:/m", HYBRID, None),
            ("0::/", "30 23 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu", None),
        ] {
            assert_eq!(own_in(memberships, mounts), expected.map(PathBuf::from), "{memberships} {mounts}");
        }
    }

    #[test]
    fn only_guardians_directories_are_touched() {
        for (name, expected) in
            [("tenure-12", true), ("tenure-", false), ("tenure-x", false), ("user", false)]
        {
            assert_eq!(is_guardians(&Path::new("/sys/fs/cgroup").join(name)), expected, "{name}");
        }
    }
}
