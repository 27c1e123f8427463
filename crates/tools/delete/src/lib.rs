//! `delete`: removes entries that exist only in the target, after the source was copied to it.
//!
//! ```text
//! survey   before the copy: entries that only the target has (survey.rs), and everything below
//!          them (deleter.rs, counting)
//! copy     not in this crate
//! delete   each is looked up again on both sides, and removed (deleter.rs, deleting),
//!          by ranks too (distributed.rs)
//! ```
//!
//! The survey runs before the copy, so entries that the copy creates aren't counted, and entries
//! that others create during the copy, in directories that both trees have, are left alone.
//!
//! Promises: nothing is deleted unless both trees could be listed whole; what the selection leaves
//! out stays; no directory is entered that the survey hasn't seen, or through a link, or on another
//! file system; no more is deleted than the limit allows, and if more would be, nothing is. The
//! record takes about 40 bytes for each name, nothing for what is below it, and 24 bytes for each
//! directory of either tree that is entered.

mod closed;
mod deleter;
#[cfg(feature = "distributed")]
mod distributed;
mod kind;
mod options;
mod survey;

use std::ffi::CStr;
use std::sync::Mutex;

use haul_flow::{
    CancelToken, Config, EntryOutcome, EntryReport, Executor, Operand, OutputLine, Problem, Reporter,
    Selection, Selector, Session, Severity, SlowRank, Split, Standard, Status, Tally, lock,
};
use haul_sys::{EntryType, Errno, NameArena, Times, c_string, stat};

pub use deleter::Deleter;
pub use kind::DeleteKind;
pub use options::{Limit, Options};

use deleter::Surveyed;
use survey::{DeletionSurvey, Found, TargetCounterpart};

/// A deletion to run.
#[derive(Clone, Copy, Debug)]
pub struct DeleteRequest<'a> {
    /// The directory that was copied.
    pub source: &'a CStr,
    /// The directory it was copied to.
    pub target: &'a CStr,
    /// The options.
    pub options: &'a Options,
    /// Use of the machine, and the selection.
    pub config: &'a Config,
    /// Cancel this to delete no more.
    pub cancel: &'a CancelToken,
}

/// Surveys the target, then runs `copy`, which must call the function it is given with the outcome
/// of the copy. If that is success, `executor` deletes the entries that the survey found.
/// Everything is reported to `report`.
///
/// # Errors
/// If it can't begin. Then nothing was copied.
pub fn run<R>(
    executor: &impl Executor<Deleter>,
    request: DeleteRequest<'_>,
    report: &dyn Reporter,
    copy: impl FnOnce(&dyn Fn(Status) -> Status) -> R,
) -> Result<R, Problem> {
    let DeleteRequest { source, target, options, config, cancel } = request;
    let selection = config.selection.clone();
    let Config { jobs, nice, ref limits, .. } = *config;
    let config = Config { jobs, nice, limits: limits.clone(), selection, ..Config::default() };
    // The rules were applied to the source. They must not be applied to single directories of the
    // target as if each were a whole tree, by this process or by another.
    let plain = Config { selection: Selection::default(), ..config.clone() };
    let problems = Problems::default();
    let mut session = Session::begin(&config, &problems)?;
    let found = survey(&session, (source, target), options, cancel);
    let Found { operands, entries, source_is_empty, opened } = found;
    let selector = std::mem::take(&mut session.selector);
    let selector = if options.excluded { Selector::default() } else { selector };
    let deleter = Deleter::counting(options.clone(), request.target, selector, cancel.clone());
    session.run_alone(&deleter, operands.iter().filter_map(|operand| only(operand, true)));
    // The copy must find the modes that the directories have.
    closed::close(&session.cache, &opened).into_iter().for_each(|problem| problems.problem(problem));
    let directories = operands.iter().map(|operand| directories(operand).count() as u64).sum::<u64>();
    let top = operands.iter().map(|operand| operand.names.len() as u64).sum::<u64>();
    // The directories at the top were counted with everything below them.
    let (entries_to_delete, all) =
        (top - directories + deleter.counted(), entries - directories + deleter.counted());
    let refusal = || {
        if source_is_empty && !options.empty_source {
            return Some(Problem::new(DeleteKind::EmptySource).naming(source.to_bytes()));
        }
        let number = |number: u64| number.to_string().into_bytes();
        let problem =
            || Problem::new(DeleteKind::TooMany).naming(number(entries_to_delete)).naming(number(all));
        (!options.limit.allows(entries_to_delete, all)).then(problem)
    };
    let (report, extras) = (OnlyDeleted(report), Mutex::new(Some((session, deleter, operands, opened))));
    let delete = |copied: Status| {
        let Some((mut session, deleter, operands, opened)) = lock(&extras).take() else { return copied };
        // The survey may have been cut short.
        if cancel.is_cancelled() {
            return Status::Failure;
        }
        if operands.is_empty() && problems.is_empty() {
            return copied;
        }
        session.report = &report;
        session.config = &plain;
        let deleter = deleter.deleting();
        let after_errors = || Problem::new(DeleteKind::AfterErrors);
        let failed = copied == Status::Failure || problems.pass_on(&report);
        let refused = if failed { Some(after_errors()) } else { refusal() };
        let is_ready = || session.prepare(executor, &deleter) == Status::Success;
        let refused = refused.or_else(|| (!is_ready()).then(after_errors));
        if let Some(problem) = refused {
            report.problem(problem.naming(target.to_bytes()));
            return Status::Failure;
        }
        let opened: Vec<_> =
            opened.into_iter().filter_map(|directory| directory.once_more(&session.cache)).collect();
        let status = delete_all(executor, &session, &deleter, operands);
        closed::close(&session.cache, &opened).into_iter().fold(status, |_, problem| {
            report.problem(problem);
            Status::Failure
        })
    };
    Ok(copy(&delete))
}

