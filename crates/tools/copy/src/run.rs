//! One copy, from operands to outcome.

use std::collections::HashMap;
use std::sync::Arc;

use haul_flow::{
    CancelToken, Config, DirCache, DirHandle, Executor, Operand, Problem, Reporter, Session, Severity, Split,
    Status,
};
use haul_journal::Journal;
use haul_sys::{c_string, set_creation_label};

use super::groups;
use super::journaled::{self, JournalState};
use super::operands::{self, Assignment};
use super::parents::Parents;
use super::target::{OperandCopy, ParentFacts, TargetDirectory, gives_operands_access_list};
use super::waiting::SplitReporter;
use super::{Copier, CopyKind, CopyOptions, DigestSink, Label, Operands, default_label, durable, temporary};

/// A copy to run.
#[derive(Clone, Copy)]
pub struct CopyRequest<'a> {
    /// Sources and targets.
    pub operands: &'a Operands,
    /// The options.
    pub options: &'a CopyOptions,
    /// Use of the machine, and the selection.
    pub config: &'a Config,
    /// Cancel this to begin no more entries. Files that are being copied are completed.
    pub cancel: &'a CancelToken,
    /// Receives the hash of each regular file that is copied. No blocks are shared then.
    pub digests: Option<&'a DigestSink>,
    /// Records which entries are complete. Those that an earlier run has completed are skipped if
    /// neither source nor target has changed since. For a copy in this process: a process group
    /// has its own.
    pub journal: Option<&'a Arc<Journal>>,
    /// Deletes obstacles of some entries ([`CopyKind::InTheWay`]), once all others were
    /// copied. These are copied after it.
    pub deletion: Option<&'a dyn DeletionStep>,
}

/// A deletion between two parts of a copy.
pub trait DeletionStep {
    /// Deletes, if the copy has succeeded so far. Returns `Failure` if something was not deleted,
    /// which was reported.
    fn delete(&self, copied: Status) -> Status;
}

/// Outcome of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CopyOutcome {
    /// Everything was copied.
    Success,
    /// Something failed, and was reported, or the user declined a replacement.
    Failure,
    /// The copy was cancelled before it was complete.
    Cancelled,
}

/// Why nothing was copied. Nothing was touched.
#[derive(Clone, Debug)]
pub enum CopyRefusal {
    /// Usage error in the operands. Print it with a pointer to the help.
    Usage(Problem),
    /// The copy cannot start (engine, SELinux, target).
    Fatal(Problem),
}

/// Runs a copy.
///
/// # Errors
/// If it can't start. What fails later goes to `report`.
pub fn run<E: Executor<Copier>>(
    executor: &E,
    request: CopyRequest<'_>,
    report: &dyn Reporter,
) -> Result<CopyOutcome, CopyRefusal> {
    let CopyRequest { operands, options, config, cancel, digests, journal, deletion } = request;
    let listed_hash = digests.map(DigestSink::algorithm);
    if let Some((flag, other)) = options.conflict(listed_hash) {
        return Err(CopyRefusal::Fatal(Problem::new(CopyKind::Conflict).naming(flag).naming(other)));
    }
    let options = &options.resolved(listed_hash);
    let config = &with_workers_needed(config, options, E::IS_ALONE && operands.is_one_file(options));
    let waiting = SplitReporter::new(report);
    let report: &dyn Reporter = if deletion.is_some() { &waiting } else { report };
    let mut session = Session::begin(config, report).map_err(CopyRefusal::Fatal)?;
    let onto_backup = operands::onto_backup(operands, options);
    let (operands, options) = onto_backup.as_ref().map_or((operands, options), |(names, how)| (names, how));
    if let (Label::Given(context), false) = (&options.label, options.dry_run) {
        set_creation_label(context).map_err(|cause| {
            let problem = Problem::new(CopyKind::CreationLabel).naming(context.to_bytes());
            CopyRefusal::Fatal(problem.because(cause))
        })?;
    }
    let contexts = default_label::open(options).map_err(CopyRefusal::Fatal)?;
    let assignments = operands::assign(operands, options, &session.cache)?;
    let (assignments, mut left_out) = groups::without_repetitions(assignments, options);
    let groups = groups::groups(assignments, options, &session.cache);
    let journal = journal.map(|journal| JournalState::new(Arc::clone(journal)));
    let mut copier = Copier {
        contexts,
        listed_hash,
        digests: digests.cloned(),
        journal,
        ..Copier::new(options.clone(), cancel.clone(), groups.len() > 1)
    };
    let mut status = copy_groups(&session, executor, &copier, &groups, &mut left_out);
    status = status.max(report_all(take_before(usize::MAX, &mut left_out), report));
    if let Some(deletion) = deletion.filter(|_| !copier.cancel.is_cancelled()) {
        status = status.max(deletion.delete(status));
        let source = operands.names.first().map_or(&[][..], |source| source.to_bytes());
        if let Some(names) = waiting.take_names(status, source) {
            session.restrict_to(names);
            copier = copier.for_the_rest();
            status = copy_groups(&session, executor, &copier, &groups, &mut left_out);
            // Ranks were sent the options once, so they leave directories in the way a second time.
            status = status.max(waiting.report_left());
        }
    }
    Ok(match status {
        _ if copier.cancel.is_cancelled() => CopyOutcome::Cancelled,
        Status::Success if !copier.declined.into_inner() => CopyOutcome::Success,
        Status::Success | Status::Failure => CopyOutcome::Failure,
    })
}

