//! Names that mean something else in each process.

use std::fs;
use std::path::Path;

/// Maximum links that the kernel follows in a path (path_resolution(7)).
const LINKS_MAX: usize = 40;

/// True if a path leads to a descriptor of a process, as `/dev/stdin`, `/dev/fd/3` and links to
/// them do. In another process such a path leads elsewhere.
///
/// A path that can't be followed doesn't: whoever opens it reports why.
#[must_use]
pub fn leads_to_descriptor(path: &Path) -> bool {
    let mut path = path.to_owned();
    for _ in 0..LINKS_MAX {
        let Ok(target) = fs::read_link(&path) else { return false };
        let folder = match path.parent() {
            Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
            Some(folder) => folder,
            None => return false,
        };
        // The kernel follows these links without their text, which may be a name like `pipe:[7]`.
        let is_of_process = |folder: &Path| folder.starts_with("/proc") && folder.ends_with("fd");
        if folder.canonicalize().is_ok_and(|folder| is_of_process(&folder)) {
            return true;
        }
        path = folder.join(target);
    }
    false
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
        for path in ["/dev/stdin", "/dev/fd/0", "/proc/self/fd/2", "/proc/thread-self/fd/0"] {
            assert!(leads_to_descriptor(Path::new(path)), "{path}");
        }
        for path in [made("plain", "file"), made("round", "round"), made("null", "/dev/null"), file] {
            assert!(!leads_to_descriptor(&path), "{}", path.display());
        }
        assert!(!leads_to_descriptor(Path::new("")) && !leads_to_descriptor(Path::new("/")));
    }
}
