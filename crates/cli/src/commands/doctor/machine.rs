//! The clocks and limits of this machine.

use clock::SystemClock;
use model::{Clock, Instant, WallTime};
use rustix::process::{Resource, getrlimit};

use super::Finding;
use crate::date;

/// A clock before this was never set: the program did not exist yet (2025-01-01).
const WALL_MIN: WallTime = WallTime::from_millis(1_735_689_600_000);
/// A clock beyond this is wrong too (2100-01-01).
const WALL_MAX: WallTime = WallTime::from_millis(4_102_444_800_000);
/// Each worker and client takes one.
const OPEN_FILES_MIN: u64 = 1_024;

pub(super) fn wall_clock() -> Finding {
    judge_wall_clock(SystemClock.wall())
}

pub(super) fn boot_clock() -> Finding {
    let name = "boot clock";
    let now = SystemClock.monotonic();
    if now == Instant::ZERO {
        return Finding::fail(name, "CLOCK_BOOTTIME cannot be read", "run on Linux 2.6.39 or newer");
    }
    Finding::ok(name, "CLOCK_BOOTTIME can be read; leases count suspended time")
}

pub(super) fn open_files() -> Finding {
    let limit = getrlimit(Resource::Nofile);
    judge_open_files(limit.current, limit.maximum)
}

fn judge_wall_clock(now: WallTime) -> Finding {
    let name = "wall clock";
    let shown = date::show(now);
    if now < WALL_MIN || now > WALL_MAX {
        let mend = "set the clock, best by NTP; scheduled jobs follow it";
        return Finding::fail(name, format!("it says {shown}"), mend);
    }
    Finding::ok(name, shown)
}

/// `None` means unlimited. The server raises the soft limit to the hard one by itself.
fn judge_open_files(soft: Option<u64>, hard: Option<u64>) -> Finding {
    let name = "open files";
    let show = |limit: Option<u64>| limit.map_or("unlimited".to_owned(), |limit| limit.to_string());
    let found = format!("{} now, up to {} when serving", show(soft), show(hard));
    match hard {
        Some(limit) if limit < OPEN_FILES_MIN => {
            let mend = format!("allow at least {OPEN_FILES_MIN} (ulimit -Hn, or LimitNOFILE= in the unit)");
            Finding::fail(name, found, mend)
        }
        _ => Finding::ok(name, found),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn clocks_out_of_our_time_are_trouble() {
        let status = |text: &str| judge_wall_clock(date::parse(text).unwrap()).status;
        assert_eq!(status("1980-01-01T00:00:00Z"), Status::Fail);
        assert_eq!(status("2026-06-01T00:00:00Z"), Status::Ok);
        assert_eq!(status("2101-01-01T00:00:00Z"), Status::Fail);
        assert_eq!(boot_clock().status, Status::Ok);
    }

    #[test]
    fn only_the_hard_limit_of_open_files_is_trouble() {
        assert_eq!(judge_open_files(Some(256), Some(4_096)).status, Status::Ok);
        assert_eq!(judge_open_files(Some(256), Some(512)).status, Status::Fail);
        assert_eq!(judge_open_files(None, None).status, Status::Ok);
    }
}
