//! The append writer: creates an archive in one pass. All workers add members to its end as they
//! find them.
//!
//! ```text
//! directory entered   ─► headers added
//! small file, read    ─► headers and content added
//! any other file      ─► headers added, space reserved ─► content written when read ─► released
//! directory completed ─► the next one may be written (order.rs)
//! ```
//!
//! Nothing needs to be known about later members, and each file is opened and examined once. The
//! archive must support positioned writes. What needs a survey first is in the head of `lib.rs`.
//!
//! A file may be deferred before it is added; it is opened again when its directory is written.
//! Every change of the order can make deferred files due, so every change returns them. A file with
//! several names is always deferred unless its directory is being written, so that its names are
//! added in archive order.
//!
//! Invariants: each reservation is released once, when its file ends, whatever happened to it.
//! Content that was not read is zeros. A file precedes its hard links, which are added under the
//! lock of the table that finds them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use haul_flow::{
    Block, Context, DirNode, Enter, Entry, EntryFailure, EntryOutcome, EntryReport, FileKey, Finished,
    Handled, Holes, JobOrder, OpenDir, OpenFile, OpenSource, Plan, Policy, Probe, Reported, Reporter, Start,
    Tally, Tool, Transfer, Write, lock,
};
use haul_sys::{EntryType, Fd, Stat};

use super::TarKind;
use super::allocator::Allocator;
use super::entry::{DirectoryListing, TarEntry};
use super::examiner::{Examiner, difference, was_changed};
use super::order::{self, BUFFERED_MEMBER_BYTES_MAX, Deferred, INLINE_BYTES_MAX, ROOT};
use super::output::ArchiveOutput;
use super::segment::{Reservation, SegmentContent};
use super::verbose::MemberPrinter;

type EntryOrder = order::ArchiveOrder<Entry<AppendWriter>>;

pub(super) struct AppendWriter {
    examiner: Examiner,
    allocator: Allocator<Entry<AppendWriter>>,
    printer: MemberPrinter,
    /// For each file with several names, the member that holds its content.
    firsts: Mutex<HashMap<FileKey, Vec<u8>>>,
}

