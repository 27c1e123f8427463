//! What a tool needs so that other processes can do a part of its work.

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::layout::Striping;
use haul_flow::{Context, DirHandle, DirNode, Entry, OpenFile, OpenSource, Tool};
use haul_sys::{Error, Fd};

use crate::item::ItemReceiver;

/// What a tool needs so that its entries can be done by another process. What has a default is for tools whose entries are
/// decided where the walk is, or whose directories are entered elsewhere.
pub trait Distributed: Tool {
    /// The tool's name, by which other processes know which it is.
    const NAME: &'static str;

    /// Says what other processes have to know to do parts of this run.
    fn init_message(&self) -> Vec<u8>;

    /// Makes the tool of a process that is given parts; `None` if the init-message is of another version.
    fn from_init(init_message: &[u8]) -> Option<Self>;

    /// Tells whether an entry may be done by a process that knows nothing of the rest of the run.
    fn may_travel(&self, _node: &DirNode<Self>) -> bool {
        true
    }

    /// Packs what the tool keeps for a directory, as far as its entries need it.
    fn pack(&self, own: &Self::Directory) -> Vec<u8>;

    /// Unpacks what [`Distributed::pack`] has packed, in the process that does the entries.
    ///
    /// # Errors
    /// A directory that cannot be held as it was, and its path.
    fn unpack(&self, packed: &[u8], receiver: &ItemReceiver<'_>)
    -> Result<Self::Directory, (Vec<u8>, Error)>;

    /// Returns where the copy of an entry is, once it is made: the directory, and the name there. `None` for tools that make
    /// none, and for an entry that must not be skipped by a journal.
    fn made<'a>(&self, _found: &'a Entry<Self>) -> Option<(&'a Arc<DirHandle>, &'a CStr)> {
        None
    }

    /// Called when the job is lost for good, before what is left is abandoned: a later run may go on with it.
    fn lost(&self) {}

    /// Tells whether a large file is finished by what depends on the end of its content, as attributes do, so that its leader
    /// counts the ranges itself.
    fn leader_counts(&self) -> bool {
        false
    }

    /// Called on a rank when the last entry of a work item is complete, before that is reported.
    fn finish_part(&self, _desk: &Context<'_, Self>, _node: &DirNode<Self>) {}

    /// True if the process that walks can do an entry again whose result is too long to be sent: then the entry is handed back to it.
    fn can_do_again(&self, _found: &Entry<Self>) -> bool {
        false
    }

    /// Returns what another process needs to open a file's target and write a part of it, if that can be done.
    fn ticket(&self, _file: &OpenFile<Self>) -> Option<Vec<u8>> {
        None
    }

    /// Returns how an open file lies on the storage: as its target does, or else its source. `None` where nothing is known.
    fn striping(&self, _file: &OpenFile<Self>) -> Option<Striping> {
        None
    }

    /// Opens the target of a file that another process leads, by its ticket. `None` if it cannot be, and that was reported.
    fn join(
        &self,
        _desk: &Context<'_, Self>,
        _found: &Entry<Self>,
        _opened: &OpenSource<'_>,
        _ticket: &[u8],
    ) -> Option<Joined<Self::File>> {
        None
    }

    /// Packs what the tool keeps for a directory that was entered for another process, which will finish it.
    fn pack_entered(&self, _own: &Self::Directory) -> Vec<u8> {
        Vec::new()
    }

    /// Tells whether a directory may be entered by another process, going by the inode number that its listing shows.
    fn may_be_entered_elsewhere(&self, _node: &DirNode<Self>, _inode: u64) -> bool {
        false
    }

    /// Unpacks, in the process that walks, what the tool keeps for a directory that another process has entered
    /// ([`Distributed::pack_entered`]). `None` if it cannot be, and that was told.
    fn unpack_entered(
        &self,
        _desk: &Context<'_, Self>,
        _found: &Entry<Self>,
        _packed: &[u8],
    ) -> Option<Self::Directory> {
        None
    }

    /// Decides, in the process that walks, what becomes of an entry that was returned. `true` if it is to be done by some
    /// process after all, as claimed; if not, it is settled, or kept, here.
    fn decide_returned(&self, cx: &Context<'_, Self>, entry: &mut Entry<Self>) -> bool {
        cx.complete(entry);
        false
    }

    /// Hears, in the process that walks, whether the copy of a claimed entry stands.
    fn claimed_is_over(&self, _desk: &Context<'_, Self>, _found: &Entry<Self>, _stands: bool) {}
}

/// The open target of a file that another process leads.
pub struct Joined<F> {
    /// What the tool keeps for the file.
    pub own: F,
    /// The target.
    pub target: Fd,
    /// Whether [`Tool::block`] sees each block before it is written.
    pub inspect: bool,
}
