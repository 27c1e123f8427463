//! The target of a regular file, from its creation to its close.

use std::ffi::CStr;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64};

use haul_sys::{Errno, Error, Fd, Identity, Mode, Stat};

#[cfg(feature = "distributed")]
use super::Copier;
use super::backup::MadeBackup;
use super::creation_mode::CreationMode;
use super::journaled::JournaledFile;
use super::links::MadeFile;
#[cfg(feature = "distributed")]
use super::options::Sparse;
use super::partial::Partial;
use super::place::Left;
use super::staged::Staged;
use super::verify::Verification;

/// The copy tool's state for a file being copied.
#[derive(Debug)]
pub struct CopiedFile {
    /// Identity of the source; `None` for a range that another process leads.
    pub(super) source: Option<Identity>,
    /// The target before it was overwritten.
    pub(super) before: Option<Stat>,
    /// Claimed identity of the target ([`overwritten`](super::overwritten)).
    pub(super) claimed: Option<Identity>,
    /// The backup, if one was made.
    pub(super) backup: Option<MadeBackup>,
    /// Identity of the source, if other names wait for it.
    pub(super) link: Option<Identity>,
    /// The new file, if other names may be linked to it.
    pub(super) made: Option<MadeFile>,
    /// True if its blocks are shared with the source.
    pub(super) reflinked: bool,
    /// True if the kernel was asked to copy it.
    pub(super) offloaded: bool,
    /// True if the source's holes are skipped.
    pub(super) skips_holes: bool,
    /// True if its length must be set at the end.
    pub(super) has_holes: bool,
    /// The mode it was created with, if it is new.
    pub(super) creation_mode: Option<CreationMode>,
    /// Mode to restore when no other rank opens it any more.
    pub(super) mode_to_restore: OnceLock<Mode>,
    /// Set until it has its own name.
    pub(super) staged: Option<Staged>,
    /// True if it has all of the content but an attribute could not be set, which was reported.
    pub(super) lacks_attributes: AtomicBool,
    /// Length of the content, once it is complete.
    pub(super) length: AtomicU64,
    /// State of its verification.
    pub(super) verification: Option<Verification>,
    /// Its record for the journal.
    pub(super) journaled: Option<JournaledFile>,
    /// Its segments recorded before it is complete.
    pub(super) partial: Option<Box<Partial>>,
    /// Number of times its content was moved again because the source had changed.
    pub(super) retries: AtomicU32,
}

impl CopiedFile {
    /// State for ranges of a file that another process leads and finishes: only whether zeros are
    /// left out, and the hash of the range.
    #[cfg(feature = "distributed")]
    pub(super) fn of_member(copier: &Copier) -> Self {
        Self {
            source: None,
            before: None,
            claimed: None,
            backup: None,
            link: None,
            made: None,
            reflinked: false,
            offloaded: false,
            skips_holes: false,
            has_holes: copier.options.sparse == Sparse::Always,
            creation_mode: None,
            mode_to_restore: OnceLock::new(),
            staged: None,
            lacks_attributes: AtomicBool::new(false),
            length: AtomicU64::new(0),
            verification: Verification::begin(copier),
            journaled: None,
            partial: None,
            retries: AtomicU32::new(0),
        }
    }
}

/// A target that was created or opened.
pub(super) struct OpenTarget {
    pub(super) file: Fd,
    /// The target before it was opened; `None` if it is new.
    pub(super) before: Option<Stat>,
    /// Its claimed identity ([`overwritten`](super::overwritten)).
    pub(super) claimed: Option<Identity>,
    /// The backup, if one was made.
    pub(super) backup: Option<MadeBackup>,
    /// The mode it was created with, if its name was free.
    pub(super) creation_mode: Option<CreationMode>,
    /// Set until it has its own name.
    pub(super) staged: Option<Staged>,
    /// Its segments recorded before it is complete.
    pub(super) partial: Option<Box<Partial>>,
}

impl OpenTarget {
    pub(super) fn new(file: Fd) -> Self {
        Self {
            file,
            before: None,
            claimed: None,
            backup: None,
            creation_mode: None,
            staged: None,
            partial: None,
        }
    }
}

/// Result of preparing a target.
#[allow(clippy::large_enum_variant, reason = "each is taken apart at once")]
pub(super) enum PreparedTarget {
    /// It is open.
    Open(OpenTarget),
    /// The existing file stays; this was reported.
    Left(Left),
    /// Another copy is writing to it. The entry is retried after that.
    Waits,
}

/// Reports a failure to create a name with a trailing slash as GNU does: not a directory.
pub(super) fn slashed(name: &CStr, cause: Error) -> Error {
    if cause.is(Errno::ISDIR) && name.to_bytes().ends_with(b"/") {
        return Error::new(cause.operation(), format!("{name:?}"), Errno::NOTDIR);
    }
    cause
}
