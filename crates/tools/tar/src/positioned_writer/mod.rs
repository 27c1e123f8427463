//! Second pass of the two-pass writer: all workers read file content and put it between
//! the headers.
//!
//! ```text
//! span begins ─► groups: its files, by directory ─► flow opens and prefetches them
//!                                                     │ content between the headers, in a buffer
//! next span ◄── written ◄── (compressed) ◄── last group of the span ◄──┘
//! ```
//!
//! A span is in memory from its beginning until it is written, and a written span begins the next,
//! so at most `in_flight` are in memory. With positioned writes a span can be written at any time;
//! in a stream each waits for the spans before it ([`ArchiveOutput::submit`]). The pieces of a
//! large member are spans too; their files are read here, not by flow (`span_file.rs`). Other
//! processes also make spans (`remote.rs`).
//!
//! A member's offset is fixed before it is read. So a file that shrank is padded with zeros, and
//! one that cannot be opened any more is replaced by filler blocks (`format/filler.rs`).
//!
//! Termination: every span that begins either has groups, each an operand that completes once, or
//! is written at once.
//!
//! Invariant: whatever happens to its files, a span is written once, with as many bytes as the
//! layout gave it (test: the fault sweep over archives).

mod remote;
mod span_file;

use std::collections::{BTreeMap, HashMap};
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use haul_flow::{
    Block, Context, DirNode, Enter, Entry, EntryFailure, EntryOutcome, EntryReport, Finished, Holes, OpenDir,
    OpenFile, OpenSource, Operand, Probe, Problem, Reported, Reporter, Start, Tally, Tool, Transfer, Write,
    lock,
};
use haul_sys::{EntryType, NameArena};

use super::TarKind;
use super::entry::OwnerNames;
use super::examiner::{ExitStatus, difference, was_changed};
use super::format::fill;
use super::layout::{ItemLayout, Span};
use super::options::{Links, Options};
use super::output::ArchiveOutput;
use super::verbose::MemberPrinter;
use remote::ArchiveLocation;
use span_file::{ReadOutcome, SpanFile};

struct SpanBuffer {
    /// Index in the layout.
    number: usize,
    offset: u64,
    /// Headers and content; empty until the first byte is needed.
    bytes: Mutex<Vec<u8>>,
    /// Groups that are not complete.
    groups: AtomicUsize,
    /// True if another process makes and writes it.
    is_remote: AtomicBool,
}

/// Files of one directory whose content belongs in one span.
pub struct SpanGroup {
    buffer: Arc<SpanBuffer>,
    /// The files, sorted by name.
    files: Vec<SpanFile>,
    /// Location of the archive, if another process may write the span.
    archive: Option<ArchiveLocation>,
}

/// A file whose content is copied into a span.
pub struct FileProgress {
    /// Index in the group.
    place: usize,
    got: AtomicU64,
}

/// State shared by the pieces of a large member.
#[derive(Default)]
struct LargePieces {
    /// Pieces that are not complete.
    pieces: AtomicUsize,
    verdict: OnceLock<LargeVerdict>,
    missing: AtomicU64,
    changed: AtomicBool,
    /// True if a piece could not be read.
    has_failed: AtomicBool,
}

impl LargePieces {
    /// Adds the result of reading a piece.
    fn add(&self, missing: u64, changed: bool) {
        self.missing.fetch_add(missing, Ordering::Relaxed);
        self.changed.fetch_or(changed, Ordering::Relaxed);
    }

    /// Completes a piece. The last one gets the sums of all.
    fn complete_piece(&self) -> Option<(u64, bool)> {
        // Release publishes the piece's additions; Acquire lets the last one see all of it. The
        // sums are read only afterwards: a piece that adds early may complete late.
        if self.pieces.fetch_sub(1, Ordering::AcqRel) > 1 {
            return None;
        }
        Some((self.missing.load(Ordering::Relaxed), self.changed.load(Ordering::Relaxed)))
    }
}

/// Verdict on a large member: the first piece that is opened, or fails to open, decides.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LargeVerdict {
    Kept,
    LeftOut,
}

