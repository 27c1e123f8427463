//! First pass of the two-pass writer, for archives in which offsets must be known before content is
//! read: all workers examine everything that goes into the archive.
//!
//! Each directory gets a [`DirectoryListing`] of its entries, which the layout (`layout.rs`) puts
//! in order. This pass reads only the values for headers; the second one reads content
//! (`positioned_writer/`). Files that may be unreadable are opened here already, so that they are
//! left out of the archive.

use std::sync::Arc;

use haul_flow::{
    Context, DirNode, Enter, Entry, EntryFailure, Handled, OpenDir, OpenSource, Plan, Reported, Start, Tool,
};
use haul_sys::EntryType;

use super::entry::{DirectoryListing, TarEntry};
use super::examiner::Examiner;
use super::options::Links;

pub(super) struct ArchiveSurvey(pub(super) Examiner);

impl ArchiveSurvey {
    /// Measures an entry's headers and adds it to the listing, unless it does not fit the format.
    fn keep(&self, cx: &Context<'_, Self>, listing: &DirectoryListing, mut member: TarEntry) {
        let path = listing.member_path(&member, &self.0.options);
        match member.measure(&path, &self.0.options, &self.0.owners) {
            Ok(()) => listing.add(member),
            Err(why) => self.0.report_unfit(cx, &path, &why),
        }
    }
}

impl Tool for ArchiveSurvey {
    type Directory = Arc<DirectoryListing>;
    type File = ();

    fn follow(&self, _: &Entry<Self>) -> bool {
        self.0.options.links == Links::Followed
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        self.0.plan(entry, kind, Plan::Handle)
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Arc<DirectoryListing>> {
        self.0.enter(cx, entry, opened, |parent, member| self.keep(cx, parent, member))
    }

    fn finish_dir(&self, _: &Context<'_, Self>, node: &DirNode<Self>) {
        node.own.held.get_or_init(|| Arc::clone(&node.source));
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        self.0.failed(cx, entry, failure)
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        self.0.handle(cx, entry, |listing, member| {
            self.keep(cx, listing, member);
            true
        });
        Handled::Done
    }

    fn open_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenSource<'_>) -> Start<()> {
        Start::Done
    }
}
