//! One entry and its copy: the arguments of every step of the copy, and the reports.

use std::ffi::CStr;
use std::sync::Arc;

use haul_flow::{Context, Entry, EntryOutcome, EntryReport, FlowKind, OutputLine, Problem};
use haul_sys::{Errno, Error, Fd, Stat, stat_at, stat_followed, stat_path};

use super::itemize::{self, ItemizedChange};
use super::links::LinkedName;
use super::mend::Differences;
use super::options::CopyOptions;
use super::target::{target_name, target_path};
use super::{Copier, CopyKind};

/// An entry that a worker is copying.
#[derive(Clone, Copy)]
pub(super) struct EntryCopy<'a> {
    pub(super) copier: &'a Copier,
    pub(super) options: &'a CopyOptions,
    pub(super) cx: &'a Context<'a, Copier>,
    pub(super) entry: &'a Entry<Copier>,
    /// True while it is linked to the copy of another name of its file.
    pub(super) is_further_name: bool,
}

impl<'a> EntryCopy<'a> {
    pub(super) fn new(copier: &'a Copier, cx: &'a Context<'a, Copier>, entry: &'a Entry<Copier>) -> Self {
        Self { copier, options: &copier.options, cx, entry, is_further_name: false }
    }

    /// The copy of another entry, by the same worker.
    pub(super) fn with(self, entry: &'a Entry<Copier>) -> Self {
        Self { entry, ..self }
    }

