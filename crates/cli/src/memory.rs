//! How much memory this process may have: the machine's, or what its control groups leave it of that.

use std::fs;
use std::path::Path;

/// Where control groups are, by version 2.
const GROUPS: &str = "/sys/fs/cgroup";

/// The memory in bytes.
pub(crate) fn limit() -> u64 {
    let system = rustix::system::sysinfo();
    let machine = (system.totalram as u64).saturating_mul(u64::from(system.mem_unit));
    let group = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    group_limit(Path::new(GROUPS), &group).map_or(machine, |group| group.min(machine))
}

/// The least limit of a group and of those around it, by the lines of `/proc/self/cgroup`.
fn group_limit(groups: &Path, lines: &str) -> Option<u64> {
    let ours = lines.lines().find_map(|line| line.strip_prefix("0::/"))?;
    let read = |folder: &Path| fs::read_to_string(folder.join("memory.max")).ok()?.trim().parse().ok();
    let ours = groups.join(ours);
    ours.ancestors().take_while(|folder| folder.starts_with(groups)).filter_map(read).min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_the_groups_around_us_counts() {
        let root = tempfile::tempdir().unwrap();
        let group = root.path().join("system.slice/tenure.service");
        fs::create_dir_all(&group).unwrap();
        let limit = || group_limit(root.path(), "1:cpu:/x\n0::/system.slice/tenure.service\n");
        assert_eq!(limit(), None);
        fs::write(group.join("memory.max"), "max\n").unwrap();
        assert_eq!(limit(), None);
        fs::write(root.path().join("system.slice/memory.max"), "1000\n").unwrap();
        assert_eq!(limit(), Some(1000));
        fs::write(group.join("memory.max"), "500\n").unwrap();
        assert_eq!(limit(), Some(500));
        assert!(super::limit() > 0);
    }
}
