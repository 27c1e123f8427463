//! Names that mean something else in each process.

use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

use crate::standard::{is_any_closed, was_number_closed};

/// Maximum links that the kernel follows in a path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// Returns true if a path leads to a process's descriptor (`/dev/stdin`, `/dev/fd/3`, or a link to
/// one) or through it (`/dev/fd/3/file`). In another process such a path means another file.
///
/// Returns false for a path that can't be followed: opening it will report why.
#[must_use]
pub fn leads_to_descriptor(path: &Path) -> bool {
    descriptor(path).is_some()
}

/// Returns true if a path leads to a standard stream that was closed when this process started. It
/// can be opened all the same, because its number now refers to `/dev/null`.
#[must_use]
pub fn leads_to_closed_stream(path: &Path) -> bool {
    if !is_any_closed() {
        return false;
    }
    let Some((folder, name)) = descriptor(path) else { return false };
    let is_ours = ["/proc/self/fd", "/proc/thread-self/fd"]
        .iter()
        .any(|ours| Path::new(ours).canonicalize().is_ok_and(|ours| ours == folder));
    is_ours && name.to_str().and_then(|name| name.parse().ok()).is_some_and(was_number_closed)
}

/// Returns the first descriptor on a path, as the directory that lists the process's descriptors
/// and the name in it.
fn descriptor(path: &Path) -> Option<(PathBuf, OsString)> {
    // The kernel doesn't resolve these links by their text, which may be `pipe:[7]`.
    let is_of_process = |folder: &PathBuf| folder.starts_with("/proc") && folder.ends_with("fd");
    let names =
        |path: &Path| path.components().rev().map(|name| name.as_os_str().to_owned()).collect::<Vec<_>>();
    let (mut ahead, mut links) = (names(path), 0);
    // The path up to the next name, with links resolved.
    let mut before = PathBuf::new();
    while let Some(name) = ahead.pop() {
        let Ok(target) = fs::read_link(before.join(&name)) else {
            before.push(name);
            continue;
        };
        let folder = if before.as_os_str().is_empty() { Path::new(".") } else { &before };
        if let Some(folder) = folder.canonicalize().ok().filter(is_of_process) {
            return Some((folder, name));
        }
        links += 1;
        if links > LINKS_MAX {
            return None;
        }
        ahead.extend(names(&target));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_to_descriptors_are_found_through_other_links() {
        let folder = tempfile::tempdir().unwrap();
        let made = |name: &str, target: &str| {
            let link = folder.path().join(name);
            std::os::unix::fs::symlink(target, &link).unwrap();
            link
        };
        let file = folder.path().join("file");
        fs::write(&file, "").unwrap();
        made("input", "/dev/stdin");
        for path in [made("again", "input"), made("number", "/dev/fd/0"), made("own", "/proc/self/fd/1")] {
            assert!(leads_to_descriptor(&path), "{}", path.display());
        }
        made("below", "/dev/fd/0/folder");
        assert!(leads_to_descriptor(&folder.path().join("below/file")));
        let through = ["/dev/fd/0/file", "/dev/stdin/a/b", "/proc/self/fd/0/", "/dev/fd/../fd/0/."];
        let to = ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/2", "/proc/thread-self/fd/0"];
        for path in to.into_iter().chain(through) {
            assert!(leads_to_descriptor(Path::new(path)), "{path}");
        }
        for path in [made("plain", "file"), made("round", "round"), made("null", "/dev/null"), file] {
            assert!(!leads_to_descriptor(&path), "{}", path.display());
        }
        assert!(!leads_to_descriptor(Path::new("")) && !leads_to_descriptor(Path::new("/")));
    }
}