fn delete_all(
    executor: &impl Executor<Deleter>,
    session: &Session<'_>,
    deleter: &Deleter,
    operands: Vec<Operand<Surveyed>>,
) -> Status {
    let (mut status, mut apart) = (Status::Success, Vec::new());
    for operand in operands {
        let times = if deleter.restores_times() { times_of(session, &operand) } else { Ok(None) };
        let times = match times {
            Ok(times) => times,
            Err(problem) => {
                session.report.problem(problem);
                status = Status::Failure;
                continue;
            }
        };
        // Directories apart, because they are entered in this process.
        for mut part in [only(&operand, true), only(&operand, false)].into_iter().flatten() {
            part.own.keep_times(times);
            apart.push(part);
        }
    }
    status.max(session.run(executor, deleter, Vec::new(), apart))
}

/// Walks the source and returns the entries that only the target has. Failures are reported.
fn survey(
    session: &Session<'_>,
    (source, target): (&CStr, &CStr),
    options: &Options,
    cancel: &CancelToken,
) -> Found {
    let split = Split::of(target);
    let held = match split.hold(&session.cache) {
        Ok(held) => held,
        // The target isn't there yet.
        Err(cause) if cause.is(Errno::NOENT) => return Found::default(),
        Err(cause) => {
            let problem = Problem::new(DeleteKind::CannotList).naming(target.to_bytes());
            session.report.problem(problem.because(cause));
            return Found::default();
        }
    };
    let survey = DeletionSurvey::new(options.clone(), cancel.clone());
    match session.operand(source, TargetCounterpart::of_operand(held, c_string(split.name))) {
        Ok(operand) => drop(session.run_alone(&survey, [operand])),
        Err(problem) => session.report.problem(problem),
    }
    survey.into_found()
}

/// Returns the times of the directory that the entries are in. `None` if it is gone, which is
/// noticed when the entries are removed.
fn times_of(session: &Session<'_>, operand: &Operand<Surveyed>) -> Result<Option<Times>, Problem> {
    match session.cache.open(&operand.place).and_then(|directory| stat(&*directory)) {
        Ok(there) => Ok(Some(Times { accessed: there.accessed, modified: there.modified })),
        Err(cause) if cause.is(Errno::NOENT) || cause.is(Errno::STALE) => Ok(None),
        Err(cause) => Err(Problem::new(DeleteKind::CannotStat).naming(operand.place.path()).because(cause)),
    }
}

fn directories(operand: &Operand<Surveyed>) -> impl Iterator<Item = usize> {
    let names = &operand.names;
    (0..names.len()).filter(|index| names.entry(*index).kind == EntryType::Directory)
}

/// Returns an operand of the directories only, or of all others, if there are any.
fn only(operand: &Operand<Surveyed>, directories: bool) -> Option<Operand<Surveyed>> {
    let mut names = NameArena::new();
    for index in 0..operand.names.len() {
        let entry = operand.names.entry(index);
        if (entry.kind == EntryType::Directory) == directories {
            names.push(operand.names.name(index), entry.inode, entry.kind);
        }
    }
    let place = std::sync::Arc::clone(&operand.place);
    (!names.is_empty()).then(|| Operand { place, names, own: operand.own.again() })
}

/// Keeps errors until it is known whether the copy has reported the same.
#[derive(Default)]
struct Problems(Mutex<Vec<Problem>>);

impl Problems {
    fn is_empty(&self) -> bool {
        lock(&self.0).is_empty()
    }

    /// Reports them. Returns true if there are any.
    fn pass_on(&self, report: &dyn Reporter) -> bool {
        let problems = std::mem::take(&mut *lock(&self.0));
        let failed = !problems.is_empty();
        problems.into_iter().for_each(|problem| report.problem(problem));
        failed
    }
}

impl Reporter for Problems {
    fn count(&self, _more: Tally) {}

    fn problem(&self, problem: Problem) {
        // The copy gives the same warnings.
        if problem.severity == Severity::Error {
            lock(&self.0).push(problem);
        }
    }

    fn line(&self, _line: OutputLine) {}

    fn output(&self, _stream: Standard, _bytes: &[u8]) {}

    fn debug(&self, _text: &str) {}
}

/// Passes on the reports of a deletion without the counts of its walk, which are not the copy's.
struct OnlyDeleted<'a>(&'a dyn Reporter);

impl Reporter for OnlyDeleted<'_> {
    fn count(&self, more: Tally) {
        self.0.count(Tally { deleted: more.deleted, ..Tally::default() });
    }

    fn problem(&self, problem: Problem) {
        self.0.problem(problem);
    }

    fn line(&self, line: OutputLine) {
        self.0.line(line);
    }

    fn entry(&self, entry: EntryReport) {
        if entry.outcome == EntryOutcome::Deleted {
            self.0.entry(entry);
        }
    }

    fn wants_entries(&self) -> bool {
        self.0.wants_entries()
    }

    fn output(&self, stream: Standard, bytes: &[u8]) {
        self.0.output(stream, bytes);
    }

    fn waits_for_room(&self, target: Option<&[u8]>) {
        self.0.waits_for_room(target);
    }

    fn slow_ranks(&self, slow: Vec<SlowRank>) {
        self.0.slow_ranks(slow);
    }

    fn note(&self, printed: &[u8]) {
        self.0.note(printed);
    }

    fn debug(&self, text: &str) {
        self.0.debug(text);
    }

    fn wants_debug(&self) -> bool {
        self.0.wants_debug()
    }
}
