//! Directories entered by another process: it creates and lists them, and the walking process
//! continues with the listing.
//!
//! ```text
//! walking process                     process that received the work item
//! Job::Enter ─► PendingItem ────────► visit: open, list, Tool::enter_dir ─► Entered
//! node, shares its entries ◄─────────────────────────────────────────────────┘
//! ```
//!
//! The walking process still owns the tree, so it finishes directories, last. Difficult
//! directories are bounced before anything is created or changed: one on another device, one whose
//! listing is too large for the message that reports the work item, or one that the tool hands
//! back.

use haul_flow::plan::WINDOW_ENTRIES;
use haul_flow::{Context, Enter, Entry, OpenDir, OpenSubdir, continue_dir};
use haul_sys::{DirectoryReader, Error, Fd, Identity, NameArena, Open, PackedNames, Stat, stat};
use serde::{Deserialize, Serialize};
use std::ffi::CString;

use crate::distributed::Distributed;

/// A directory that another process has entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entered {
    /// Name in its parent directory.
    pub name: CString,
    stat: Stat,
    follow: bool,
    own: Vec<u8>,
    names: PackedNames,
}

impl Entered {
    /// Returns its approximate size in a message, in bytes.
    pub(crate) fn bytes(&self) -> usize {
        self.name.count_bytes() + self.own.len() + self.names.bytes().len()
    }
}

/// Outcome of entering a directory for another process.
pub(crate) enum EnterOutcome {
    Entered(Box<Entered>),
    /// The walking process must enter the directory.
    Bounced,
    /// Same as `Bounced`, and the tool has handed it back itself.
    Deferred,
    /// Complete: there are no entries to visit.
    Complete,
}

/// Reads the whole listing; `None` if it is too large.
fn listing(reader: &mut DirectoryReader, fd: &Fd) -> Result<Option<NameArena>, Error> {
    let mut names = NameArena::new();
    Ok((!reader.read(fd, &mut names, WINDOW_ENTRIES)?).then_some(names))
}

/// Enters a directory for the walking process. Creates nothing if the directory is bounced; that
/// includes one for whose listing `fits`, called with its size in bytes, returns false.
pub(crate) fn enter<T: Distributed>(
    cx: &Context<'_, T>,
    entry: &Entry<T>,
    opened: &OpenSubdir<'_>,
    fits: impl FnOnce(usize) -> bool,
) -> EnterOutcome {
    let OpenSubdir { source: Ok(fd), stat: seen, follow } = opened else { return EnterOutcome::Bounced };
    let above = cx.cache().open(&entry.node.source).and_then(|above| stat(&*above));
    let same_device = above.is_ok_and(|above| above.identity.device == seen.identity.device);
    // Listed before the tool creates anything: a directory that is too large must be bounced
    // untouched.
    let Ok(Some(names)) = listing(&mut DirectoryReader::new(), fd) else { return EnterOutcome::Bounced };
    let names = PackedNames::of(&names);
    if !same_device || !fits(names.bytes().len()) {
        return EnterOutcome::Bounced;
    }
    let own = match cx.tool().enter_dir(cx, entry, &OpenDir { source: Ok(fd), stat: seen, scope: None }) {
        Enter::Visit(own) => own,
        Enter::Bare(_) | Enter::Done => return EnterOutcome::Complete,
        Enter::Deferred => return EnterOutcome::Deferred,
    };
    EnterOutcome::Entered(Box::new(Entered {
        name: entry.name().to_owned(),
        stat: **seen,
        follow: *follow,
        own: cx.tool().pack_entered(&own),
        names,
    }))
}

impl Entered {
    /// Continues with the directory in the walking process.
    pub(crate) fn resume<T: Distributed>(self, cx: &Context<'_, T>, entry: &Entry<T>) {
        let Self { stat, follow, own, names, .. } = self;
        // Device numbers differ between hosts. The remote rank checked that this directory is on
        // the same device as its parent.
        let above = entry.node.source.identity();
        let identity = Identity { device: above.device, inode: stat.identity.inode };
        let Some(own) = cx.tool().unpack_entered(cx, entry, &own) else { return cx.complete(entry) };
        let how = if follow { Open::DIRECTORY.following() } else { Open::DIRECTORY };
        let source = cx.cache().hold(&entry.node.source, entry.name(), how, identity, None);
        continue_dir(cx, entry, (source, Stat { identity, ..stat }), own, names.unpack());
    }
}
