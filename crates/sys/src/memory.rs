//! The amount of dirty data that the page cache accepts before writers wait for the disk.
//!
//! Source: `Documentation/admin-guide/sysctl/vm.rst` (`dirty_bytes`, `dirty_ratio`), and
//! `cgroup-v2.rst` and `cgroup-v1/memory.rst` for the limits of a control group.

use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

use crate::data::read_path;
use crate::names::c_string;

/// Maximum bytes to read of these files, far more than any of them has.
const FILE_BYTES_MAX: usize = 64 << 10;

/// `vm.dirty_ratio` where it can't be read: the kernel's default, in percent.
const DIRTY_RATIO: u64 = 20;

/// Returns how much dirty data the kernel lets this process have before writers wait for the disk,
/// in bytes; `None` if it doesn't say how much memory is available.
///
/// It is an estimate: the kernel's own limit changes with the memory in use and is shared with all
/// other writers.
#[must_use]
pub fn dirty_limit() -> Option<u64> {
    let available = parse_available(&text(c"/proc/meminfo")?)?;
    let available = group_limit().map_or(available, |limit| limit.min(available));
    match number(c"/proc/sys/vm/dirty_bytes") {
        Some(bytes @ 1..) => Some(bytes.min(available)),
        _ => {
            let percent = number(c"/proc/sys/vm/dirty_ratio").unwrap_or(DIRTY_RATIO);
            Some(available / 100 * percent)
        }
    }
}

/// Returns the least memory limit of this process's control groups, in bytes, if there is one.
fn group_limit() -> Option<u64> {
    let files = limit_files(&text(c"/proc/self/cgroup")?);
    files.iter().filter_map(|file| number(file)).min()
}

/// Returns the files with the limits of a process's control groups and the groups above them.
/// `groups` is its `/proc/PID/cgroup`: lines of hierarchy, controllers and path, separated by
/// colons.
fn limit_files(groups: &str) -> Vec<CString> {
    let mut files = Vec::new();
    for line in groups.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(hierarchy), Some(controllers), Some(path)) = (parts.next(), parts.next(), parts.next())
        else {
            continue;
        };
        let (mount, name) = match controllers {
            "" if hierarchy == "0" => ("/sys/fs/cgroup", "memory.max"),
            _ if controllers.split(',').any(|one| one == "memory") => {
                ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
            }
            _ => continue,
        };
        let path = Path::new(path);
        let groups = path.ancestors().map(|group| group.strip_prefix("/").unwrap_or(group));
        let file = |group: &Path| PathBuf::from(mount).join(group).join(name);
        files.extend(groups.map(|group| c_string(file(group).as_os_str().as_encoded_bytes())));
    }
    files
}

/// Returns `MemAvailable` of `/proc/meminfo` in bytes.
fn parse_available(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn text(path: &CStr) -> Option<String> {
    String::from_utf8(read_path(path, FILE_BYTES_MAX).ok()?).ok()
}

/// Returns the number in a file; `None` if there is none, such as `max`.
fn number(path: &CStr) -> Option<u64> {
    text(path)?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn available_memory_is_in_kibibytes() {
        let meminfo = "MemTotal:       24684212 kB\nMemAvailable:   22123456 kB\nBuffers: 1 kB\n";
        assert_eq!(parse_available(meminfo), Some(22_123_456 << 10));
        assert_eq!(parse_available("MemTotal: 1 kB\n"), None);
    }

    #[test]
    fn limits_of_the_groups_above_count_too() {
        let files = |groups| {
            let files: Vec<_> = limit_files(groups);
            files.iter().map(|file| file.to_str().unwrap().to_owned()).collect::<Vec<_>>()
        };
        assert_eq!(
            files("0::/a/b\n"),
            ["/sys/fs/cgroup/a/b/memory.max", "/sys/fs/cgroup/a/memory.max", "/sys/fs/cgroup/memory.max"]
        );
        assert_eq!(
            files("5:cpu,cpuacct:/x\n4:memory:/jobs\n"),
            [
                "/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes",
                "/sys/fs/cgroup/memory/memory.limit_in_bytes"
            ]
        );
        assert!(files("").is_empty());
    }

    #[test]
    fn the_limit_is_less_than_the_memory() {
        let limit = dirty_limit().unwrap();
        assert!(limit > 0 && limit < 1 << 50, "{limit}");
    }
}