/// State that only the process that made the survey has.
struct LaunchState {
    layout: ItemLayout,
    owners: Arc<OwnerNames>,
    printer: MemberPrinter,
    output: ArchiveOutput,
    next: Mutex<usize>,
    large: HashMap<usize, LargePieces>,
    /// Members that are not in the archive after all.
    left_out: Mutex<Vec<usize>>,
    /// Location of the archive, for other processes.
    archive: Option<ArchiveLocation>,
}

/// Positioned writer: puts file content between the headers.
pub struct PositionedWriter {
    options: Arc<Options>,
    status: Arc<ExitStatus>,
    launch: Option<LaunchState>,
}

impl PositionedWriter {
    pub(super) fn new(
        layout: ItemLayout,
        options: Arc<Options>,
        owners: Arc<OwnerNames>,
        status: Arc<ExitStatus>,
        output: ArchiveOutput,
    ) -> Self {
        let mut large: HashMap<usize, LargePieces> = HashMap::new();
        for span in layout.spans.iter().filter(|span| span.is_piece) {
            *large.entry(span.members.start).or_default().pieces.get_mut() += 1;
        }
        let (next, left_out) = (Mutex::new(0), Mutex::default());
        let launch = Some(LaunchState {
            layout,
            owners,
            printer: MemberPrinter::new(&options),
            output,
            next,
            large,
            left_out,
            archive: None,
        });
        Self { options, status, launch }
    }

    /// Begins as many spans as may be in memory at once. Spans without content are
    /// written immediately.
    pub(super) fn first(&self, in_flight: usize, report: &dyn Reporter) -> Vec<Operand<SpanGroup>> {
        let mut operands = Vec::new();
        if let Some(launch) = &self.launch {
            launch.advance(&self.options, in_flight, report, |operand| operands.push(operand));
        }
        operands
    }

    /// Returns what is needed to end the archive: the layout, the members that are not in it after
    /// all, and the output.
    pub(super) fn finish(self) -> Option<(ItemLayout, Vec<usize>, ArchiveOutput)> {
        let LaunchState { layout, left_out, output, .. } = self.launch?;
        Some((layout, left_out.into_inner().unwrap_or_else(PoisonError::into_inner), output))
    }

    /// Returns the bytes of a span, with the headers in place.
    fn bytes<'a>(&self, buffer: &'a SpanBuffer) -> MutexGuard<'a, Vec<u8>> {
        let mut bytes = lock(&buffer.bytes);
        if let (true, Some(launch)) = (bytes.is_empty(), &self.launch) {
            *bytes = launch.headers(&launch.layout.spans[buffer.number], &self.options);
        }
        bytes
    }

    /// Reclaims a span that another process did not complete, to fill it here.
    fn take_back(&self, buffer: &SpanBuffer) {
        if self.launch.is_some() {
            buffer.is_remote.store(false, Ordering::Relaxed);
        }
    }

    fn report(&self, cx: &Context<'_, Self>, problem: Problem) {
        self.status.at_least(1);
        cx.problem(problem.as_warning());
    }

    /// Reports a file that shrank or changed, after reading it.
    fn report_differences(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, missing: u64, changed: bool) {
        if let Some(problem) = difference(entry, missing, changed) {
            self.report(cx, problem);
        }
    }

    /// Returns the verdict on a large member, which is `verdict` if none was reached. Other
    /// processes always keep it.
    fn decide(&self, member: usize, verdict: LargeVerdict) -> LargeVerdict {
        let large = self.launch.as_ref().and_then(|launch| launch.large.get(&member));
        large.map_or(LargeVerdict::Kept, |large| *large.verdict.get_or_init(|| verdict))
    }

    /// Reads a file here rather than have flow read it from start to end: a piece of a large file,
    /// or a file with a hole map.
    fn read_alone(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
        span_file: &SpanFile,
    ) {
        let buffer = &entry.node.own.buffer;
        if span_file.is_piece && self.decide(span_file.member, LargeVerdict::Kept) == LargeVerdict::LeftOut {
            fill(&mut self.bytes(buffer)[span_file.span.clone()]);
            return cx.emit(entry, ReadOutcome::LeftOut.packed());
        }
        let read = span_file.read(opened.source, &mut self.bytes(buffer));
        let changed = was_changed(opened.source, &span_file.stat);
        let has_failed = read.is_err();
        let missing = read.unwrap_or_else(|cause| {
            cx.problem(Problem::new(TarKind::CannotRead).naming(entry.path()).because(cause));
            0
        });
        let bytes = (span_file.stored.end - span_file.stored.start) - missing;
        cx.count(Tally { bytes, ..Tally::default() });
        cx.emit(entry, ReadOutcome::Read { missing, changed, has_failed }.packed());
    }
}

