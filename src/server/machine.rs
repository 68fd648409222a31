//! What the machine gives this process: how much memory it may use.
//!
//! That is the machine's memory, or less if a control group says so, as in a container: the least
//! limit of its group and of those above it, in version 2 (`memory.max`) or 1
//! (`memory.limit_in_bytes`). Asked once, at start.

use std::fs;
use std::path::{Path, PathBuf};

/// Where the groups are found, and the file that names those of this process.
const GROUPS: &str = "/sys/fs/cgroup";
const OWN_GROUPS: &str = "/proc/self/cgroup";

/// Bytes of memory that this process may use.
pub fn memory_bytes() -> u64 {
    let system = rustix::system::sysinfo();
    let physical = system.totalram as u64 * u64::from(system.mem_unit);
    let own = fs::read_to_string(OWN_GROUPS).unwrap_or_default();
    let read = |path: &Path| fs::read_to_string(path).ok();
    let limit = group_limit(&own, &read);
    limit.map_or(physical, |limit| limit.min(physical))
}

/// The least limit of the groups that `own` names, and of those above them.
fn group_limit(own: &str, read: &dyn Fn(&Path) -> Option<String>) -> Option<u64> {
    let mut limits = Vec::new();
    for line in own.lines() {
        // Number, controllers, path.
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(group)) = (parts.next(), parts.next()) else {
            continue;
        };
        let (root, file) = match controllers {
            "" => (PathBuf::from(GROUPS), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => {
                (Path::new(GROUPS).join("memory"), "memory.limit_in_bytes")
            }
            _ => continue,
        };
        // In a container the path may be that of the machine, of which only the root is seen here.
        let groups = Path::new(group.trim_start_matches('/')).ancestors();
        let texts = groups.filter_map(|group| read(&root.join(group).join(file)));
        // No limit is "max" in version 2, and a number beyond all memory in version 1.
        limits.extend(texts.filter_map(|text| text.trim().parse::<u64>().ok()));
    }
    limits.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_holds() {
        let files = [
            ("/sys/fs/cgroup/memory.max", "max\n"),
            ("/sys/fs/cgroup/a/memory.max", "4096\n"),
            ("/sys/fs/cgroup/a/b/memory.max", "8192\n"),
            (
                "/sys/fs/cgroup/memory/memory.limit_in_bytes",
                "9223372036854771712\n",
            ),
            ("/sys/fs/cgroup/memory/c/memory.limit_in_bytes", "5000\n"),
            ("/sys/fs/cgroup/cpu/c/memory.limit_in_bytes", "1\n"),
        ];
        let read = |path: &Path| {
            let found = files.iter().find(|(name, _)| Path::new(name) == path);
            found.map(|(_, text)| (*text).to_owned())
        };
        for (own, limit) in [
            ("", None),
            ("0::/\n", None),
            ("0::/a/b\n", Some(4096)),
            ("0::/a\n", Some(4096)),
            ("0::/elsewhere/d\n", None),
            ("4:memory:/c/d\n1:cpu:/c\n0::/\n", Some(5000)),
            ("4:cpuacct,memory:/c\n0::/a/b\n", Some(4096)),
            ("4:memory:/elsewhere\n", Some(9223372036854771712)),
            ("nonsense\n:\n1:\n", None),
        ] {
            assert_eq!(group_limit(own, &read), limit, "{own}");
        }
    }

    #[test]
    fn this_machine_has_memory() {
        assert!(memory_bytes() > 1 << 20);
    }
}
