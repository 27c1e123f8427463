//! Distributes the hashing over ranks. A file is hashed by one rank, with all of its workers.
//!
//! Standard input and special files are read by the process that walks: another host has other ones
//! under their names.

use haul_cluster::{Distributed, ItemReceiver};
use haul_flow::{Context, DirNode, Entry, Job, Kind};
use haul_sys::Error;

use super::place::DirectoryRole;
use super::{SumKind, Summer};

impl Distributed for Summer {
    const NAME: &'static str = "sum";
    const KINDS: &'static [Kind] = SumKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        // Plain data always serialises.
        postcard::to_allocvec(self.options()).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        Some(Self::of_rank(postcard::from_bytes(init_message).ok()?))
    }

    fn is_distributable(&self, node: &DirNode<Self>) -> bool {
        !node.own.is_input()
    }

    fn decide_bounced(&self, cx: &Context<'_, Self>, entry: &mut Entry<Self>) -> bool {
        // A special file. A file job would be sent away again, so this is a visit job.
        let entry = entry.clone();
        cx.share(Job::Callback(Box::new(move |cx| {
            cx.tool().hash_stream(cx, &entry);
            cx.complete(&entry);
        })));
        false
    }

    fn pack(&self, own: &DirectoryRole) -> Vec<u8> {
        own.pack()
    }

    fn unpack(&self, packed: &[u8], _: &ItemReceiver<'_>) -> Result<DirectoryRole, (Vec<u8>, Error)> {
        DirectoryRole::unpack(packed)
    }
}
