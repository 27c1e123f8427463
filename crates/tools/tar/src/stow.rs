//! The appender: creates an archive in one pass. All workers add members to its end as they
//! find them.
//!
//! ```text
//! directory entered   ─► headers added
//! small file, read    ─► headers and content added
//! any other file      ─► headers added, with room ─► content written when read ─► room released
//! directory completed ─► the next one may be written (order.rs)
//! ```
//!
//! Nothing needs to be known about later members, and each file is opened and examined once. The
//! archive must support positioned writes; other cases need a survey first (`survey.rs`, `fill/`).
//!
//! A file may be deferred before it is added; it is opened again when its directory is written.
//! Every change of the order can make deferred files due, so every change returns them. A file with
//! several names is always deferred unless its directory is being written, so that its names are
//! added in archive order.
//!
//! Invariants: each room is released once, when its file ends, whatever happened to it. Content
//! that was not read is zeros. A file precedes its hard links, which are added under the lock of
//! the table that finds them.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{
    Block, Context, DirNode, Enter, Entry, Failure, FileKey, Handled, Holes, OpenDir, OpenFile, OpenSource,
    Order, Plan, Policy, Probe, Report, Reported, Start, Tally, Tool, Transfer, Write,
};
use haul_sys::{EntryType, Fd, Stat, stat};

use super::TarKind;
use super::entry::{Listing, TarEntry};
use super::look::{Look, difference, has_changed};
use super::order::{PutOff, TOP, WAITING_MEMBER_BYTES, WITHIN_BYTES};
use super::output::Output;
use super::segment::{Content, Room};
use super::tail::{Due, Tail};
use super::telling::Telling;

pub(super) struct Stow {
    look: Look,
    tail: Tail<Entry<Stow>>,
    telling: Telling,
    /// For each file with several names, the member that holds its content.
    firsts: Mutex<HashMap<FileKey, Vec<u8>>>,
}

thread_local! {
    /// Recycled buffer for the headers of one member.
    static HEADERS: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Result of adding a member.
enum Outcome {
    /// Its headers are in the archive, with room for its content.
    Room(Room),
    /// It is in the archive, with this many bytes of content.
    Whole(u64),
    /// It was deferred and will be retried.
    PutOff,
    /// It does not fit the format.
    LeftOut,
}

impl Stow {
    pub(super) fn new(look: Look, output: Output) -> Self {
        Self { telling: Telling::new(&look.options), look, tail: Tail::new(output), firsts: Mutex::default() }
    }

    /// Begins the parent directory of the `place`-th operand.
    pub(super) fn begin_operand(&self, place: usize, listing: &Listing) {
        // Nothing can be due: nothing was deferred before.
        listing.number.get_or_init(|| self.tail.begin(TOP, place as u64, Vec::new()).0);
    }

    /// Writes the rest; returns the length of all members, and the output.
    pub(super) fn finish(self, report: &dyn Report) -> (u64, Output) {
        let (end, times_put_off, output) = self.tail.finish();
        if report.wants_debug() {
            report.debug(&format!("members deferred: {times_put_off}"));
        }
        (end, output)
    }

    fn begin_directory(&self, cx: &Context<'_, Self>, above: &Listing, member: &TarEntry) {
        let path = above.member_path(member, &self.look.options);
        // If its headers do not fit the format, its contents are archived all the same.
        let headers = self.with_headers(cx, member, &path, <[u8]>::to_vec).unwrap_or_default();
        // The walk sorts directories by inode.
        let place = member.stat.identity.inode;
        let (number, due) = self.tail.begin(number_of(above), place, headers);
        come_again(cx, due);
        if let Some(listing) = &member.listing {
            listing.number.get_or_init(|| number);
        }
        self.tell_of_member(cx, member, path);
    }

    fn tell_of_member(&self, cx: &Context<'_, Self>, member: &TarEntry, path: Vec<u8>) {
        let Look { options, people, .. } = &self.look;
        self.telling.tell(member, path, options, people, cx.report());
    }

    /// Adds a member with its content, if known; or a hard link, if the file was added before.
    fn add(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        mut member: TarEntry,
        content: Option<&[u8]>,
    ) -> Outcome {
        let listing = &entry.node.own;
        let path = listing.member_path(&member, &self.look.options);
        let mut firsts =
            member.may_be_linked().then(|| self.firsts.lock().unwrap_or_else(PoisonError::into_inner));
        let may_wait = firsts.is_none();
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
                    Content::Here(content)
                }
                None => Content::Later(member.stored_bytes()),
            };
            let (added, due) =
                self.tail.add(number_of(listing), headers, &content, may_wait, || entry.clone());
            come_again(cx, due);
            added
        });
        let room = match added {
            Some(Ok(room)) => room,
            Some(Err(PutOff)) => return Outcome::PutOff,
            None => return Outcome::LeftOut,
        };
        if let (Some(firsts), true) = (&mut firsts, is_first) {
            self.look.naming.tell_stripped(&listing.path(&member), TarKind::RemovingLinkPrefix, cx.report());
            firsts.insert(member.file_key(), path.clone());
        }
        drop(firsts);
        self.tell_of_member(cx, &member, path);
        room.map_or(Outcome::Whole(written), Outcome::Room)
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
            let made = member.encode(path, &self.look.options, &self.look.people, headers);
            made.map_err(|why| self.look.tell_unfit(cx, path, &why)).ok().map(|()| take(headers))
        })
    }

    /// Reports a file that changed since it was opened, or shrank by `missing` bytes.
    fn tell_difference(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: &Fd,
        before: &Stat,
        missing: u64,
    ) {
        let changed = stat(source).map_or(true, |now| has_changed(before, &now));
        if (missing > 0 || changed)
            && let Some(problem) = difference(entry.path(), missing, changed)
        {
            self.look.tell(cx, problem, 1);
        }
    }
}

