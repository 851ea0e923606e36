//! What has no safe form: starting a leader, giving memory back, and descriptors that nobody here has opened. The only unsafe
//! place of the project.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::{mem, ptr};

use rustix::mm::{Advice, madvise};
use rustix::process::{Gid, Pid, Signal, Uid, getppid, set_parent_process_death_signal, setpgid};
use rustix::thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid};

/// What a leader needs between its birth and its program: a few frames, and room for a search through `PATH`.
const STACK_BYTES: usize = 64 << 10;

/// Starts leaders. The child borrows our memory until its program runs, as with `posix_spawn`: a copy, as `fork` makes it,
/// costs several times as much, and `posix_spawn` knows neither cgroups nor the parent-death signal.
pub(super) struct Midwife {
    stack: Box<[u128]>,
}

/// A leader to be.
pub(super) struct Birth<'a> {
    pub(super) program: &'a CStr,
    pub(super) args: &'a [CString],
    pub(super) env: &'a [&'a CStr],
    pub(super) streams: [BorrowedFd<'a>; 3],
    /// The cgroup it goes to.
    pub(super) entrance: Option<BorrowedFd<'a>>,
    /// It dies when this one, its parent, does.
    pub(super) tied_to: Option<Pid>,
    /// Signals that have a handler here.
    pub(super) handled: &'a [i32],
    /// Who it becomes, if somebody else.
    pub(super) identity: Option<&'a Identity>,
}

/// A user as the kernel knows it.
pub(super) struct Identity {
    pub(super) user: Uid,
    pub(super) group: Gid,
    pub(super) groups: Box<[Gid]>,
}

/// What the child sees; all of it outlives its use, for the parent sleeps until then.
struct Cradle<'a> {
    birth: &'a Birth<'a>,
    argv: Vec<*const c_char>,
    envp: Vec<*const c_char>,
    /// Why its program does not run, if it does not.
    errno: i32,
}

impl Midwife {
    pub(super) fn new() -> Midwife {
        Midwife { stack: vec![0; STACK_BYTES / size_of::<u128>()].into_boxed_slice() }
    }

    /// Returns when its program runs, with a descriptor that is readable when it has exited. It leads a process group.
    #[expect(unsafe_code, reason = "there is no other way to do something in a child before its exec")]
    pub(super) fn deliver(&mut self, birth: &Birth<'_>) -> io::Result<(Pid, OwnedFd)> {
        if birth.streams.iter().any(|stream| stream.as_raw_fd() <= 2) {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "a stream is in the place of another"));
        }
        let ended = |words: &mut dyn Iterator<Item = *const c_char>| words.chain([ptr::null()]).collect();
        let argv =
            ended(&mut [birth.program.as_ptr()].into_iter().chain(birth.args.iter().map(|arg| arg.as_ptr())));
        let envp = ended(&mut birth.env.iter().map(|variable| variable.as_ptr()));
        let mut cradle = Cradle { birth, argv, envp, errno: 0 };
        let mut exit: RawFd = -1;
        let flags = libc::CLONE_VM | libc::CLONE_VFORK | libc::CLONE_PIDFD | libc::SIGCHLD;
        // SAFETY: with CLONE_VFORK this thread, the only one of the process, sleeps until the child has its own program or is
        // gone, so everything the child borrows (the cradle, the stack, which is used from its end) stays as it is and is
        // used by nobody else; `enter` keeps to what is allowed there. All signals are blocked meanwhile, so that no handler
        // runs in the child. The descriptor is new and ours when a number is returned.
        let number = unsafe {
            let (mut all, mut before) = (mem::zeroed(), mem::zeroed());
            libc::sigfillset(&raw mut all);
            libc::sigprocmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
            let top = self.stack.as_mut_ptr_range().end.cast::<c_void>();
            let number = libc::clone(enter, top, flags, (&raw mut cradle).cast::<c_void>(), &raw mut exit);
            let failure = io::Error::last_os_error();
            libc::sigprocmask(libc::SIG_SETMASK, &raw const before, ptr::null_mut());
            if number < 0 { Err(failure) } else { Ok((number, OwnedFd::from_raw_fd(exit))) }
        };
        let (number, exit) = number?;
        let leader = Pid::from_raw(number).expect("a child has a number");
        if cradle.errno == 0 {
            return Ok((leader, exit));
        }
        let _ = rustix::process::waitpid(Some(leader), rustix::process::WaitOptions::empty());
        Err(io::Error::from_raw_os_error(cradle.errno))
    }
}

