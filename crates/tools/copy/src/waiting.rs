//! Entries that wait for the deletion of obstacles (`haul sync --delete`).

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_flow::{
    Contents, EntryOutcome, EntryReport, NameList, OutputLine, Problem, Reporter, RunInfo, Severity,
    SlowRank, Standard, Status, Tally, lock, path_below,
};
use haul_sys::{FileType, Stat};

use super::CopyKind;
use super::entry_copy::EntryCopy;

/// True for a directory that a dry run has found in the way of a file and would have deleted.
pub(super) fn has_made_way(copy: EntryCopy<'_>, there: &Stat) -> bool {
    copy.options.dry_run && copy.copier.is_rest && there.kind == FileType::Directory
}

/// Returns the problem of an entry that waits for a directory to be deleted.
pub(super) fn in_the_way(copy: EntryCopy<'_>) -> Problem {
    let problem = Problem::new(CopyKind::InTheWay).naming(copy.target_path());
    problem.naming(copy.entry.path()).as_warning()
}

/// Forwards the reports of a copy that is split by a deletion. Problems of the kind `InTheWay` are
/// held back: their entries are copied in the second part.
pub(super) struct SplitReporter<'a> {
    report: &'a dyn Reporter,
    problems: Mutex<Vec<Problem>>,
    /// True in the second part: the directories above its entries don't count twice.
    is_second: AtomicBool,
}

impl<'a> SplitReporter<'a> {
    pub(super) fn new(report: &'a dyn Reporter) -> Self {
        Self { report, problems: Mutex::default(), is_second: AtomicBool::new(false) }
    }

    /// Returns the entries that wait, relative to `source`, if they can be copied now. If they
    /// can't, reports them.
    pub(super) fn take_names(&self, status: Status, source: &[u8]) -> Option<NameList> {
        if status == Status::Failure {
            self.report_left();
            return None;
        }
        let mut problems = lock(&self.problems);
        let paths = problems.iter().filter_map(|problem| problem.names.last());
        let text: Vec<u8> = paths.flat_map(|path| [path_below(path, source), b"\0"].concat()).collect();
        if text.is_empty() {
            return None;
        }
        let Ok(names) = NameList::parse(text, 0, Contents::Listed) else {
            drop(problems);
            self.report_left();
            return None;
        };
        problems.clear();
        self.is_second.store(true, Ordering::Relaxed);
        Some(names)
    }

    /// Reports the entries that wait as errors. Returns `Failure` if there are any.
    pub(super) fn report_left(&self) -> Status {
        let problems = std::mem::take(&mut *lock(&self.problems));
        let status = if problems.is_empty() { Status::Success } else { Status::Failure };
        let (kind, severity) = (CopyKind::OtherOntoDirectory.into(), Severity::Error);
        let is_left = |problem| Problem { kind, severity, ..problem };
        problems.into_iter().map(is_left).for_each(|problem| self.report.problem(problem));
        status
    }
}

impl Reporter for SplitReporter<'_> {
    fn started(&self, info: RunInfo) {
        self.report.started(info);
    }

    fn count(&self, more: Tally) {
        // Relaxed: the workers of the second part are started after it is set.
        let more = match self.is_second.load(Ordering::Relaxed) {
            true => Tally { discovered: 0, finished: 0, directories: 0, ..more },
            false => more,
        };
        self.report.count(more);
    }

    fn problem(&self, problem: Problem) {
        match problem.kind == CopyKind::InTheWay {
            true => lock(&self.problems).push(problem),
            false => self.report.problem(problem),
        }
    }

    fn line(&self, line: OutputLine) {
        self.report.line(line);
    }

    fn entry(&self, entry: EntryReport) {
        // See `count`.
        if entry.outcome != EntryOutcome::Directory || !self.is_second.load(Ordering::Relaxed) {
            self.report.entry(entry);
        }
    }

    fn wants_entries(&self) -> bool {
        self.report.wants_entries()
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.report.output(stream, bytes);
    }

    fn ask(&self, question: &OutputLine) -> bool {
        self.report.ask(question)
    }

    fn waits_for_room(&self, target: Option<&[u8]>) {
        self.report.waits_for_room(target);
    }

    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        self.report.slow_ranks(slow);
    }

    fn note(&self, printed: &[u8]) {
        self.report.note(printed);
    }

    fn debug(&self, text: &str) {
        self.report.debug(text);
    }

    fn wants_debug(&self) -> bool {
        self.report.wants_debug()
    }
}
