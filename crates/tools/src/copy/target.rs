//! Where copies go: target directories, and the names of targets in them.

use std::ffi::{CStr, CString};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use haul_flow::{Desk, Found, Held};
use haul_sys::{Error, Fd, Identity, Mode};

use super::Copier;
use super::attributes::SourceXattrs;

/// One operand's copy: what its whole tree has in common.
#[derive(Debug)]
pub(super) struct Copy {
    /// The source as the user named it.
    pub(super) source: Vec<u8>,
    /// The target as messages name it.
    pub(super) target: Vec<u8>,
    /// The first directory made, which must not be copied into itself.
    pub(super) first_made: OnceLock<Identity>,
}

/// What the copy tool keeps for each directory being visited: the directory its entries are copied to.
#[derive(Debug)]
pub struct TargetDirectory {
    /// The directory.
    pub(super) held: Arc<Held>,
    /// For the place of an operand, the name its copy gets.
    pub(super) rename: Option<CString>,
    /// The operand it belongs to.
    pub(super) copy: Arc<Copy>,
    /// What is to be done when it is left; nothing for the place of an operand.
    pub(super) made: Option<MadeDirectory>,
    /// Whether sharing blocks with the source was refused here.
    pub(super) reflink_refused: AtomicBool,
    /// Whether new entries inherit an access list from it. Looked at only where modes are preserved.
    pub(super) gives_access_list: bool,
}

/// What leaving a target directory needs to know.
#[derive(Debug)]
pub(super) struct MadeDirectory {
    /// Whether it was made by this run.
    pub(super) is_new: bool,
    /// Its mode while it is worked in.
    pub(super) working_mode: Mode,
    /// The mode a new one gets if the source's is not preserved.
    pub(super) plain_mode: Mode,
    /// The source's extended attributes, read while it was open.
    pub(super) xattrs: SourceXattrs,
}

impl TargetDirectory {
    /// Makes the place of an operand: `name` in `held` is where its copy goes.
    pub(super) fn place(held: Arc<Held>, name: CString, source: Vec<u8>) -> Self {
        let copy = Arc::new(Copy { source, target: held.path_of(&name), first_made: OnceLock::new() });
        Self {
            held,
            rename: Some(name),
            copy,
            made: None,
            reflink_refused: AtomicBool::new(false),
            gives_access_list: false,
        }
    }

    /// Remembers that blocks cannot be shared between source and target here.
    pub(super) fn refuse_reflink(&self) {
        self.reflink_refused.store(true, Ordering::Relaxed);
    }

    /// Tells whether sharing blocks was refused here.
    pub(super) fn refuses_reflink(&self) -> bool {
        self.reflink_refused.load(Ordering::Relaxed)
    }
}

/// Returns the name an entry's copy gets.
pub(super) fn target_name(found: &Found<Copier>) -> &CStr {
    found.node.own.rename.as_deref().unwrap_or(found.name())
}

/// Returns the path of an entry's copy, as messages name it.
pub(super) fn target_path(found: &Found<Copier>) -> Vec<u8> {
    found.node.own.held.path_of(target_name(found))
}

/// Opens the directory an entry's copy goes to.
pub(super) fn open_directory(desk: &Desk<'_, Copier>, found: &Found<Copier>) -> Result<Arc<Fd>, Error> {
    desk.cache().open(&found.node.own.held)
}
