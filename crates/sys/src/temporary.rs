//! Temporary names of files that aren't complete.
//!
//! A name identifies the process that uses it: host, pid namespace, pid and start time. So any
//! later process on that host can tell if the owner is still running.

use std::ffi::{CStr, CString};
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::LazyLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

/// Prefix of all temporary names.
pub const TEMPORARY_PREFIX: &str = ".haul-";

/// Returns a name for an entry that is renamed or removed later. It is unique among all workers,
/// processes and hosts, because the entry is eventually removed by name.
#[must_use]
pub fn temporary_name() -> CString {
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let (id, random) = (std::process::id(), RandomState::new().hash_one(0));
        let started = start_of(id).unwrap_or_default();
        format!("{TEMPORARY_PREFIX}{:016x}-{random:016x}-{id}-{started}", host())
    });
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("{}-{number}", *PROCESS)).unwrap_or_default()
}

/// Returns true for a temporary name whose process ran on this host and has ended.
#[must_use]
pub fn is_left_behind(name: &CStr) -> bool {
    let rest = name.to_str().ok().and_then(|name| name.strip_prefix(TEMPORARY_PREFIX)).unwrap_or_default();
    let parts: Vec<&str> = rest.split('-').collect();
    let &[owner_host, random, id, started, number] = parts.as_slice() else { return false };
    let is_hex = |part: &str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_own_host = u64::from_str_radix(owner_host, 16) == Ok(host()) && is_hex(owner_host);
    let (Ok(id), Ok(started), Ok(_)) = (id.parse(), started.parse::<u64>(), number.parse::<u64>()) else {
        return false;
    };
    // Without /proc nothing is known about any process, not even this one.
    let is_known = start_of(std::process::id()).is_some();
    is_hex(random) && is_own_host && is_known && started > 0 && !is_running(id, started)
}

fn is_running(process: u32, started: u64) -> bool {
    match start_of(process) {
        Some(start) => start == started,
        // It may only be hidden: `/proc` can be mounted with `hidepid`.
        None => {
            let pid = i32::try_from(process).ok().and_then(Pid::from_raw);
            pid.is_some_and(|pid| test_kill_process(pid) != Err(Errno::SRCH))
        }
    }
}

/// Identifies this host and its pid namespace: the same pid in another container is another
/// process.
fn host() -> u64 {
    static HOST: LazyLock<u64> = LazyLock::new(|| {
        let read = |path| fs::read(path).unwrap_or_default();
        let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
        let mut hasher = DefaultHasher::new();
        (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"), namespace).hash(&mut hasher);
        hasher.finish()
    });
    *HOST
}

/// Returns when a process started, in ticks since boot; `None` if `/proc` doesn't show it. This is
/// the twentieth field after the command name, which may contain parentheses itself.
fn start_of(process: u32) -> Option<u64> {
    let text = fs::read(format!("/proc/{process}/stat")).ok()?;
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    std::str::from_utf8(&text[after..]).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_names_of_processes_that_have_ended_are_left_behind() {
        let own = temporary_name().into_string().unwrap();
        assert_ne!(own, temporary_name().into_string().unwrap());
        let is_left = |name: &str| is_left_behind(&CString::new(name).unwrap());
        assert!(!is_left(&own), "{own} is in use");
        let parts: Vec<_> = own.split('-').collect();
        let with = |index: usize, other: &str| {
            let mut parts = parts.clone();
            parts[index] = other;
            parts.join("-")
        };
        // Ids have at most 22 bits.
        assert!(is_left(&with(3, "4194305")));
        let other_start = (parts[4].parse::<u64>().unwrap() + 1).to_string();
        assert!(is_left(&with(4, &other_start)), "the id was used again");
        for not_ours in [
            with(1, "0123456789abcdef"),
            with(2, "0123"),
            with(3, "x"),
            with(4, "0"),
            with(5, ""),
            format!("{}-1", with(3, "4194305")),
            own.replace(".haul", "haul"),
            ".haul-".to_owned(),
            String::new(),
        ] {
            assert!(!is_left(&not_ours), "{not_ours}");
        }
    }
}
