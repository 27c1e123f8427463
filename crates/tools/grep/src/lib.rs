//! The search tool, `grep`, parallel throughout.
//!
//! Patterns are parsed (`pattern.rs`, `bracket.rs`) and compiled (`matcher.rs`, `literals.rs`,
//! `expression.rs`, `perl.rs`). Finding the selected lines of a text is order-independent and
//! runs on any worker (`find.rs`, `content.rs`). A file's output is then built from its
//! selections in order (`page.rs`). [`Grep`] implements the framework's tool trait: files up to a
//! few MiB are searched block by block, longer ones in pieces by all workers (`large.rs`).
//! Results are emitted in whole units, in the requested order (`output.rs`). Semantics, output
//! and messages are GNU grep's.
//!
//! Differences from GNU grep:
//! - `\b` and its relatives use Unicode's definition of a word, which includes marks, and may see
//!   other word ends next to invalid bytes. `-w` uses the C library's letters (`words.rs`).
//! - Classes such as `[:alpha:]` hold the C library's characters, except where its Unicode
//!   version differs from ours.
//! - Ranges such as `[a-z]` go by code point in every locale.
//! - A line on which a back-reference takes too long is an error.
//!
//! `-P` patterns go to PCRE2 (`perl.rs`).

mod automaton;
mod backtrack;
mod content;
mod exclude;
mod expression;
mod find;
mod kind;
mod large;
mod literals;
mod longest;
mod matcher;
mod options;
mod output;
mod page;
mod pattern;
mod pattern_error;
mod perl;
mod portable;
mod program;
mod query;
mod spill;
mod streams;
mod turns;
mod word_chars;
mod words;

use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{
    Block, Config, Context, DirNode, Enter, Entry, EntryFailure, EntryOutcome, EntryReport, Executor,
    Handled, Holes, OpenDir, OpenFile, OpenSource, Plan, Pool, Probe, Problem, Reported, Reporter, Session,
    Start, Tool, Transfer, Write, lock,
};
use haul_sys::{EntryType, Error, FileType, Seek, Stat, seek};

pub use exclude::Rule;
pub use haul_patterns::InvalidPattern;
pub use kind::GrepKind;
pub use options::{Binary, Colors, Devices, Directories, GrepOptions, NamePrefix, ResultOrder, Show};
pub use pattern::Syntax;
pub use pattern_error::{PatternError, PatternWarning};
pub use query::{Extent, Query};

use content::{ContentStream, GrepSearch, Until};
use exclude::NameRules;
use large::{BUFFER_BYTES_MAX, LARGE_BYTES, LargeSearch};
use matcher::{Matcher, Scratch};
use output::{ResultQueue, SearchResult};
use page::{JUDGED_BYTES, Page, Printer};
use turns::{CompletedOperand, Inputs, Turns};

/// An operand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum GrepOperand {
    /// Standard input.
    Input,
    /// A path.
    Path(std::ffi::CString),
    /// The current directory, searched because there were no operands. Its paths have no
    /// `./` prefix.
    Here,
}

/// The result of a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GrepOutcome {
    /// True if any line was selected.
    pub matched: bool,
}

/// Data the search keeps per directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SearchDirectory {
    /// Index of the operand above this directory.
    index: usize,
    kind: PlaceKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
enum PlaceKind {
    /// An operand given by the user.
    Plain,
    /// The implied current directory, whose name is not shown.
    Here,
    /// Standard input; the path of the entry is a placeholder.
    Input,
}

/// State of a file that is searched as its blocks arrive.
pub struct Searched(Mutex<ContentStream>);

/// A search, as the framework drives it.
pub struct Grep {
    search: GrepSearch,
    files: NameRules,
    directories: NameRules,
    output: ResultQueue,
    turns: Turns,
    inputs: Inputs,
    // Boxed because they are large and move between workers.
    scratches: Pool<Box<Scratch>>,
    buffers: Pool<Vec<u8>>,
    matched: AtomicBool,
    over: AtomicBool,
    /// Index of the first operand whose match ended the search.
    ended_by: AtomicUsize,
}