impl LaunchState {
    /// Begins `spans` spans, and one more for each that is written during this call.
    fn advance(
        &self,
        options: &Options,
        mut spans: usize,
        report: &dyn Reporter,
        mut offer: impl FnMut(Operand<SpanGroup>),
    ) {
        while spans > 0 {
            spans -= 1;
            let Some((buffer, operands)) = self.begin_span(options, report) else { return };
            if operands.is_empty() {
                *lock(&buffer.bytes) = self.headers(&self.layout.spans[buffer.number], options);
                spans += self.write(options, &buffer);
            }
            operands.into_iter().for_each(&mut offer);
        }
    }

    /// Begins the next span; `None` after the last one, or if writing has failed.
    fn begin_span(
        &self,
        options: &Options,
        report: &dyn Reporter,
    ) -> Option<(Arc<SpanBuffer>, Vec<Operand<SpanGroup>>)> {
        let number = {
            let mut next = lock(&self.next);
            let span = self.layout.spans.get(*next).filter(|_| !self.output.is_broken())?;
            if options.verbose > 0 {
                self.print_members(span, options, report);
            }
            *next += 1;
            *next - 1
        };
        let span = &self.layout.spans[number];
        let mut by_directory: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for index in span.members.clone().filter(|index| self.layout.is_read(*index)) {
            by_directory.entry(self.layout.members[index].listing).or_default().push(index);
        }
        let buffer = Arc::new(SpanBuffer {
            number,
            offset: span.bytes.start,
            bytes: Mutex::default(),
            groups: AtomicUsize::new(by_directory.len()),
            is_remote: AtomicBool::new(false),
        });
        let operands = by_directory
            .into_iter()
            .filter_map(|(listing, members)| self.operand(listing, &members, span, &buffer))
            .collect();
        Some((buffer, operands))
    }

    /// Prints the members that begin in a span.
    fn print_members(&self, span: &Span, options: &Options, report: &dyn Reporter) {
        for member in &self.layout.members[span.members.clone()] {
            if member.offset >= span.bytes.start {
                let listing = &self.layout.listings[member.listing as usize];
                self.printer.print((listing, &member.entry), options, &self.owners, report);
            }
        }
    }

    /// Makes the bytes of a span, with headers in place and zeros elsewhere.
    fn headers(&self, span: &Span, options: &Options) -> Vec<u8> {
        let in_span = |offset: u64| (offset - span.bytes.start) as usize;
        let length = in_span(span.bytes.end);
        let mut bytes = Vec::with_capacity(length);
        for member in &self.layout.members[span.members.clone()] {
            if member.offset < span.bytes.start {
                continue;
            }
            bytes.resize(in_span(member.offset), 0);
            let path = self.layout.member_path(member, options);
            let encoded = member.entry.encode(&path, options, &self.owners, &mut bytes);
            // The length was measured from the same data, and members that did not fit were
            // left out.
            assert!(
                encoded.is_ok() && bytes.len() == in_span(member.content()),
                "a header has another length"
            );
        }
        bytes.resize(length, 0);
        bytes
    }

