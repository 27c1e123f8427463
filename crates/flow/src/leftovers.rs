//! Temporary names, and the removal of files that a killed run has left under them, by a later run.
//!
//! A temporary name says which process uses it: the host and its namespace of process ids, the id,
//! and when it started. So any later process on that host can tell whether the owner has ended.

use std::ffi::{CStr, CString};
use std::fs;
use std::hash::{BuildHasher, DefaultHasher, Hash, Hasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use haul_sys::{
    DirectoryReader, EntryType, Errno, Error, Fd, FileType, Names, Open, effective_identity, open, remove,
    stat_at,
};

use crate::held::{DirCache, DirHandle};
use crate::plan::WINDOW_ENTRIES;

/// Prefix of temporary names.
const PREFIX: &str = ".haul-";

/// Returns a name for an entry that is renamed or removed later. No other worker uses it, in this
/// or another process, on this or another host: the entry is eventually removed by name, and must
/// not be somebody else's then.
#[must_use]
pub fn temporary_name() -> CString {
    static PROCESS: LazyLock<String> = LazyLock::new(|| {
        let (id, random) = (std::process::id(), RandomState::new().hash_one(0));
        let started = start_of(id).unwrap_or_default();
        format!("{PREFIX}{:016x}-{random:016x}-{id}-{started}", host())
    });
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    CString::new(format!("{}-{number}", *PROCESS)).unwrap_or_default()
}

/// Returns true for a temporary name whose process ran on this host and has ended.
#[must_use]
pub fn is_left_behind(name: &CStr) -> bool {
    let rest = name.to_str().ok().and_then(|name| name.strip_prefix(PREFIX)).unwrap_or_default();
    let parts: Vec<&str> = rest.split('-').collect();
    let &[owner_host, random, id, started, number] = parts.as_slice() else { return false };
    let is_hex = |part: &str| part.len() == 16 && part.bytes().all(|byte| byte.is_ascii_hexdigit());
    let is_own_host = u64::from_str_radix(owner_host, 16) == Ok(host()) && is_hex(owner_host);
    let (Ok(id), Ok(started), Ok(_)) = (id.parse(), started.parse::<u64>(), number.parse::<u64>()) else {
        return false;
    };
    // Without /proc nothing is known about any process, not even this one.
    let is_known = start_of(std::process::id()).is_some();
    is_hex(random) && is_own_host && is_known && started > 0 && start_of(id) != Some(started)
}

/// Identifies this host and the namespace of its process ids: the same id in another container is
/// another process.
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

/// Returns when a process started, in ticks since the boot; `None` if there is no such process. It
/// is the twentieth field after the command's name, which may itself have parentheses.
fn start_of(process: u32) -> Option<u64> {
    let text = fs::read(format!("/proc/{process}/stat")).ok()?;
    let after = text.iter().rposition(|byte| *byte == b')')? + 1;
    std::str::from_utf8(&text[after..]).ok()?.split_ascii_whitespace().nth(19)?.parse().ok()
}

/// Removes the files of a directory whose names `is_leftover` recognises as left by an earlier
/// run of this copy: only regular files of this user with a single link. Returns the removals
/// that failed.
///
/// # Errors
/// If the directory can't be listed.
pub fn sweep(
    cache: &DirCache,
    held: &Arc<DirHandle>,
    is_leftover: impl Fn(&CStr) -> bool,
) -> Result<Vec<Error>, Error> {
    let directory = cache.open(held)?;
    // The handle may be open for searching only, and a listing moves the offset that others use.
    let listed = open(&*directory, c".", Open::DIRECTORY)?;
    let (mut reader, mut found) = (DirectoryReader::new(), Vec::new());
    loop {
        let mut names = Names::new();
        let may_be_more = reader.read(&listed, &mut names, WINDOW_ENTRIES)?;
        let may_be = |index: &usize| {
            matches!(names.entry(*index).kind, EntryType::Regular | EntryType::Unknown)
                && is_leftover(names.name(*index))
        };
        found.extend((0..names.len()).filter(may_be).map(|index| names.name(index).to_owned()));
        if !may_be_more {
            break;
        }
    }
    listed.close()?;
    Ok(found.into_iter().filter_map(|name| remove_own(&directory, &name).err()).collect())
}

/// Removes a regular file of this user with a single link. Leaves anything else alone.
fn remove_own(directory: &Fd, name: &CStr) -> Result<(), Error> {
    let gone = |cause: Error| if cause.is(Errno::NOENT) { Ok(()) } else { Err(cause) };
    match stat_at(directory, name) {
        Ok(stat) if stat.kind != FileType::Regular || stat.links != 1 => Ok(()),
        Ok(stat) if stat.owner != effective_identity().user => Ok(()),
        Ok(_) => remove(directory, name).or_else(gone),
        Err(cause) => gone(cause),
    }
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
