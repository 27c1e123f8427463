//! Operands: the entries a run begins with.

use std::ffi::CStr;
use std::sync::Arc;

use haul_sys::{EntryType, Error, NameArena, Open, c_string};

use crate::directory_cache::{DirCache, DirHandle};

/// Entries of one directory for a tool to run over, with the tool's state `D` for that directory.
///
/// `Tool::finish_dir` is called when all of them are complete.
pub struct Operand<D> {
    /// The directory they are in.
    pub place: Arc<DirHandle>,
    /// Their names there. `.`, `..` and `/` are names as well, and trailing slashes may follow.
    pub names: NameArena,
    /// The tool's state for the directory.
    pub own: D,
}

impl<D> Operand<D> {
    /// Creates an operand of one entry that the user named, whose type is unknown.
    #[must_use]
    pub fn named(place: Arc<DirHandle>, name: &CStr, own: D) -> Self {
        Self { place, names: NameArena::of(name, EntryType::Unknown), own }
    }
}

/// A path as the user wrote it, split into its directory and its last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// Prefix of the name in messages: all of the text before the last component.
    pub display: &'a [u8],
    /// The last component, with trailing slashes.
    pub name: &'a [u8],
}

impl<'a> Split<'a> {
    /// Splits a path. The root has no last component: it counts as a name in the current directory.
    #[must_use]
    pub fn of(text: &'a CStr) -> Self {
        let bytes = text.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (display, name) = if end == 0 { (&bytes[..0], bytes) } else { bytes.split_at(start) };
        Self { display, name }
    }

    /// Holds the directory that the name is in.
    ///
    /// # Errors
    /// If it can't be opened or stat'ed.
    pub fn hold(&self, cache: &DirCache) -> Result<Arc<DirHandle>, Error> {
        let path = if self.display.is_empty() { b".".as_slice() } else { self.display };
        cache.hold_operand(&c_string(path), Open::SEARCH.following(), self.display.to_vec())
    }

    /// Returns the last component without trailing slashes.
    #[must_use]
    pub fn base(&self) -> &'a [u8] {
        let end = self.name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        &self.name[..end]
    }
}

/// Returns the part of `path` below `directory`: `.` if it is that directory, and the whole path if
/// it isn't in there. Slashes at the end of either change nothing.
#[must_use]
pub fn path_below<'a>(path: &'a [u8], directory: &[u8]) -> &'a [u8] {
    let length = directory.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
    let Some(below) = path.strip_prefix(&directory[..length]) else { return path };
    if below.first().is_some_and(|byte| *byte != b'/') {
        return path;
    }
    let start = below.iter().position(|byte| *byte != b'/');
    start.map_or(b".", |start| &below[start..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_split_before_its_last_component() {
        let split = |text: &'static CStr| {
            let Split { display, name } = Split::of(text);
            (std::str::from_utf8(display).unwrap(), std::str::from_utf8(name).unwrap())
        };
        assert_eq!(split(c"a"), ("", "a"));
        assert_eq!(split(c"a/b/"), ("a/", "b/"));
        assert_eq!(split(c"/a"), ("/", "a"));
        assert_eq!(split(c"//"), ("", "//"));
        assert_eq!(Split::of(c"a/b//").base(), b"b");
    }
}
