//! Directories in the target that this user owns but may not list or search. The copy makes them
//! accessible while it works in them, and so do the survey and the deletion.

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{DirCache, DirHandle, Problem};
use haul_sys::{Capabilities, Fd, FileType, Mode, Open, Pinned, Stat, change_mode, effective_identity};

use super::kind::DeleteKind;

/// True for a directory that this user may not list or search, but can make accessible.
pub(super) fn is_closed(there: &Stat) -> bool {
    there.kind == FileType::Directory
        && !there.mode.contains(Mode::OWNER_LIST)
        && there.owner == effective_identity().user
        && !Capabilities::effective().read_all()
}

/// Pins a directory if it is closed.
pub(super) fn find(above: &Fd, name: &CStr) -> Option<(Pinned, Stat)> {
    // Also one that can't be opened.
    let pinned = Pinned::open(above, name).ok()?;
    let there = pinned.stat().ok().filter(is_closed)?;
    Some((pinned, there))
}

/// A directory that was made accessible.
pub(super) struct Opened {
    above: Arc<DirHandle>,
    held: Arc<DirHandle>,
    /// The mode that it had, to be set again.
    mode: Mode,
}

impl Opened {
    /// Makes a directory accessible that [`find`] has returned for `name` in `above`. `None` if
    /// that fails: it fails again in the directory, and is reported there.
    pub(super) fn of(
        cache: &DirCache,
        (above, name): (&Arc<DirHandle>, &CStr),
        (pinned, there): &(Pinned, Stat),
    ) -> Option<Self> {
        pinned.change_mode(there.mode.or(Mode::OWNER_LIST)).ok()?;
        let held = cache.hold(above, name, Open::DIRECTORY, there.identity, None);
        Some(Self { above: Arc::clone(above), held, mode: there.mode })
    }

    /// Makes it accessible once more. `None` if it is, because the copy has changed its mode.
    pub(super) fn once_more(self, cache: &DirCache) -> Option<Self> {
        let found = find(&*cache.open(&self.above).ok()?, self.held.name())?;
        Self::of(cache, (&self.above, self.held.name()), &found)
    }
}

/// Gives directories their modes again, the last one first: it may be inside another.
pub(super) fn close(cache: &DirCache, opened: &[Opened]) -> Vec<Problem> {
    let problem = |Opened { held, mode, .. }: &Opened| {
        let set = cache.open(held).and_then(|directory| change_mode(&*directory, *mode));
        set.err().map(|cause| Problem::new(DeleteKind::Permissions).naming(held.path()).because(cause))
    };
    opened.iter().rev().filter_map(problem).collect()
}
