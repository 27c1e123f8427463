//! The first run of making an archive in which members' places have to be known before they are read: everything that is to be
//! in it is looked at, by all workers.
//!
//! Each directory gets a [`Listing`] of what was found in it; the plan (`plan.rs`) puts them in order. Only what a header says
//! is read here: the content comes in the second run (`fill.rs`). Files that may turn out not to be readable are opened here
//! already, so that they are not in the archive.

use std::sync::Arc;

use haul_flow::{
    Desk, Enter, Failure, Found, Handled, Node, Opened, OpenedFile, Plan, Reported, Start, Tool,
};
use haul_sys::EntryType;

use super::entry::{Entry, Listing};
use super::look::Look;
use super::options::Links;

/// Looks at everything.
pub(super) struct Survey(pub(super) Look);

impl Survey {
    /// Measures an entry's headers and adds it to what was found, unless the format has no room for it.
    fn keep(&self, desk: &Desk<'_, Self>, listing: &Listing, mut entry: Entry) {
        let path = listing.member_path(&entry, &self.0.options);
        match entry.measure(&path, &self.0.options, &self.0.people) {
            Ok(()) => listing.add(entry),
            Err(why) => self.0.tell_unfit(desk, &path, &why),
        }
    }
}

impl Tool for Survey {
    type Directory = Arc<Listing>;
    type File = ();

    fn follow(&self, _: &Found<Self>) -> bool {
        self.0.options.links == Links::Followed
    }

    fn plan(&self, _: &Desk<'_, Self>, found: &Found<Self>, kind: EntryType) -> Plan {
        self.0.plan(found, kind, Plan::Handle)
    }

    fn enter_dir(
        &self,
        desk: &Desk<'_, Self>,
        found: &Found<Self>,
        opened: &Opened<'_>,
    ) -> Enter<Arc<Listing>> {
        self.0.enter(desk, found, opened, |parent, entry| self.keep(desk, parent, entry))
    }

    fn finish_dir(&self, _: &Desk<'_, Self>, node: &Node<Self>) {
        node.own.held.get_or_init(|| Arc::clone(&node.source));
    }

    fn failed(&self, desk: &Desk<'_, Self>, found: &Found<Self>, failure: Failure<'_>) -> Reported {
        self.0.failed(desk, found, failure)
    }

    fn handle(&self, desk: &Desk<'_, Self>, found: &Found<Self>, _: EntryType) -> Handled {
        self.0.handle(desk, found, |listing, entry| {
            self.keep(desk, listing, entry);
            true
        });
        Handled::Over
    }

    fn open_file(&self, _: &Desk<'_, Self>, _: &Found<Self>, _: &OpenedFile<'_>) -> Start<()> {
        Start::Done
    }
}