/// The child's way to its program.
#[expect(unsafe_code, reason = "runs on borrowed memory")]
extern "C" fn enter(cradle: *mut c_void) -> c_int {
    // SAFETY: `deliver` passes its cradle, and sleeps while we have it. Nothing here allocates, locks or unwinds: system
    // calls by rustix, which makes them directly, and functions of the C library that are allowed after a fork. The
    // dispositions of signals are our own, not shared; those with a handler get their default before any signal can arrive.
    unsafe {
        let cradle = &mut *cradle.cast::<Cradle<'_>>();
        cradle.errno = match prepare(cradle.birth) {
            Ok(()) => {
                for signal in cradle.birth.handled.iter().chain(&[libc::SIGPIPE]) {
                    libc::signal(*signal, libc::SIG_DFL);
                }
                let mut none = mem::zeroed();
                libc::sigemptyset(&raw mut none);
                libc::sigprocmask(libc::SIG_SETMASK, &raw const none, ptr::null_mut());
                libc::execvpe(cradle.birth.program.as_ptr(), cradle.argv.as_ptr(), cradle.envp.as_ptr());
                *libc::__errno_location()
            }
            Err(errno) => errno.raw_os_error(),
        };
        libc::_exit(127)
    }
}

/// Puts the child in its place.
fn prepare(birth: &Birth<'_>) -> rustix::io::Result<()> {
    if let Some(entrance) = birth.entrance {
        rustix::io::write(entrance, b"0")?;
    }
    setpgid(None, None)?;
    if let Some(Identity { user, group, groups }) = birth.identity {
        // These are the kernel's own calls, which change nobody but the child. With the last one its capabilities are gone.
        set_thread_groups(groups)?;
        set_thread_res_gid(*group, *group, *group)?;
        set_thread_res_uid(*user, *user, *user)?;
    }
    // After that: a new user has this signal taken away.
    if let Some(parent) = birth.tied_to {
        set_parent_process_death_signal(Some(Signal::KILL))?;
        // One that died before the line above would never send the signal.
        if getppid() != Some(parent) {
            return Err(rustix::io::Errno::SRCH);
        }
    }
    let [stdin, stdout, stderr] = birth.streams;
    rustix::stdio::dup2_stdin(stdin)?;
    rustix::stdio::dup2_stdout(stdout)?;
    rustix::stdio::dup2_stderr(stderr)
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

/// The first descriptor that is not a standard stream.
const FIRST_DESCRIPTOR: RawFd = 3;

/// Closes everything that this process was started with besides its standard streams. For a process that has opened nothing
/// itself yet. The numbers are read from `/proc`, because `close_range` is missing in kernels that we run on.
#[expect(unsafe_code, reason = "nobody owns what is closed")]
pub(super) fn close_descriptors() {
    let entries = fs::read_dir("/proc/self/fd").into_iter().flatten().flatten();
    let numbers: Vec<RawFd> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    for descriptor in numbers.into_iter().filter(|number| *number >= FIRST_DESCRIPTOR) {
        // SAFETY: a guardian calls this first of all, when it knows that this is its only thread, so nothing in this process owns a descriptor beyond
        // the standard streams or relies on its number. That of the list itself is closed already, which is an error here.
        let _ = unsafe { libc::close(descriptor) };
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
