//! Distributes a search over ranks. The options are sent once; each work item names the operand it
//! is below. A file whose result is too large to send is searched again by the process that walks.

use haul_cluster::{Arrivals, Distributed};
use haul_flow::{Desk, Found, Job, Node};
use haul_sys::Error;

use super::{Grep, GrepOptions, Place, PlaceKind};

impl Distributed for Grep {
    const NAME: &'static str = "grep";

    fn brief(&self) -> Vec<u8> {
        // Plain data always serialises.
        postcard::to_stdvec(self.options()).unwrap_or_default()
    }

    fn briefed(brief: &[u8]) -> Option<Self> {
        let options: GrepOptions = postcard::from_bytes(brief).ok()?;
        Self::new(options, &mut Vec::new()).ok()
    }

    fn may_travel(&self, node: &Node<Self>) -> bool {
        node.own.kind != PlaceKind::Input
    }

    fn decide_returned(&self, desk: &Desk<'_, Self>, found: &mut Found<Self>) -> bool {
        // Its result is too large to send. A file job would be sent away again, so this is a
        // visit job.
        let found = found.clone();
        desk.share(Job::Visit(Box::new(move |desk| {
            desk.tool().search_as_it_comes(desk, &found);
            desk.settle(&found);
        })));
        false
    }

    fn can_do_again(&self, _: &Found<Self>) -> bool {
        true
    }

    fn pack(&self, own: &Place) -> Vec<u8> {
        postcard::to_stdvec(&(own.index, own.kind)).unwrap_or_default()
    }

    fn unpack(&self, packed: &[u8], _: &Arrivals<'_>) -> Result<Place, (Vec<u8>, Error)> {
        let (index, kind) = postcard::from_bytes(packed).unwrap_or((0, PlaceKind::Plain));
        Ok(Place { index, kind })
    }
}