    fn operand(
        &self,
        listing: u32,
        members: &[usize],
        span: &Span,
        buffer: &Arc<SpanBuffer>,
    ) -> Option<Operand<SpanGroup>> {
        let mut names = NameArena::new();
        for index in members {
            let entry = &self.layout.members[*index].entry;
            let kind = if entry.followed { EntryType::Symlink } else { EntryType::Regular };
            names.push(&entry.name, entry.stat.identity.inode, kind);
        }
        let span_file = |index: &usize| SpanFile::of(*index, &self.layout.members[*index], span);
        let mut files: Vec<_> = members.iter().map(span_file).collect();
        files.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        let place = Arc::clone(self.layout.listings[listing as usize].held.get()?);
        let own = SpanGroup { buffer: Arc::clone(buffer), files, archive: self.archive.clone() };
        Some(Operand { place, names, own })
    }

    /// Ends the archive before the filler in its last span: some readers require a member after
    /// each extended header.
    fn end_early(&self, buffer: &SpanBuffer, bytes: &mut [u8]) {
        let span = &self.layout.spans[buffer.number];
        if buffer.number + 1 < self.layout.spans.len() {
            return;
        }
        let left_out = lock(&self.left_out);
        let begins_here = |index: &usize| self.layout.members[*index].offset >= span.bytes.start;
        let last = span.members.clone().rev();
        let last = last.take_while(|index| begins_here(index) && left_out.contains(index)).last();
        if let Some(index) = last {
            let at = (self.layout.members[index].offset - span.bytes.start) as usize;
            bytes[at..].fill(0);
        }
    }

    /// Writes a complete span, or queues it until its turn; returns the number of spans written.
    fn write(&self, options: &Options, buffer: &SpanBuffer) -> usize {
        let mut bytes = std::mem::take(&mut *lock(&buffer.bytes));
        self.end_early(buffer, &mut bytes);
        let framed = options.compression.frame(bytes).unwrap_or_else(|why| {
            self.output.fail(Problem::new(TarKind::CannotCompress).naming(why.to_string()));
            Vec::new()
        });
        self.output.submit(buffer.number, buffer.offset, framed)
    }
}

impl SpanGroup {
    fn index_of(&self, name: &CStr) -> Option<usize> {
        self.files.binary_search_by(|file| file.name.as_c_str().cmp(name)).ok()
    }

    fn file(&self, name: &CStr) -> Option<&SpanFile> {
        self.index_of(name).map(|place| &self.files[place])
    }
}

impl PositionedWriter {
    /// Writes filler in place of a file that can't be read, and records that it is left out.
    fn leave_out(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        let group = &entry.node.own;
        self.take_back(&group.buffer);
        let Some(span_file) = group.file(entry.name()) else { return };
        if span_file.is_piece && self.decide(span_file.member, LargeVerdict::LeftOut) == LargeVerdict::Kept {
            // The other pieces are there: this one is zeros, and an error was reported.
            return cx
                .emit(entry, ReadOutcome::Read { missing: 0, changed: false, has_failed: true }.packed());
        }
        fill(&mut self.bytes(&group.buffer)[span_file.span.clone()]);
        cx.emit(entry, ReadOutcome::LeftOut.packed());
    }
}

impl Tool for PositionedWriter {
    type Directory = SpanGroup;
    type File = FileProgress;

    fn follow(&self, _: &Entry<Self>) -> bool {
        self.options.links == Links::Followed
    }

    fn plan(&self, _: &Context<'_, Self>, entry: &Entry<Self>, _: EntryType) -> haul_flow::Plan {
        let is_probed = entry.node.own.file(entry.name()).is_some_and(|file| !file.is_piece);
        haul_flow::Plan::Read(if is_probed { Probe::ALWAYS } else { Probe::NEVER })
    }

