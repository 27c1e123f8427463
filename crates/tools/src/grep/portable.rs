//! What a search by several processes sends: the options once, and with each part which of the user's operands it is below.

use haul_flow::{Arrivals, Node, Portable};
use haul_sys::Error;

use super::{Grep, GrepOptions, Place, PlaceKind};

impl Portable for Grep {
    const NAME: &'static str = "grep";

    fn brief(&self) -> Vec<u8> {
        // Plain data of types that can be written down.
        postcard::to_stdvec(self.options()).unwrap_or_default()
    }

    fn briefed(brief: &[u8]) -> Option<Self> {
        let options: GrepOptions = postcard::from_bytes(brief).ok()?;
        Self::new(options, &mut Vec::new()).ok()
    }

    fn may_travel(&self, node: &Node<Self>) -> bool {
        node.own.kind != PlaceKind::Input
    }

    fn pack(&self, own: &Place) -> Vec<u8> {
        postcard::to_stdvec(&(own.index, own.kind)).unwrap_or_default()
    }

    fn unpack(&self, packed: &[u8], _: &Arrivals<'_>) -> Result<Place, (Vec<u8>, Error)> {
        let (index, kind) = postcard::from_bytes(packed).unwrap_or((0, PlaceKind::Plain));
        Ok(Place { index, kind })
    }
}