impl Stow {
    /// Probes every file of the directory at the end of the archive. Of others only those that can
    /// be buffered are: the rest would be deferred.
    fn probe(&self, entry: &Entry<Self>) -> Probe {
        if self.tail.is_last(number_of(&entry.node.own)) {
            return Probe::ALWAYS;
        }
        Probe { links_max: 1, bytes_max: WAITING_MEMBER_BYTES as u64 }
    }
}

/// Retries deferred files that are due.
fn come_again(cx: &Context<'_, Stow>, due: Due<Entry<Stow>>) {
    due.0.into_iter().for_each(|entry| cx.retry(entry));
}

/// Returns a directory's number, which it has from its beginning.
fn number_of(listing: &Listing) -> usize {
    listing.number.get().copied().unwrap_or(TOP)
}

impl Tool for Stow {
    type Directory = Arc<Listing>;
    type File = Room;

    fn policy(&self) -> Policy {
        // What belongs together in the archive is read at about the same time.
        Policy { order: Order::Walk, backpressure: Some(self.tail.waiting()), ..Policy::default() }
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        if self.tail.is_broken() {
            return Plan::Skip;
        }
        let otherwise = if kind == EntryType::Regular { Plan::Read(self.probe(entry)) } else { Plan::Handle };
        self.look.plan(entry, kind, otherwise)
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<Arc<Listing>> {
        self.look.enter(cx, entry, opened, |parent, member| {
            self.begin_directory(cx, parent, &member);
        })
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        come_again(cx, self.tail.end(number_of(&node.own)));
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> Handled {
        let mut handled = Handled::Over;
        self.look.handle(cx, entry, |_, member| {
            if let Outcome::PutOff = self.add(cx, entry, member, None) {
                handled = Handled::Deferred;
            }
            handled == Handled::Over
        });
        handled
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: Failure<'_>) -> Reported {
        self.look.failed(cx, entry, failure)
    }

    fn open_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, opened: &OpenSource<'_>) -> Start<Room> {
        let Some(member) = self.look.opened(cx, entry, opened.stat) else { return Start::Done };
        let is_whole =
            |content: &&[u8]| content.len() as u64 == opened.stat.size && content.len() <= WITHIN_BYTES;
        let content = opened.first.filter(is_whole);
        match self.add(cx, entry, member, content) {
            // New room is zeros, and so are holes.
            Outcome::Room(own) => Start::Inspect { own, transfer: Transfer::Blocks(Holes::Skip) },
            Outcome::Whole(bytes) => {
                if bytes > 0 {
                    self.tell_difference(cx, entry, opened.source, opened.stat, 0);
                }
                cx.count(Tally { files: 1, bytes, ..Tally::default() });
                Start::Done
            }
            Outcome::PutOff => Start::Deferred,
            Outcome::LeftOut => Start::Done,
        }
    }

    fn block(&self, file: &OpenFile<Self>, Block { offset, bytes, .. }: Block<'_>) -> Write {
        // The header has the size at opening time; anything the file grew by does not fit.
        let left = file.stat.size.saturating_sub(offset);
        let taken = usize::try_from(left).map_or(bytes.len(), |left| left.min(bytes.len()));
        self.tail.put(&file.own, offset, &bytes[..taken]);
        if self.tail.is_broken() { Write::End } else { Write::Nothing }
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> bool {
        if self.tail.is_broken() {
            return true;
        }
        let missing = file.stat.size.saturating_sub(file.length());
        self.tell_difference(cx, &file.entry, &file.source, &file.stat, missing);
        cx.count(Tally { files: 1, ..Tally::default() });
        true
    }

    fn close_file(&self, _: &Context<'_, Self>, _: &Entry<Self>, own: Room, _: bool) {
        self.tail.release(own);
    }
}
