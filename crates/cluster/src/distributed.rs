//! Requirements for a tool whose work can be distributed.

use std::ffi::CStr;
use std::ops::Range;
use std::sync::Arc;

use haul_flow::{Context, DirHandle, DirNode, Entry, Kind, OpenFile, OpenSource, Tool};
use haul_striping::Striping;
use haul_sys::{Error, Fd, Timestamp};

use crate::remote_path::ItemReceiver;

/// Implemented by tools whose entries can be processed by other processes. Methods with a default
/// are for tools that decide about entries in the walking process, or whose directories are
/// entered elsewhere.
pub trait Distributed: Tool {
    /// Name that identifies the tool to other processes.
    const NAME: &'static str;

    /// Kinds of the tool's problems and lines, as other processes may report them.
    const KINDS: &'static [Kind];

    /// True if entries are sent with the inode numbers of their listing.
    const SENDS_INODES: bool = false;

    /// True if the entries of an operand may become several items. Otherwise they belong together.
    const OPERANDS_ARE_CUT: bool = false;

    /// True if entries may be processed again: after a loss of the job, or by the next run with the
    /// same journal. Otherwise a loss ends the run.
    const MAY_BE_REPEATED: bool = true;

    /// Returns the tool's packed options, which other processes need to process work items of this
    /// run.
    fn init_message(&self) -> Vec<u8>;

    /// Called in the walking process before the ranks first start, with each directory in which the
    /// tool creates entries, and the time by the clock of its file system.
    fn note_start_time(&self, _directory: &DirHandle, _now: Timestamp) {}

    /// Creates the tool in a process that receives work items; `None` if the init message has
    /// another version.
    fn from_init(init_message: &[u8]) -> Option<Self>;

    /// True if an entry can be processed without knowledge of the rest of the run.
    fn is_distributable(&self, _node: &DirNode<Self>) -> bool {
        true
    }

    /// True if an entry of a distributable directory can be processed elsewhere too.
    fn entry_is_distributable(&self, _entry: &Entry<Self>) -> bool {
        true
    }

    /// Packs the part of the tool's state of a directory that its entries need.
    fn pack(&self, own: &Self::Directory) -> Vec<u8>;

    /// Unpacks the output of [`Distributed::pack`] in the process that receives the work item.
    ///
    /// # Errors
    /// If a directory can't be held or is another one; the path comes with the error.
    fn unpack(&self, packed: &[u8], receiver: &ItemReceiver<'_>)
    -> Result<Self::Directory, (Vec<u8>, Error)>;

    /// Returns the directory and name of an entry's copy, once created. `None` for tools that
    /// create nothing, and for entries that a journal must not skip.
    fn target_of<'a>(&self, _entry: &'a Entry<Self>) -> Option<(&'a Arc<DirHandle>, &'a CStr)> {
        None
    }

    /// Called when the job is lost for good, before the outstanding work is abandoned. A later run
    /// may resume it. May be called twice.
    fn lost(&self) {}

    /// True if the leader of a large file counts its ranges itself, because finishing the file
    /// needs its complete content (setting attributes does) or the results of its ranges.
    fn leader_counts(&self) -> bool {
        false
    }

    /// Called on a rank when the last entry of a work item is complete, before the item
    /// is reported.
    fn finish_item(&self, _cx: &Context<'_, Self>, _node: &DirNode<Self>) {}

    /// True if the walking process can redo an entry, which is then bounced if its result is too
    /// long to be sent.
    fn can_redo(&self, _entry: &Entry<Self>) -> bool {
        false
    }

    /// Returns the data that another process needs to open a file's target and write a range of
    /// it; `None` if that is impossible.
    fn ticket(&self, _file: &OpenFile<Self>) -> Option<Vec<u8>> {
        None
    }

    /// Returns the striping of an open file's target, or else of its source; `None` if unknown.
    fn striping(&self, _file: &OpenFile<Self>) -> Option<Striping> {
        None
    }

    /// Opens the target of a file led by another process, given the ticket; `None` if that fails,
    /// after reporting why.
    fn join(
        &self,
        _cx: &Context<'_, Self>,
        _entry: &Entry<Self>,
        _opened: &OpenSource<'_>,
        _ticket: &[u8],
    ) -> Option<Joined<Self::File>> {
        None
    }

    /// Called on the rank that moved a range, before it closes source and target. Returns a result
    /// for the leader, or `None` if the range is wrong, which was reported.
    fn finish_range(
        &self,
        _cx: &Context<'_, Self>,
        _file: &OpenFile<Self>,
        _range: &Range<u64>,
    ) -> Option<Vec<u8>> {
        Some(Vec::new())
    }

    /// Called on the leader with outputs of [`Distributed::finish_range`]: when the file is
    /// announced, with those of ranges that an earlier attempt moved, and then, if the leader
    /// counts, with that of each range. Returns false if the file has failed.
    fn add_ranges(&self, _file: &OpenFile<Self>, _results: &[Vec<u8>]) -> bool {
        true
    }

    /// Packs the tool's state of a directory entered for another process, which will finish it.
    fn pack_entered(&self, _own: &Self::Directory) -> Vec<u8> {
        Vec::new()
    }

    /// True if another process may enter a directory, judging by the inode number from the listing.
    fn may_be_entered_elsewhere(&self, _node: &DirNode<Self>, _inode: u64) -> bool {
        false
    }

    /// Unpacks the output of [`Distributed::pack_entered`] in the walking process; `None` if that
    /// fails, after reporting why.
    fn unpack_entered(
        &self,
        _cx: &Context<'_, Self>,
        _entry: &Entry<Self>,
        _packed: &[u8],
    ) -> Option<Self::Directory> {
        None
    }

    /// Decides about a bounced entry in the walking process. Returns true if the entry must be
    /// processed after all, with a hard-link claim. Otherwise it is completed or kept here.
    fn decide_bounced(&self, cx: &Context<'_, Self>, entry: &mut Entry<Self>) -> bool {
        cx.complete(entry);
        false
    }

    /// Called in the walking process when an entry with a hard-link claim is complete; `stands` is
    /// true if its copy exists. Releases the claim.
    fn claim_ended(&self, _cx: &Context<'_, Self>, _entry: &Entry<Self>, _stands: bool) {}
}

/// The open target of a file led by another process.
pub struct Joined<F> {
    /// The tool's state of the file.
    pub own: F,
    /// The target.
    pub target: Fd,
    /// True if [`Tool::block`] sees each block before it is written.
    pub inspect: bool,
}
