//! Distributes a search over ranks. The options are sent once; each work item names the operand it
//! is below. A file whose result is too large to send is searched again by the process that walks.

use haul_cluster::{Distributed, ItemReceiver};
use haul_flow::{Context, DirNode, Entry, Job, Kind};
use haul_sys::Error;

use super::{Grep, GrepKind, GrepOptions, PlaceKind, SearchDirectory};

impl Distributed for Grep {
    const NAME: &'static str = "grep";
    const KINDS: &'static [Kind] = GrepKind::KINDS;

    fn init_message(&self) -> Vec<u8> {
        // Plain data always serialises.
        postcard::to_stdvec(self.options()).unwrap_or_default()
    }

    fn from_init(init_message: &[u8]) -> Option<Self> {
        let options: GrepOptions = postcard::from_bytes(init_message).ok()?;
        Self::new(options, &mut Vec::new()).ok()
    }

    fn is_distributable(&self, node: &DirNode<Self>) -> bool {
        node.own.kind != PlaceKind::Input
    }

    fn decide_bounced(&self, cx: &Context<'_, Self>, entry: &mut Entry<Self>) -> bool {
        // Its result is too large to send. A file job would be sent away again, so this is a
        // visit job.
        let entry = entry.clone();
        cx.share(Job::Callback(Box::new(move |cx| {
            cx.tool().search_as_it_comes(cx, &entry);
            cx.complete(&entry);
        })));
        false
    }

    fn can_redo(&self, _: &Entry<Self>) -> bool {
        true
    }

    fn pack(&self, own: &SearchDirectory) -> Vec<u8> {
        postcard::to_stdvec(&(own.index, own.kind)).unwrap_or_default()
    }

    fn unpack(&self, packed: &[u8], _: &ItemReceiver<'_>) -> Result<SearchDirectory, (Vec<u8>, Error)> {
        let (index, kind) = postcard::from_bytes(packed).unwrap_or((0, PlaceKind::Plain));
        Ok(SearchDirectory { index, kind })
    }
}