    /// Name of the copy.
    pub(super) fn target_name(self) -> &'a CStr {
        target_name(self.entry)
    }

    /// Path of the copy, for messages.
    pub(super) fn target_path(self) -> Vec<u8> {
        target_path(self.entry)
    }

    /// Returns the display path of an operand's copy, the prefix of its entries; `None` for
    /// other entries, whose path follows from the names.
    pub(super) fn shown_directory(self) -> Option<Vec<u8>> {
        let target = &self.entry.node.own.operand.target;
        let end = target.iter().rposition(|byte| *byte != b'/').map_or(target.len(), |last| last + 1);
        self.entry.is_operand().then(|| target[..end].to_vec())
    }

    /// True if the source is followed if it is a symbolic link.
    pub(super) fn follows(self) -> bool {
        self.copier.follows_here(self.entry)
    }

    /// Makes a call that needs room on the target's file system. If that is full, and the copy
    /// waits for room, makes it again.
    pub(super) fn with_room<R>(self, mut call: impl FnMut() -> Result<R, Error>) -> Result<R, Error> {
        match &self.copier.room {
            None => call(),
            Some(room) => room.retry(self.cx.report(), &|| self.target_path(), call),
        }
    }

    /// Opens the directory the copy is in.
    pub(super) fn open_directory(self) -> Result<Arc<Fd>, Error> {
        self.cx.cache().open(&self.entry.node.own.held)
    }

    /// Opens the directory the copy is created in. GNU prints the `--verbose` line before it
    /// notices a missing directory.
    pub(super) fn open_place(self) -> Result<Arc<Fd>, Error> {
        let opened = self.open_directory();
        if opened.as_ref().is_err_and(|cause| cause.is(Errno::NOENT)) {
            self.print_copied();
        }
        opened
    }

    /// Stats a source that is not open, following links where the copy does.
    pub(super) fn stat_source(self) -> Result<Stat, Error> {
        let directory = self.cx.cache().open(&self.entry.node.source)?;
        stat_path(Some(&*directory), self.entry.name(), self.follows())
    }

    /// Records the copy of an operand.
    pub(super) fn record_made(self) {
        let made = &self.copier.made_targets;
        if !made.are_kept() || !self.entry.is_operand() {
            return;
        }
        let name = self.target_name();
        if let Ok(stat) = self.open_directory().and_then(|directory| stat_at(&directory, name)) {
            made.record(self.target_path(), stat.identity);
        }
    }

    /// Counts the outcome of the entry.
    pub(super) fn count(self, outcome: EntryOutcome) {
        self.count_with(outcome, None);
    }

    /// Counts a regular file of this length.
    pub(super) fn count_file(self, bytes: u64) {
        self.count_with(EntryOutcome::File, Some(bytes));
    }

    fn count_with(self, outcome: EntryOutcome, bytes: Option<u64>) {
        self.cx.count_entry(outcome, |outcome| EntryReport {
            target: Some(self.target_path()),
            bytes,
            ..EntryReport::new(outcome, self.entry.path())
        });
    }

    /// A problem with the source, which may have vanished.
    pub(super) fn cannot_stat_source(self, cause: Error) -> Problem {
        Problem::new(FlowKind::CannotStat).naming(self.entry.path()).because(cause)
    }

    /// A problem with the copy.
    pub(super) fn problem(self, kind: CopyKind, cause: Error) -> Problem {
        Problem::new(kind).naming(self.target_path()).because(cause)
    }

    /// A failure to create the copy. Unless it has just made the directory, GNU stats the target
    /// first and reports a failure of that: a name that is too long, or that goes through a file.
    pub(super) fn failure(self, directory: &Fd, kind: CopyKind, cause: Error) -> Problem {
        match stat_followed(directory, self.target_name()) {
            Err(looked) if !self.entry.node.own.is_new() && !looked.is(Errno::NOENT) => {
                self.problem(CopyKind::CannotStat, looked)
            }
            _ => self.problem(kind, cause),
        }
    }

    /// Why a new entry does not get its attributes: it was replaced, or `cause`.
    pub(super) fn not_ours(self, kind: CopyKind, cause: Error) -> Problem {
        match cause.is(Errno::STALE) {
            true => Problem::new(CopyKind::ReplacedWhileMade).naming(self.target_path()),
            false => self.problem(kind, cause),
        }
    }

    /// Prints the `--verbose` line for a copy where nothing was.
    pub(super) fn print_copied(self) {
        self.print_copied_onto(None, None);
    }

    /// Prints the `--verbose` line for a copy onto an existing entry, which may be kept as
    /// `backup`.
    pub(super) fn print_copied_onto(self, before: Option<&Stat>, backup: Option<&CStr>) {
        self.print_change(ItemizedChange::Copied(before), backup);
    }

    /// Prints the `--verbose` line for another name of a file.
    pub(super) fn print_linked(self, first: &LinkedName, before: Option<&Stat>, backup: Option<&CStr>) {
        self.print_change(ItemizedChange::Linked(first, before), backup);
    }

    fn print_change(self, change: ItemizedChange<'_>, backup: Option<&CStr>) {
        if self.options.itemize {
            return itemize::print(self, change);
        }
        if !self.options.verbose {
            return;
        }
        let mut names = vec![self.entry.path(), self.target_path()];
        let kind = if backup.is_some() { CopyKind::CopiedWithBackup } else { CopyKind::Copied };
        names.extend(backup.map(|backup| self.entry.node.own.held.path_of(backup)));
        self.cx.report().line(OutputLine::new(kind, names));
    }

    /// Prints the `--verbose` line for a copy that failed after GNU would have checked its target.
    pub(super) fn print_tried(self, problem: &Problem) {
        if problem.kind != CopyKind::CannotStat {
            self.print_copied();
        }
    }

    /// Reports once that the target is inside the source.
    pub(super) fn report_into_itself(self) {
        let operand = &self.entry.node.own.operand;
        if operand.reports_first() {
            let problem = Problem::new(CopyKind::IntoItself);
            self.cx.problem(problem.naming(operand.source.clone()).naming(operand.target.clone()));
        }
    }

    /// Prints the `--verbose` line for a target that is replaced as a whole. For `cp`, that is
    /// removing it first.
    pub(super) fn print_replaced(self) {
        if !self.options.existing.update.syncs() {
            self.print_removed();
        }
    }

    /// Prints the `--verbose` line for a target that got only attributes.
    pub(super) fn print_mended(self, differences: Differences) {
        if self.options.itemize {
            itemize::print(self, ItemizedChange::Mended(differences));
        } else if self.options.verbose {
            let names = vec![self.entry.path(), self.target_path()];
            self.cx.report().line(OutputLine::new(CopyKind::Mended, names));
        }
    }

    /// Prints the `--verbose` line for a removed target. The line of `--itemize-changes` for what
    /// comes next is enough.
    pub(super) fn print_removed(self) {
        if self.options.verbose && !self.options.itemize {
            self.cx.report().line(OutputLine::new(CopyKind::Removed, vec![self.target_path()]));
        }
    }
}
