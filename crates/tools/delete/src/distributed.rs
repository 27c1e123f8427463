//! Deleting by several processes: the process that walks enters the directories, and removes each
//! when it is empty; any process removes their other entries.
//!
//! For an entry of a directory that both trees have, a rank needs the inode number that the survey
//! found and the directory in the source. Further below it needs nothing: the process that walks
//! the tree applies the selection and recognises the program's own files.

use haul_cluster::{Distributed, ItemReceiver, RemotePath};
use haul_flow::{CancelToken, Entry, Kind, Selector};
use haul_sys::{Errno, Error, Operation, c_string};

use super::deleter::{Deleter, Surveyed};
use super::kind::DeleteKind;
use super::options::Options;

impl Distributed for Deleter {
    const NAME: &'static str = "delete";
    const KINDS: &'static [Kind] = DeleteKind::KINDS;
    const SENDS_INODES: bool = true;
    const OPERANDS_ARE_CUT: bool = true;
    // A lost rank may indicate a larger failure: don't keep deleting.
    const MAY_BE_REPEATED: bool = false;

    fn init_message(&self) -> Vec<u8> {
        postcard::to_allocvec(&(self.options(), self.target())).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        let (options, target): (Options, Vec<u8>) = postcard::from_bytes(init_message).ok()?;
        let (selector, cancel) = (Selector::default(), CancelToken::default());
        Some(Self::counting(options, &c_string(&target), selector, cancel).deleting())
    }

    fn entry_is_distributable(&self, entry: &Entry<Self>) -> bool {
        entry.is_operand() || self.is_selected_by_name(entry)
    }

    fn pack(&self, own: &Surveyed) -> Vec<u8> {
        let source = own.source().map(|held| RemotePath::to(held));
        postcard::to_allocvec(&source).unwrap_or_default()
    }

    fn unpack(&self, packed: &[u8], receiver: &ItemReceiver<'_>) -> Result<Surveyed, (Vec<u8>, Error)> {
        let unreadable = |_| {
            let what = "an item of another version".to_owned();
            (Vec::new(), Error::new(Operation::Read, what, Errno::PROTO))
        };
        let source: Option<RemotePath> = postcard::from_bytes(packed).map_err(unreadable)?;
        let source = source.map(|path| receiver.hold(&path)).transpose()?;
        Ok(Surveyed::under(None, source))
    }

    fn lost(&self) {
        self.stop();
    }
}
