//! What a run begins with: entries of held directories.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_sys::{EntryType, Error, Names, Open};

use crate::held::{DirCache, DirHandle};
use crate::node::DirNode;
use crate::run::{Batch, Job};
use crate::tool::Tool;

/// What a run is to do: entries of a held directory, with what the tool keeps for them.
///
/// [`Tool::finish_dir`] hears when all of them are settled.
pub struct Operand<T: Tool> {
    /// The directory they stand in.
    pub place: Arc<DirHandle>,
    /// Their names there; `.`, `..` and `/` are names as well, and a trailing slash may follow.
    pub names: Names,
    /// What the tool keeps for the place.
    pub own: T::Directory,
}

impl<T: Tool> Operand<T> {
    /// Makes one of an entry that the user named, of which nothing is known yet.
    #[must_use]
    pub fn named(place: Arc<DirHandle>, name: &CStr, own: T::Directory) -> Self {
        Self { place, names: Names::of(name, EntryType::Unknown), own }
    }

    /// Makes the job of it, and says how many entries that has; `None` if there is nothing to do.
    pub(crate) fn job(self) -> Option<(Job<T>, usize)> {
        let entries = self.names.len();
        let node = DirNode::new(None, self.place, None, self.own);
        // The node counts one from the beginning.
        node.expect(entries.checked_sub(1)?);
        Some((Job::Files(node, Batch::whole(self.names)), entries))
    }
}

/// A path as the user wrote it, split into the directory it stands in and the last component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Split<'a> {
    /// What messages put before the name: all of the text before the last component.
    pub display: &'a [u8],
    /// The last component, with the slashes that follow it.
    pub name: &'a [u8],
}

impl<'a> Split<'a> {
    /// Splits a path. The root, which has no last component, stands in the current directory by its own name.
    #[must_use]
    pub fn of(text: &'a CStr) -> Self {
        let bytes = text.to_bytes();
        let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        let start = bytes[..end].iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
        let (display, name) = if end == 0 { (&bytes[..0], bytes) } else { bytes.split_at(start) };
        Self { display, name }
    }

    /// Holds the directory the name stands in.
    ///
    /// # Errors
    /// When it cannot be opened or looked at.
    pub fn hold(&self, cache: &DirCache) -> Result<Arc<DirHandle>, Error> {
        let path = if self.display.is_empty() { b".".as_slice() } else { self.display };
        // Parts of a C string have no NUL inside.
        let path = CString::new(path).unwrap_or_default();
        cache.hold_operand(&path, Open::SEARCH.following(), self.display.to_vec())
    }

    /// Returns the last component without slashes.
    #[must_use]
    pub fn base(&self) -> &'a [u8] {
        let end = self.name.iter().rposition(|byte| *byte != b'/').map_or(0, |last| last + 1);
        &self.name[..end]
    }
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
