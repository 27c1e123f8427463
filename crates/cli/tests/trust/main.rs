//! State after a kill, a full disk, a power cut, and changes of the sources during the copy:
//! `--atomic`, `--fsync`, `--on-full`, `--if-changed` and `--resume`.
//!
//! Each test shows in the same run that a copy without the option does leave what must not be
//! left; otherwise it has proved nothing.

#![allow(clippy::unwrap_used, clippy::panic)]

mod again;
mod calls;
mod changed;
mod fetch;
mod full;
mod interrupted;
mod large;
mod leftovers;
mod manifest;
mod power;
mod replaced;
mod resume;
mod streams;
mod turns;
mod unfinished;
mod verify;
mod whole;

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use haul_testkit::random;

/// Prefix of temporary names.
const TEMPORARY: &str = ".haul-";

/// The content of each regular file below a directory, by its path from there.
type Contents = BTreeMap<String, Vec<u8>>;

fn contents(root: &Path) -> Contents {
    let mut found = BTreeMap::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).unwrap() {
            let entry = entry.unwrap();
            if entry.file_type().unwrap().is_dir() {
                folders.push(entry.path());
            } else {
                let name = entry.path().strip_prefix(root).unwrap().to_string_lossy().into_owned();
                found.insert(name, fs::read(entry.path()).unwrap());
            }
        }
    }
    found
}

/// Builds a tree of files of these sizes, in four directories. The content depends on `seed`.
fn build(root: &Path, sizes: &[u64], seed: u64) {
    for (index, size) in sizes.iter().enumerate() {
        let folder = root.join(format!("folder-{}", index % 4));
        fs::create_dir_all(&folder).unwrap();
        let content = random::bytes(seed.wrapping_add(index as u64), *size);
        fs::write(folder.join(format!("file-{index}")), content).unwrap();
    }
}

/// Returns the names of files that are neither one of `allowed` nor temporary.
fn parts<'a>(found: &'a Contents, allowed: &[&Contents]) -> Vec<&'a str> {
    let is_allowed = |name: &str, content: &Vec<u8>| {
        allowed.iter().any(|tree| tree.get(name).is_some_and(|whole| whole == content))
    };
    let is_temporary = |name: &str| name.rsplit('/').next().is_some_and(|base| base.starts_with(TEMPORARY));
    let wrong = found.iter().filter(|(name, content)| !is_temporary(name) && !is_allowed(name, content));
    wrong.map(|(name, _)| name.as_str()).collect()
}

/// Returns a temporary name of a process that has ended on this host.
fn ended_name() -> String {
    let own = haul_sys::temporary_name().into_string().unwrap();
    let mut parts: Vec<_> = own.split('-').collect();
    // Process ids have at most 22 bits.
    parts[3] = "4194305";
    parts.join("-")
}

fn temporary_names(found: &Contents) -> usize {
    found.keys().filter(|name| name.contains(TEMPORARY)).count()
}