impl Grep {
    /// Compiles the patterns. Appends warnings about them to `warnings`.
    ///
    /// # Errors
    /// If a pattern is invalid.
    pub fn new(options: GrepOptions, warnings: &mut Vec<PatternWarning>) -> Result<Self, PatternError> {
        let matcher = Matcher::new(&options.query, warnings)?;
        let mut separator = Page::default();
        if options.shows_context() {
            let mut scratch = matcher.scratch();
            let mut printer = Printer { options: &options, matcher: &matcher, scratch: &mut scratch };
            printer.separate(&mut separator);
        }
        Ok(Self {
            files: NameRules::of_files(&options.files, options.query.utf8),
            directories: NameRules::of_directories(&options.directories_excluded, options.query.utf8),
            output: ResultQueue::new(options.order, separator.out),
            turns: Turns::new(options.order),
            inputs: Inputs::default(),
            search: GrepSearch { options, matcher },
            scratches: Pool::default(),
            buffers: Pool::default(),
            matched: AtomicBool::new(false),
            over: AtomicBool::new(false),
            ended_by: AtomicUsize::new(usize::MAX),
        })
    }

    /// Searches the operands; `executor` runs the jobs.
    ///
    /// # Errors
    /// If the requested engine is unavailable.
    pub fn run(
        &self,
        executor: &impl Executor<Self>,
        named: &[GrepOperand],
        config: &Config,
        report: &dyn Reporter,
    ) -> Result<GrepOutcome, Problem> {
        let session = Session::begin(config, report)?;
        let mut operands = Vec::with_capacity(named.len());
        for (index, named) in named.iter().enumerate() {
            let (path, kind) = match named {
                GrepOperand::Path(path) => (path.as_c_str(), PlaceKind::Plain),
                GrepOperand::Here => (c".", PlaceKind::Here),
                GrepOperand::Input => (c".", PlaceKind::Input),
            };
            match session.operand(path, SearchDirectory { index, kind }) {
                Ok(operand) => {
                    if kind == PlaceKind::Input {
                        self.inputs.named(index);
                    }
                    operands.push(operand);
                }
                Err(problem) => {
                    self.in_turn(index, problem).into_iter().for_each(|problem| report.problem(problem));
                    self.output.end(report, index);
                    let problems = self.turns.end(index).problems;
                    problems.into_iter().for_each(|(_, problem)| report.problem(problem));
                }
            }
        }
        session.run(executor, self, Vec::new(), operands);
        self.output.finish(report);
        Ok(GrepOutcome { matched: self.matched.load(Ordering::Relaxed) })
    }

    /// Stops the search early; the result so far stands.
    pub fn stop(&self) {
        self.over.store(true, Ordering::Relaxed);
    }

    fn options(&self) -> &GrepOptions {
        &self.search.options
    }

    /// True once nothing more needs to be searched.
    fn is_over(&self) -> bool {
        self.over.load(Ordering::Relaxed)
    }

    fn with_scratch<V>(&self, work: impl FnOnce(&mut Scratch) -> V) -> V {
        self.scratches.with(|| Box::new(self.search.matcher.scratch()), |scratch| work(scratch))
    }

    fn return_buffer(&self, buffer: Vec<u8>) {
        if buffer.capacity() <= BUFFER_BYTES_MAX {
            self.buffers.give(buffer);
        }
    }

    /// Returns an entry's path as it is shown.
    fn path(&self, entry: &Entry<Self>) -> Vec<u8> {
        match entry.node.own.kind {
            PlaceKind::Input => self.options().label.clone(),
            PlaceKind::Here => {
                let path = entry.path();
                path.strip_prefix(b"./").map(<[u8]>::to_vec).unwrap_or(path)
            }
            PlaceKind::Plain => entry.path(),
        }
    }

    fn is_in_directory(entry: &Entry<Self>) -> bool {
        !entry.is_operand()
    }

    /// True if `--include` or `--exclude` rules out this file.
    fn leaves_out(&self, entry: &Entry<Self>) -> bool {
        match entry.is_operand() {
            true => self.files.leave_out(&entry.path(), true),
            false => self.files.leave_out(entry.name().to_bytes(), false),
        }
    }