thread_local! {
    /// Recycled buffer for the headers of one member.
    static HEADERS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

enum Added {
    /// Its headers are in the archive, and space for its content is reserved.
    Reserved(Reservation),
    /// It is in the archive, with this many bytes of content.
    Whole(u64),
    /// It was deferred and will be retried.
    Deferred,
    /// It does not fit the format.
    Unfit,
}

impl AppendWriter {
    pub(super) fn new(examiner: Examiner, output: ArchiveOutput) -> Self {
        Self {
            printer: MemberPrinter::new(&examiner.options),
            examiner,
            allocator: Allocator::new(output),
            firsts: Mutex::default(),
        }
    }

    /// Begins the parent directory of the `position`-th operand.
    pub(super) fn begin_operand(&self, position: usize, listing: &DirectoryListing) {
        // Nothing can be due: nothing was deferred before.
        let begin = |order: &mut EntryOrder| order.begin(ROOT, position as u64, Vec::new());
        listing.number.get_or_init(|| self.allocator.change(begin).0);
    }

    /// Writes the rest; returns the length of all members, and the output.
    pub(super) fn finish(self, report: &dyn Reporter) -> (u64, ArchiveOutput) {
        let (end, deferrals, output) = self.allocator.finish();
        if report.wants_debug() {
            report.debug(&format!("members deferred: {deferrals}"));
        }
        (end, output)
    }

    fn begin_directory(&self, cx: &Context<'_, Self>, above: &DirectoryListing, member: &TarEntry) {
        let path = above.member_path(member, &self.examiner.options);
        // If its headers do not fit the format, its contents are archived all the same.
        let headers = self.with_headers(cx, member, &path, <[u8]>::to_vec).unwrap_or_default();
        // The walk sorts directories by inode.
        let key = member.stat.identity.inode;
        let number = self.change(cx, |order| order.begin(number_of(above), key, headers));
        if let Some(listing) = &member.listing {
            listing.number.get_or_init(|| number);
        }
        self.print_member(cx, above, member);
    }

    fn print_member(&self, cx: &Context<'_, Self>, listing: &DirectoryListing, member: &TarEntry) {
        let Examiner { options, owners, .. } = &self.examiner;
        self.printer.print((listing, member), options, owners, cx.report());
    }

    /// Adds a member with its content, if known; or a hard link, if the file was added before.
    fn add(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        mut member: TarEntry,
        content: Option<&[u8]>,
    ) -> Added {
        let listing = &entry.node.own;
        let path = listing.member_path(&member, &self.examiner.options);
        // Held until the member is added: another name must not become a link to a member that
        // comes later.
        let mut firsts = member.may_be_linked().then(|| lock(&self.firsts));
        // Buffered entries leave archive order, in which a file precedes its links.
        let may_buffer = firsts.is_none();
        let first = firsts.as_ref().and_then(|firsts| firsts.get(&member.file_key()));
        let is_first = first.is_none();
        if let Some(first) = first {
            member.link_to(first.clone());
        }
        let mut written = 0;
        let added = self.with_headers(cx, &member, &path, |headers| {
            let content = match content.filter(|_| is_first) {
                Some(content) => {
                    written = content.len() as u64;
                    SegmentContent::Here(content)
                }
                None => SegmentContent::Later(member.stored_bytes()),
            };
            let deferred = || entry.clone();
            self.change(cx, |order| order.add(number_of(listing), headers, &content, may_buffer, deferred))
        });
        let reservation = match added {
            Some(Ok(reservation)) => reservation,
            Some(Err(Deferred)) => return Added::Deferred,
            None => return Added::Unfit,
        };
        if let (Some(firsts), true) = (&mut firsts, is_first) {
            self.examiner.prefixes.report_stripped(
                &listing.path(&member),
                TarKind::RemovingLinkPrefix,
                cx.report(),
            );
            firsts.insert(member.file_key(), path);
        }
        drop(firsts);
        self.print_member(cx, listing, &member);
        reservation.map_or(Added::Whole(written), Added::Reserved)
    }

    /// Encodes a member's headers and passes them to `take`; `None` if they do not fit the format,
    /// which is reported.
    fn with_headers<R>(
        &self,
        cx: &Context<'_, Self>,
        member: &TarEntry,
        path: &[u8],
        take: impl FnOnce(&[u8]) -> R,
    ) -> Option<R> {
        HEADERS.with_borrow_mut(|headers| {
            headers.clear();
            let made = member.encode(path, &self.examiner.options, &self.examiner.owners, headers);
            made.map_err(|why| self.examiner.report_unfit(cx, path, &why)).ok().map(|()| take(headers))
        })
    }

    /// Reports a file that changed since it was opened, or shrank by `missing` bytes.
    fn report_difference(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Fd,
        before: &Stat,
        missing: u64,
    ) {
        let changed = was_changed(source, before);
        if let Some(problem) = difference(entry, missing, changed) {
            self.examiner.report(cx, problem, 1);
        }
    }

    /// Changes the order, and retries the deferred files that became due.
    fn change<R>(&self, cx: &Context<'_, Self>, change: impl FnOnce(&mut EntryOrder) -> R) -> R {
        let (result, due) = self.allocator.change(change);
        due.into_iter().for_each(|entry| cx.retry(entry));
        result
    }

    /// Probes every file of the directory at the end of the archive. Of others only those that can
    /// be buffered are: the rest would be deferred.
    fn probe(&self, entry: &Entry<Self>) -> Probe {
        if self.allocator.is_last(number_of(&entry.node.own)) {
            return Probe::ALWAYS;
        }
        Probe { links_max: 1, bytes_max: BUFFERED_MEMBER_BYTES_MAX as u64, ..Probe::ALWAYS }
    }

    /// Counts a regular file.
    fn count_file(cx: &Context<'_, Self>, entry: &Entry<Self>, bytes: u64) {
        cx.count_entry(EntryOutcome::File, |outcome| EntryReport {
            bytes: Some(bytes),
            ..EntryReport::new(outcome, entry.path())
        });
    }
}

/// Returns a directory's number, which it has from its beginning.
fn number_of(listing: &DirectoryListing) -> usize {
    listing.number.get().copied().unwrap_or(ROOT)
}

impl Tool for AppendWriter {
    type Directory = Arc<DirectoryListing>;
    type File = Reservation;

    fn policy(&self) -> Policy {
        // Neighbours in the archive are read at about the same time.
        Policy { order: JobOrder::Walk, backpressure: Some(self.allocator.buffered()), ..Policy::default() }
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if self.allocator.is_broken() {
            return Plan::Skip;
        }
        let otherwise = if kind == EntryType::Regular { Plan::Read(self.probe(entry)) } else { Plan::Handle };
        self.examiner.plan(entry, kind, otherwise)
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Arc<DirectoryListing>> {
        self.examiner.enter(cx, entry, opened, |parent, member| {
            self.begin_directory(cx, parent, &member);
        })
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        self.change(cx, |order| order.end(number_of(&node.own)));
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        let mut handled = Handled::Done;
        self.examiner.handle(cx, entry, |_, member| match self.add(cx, entry, member, None) {
            Added::Whole(_) | Added::Reserved(_) => true,
            Added::Unfit => false,
            Added::Deferred => {
                handled = Handled::Deferred;
                false
            }
        });
        handled
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        self.examiner.failed(cx, entry, failure)
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Reservation> {
        let Some(member) = self.examiner.examine_open(cx, entry, opened.stat) else { return Start::Done };
        let is_whole =
            |content: &&[u8]| content.len() as u64 == opened.stat.size && content.len() <= INLINE_BYTES_MAX;
        let content = opened.first.filter(is_whole);
        match self.add(cx, entry, member, content) {
            // Reserved space is zeros, and so are holes.
            Added::Reserved(own) => Start::Inspect { own, transfer: Transfer::Blocks(Holes::Skip) },
            Added::Whole(bytes) => {
                if bytes > 0 {
                    self.report_difference(cx, entry, opened.source, opened.stat, 0);
                }
                cx.count(Tally { bytes, ..Tally::default() });
                Self::count_file(cx, entry, bytes);
                Start::Done
            }
            Added::Deferred => Start::Deferred,
            Added::Unfit => Start::Done,
        }
    }

    fn block(&self, file: &OpenFile<Self>, Block { offset, bytes, .. }: Block<'_>) -> Write {
        // The header has the size at opening time; anything the file grew by does not fit.
        let left = file.stat.size.saturating_sub(offset);
        let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.allocator.put(&file.own, offset, &bytes[..taken]);
        if self.allocator.is_broken() { Write::End } else { Write::Nothing }
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> Finished {
        if self.allocator.is_broken() {
            return Finished::Done;
        }
        let missing = file.stat.size.saturating_sub(file.length());
        self.report_difference(cx, &file.entry, &file.source, &file.stat, missing);
        Self::count_file(cx, &file.entry, file.length());
        Finished::Done
    }

    fn close_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, own: Reservation, _: bool) {
        self.allocator.release(own);
    }
}
