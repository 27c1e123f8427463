//! Temporary names of files that aren't complete.
//!
//! A name identifies the process that uses it: host, pid namespace, pid and start time. So any
//! later process on that host can check whether the owner is still running.

use std::cell::Cell;
use std::ffi::{CStr, CString};
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::io::Errno;
use rustix::process::{Pid, test_kill_process};

use crate::process_stat::ProcessStat;

/// Prefix of all temporary names.
pub const TEMPORARY_PREFIX: &str = ".haul-";

/// Returns a name for an entry that is renamed or removed later. It is unique among all workers,
/// processes and hosts, because the entry is eventually removed by name.
#[must_use]
pub fn temporary_name() -> CString {
    let process = Process::current();
    name_of(process.random, process)
}

/// Like [`temporary_name`], with the number of a run: [`run_of`] returns it, on any host.
#[must_use]
pub fn temporary_name_of_run(run: u64) -> CString {
    name_of(run, Process::current())
}

fn name_of(run: u64, Process { host, id, started, .. }: Process) -> CString {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let name = format!("{TEMPORARY_PREFIX}{host:016x}-{run:016x}-{id}-{started}-{number}");
    CString::new(name).unwrap_or_default()
}

/// This process, as its names identify it.
#[derive(Clone, Copy)]
struct Process {
    host: u64,
    id: u32,
    /// When it started, in ticks since boot.
    started: u64,
    random: u64,
}

impl Process {
    /// Looked up once in each thread, and again after a `fork`. Not shared under a lock: if another
    /// thread held it during the `fork`, it would never be released in the child.
    fn current() -> Self {
        thread_local! {
            static KNOWN: Cell<Option<Process>> = const { Cell::new(None) };
        }
        let id = std::process::id();
        KNOWN.get().filter(|known| known.id == id).unwrap_or_else(|| {
            let started = ProcessStat::of(id).map_or(0, |stat| stat.started);
            let process = Self { host: host(), id, started, random: RandomState::new().hash_one(id) };
            KNOWN.set(Some(process));
            process
        })
    }
}

/// The parts of a temporary name.
struct Parts {
    host: u64,
    run: u64,
    process: u32,
    started: u64,
}

impl Parts {
    fn of(name: &CStr) -> Option<Self> {
        let rest = name.to_str().ok()?.strip_prefix(TEMPORARY_PREFIX)?;
        let parts: Vec<&str> = rest.split('-').collect();
        let &[host, run, process, started, number] = parts.as_slice() else { return None };
        let is_hex = |part: &&str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
        let hex = |part: &str| Some(part).filter(is_hex).and_then(|part| u64::from_str_radix(part, 16).ok());
        number.parse::<u64>().ok()?;
        let (process, started) = (process.parse().ok()?, started.parse().ok()?);
        Some(Self { host: hex(host)?, run: hex(run)?, process, started })
    }
}

/// Returns the number passed to [`temporary_name_of_run`], or a random one; `None` if `name` isn't
/// a temporary name.
#[must_use]
pub fn run_of(name: &CStr) -> Option<u64> {
    Parts::of(name).map(|parts| parts.run)
}

/// Returns true for a temporary name whose process ran on this host and has ended.
#[must_use]
pub fn is_left_behind(name: &CStr) -> bool {
    let Some(Parts { host: owner_host, process, started, .. }) = Parts::of(name) else { return false };
    // Without /proc nothing is known about any process, not even this one.
    let is_known = ProcessStat::of(std::process::id()).is_some();
    owner_host == Process::current().host && is_known && started > 0 && !is_running(process, started)
}

fn is_running(process: u32, started: u64) -> bool {
    match ProcessStat::of(process) {
        Some(stat) => stat.started == started && !stat.has_ended(),
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
    let read = |path| fs::read(path).unwrap_or_default();
    let namespace = fs::read_link("/proc/self/ns/pid").unwrap_or_default();
    let mut hasher = DefaultHasher::new();
    (read("/etc/machine-id"), read("/proc/sys/kernel/hostname"), namespace).hash(&mut hasher);
    hasher.finish()
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
        assert_eq!(run_of(&temporary_name_of_run(7)), Some(7));
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

    /// Its parent may end first, and its names must not count as left behind then.
    #[test]
    #[cfg_attr(miri, ignore = "Miri has no fork")]
    fn a_forked_process_has_names_of_its_own() {
        let own = temporary_name();
        let (mut reads, mut writes) = std::io::pipe().unwrap();
        // SAFETY: the child only makes a name, writes it, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            let name = temporary_name();
            std::io::Write::write_all(&mut writes, name.to_bytes()).unwrap_or_default();
            // SAFETY: ends the process at once.
            unsafe { libc::_exit(0) };
        }
        drop(writes);
        let mut name = Vec::new();
        std::io::Read::read_to_end(&mut reads, &mut name).unwrap();
        // SAFETY: passes a number, and no place for the status.
        unsafe { libc::waitpid(child, std::ptr::null_mut(), 0) };
        let [own, of_child] = [own, CString::new(name).unwrap()].map(|name| Parts::of(&name).unwrap());
        assert_eq!(of_child.process, u32::try_from(child).unwrap());
        assert_eq!(of_child.host, own.host);
        assert_ne!(of_child.run, own.run);
    }

    /// A killed process whose parent hasn't waited for it holds nothing any more.
    #[test]
    fn a_zombie_has_ended() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let id = child.id();
        let started = ProcessStat::of(id).unwrap().started;
        assert!(is_running(id, started) && !is_running(id, started + 1));
        child.kill().unwrap();
        let stat = || fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
        while !stat().contains(") Z ") {
            std::thread::yield_now();
        }
        assert!(!is_running(id, started));
        child.wait().unwrap();
        assert!(!is_running(id, started));
    }
}
