//! Directories that another process enters: it makes what belongs to them and lists them, and the process that walks goes on
//! with what it found.
//!
//! ```text
//! process that walks              process that was given the part
//! Job::Enter ─► pending-item ─────────► visit: open, list, Tool::enter_dir ─► Entered
//! node, shares its entries ◄───── Entered
//! ```
//!
//! The process that walks keeps the tree all the same, so directories are finished there, last. What is not simple is given
//! back before anything was made of it: a directory on another device, or one too large for one message.

use haul_flow::plan::WINDOW_ENTRIES;
use haul_flow::{Context, Enter, Entry, OpenDir, OpenSubdir};
use haul_sys::{DirectoryReader, Error, Fd, Identity, Names, Open, PackedNames, Stat, stat};
use serde::{Deserialize, Serialize};
use std::ffi::CString;

use crate::distributed::Distributed;

/// A directory that another process has entered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entered {
    /// Its name in its directory.
    pub name: CString,
    stat: Stat,
    follow: bool,
    own: Vec<u8>,
    names: PackedNames,
}

/// What a directory came to in a process that enters it for another.
pub(crate) enum Elsewhere {
    /// It is entered.
    Entered(Box<Entered>),
    /// The process that walks has to do it.
    Returned,
    /// There is nothing to go on with.
    Over,
}

/// Lists a directory whole; `None` if it is too large for that.
fn listing(reader: &mut DirectoryReader, fd: &Fd) -> Result<Option<Names>, Error> {
    let mut names = Names::new();
    Ok((!reader.read(fd, &mut names, WINDOW_ENTRIES)?).then_some(names))
}

/// Enters a directory for the process that walks, unless that has to do it. Nothing is made before that is known.
pub(crate) fn enter<T: Distributed>(
    cx: &Context<'_, T>,
    entry: &Entry<T>,
    opened: &OpenSubdir<'_>,
) -> Elsewhere {
    let OpenSubdir { source: Ok(fd), stat: seen, follow } = opened else { return Elsewhere::Returned };
    let above = cx.cache().open(&entry.node.source).and_then(|above| stat(&*above));
    let same_device = above.is_ok_and(|above| above.identity.device == seen.identity.device);
    let Ok(Some(names)) = listing(&mut DirectoryReader::new(), fd) else { return Elsewhere::Returned };
    if !same_device {
        return Elsewhere::Returned;
    }
    let own = match cx.tool().enter_dir(cx, entry, &OpenDir { source: Ok(fd), stat: seen }) {
        Enter::Visit(own) => own,
        Enter::Bare(_) | Enter::Over => return Elsewhere::Over,
    };
    Elsewhere::Entered(Box::new(Entered {
        name: entry.name().to_owned(),
        stat: **seen,
        follow: *follow,
        own: cx.tool().pack_entered(&own),
        names: PackedNames::of(&names),
    }))
}

impl Entered {
    /// Goes on with the directory in the process that walks.
    pub(crate) fn go_on<T: Distributed>(self, cx: &Context<'_, T>, entry: &Entry<T>) {
        let Self { stat, follow, own, names, .. } = self;
        // The number of the device is another one on another host; it was the same as the directory's above.
        let above = entry.node.source.identity();
        let identity = Identity { device: above.device, inode: stat.identity.inode };
        let Some(own) = cx.tool().unpack_entered(cx, entry, &own) else { return cx.complete(entry) };
        let how = if follow { Open::DIRECTORY.following() } else { Open::DIRECTORY };
        let source = cx.cache().hold(&entry.node.source, entry.name(), how, identity, None);
        cx.continue_dir(entry, (source, Stat { identity, ..stat }), own, names.unpack());
    }
}
