//! Directories that another process enters: it makes what belongs to them and lists them, and the process that walks goes on
//! with what it found.
//!
//! ```text
//! process that walks              process that was given the part
//! Job::Enter ─► Parcel ─────────► visit: open, list, Tool::enter ─► Entered
//! node, shares its entries ◄───── Entered
//! ```
//!
//! The process that walks keeps the tree all the same, so directories are finished there, last. What is not simple is given
//! back before anything was made of it: a directory on another device, or one too large for one message.

use std::ffi::CString;
use std::sync::Arc;

use haul_sys::{DirectoryReader, Error, Fd, Identity, Names, PackedNames, Stat, stat};
use serde::{Deserialize, Serialize};

use crate::node::{Found, Node};
use crate::part::{Part, Portable};
use crate::plan::WINDOW_ENTRIES;
use crate::run::{Batch, Desk, Job};
use crate::tool::{Enter, Opened, Tool};

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

impl<T: Tool> Desk<'_, T> {
    /// Enters a directory for another process, unless that has to do it. Nothing is made before that is known.
    pub(crate) fn enter_for_another(
        &self,
        reader: &mut DirectoryReader,
        found: &Found<T>,
        (fd, seen, follow): (&Arc<Fd>, &Stat, bool),
    ) -> Elsewhere {
        let above = self.cache().open(&found.node.source).and_then(|above| stat(&*above));
        let same_device = above.is_ok_and(|above| above.identity.device == seen.identity.device);
        let Ok(Some(names)) = listing(reader, fd) else { return Elsewhere::Returned };
        if !same_device {
            return Elsewhere::Returned;
        }
        let own = match self.tool().enter(self, found, &Opened { source: Ok(fd), stat: seen }) {
            Enter::Visit(own) => own,
            Enter::Bare(_) | Enter::Over => return Elsewhere::Over,
        };
        Elsewhere::Entered(Box::new(Entered {
            name: found.name().to_owned(),
            stat: *seen,
            follow,
            own: self.tool().pack_entered(&own),
            names: PackedNames::of(&names),
        }))
    }
}

impl Part {
    /// Records a directory that was entered.
    pub(crate) fn note_entered(&self, entered: Entered) {
        self.note(|outcome| outcome.entered.push(entered));
    }
}

impl<T: Portable> Desk<'_, T> {
    /// Goes on with a directory that another process has entered.
    pub(crate) fn go_on_in(&self, found: &Found<T>, entered: Entered) {
        let Entered { stat, follow, own, names, .. } = entered;
        // The number of the device is another one on another host; it was the same as the directory's above.
        let above = found.node.source.identity();
        let identity = Identity { device: above.device, inode: stat.identity.inode };
        let stat = Stat { identity, ..stat };
        let own = match self.tool().unpack_entered(self, found, &own) {
            Some(own) => own,
            None => return self.settle(found),
        };
        let how = if follow { haul_sys::Open::DIRECTORY.following() } else { haul_sys::Open::DIRECTORY };
        let source = self.cache().hold(&found.node.source, found.name(), how, identity, None);
        let node = Node::new(Some(Arc::clone(&found.node)), source, Some(stat), own);
        self.take_listing(&node, names.unpack());
    }

    /// Enters a directory here that was given back.
    pub(crate) fn enter_here(&self, found: &Found<T>) {
        let names = Names::of(found.name(), found.kind);
        self.share(Job::Files(Arc::clone(&found.node), Batch::whole(names)));
    }
}
