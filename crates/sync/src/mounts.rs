//! Finds out where two trees overlap because of mounts: bind mounts, or several mounts of one file
//! system.
//!
//! `/proc/self/mountinfo` says which directory of which file system is visible at each mount point.
//! So a tree is a few directories of file systems: the one that it begins in, and one for each
//! mount below it. Two trees overlap if one of these is inside one of the other tree's.
//!
//! Paths on a file system are only a hint, and `stat` has to confirm it: separate NFS mounts may
//! all have the root `/`, and mounts hide each other. What is missed like that, or without `/proc`,
//! the survey of a deletion notices.

use std::ffi::OsString;
use std::fs;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use haul_sys::Identity;

/// The mounts that this process sees. Empty without `/proc`.
pub(super) struct Mounts(Vec<Mount>);

/// A directory of a file system, and where it is mounted.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Mount {
    /// The file system, such as `8:1`. Not always the device number of its files (btrfs).
    device: Vec<u8>,
    /// The directory's path on the file system.
    root: PathBuf,
    /// Its path.
    point: PathBuf,
}

impl Mount {
    /// True if `other` is a mount of this directory, or of one inside it.
    fn contains(&self, other: &Mount) -> bool {
        self.device == other.device
            && other.root.strip_prefix(&self.root).is_ok_and(|below| {
                let path = if below == Path::new("") { self.point.clone() } else { self.point.join(below) };
                is_same(&path, &other.point)
            })
    }
}

impl Mounts {
    pub(super) fn read() -> Self {
        Self::parse(&fs::read("/proc/self/mountinfo").unwrap_or_default())
    }

    /// Parses the lines of proc_pid_mountinfo(5).
    fn parse(text: &[u8]) -> Self {
        let mount = |line: &[u8]| {
            let mut fields = line.split(|byte| *byte == b' ').skip(2);
            let (device, root, point) = (fields.next()?, fields.next()?, fields.next()?);
            Some(Mount { device: device.to_vec(), root: unescape(root), point: unescape(point) })
        };
        Self(text.split(|byte| *byte == b'\n').filter_map(mount).collect())
    }

    /// True if `inner` is the directory `outer`, or is inside it. Both are absolute paths without
    /// symbolic links, and `inner` may be missing.
    pub(super) fn is_inside(&self, inner: &Path, outer: &Path) -> bool {
        let contains = || Some(self.at(outer)?.contains(&self.at(inner)?));
        inner.starts_with(outer) || is_same(inner, outer) || contains() == Some(true)
    }

    /// Returns the source `from`, and the topmost directories in it that are also below the target
    /// `to`. What is mounted below `to` isn't part of `from`, even if `to` is inside it: the
    /// selection leaves that out.
    pub(super) fn shared(&self, from: &Path, to: &Path) -> Vec<Identity> {
        let below = |tree: &Path| {
            let is_below = |mount: &&Mount| mount.point.starts_with(tree) && mount.point != tree;
            self.at(tree).into_iter().chain(self.0.iter().filter(is_below).cloned()).collect::<Vec<_>>()
        };
        let (mut sources, targets) = (below(from), below(to));
        sources.retain(|source| !source.point.starts_with(to));
        let inner = |source: &Mount, target: &Mount| match () {
            () if source.contains(target) => identity(&target.point),
            () if target.contains(source) => identity(&source.point),
            () => None,
        };
        let pairs = sources.iter().flat_map(|source| targets.iter().map(move |target| (source, target)));
        let shared = pairs.filter_map(|(source, target)| inner(source, target));
        let target = identity(to);
        // SOURCE itself also where the mounts are unknown.
        identity(from).into_iter().chain(shared.filter(|part| Some(*part) != target)).collect()
    }

    /// Returns the directory of a file system that `path` is. `None` if its mount isn't listed.
    fn at(&self, path: &Path) -> Option<Mount> {
        let around = self.0.iter().filter(|mount| path.starts_with(&mount.point));
        // Of several at one place, the last is on top.
        let mount = around.max_by_key(|mount| mount.point.as_os_str().len())?;
        let root = mount.root.join(path.strip_prefix(&mount.point).ok()?);
        Some(Mount { device: mount.device.clone(), root, point: path.to_owned() })
    }
}

/// True if two paths lead to one file, or would if it were made.
pub(super) fn is_same(one: &Path, other: &Path) -> bool {
    match (identity(one), identity(other)) {
        (None, None) => {
            let parent = |path: &Path| path.parent().and_then(identity);
            one.file_name() == other.file_name() && parent(one).is_some() && parent(one) == parent(other)
        }
        (one, other) => one == other,
    }
}

pub(super) fn identity(path: &Path) -> Option<Identity> {
    let there = fs::metadata(path).ok()?;
    Some(Identity { device: there.dev(), inode: there.ino() })
}

/// Replaces `\` with three octal digits by the byte: a blank, tab, newline or backslash in a path.
fn unescape(field: &[u8]) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, behind @ ..] = rest {
        let digits = (*first == b'\\').then(|| behind.get(..3)).flatten();
        let escaped = digits
            .and_then(|digits| std::str::from_utf8(digits).ok())
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &behind[3..] } else { behind };
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_found_on_the_file_system_that_is_on_top() {
        let text = b"22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/a rw\n\
            30 22 8:2 /sub\\040dir /mnt rw - btrfs /dev/b rw\n\
            31 30 8:3 /x /mnt rw master:2 - xfs /dev/c rw\n\
            32 22 8:1 /srv\\134 /m\\011nt rw - ext4 /dev/a rw\nbroken\n";
        let mounts = Mounts::parse(text);
        let at = |path: &str| {
            let Mount { device, root, .. } = mounts.at(Path::new(path)).unwrap_or_else(|| panic!("{path}"));
            (String::from_utf8(device).unwrap_or_default(), root)
        };
        let place = |device: &str, root: &str| (device.to_owned(), PathBuf::from(root));
        assert_eq!(at("/"), place("8:1", "/"));
        assert_eq!(at("/mn/a"), place("8:1", "/mn/a"));
        assert_eq!(at("/mnt/a"), place("8:3", "/x/a"));
        assert_eq!(at("/m\tnt/a"), place("8:1", "/srv\\/a"));
        assert_eq!(mounts.0[1].root, Path::new("/sub dir"));
        assert_eq!(Mounts::parse(b"").at(Path::new("/")), None);
    }
}