    fn enters(&self, entry: &Entry<Self>) -> bool {
        match (entry.is_operand(), entry.node.own.kind) {
            (true, PlaceKind::Here) => true,
            // With the slashes at its end, as in GNU grep: `--exclude-dir=d` does not exclude `d/`.
            (true, _) => !self.directories.leave_out(&entry.path(), true),
            (false, _) => !self.directories.leave_out(entry.name().to_bytes(), false),
        }
    }

    /// Plans an entry of this kind.
    fn need(&self, entry: &Entry<Self>, kind: EntryType) -> Plan {
        let is_operand = entry.is_operand();
        match (kind, self.options().directories, self.options().devices) {
            _ if is_operand && entry.node.own.kind == PlaceKind::Input => Plan::Handle,
            // GNU grep has reported it by the time a later operand ends the search. Only here: a
            // rank does not know which operand did.
            (EntryType::Directory, Directories::Read, _)
                if is_operand && entry.node.owner.is_none() && self.is_met(entry.node.own.index) =>
            {
                if self.enters(entry) { Plan::Handle } else { Plan::Skip }
            }
            _ if self.is_over() => Plan::Skip,
            (EntryType::Directory, Directories::Skip, _) => Plan::Skip,
            (EntryType::Directory, ..) if !self.enters(entry) => Plan::Skip,
            (EntryType::Directory, Directories::Recurse, _) => Plan::Enter,
            (EntryType::Directory, Directories::Read, _) => Plan::Handle,
            (EntryType::Symlink | EntryType::Unknown, ..) => Plan::Skip,
            _ if self.leaves_out(entry) => Plan::Skip,
            (EntryType::Regular, ..) => Plan::Read(Probe { bytes_max: LARGE_BYTES, ..Probe::ALWAYS }),
            (EntryType::Special, _, Devices::Read) => Plan::Handle,
            (EntryType::Special, _, Devices::ReadNamed) if is_operand => Plan::Handle,
            (EntryType::Special, ..) => Plan::Skip,
        }
    }

    fn page(&self, entry: &Entry<Self>, stat: Option<&Stat>) -> Page {
        let size = stat.filter(|stat| stat.kind == FileType::Regular).map(|stat| stat.size);
        let mut page = Page::new(self.options(), Self::is_in_directory(entry), size);
        page.done |= self.is_over();
        page
    }

    /// True if the file is also the output, which would feed the search its own results.
    /// Reports it.
    fn is_output(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, stat: &Stat) -> bool {
        let options = self.options();
        // A search that prints at most one line, or only names, can't feed itself (as in GNU grep).
        let is_output = options.show == Show::Lines
            && options.max.is_none_or(|max| max > 1)
            && stat.kind == FileType::Regular
            && options.is_output(stat.identity);
        if is_output {
            cx.problem(Problem::new(GrepKind::IsOutput).naming(self.path(entry)));
        }
        is_output
    }

    fn emit_part(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, page: &mut Page) {
        let (out, apart) = (std::mem::take(&mut page.out), std::mem::take(&mut page.apart));
        page.is_begun = true;
        // Only the end decides if the selected lines count: under `-I` the file may still turn
        // out binary.
        cx.emit(entry, SearchResult { matched: false, hidden: false, more: true, apart, out }.pack());
    }

    /// Counts a file that was searched.
    fn count(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        cx.count_entry(EntryOutcome::File, |outcome| EntryReport::new(outcome, self.path(entry)));
    }

    /// Completes a page and emits the rest of it.
    fn emit_page(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, mut page: Page) {
        if !matches!(self.options().show, Show::Lines | Show::Nothing) {
            self.with_scratch(|scratch| self.search.finish(scratch, &mut page, &self.path(entry)));
        }
        if let Some(given_up) = page.given_up {
            cx.problem(Problem::new(given_up.kind()).naming(self.path(entry)));
        }
        let is_reported = self.options().show == Show::Lines && self.options().binary == Binary::Report;
        let hidden = page.hidden && is_reported;
        let result =
            SearchResult { matched: page.count > 0, hidden, more: false, apart: page.apart, out: page.out };
        // Even an empty one ends what was begun, so that results of other files can follow.
        if page.is_begun || result != SearchResult::default() {
            cx.emit(entry, result.pack());
        }
    }

    fn cannot_read(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, cause: Error) {
        let problem = Problem::new(GrepKind::CannotRead).naming(self.path(entry)).because(cause);
        self.problem(cx, entry, problem);
    }