    fn enter_dir(&self, _: &Context<'_, Self>, _: &Entry<Self>, _: &OpenDir<'_>) -> Enter<SpanGroup> {
        Enter::Done
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        let (buffer, Some(launch)) = (&node.own.buffer, &self.launch) else { return };
        // Release publishes the group's bytes in the span; Acquire lets the last one see all of
        // it.
        if buffer.groups.fetch_sub(1, Ordering::AcqRel) > 1 {
            return;
        }
        let written = if buffer.is_remote.load(Ordering::Relaxed) {
            1
        } else {
            // If none of its files was read, it has no headers yet.
            drop(self.bytes(buffer));
            launch.write(&self.options, buffer)
        };
        launch.advance(&self.options, written, cx.report(), |operand| cx.offer(operand));
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        if failure.is_before_open_file() {
            self.leave_out(cx, entry);
        }
        Reported::No
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<FileProgress> {
        let group = &entry.node.own;
        self.take_back(&group.buffer);
        let Some(place) = group.index_of(entry.name()) else { return Start::Done };
        let span_file = &group.files[place];
        if span_file.is_piece || span_file.map.is_some() {
            self.read_alone(cx, entry, opened, span_file);
            return Start::Done;
        }
        // Encode the headers before the first block arrives.
        drop(self.bytes(&group.buffer));
        let transfer = if opened.stat.size == 0 { Transfer::Nothing } else { Transfer::Blocks(Holes::Read) };
        Start::Inspect { own: FileProgress { place, got: AtomicU64::new(0) }, transfer }
    }

    fn block(&self, file: &OpenFile<Self>, Block { offset, bytes, .. }: Block<'_>) -> Write {
        let group = &file.entry.node.own;
        let span_file = &group.files[file.own.place];
        let left = span_file.stored.end.saturating_sub(offset) as usize;
        let taken = &bytes[..bytes.len().min(left)];
        if !taken.is_empty() {
            let at = span_file.at + offset as usize;
            lock(&group.buffer.bytes)[at..at + taken.len()].copy_from_slice(taken);
            file.own.got.fetch_add(taken.len() as u64, Ordering::Relaxed);
        }
        Write::Nothing
    }

    fn finish_file(&self, cx: &Context<'_, Self>, file: &OpenFile<Self>) -> Finished {
        let span_file = &file.entry.node.own.files[file.own.place];
        let missing = span_file.stored.end - file.own.got.load(Ordering::Relaxed);
        let changed = was_changed(&file.source, &span_file.stat);
        cx.emit(&file.entry, ReadOutcome::Read { missing, changed, has_failed: false }.packed());
        Finished::Done
    }

    /// Called with the outcome of a file or piece. Reports a large file once all its pieces
    /// are complete.
    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        let (Some(launch), Some(span_file)) = (&self.launch, entry.node.own.file(entry.name())) else {
            return;
        };
        let outcome = ReadOutcome::unpack(result);
        if let (ReadOutcome::LeftOut, true) = (&outcome, span_file.is_first) {
            lock(&launch.left_out).push(span_file.member);
            if span_file.stat.links > 1 {
                cx.problem(Problem::new(TarKind::LinksLost).naming(entry.path()));
            }
        }
        let (missing, changed, mut has_failed) = match outcome {
            ReadOutcome::LeftOut => (0, false, false),
            ReadOutcome::Read { missing, changed, has_failed } => (missing, changed, has_failed),
        };
        let (missing, changed) = match launch.large.get(&span_file.member) {
            None => (missing, changed),
            Some(large) => {
                large.add(missing, changed);
                large.has_failed.fetch_or(has_failed, Ordering::Relaxed);
                let Some(sums) = large.complete_piece() else { return };
                has_failed |= large.has_failed.load(Ordering::Relaxed);
                sums
            }
        };
        if outcome != ReadOutcome::LeftOut {
            if !has_failed {
                cx.count_entry(EntryOutcome::File, |outcome| EntryReport {
                    bytes: Some(span_file.stat.size),
                    ..EntryReport::new(outcome, entry.path())
                });
            }
            self.report_differences(cx, entry, missing, changed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_piece_reports_what_every_piece_found() {
        let large = LargePieces { pieces: AtomicUsize::new(3), ..LargePieces::default() };
        large.add(5, false);
        assert_eq!(large.complete_piece(), None);
        // The piece that adds first completes last.
        large.add(0, false);
        large.add(7, true);
        assert_eq!(large.complete_piece(), None);
        assert_eq!(large.complete_piece(), Some((12, true)));
    }
}