/// Copies the groups one after the other. `left_out` are the problems of the operands that are in
/// none.
fn copy_groups(
    session: &Session<'_>,
    executor: &impl Executor<Copier>,
    copier: &Copier,
    groups: &[Vec<Assignment>],
    left_out: &mut Vec<(usize, Problem)>,
) -> Status {
    let (cache, report) = (&session.cache, session.report);
    let mut parents = Parents::new(copier, cache, report);
    let mut target_places = Vec::new();
    let (mut status, mut first) = (Status::Success, 0);
    for group in groups {
        status = status.max(report_all(take_before(first + group.len(), left_out), report));
        let (operands, problems) = places(group, first, copier, cache, &mut parents);
        first += group.len();
        status = status.max(report_all(problems, report));
        status = status.max(report_all(journaled::flush(copier).into_iter().collect(), report));
        let targets = distinct(operands.iter().map(|operand| Arc::clone(&operand.own.held)).collect());
        if copier.options.dry_run {
            // No other process leaves or looks for anything in the targets.
            status = status.max(session.run(executor, copier, Vec::new(), operands));
            continue;
        }
        targets.iter().for_each(|held| durable::note_directory(copier, cache, held));
        // What is copied onto the directory itself finishes it.
        let is_above = |operand: &&Operand<TargetDirectory>| operand.own.rename.as_deref() != Some(c".");
        target_places.extend(operands.iter().filter(is_above).map(|operand| Arc::clone(&operand.own.held)));
        status = status.max(session.run(executor, copier, targets, operands));
    }
    let target_places = distinct(target_places);
    let swept = target_places.iter().flat_map(|held| temporary::sweep(copier, cache, held, None)).collect();
    status = status.max(report_all(swept, report));
    status = status.max(parents.finish());
    if !copier.options.dry_run {
        status = status.max(report_all(durable::flush_end(copier, cache, &target_places), report));
    }
    status
}

/// Drops handles of directories that another one has.
fn distinct(mut directories: Vec<Arc<DirHandle>>) -> Vec<Arc<DirHandle>> {
    directories.sort_unstable_by_key(|held| (held.identity().device, held.identity().inode));
    directories.dedup_by_key(|held| held.identity());
    directories
}

/// Limits the run to one worker and one file with `-i`: each question is answered before the next
/// file begins. Limits it to two workers for a single file, which no more could help with. The
/// second one is started only if the file is large.
fn with_workers_needed(config: &Config, options: &CopyOptions, is_one_file: bool) -> Config {
    let config = config.clone();
    match options.existing.ask {
        true => Config { jobs: Some(1), look_ahead: Some(1), ..config },
        false if is_one_file => Config { jobs: config.jobs.or(Some(2)), ..config },
        false => config,
    }
}

/// Removes and returns the problems with fewer than `sources` sources before them.
fn take_before(sources: usize, problems: &mut Vec<(usize, Problem)>) -> Vec<Problem> {
    let count = problems.partition_point(|(before, _)| *before < sources);
    problems.drain(..count).map(|(_, problem)| problem).collect()
}

/// Reports problems and returns the resulting status.
fn report_all(problems: Vec<Problem>, report: &dyn Reporter) -> Status {
    let failed = problems.iter().any(|problem| problem.severity == Severity::Error);
    problems.into_iter().for_each(|problem| report.problem(problem));
    if failed { Status::Failure } else { Status::Success }
}

/// Opens handles for the parent directories of a group's sources. `first` is the overall index of
/// the group's first source. Also returns a problem for each source that cannot be reached.
fn places(
    group: &[Assignment],
    first: usize,
    copier: &Copier,
    cache: &DirCache,
    parents: &mut Parents<'_>,
) -> (Vec<Operand<TargetDirectory>>, Vec<Problem>) {
    let (mut operands, mut problems) = (Vec::with_capacity(group.len()), Vec::new());
    let mut facts = HashMap::new();
    for (index, assignment) in group.iter().enumerate() {
        let Some(held) = parents.of(assignment) else { continue };
        let Assignment { text, target: (parent, name), shown, .. } = assignment;
        let split = Split::of(text);
        match split.hold(cache) {
            Ok(place) => {
                let facts = *facts.entry(held.identity()).or_insert_with(|| ParentFacts {
                    is_shared: copier.is_shared(cache, &held),
                    gives_access_list: gives_operands_access_list(&copier.options, cache, &held),
                });
                let source = text.to_bytes().to_vec();
                let operand = OperandCopy::new(first + index, source, shown.clone(), parent.is_absent());
                let own = TargetDirectory::place(held, name.clone(), operand, facts);
                operands.push(Operand::named(place, &c_string(split.name), own));
            }
            Err(cause) => {
                problems.push(Problem::new(CopyKind::CannotStat).naming(text.to_bytes()).because(cause));
            }
        }
    }
    (operands, problems)
}