    /// Reports a problem with a file, or holds it back until its operand's turn.
    fn problem(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, problem: Problem) {
        let is_ordered = entry.is_operand() && entry.node.owner.is_none();
        let problem = if is_ordered { self.in_turn(entry.node.own.index, problem) } else { Some(problem) };
        problem.into_iter().for_each(|problem| cx.problem(problem));
    }

    /// Returns the problem if it can be reported now. Under `-q`, GNU grep never reaches operands
    /// behind a file with a selected line, so their problems are held until no earlier operand
    /// can match.
    fn in_turn(&self, index: usize, problem: Problem) -> Option<Problem> {
        match self.options().show {
            Show::Nothing if !self.is_met(index) => None,
            Show::Nothing => self.turns.reports_now(index, problem),
            _ => Some(problem),
        }
    }

    /// True if GNU grep would reach this operand: no earlier one ended the search.
    fn is_met(&self, index: usize) -> bool {
        index <= self.ended_by.load(Ordering::Relaxed)
    }

    /// True if the entry must wait, in which case it is kept for a later retry. Under `-q`, an
    /// input that may block or never end must not start while an earlier operand could still end
    /// the search.
    fn waits(&self, entry: &Entry<Self>) -> bool {
        let is_ordered = entry.is_operand() && entry.node.owner.is_none();
        is_ordered && self.options().show == Show::Nothing && !self.turns.comes_next(entry)
    }

    /// Marks a file with holes at or after `from` as binary: a hole reads as NULs, whatever else
    /// the file holds. Moves the descriptor's position.
    fn mark_holes(&self, page: &mut Page, source: impl AsFd, (stat, from): (&Stat, u64)) {
        let options = self.options();
        // What fits into the first buffer is judged by its NULs.
        let may_have_some = stat.kind == FileType::Regular && stat.size > JUDGED_BYTES as u64;
        if options.binary == Binary::Text || options.query.null_data || !may_have_some {
            return;
        }
        if let Ok(Some(hole)) = seek(source, Seek::Hole, from)
            && hole < stat.size
        {
            self.search.taken_for_binary(page);
        }
    }

    /// Passes the turn to a large file that is waiting, if there is one.
    fn large_is_over(&self, cx: &Context<'_, Self>) {
        if let Some(entry) = self.turns.over() {
            cx.retry(entry);
        }
    }
}

impl Grep {
    /// Called when a file that may have been given the turn is not searched as a large one.
    fn not_begun(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        if let Some(next) = self.turns.not_begun(entry) {
            cx.retry(next);
        }
    }
}

impl Tool for Grep {
    type Directory = SearchDirectory;
    type File = Searched;

    fn follow(&self, entry: &Entry<Self>) -> bool {
        self.options().dereference || entry.is_operand()
    }

