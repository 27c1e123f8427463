//! Estimate of the space that a copy needs on its target's file system, for a warning before that
//! is full.
//!
//! The estimate is a lower bound, so that nobody is warned without need: what may share blocks with
//! its source counts nothing, a file with holes counts what it occupies, and existing files are
//! subtracted. The file system's own needs are not known.
//!
//! The estimate is made while the copy runs. So free space is read before the copy begins, and a
//! file that the copy has created since (by its birth time) counts as missing.

use std::collections::HashSet;
use std::ffi::CString;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use haul_flow::{Split, lock};
use haul_sys::{Fd, Identity, Open, Stat, Timestamp};
use haul_sys::{c_string, clock, file_system_type, free_bytes, magic, open_path, stat};

use super::options::{Atomic, CopyOptions, Make, Operands, Preserve, Reflink, Sparse, Update};

/// Types of file systems whose files can share blocks.
const SHARING_TYPES: [u64; 4] = [magic::BTRFS, magic::XFS, magic::BCACHEFS, magic::ZFS];

/// The room on a target's file system before a copy began.
#[derive(Clone, Debug)]
pub struct FreeSpace {
    /// The target operand.
    pub target: CString,
    /// Free bytes.
    pub bytes: u64,
    /// The device.
    device: u64,
    /// The type of the file system, if a copy from the same type may share blocks.
    sharing_type: Option<u64>,
    began: Timestamp,
}

impl FreeSpace {
    /// Reads the free space for a copy that is about to begin. `None` if the copy needs none, or if
    /// its need can't be derived from the sources.
    #[must_use]
    pub fn before(operands: &Operands, options: &CopyOptions) -> Option<Self> {
        let makes_data = options.make == Make::Copy && !options.attributes_only;
        let is_known = options.sparse != Sparse::Always && !options.existing.ask && !operands.parents;
        if !makes_data || !is_known {
            return None;
        }
        let target = operands.target_directory.as_ref().or_else(|| operands.names.last())?.clone();
        let above = Split::of(&target).display;
        let above = c_string(if above.is_empty() { b"." } else { above });
        let open = |path| open_path(path, Open::SEARCH.following());
        let place = open(&target).or_else(|_| open(&above)).ok()?;
        let kind = file_system_type(&place).ok()?;
        let may_share = options.reflink != Reflink::Never && SHARING_TYPES.contains(&kind);
        Some(Self {
            bytes: free_bytes(&place).ok()??,
            device: stat(&place).ok()?.identity.device,
            sharing_type: may_share.then_some(kind),
            began: clock(),
            target,
        })
    }

    /// True if files from this place may share their blocks with their copies.
    pub(super) fn may_be_shared(&self, source: &Fd) -> bool {
        self.sharing_type.is_some_and(|kind| file_system_type(source).map_or(true, |other| other == kind))
    }

    /// True if a target directory is on another file system.
    pub(super) fn is_elsewhere(&self, directory: &Stat) -> bool {
        directory.identity.device != self.device
    }

    /// True if the copy has created this.
    pub(super) fn is_new(&self, made: &Stat) -> bool {
        made.born.is_some_and(|born| born >= self.began)
    }
}

/// The room that the files seen so far need.
#[derive(Debug, Default)]
pub(super) struct Needed {
    bytes: AtomicU64,
    /// Files with several names that were counted.
    linked: Mutex<HashSet<Identity>>,
}

impl Needed {
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Adds a file whose copy takes the place of `there`, if anything.
    pub(super) fn add(&self, options: &CopyOptions, space: &FreeSpace, source: &Stat, there: Option<&Stat>) {
        let is_counted = options.preserves(Preserve::LINKS)
            && source.links > 1
            && !lock(&self.linked).insert(source.identity);
        if !is_counted {
            self.bytes.fetch_add(needed(options, space, source, there), Ordering::Relaxed);
        }
    }
}

/// Returns the room that the copy of a file needs, at least.
fn needed(options: &CopyOptions, space: &FreeSpace, source: &Stat, there: Option<&Stat>) -> u64 {
    let occupied = |stat: &Stat| stat.blocks.saturating_mul(512).min(stat.size);
    let whole = if options.sparse == Sparse::Never { source.size } else { occupied(source) };
    let Some(there) = there else { return whole };
    let existing = &options.existing;
    // With these, also the copy of an existing file is a new one.
    let replaces = options.atomic == Atomic::Always || existing.remove || existing.backs_up();
    if space.is_new(there) {
        return if replaces { 0 } else { whole };
    }
    match existing.update {
        Update::None | Update::NoneFail => 0,
        Update::Older if there.modified >= source.modified => 0,
        Update::Different(_) if (there.size, there.modified) == (source.size, source.modified) => 0,
        Update::Different(_) if replaces => whole,
        _ if existing.backs_up() => whole,
        Update::Older | Update::All | Update::Different(_) => {
            whole.saturating_sub(there.blocks.saturating_mul(512))
        }
    }
}