    fn plan(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Plan {
        let need = self.need(entry, kind);
        if !matches!(need, Plan::Read(_)) {
            // The search may be over by now, or the large file that was given the turn may have
            // been replaced by something else. Either way the turn must pass on.
            self.not_begun(cx, entry);
        }
        need
    }

    fn enter_dir(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenDir<'_>,
    ) -> Enter<SearchDirectory> {
        if self.options().dereference && entry.node.is_within(opened.stat.identity) {
            cx.problem(Problem::new(GrepKind::Loop).naming(self.path(entry)).as_warning());
            return Enter::Done;
        }
        Enter::Visit(entry.node.own)
    }

    fn finish_dir(&self, cx: &Context<'_, Self>, node: &DirNode<Self>) {
        if !node.holds_operands() {
            return;
        }
        self.output.end(cx.report(), node.own.index);
        let CompletedOperand { problems, next } = self.turns.end(node.own.index);
        let met = problems.into_iter().filter(|(index, _)| self.is_met(*index));
        met.for_each(|(_, problem)| cx.problem(problem));
        next.into_iter().for_each(|entry| cx.retry(entry));
    }

    fn handle(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, kind: EntryType) -> Handled {
        let is_input = entry.node.own.kind == PlaceKind::Input && entry.is_operand();
        match kind {
            _ if (is_input || kind != EntryType::Directory) && self.waits(entry) => return Handled::Deferred,
            _ if is_input => {
                return self.search_input(cx, entry);
            }
            EntryType::Directory => {
                let problem = Problem::new(GrepKind::IsADirectory).naming(self.path(entry));
                self.problem(cx, entry, problem);
                self.emit_page(cx, entry, self.page(entry, None));
            }
            _ => self.search_as_it_comes(cx, entry),
        }
        Handled::Done
    }

    fn open_file(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        opened: &OpenSource<'_>,
    ) -> Start<Searched> {
        let is_large = opened.stat.size > LARGE_BYTES
            // With several operations per file, its blocks arrive in any order.
            || (cx.settings().ops.is_some() && opened.stat.size > cx.settings().block_bytes as u64);
        let is_left_out = self.is_over() || self.is_output(cx, entry, opened.stat);
        if is_left_out || !is_large {
            self.not_begun(cx, entry);
        }
        if is_left_out {
            return Start::Done;
        }
        // The size may be meaningless, as in /proc.
        if opened.stat.size == 0 {
            let stopped = self.search_stream(cx, entry, &**opened.source, opened.stat);
            if !stopped.has_failed {
                self.count(cx, entry);
            }
            return Start::Done;
        }
        let mut page = self.page(entry, Some(opened.stat));
        self.mark_holes(&mut page, opened.source, (opened.stat, 0));
        if !is_large {
            let own = Searched(Mutex::new(ContentStream::new(page)));
            return Start::Inspect { own, transfer: Transfer::Blocks(Holes::Read) };
        }
        if self.turns.begins(entry) {
            let selects_empty = self.with_scratch(|scratch| self.search.selects_empty(scratch));
            let source = Arc::clone(opened.source);
            let large = LargeSearch::new(entry.clone(), source, opened.stat.size, page, selects_empty);
            // Two pieces per worker: results wait for the piece before, workers don't.
            cx.begin_sequence(Arc::new(large), 2 * cx.settings().jobs);
        }
        Start::Deferred
    }

    fn block(&self, file: &OpenFile<Self>, Block { offset, bytes, .. }: Block<'_>) -> Write {
        let is_all = file.stat.size > 0 && offset + bytes.len() as u64 >= file.stat.size;
        let until = if is_all { Until::End } else { Until::Judged };
        let mut stream = lock(&file.own.0);
        self.with_scratch(|scratch| {
            stream.feed(&self.search, scratch, (bytes, until), || self.path(&file.entry))
        });
        Write::Nothing
    }

    fn close_file(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, own: Searched, was_read: bool) {
        let mut stream = own.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        if !stream.is_empty() {
            self.with_scratch(|scratch| {
                stream.feed(&self.search, scratch, (&[], Until::End), || self.path(entry))
            });
        }
        if was_read && stream.page.given_up.is_none() {
            self.count(cx, entry);
        }
        self.emit_page(cx, entry, stream.page);
    }

    fn failed(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, failure: EntryFailure<'_>) -> Reported {
        if failure.is_before_open_file() || matches!(failure, EntryFailure::Classify(_)) {
            self.not_begun(cx, entry);
        }
        let cause = match failure {
            // Like GNU grep, which visits an operand before it checks the exclusion rules.
            EntryFailure::Classify(_) if !entry.is_operand() && self.leaves_out(entry) => {
                return Reported::Yes;
            }
            EntryFailure::Classify(cause) | EntryFailure::OpenDir(cause) | EntryFailure::OpenFile(cause) => {
                cause
            }
            _ => return Reported::No,
        };
        if self.options().show != Show::Nothing || !entry.is_operand() {
            return Reported::No;
        }
        self.cannot_read(cx, entry, cause.clone());
        Reported::Yes
    }

    fn emitted(&self, cx: &Context<'_, Self>, entry: &Entry<Self>, result: &[u8]) {
        let Some(result) = SearchResult::unpack(result) else { return };
        if result.matched {
            self.matched.store(true, Ordering::Relaxed);
            if self.options().show == Show::Nothing {
                self.ended_by.fetch_min(entry.node.own.index, Ordering::Relaxed);
                self.stop();
            }
        }
        self.output.take(cx.report(), (entry.node.own.index, &self.path(entry)), result);
    }
}
