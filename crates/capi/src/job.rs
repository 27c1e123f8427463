//! A job: its description, its progress and its result. No C pointers here.

use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStringExt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::Builder;
use std::time::Duration;

use haul::flow::{OutputLine, Reporter, Severity, Standard, lock};
use haul::options::{Fsync, IfChanged, Verify};
use haul::{
    CancelToken, Config, Copy, CopyKind, DeleteKind, DeletionOptions, Error, FlowKind, Kind, Limit, Problem,
};
use haul::{Summary, Sync, SyncKind, Tally};
use haul_sys::block_signals;

/// Interval between progress callbacks.
const INTERVAL: Duration = Duration::from_millis(100);

/// Maximum number of times a file is copied again because it differs or has changed.
const RETRIES: u32 = 3;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JobKind {
    Copy,
    Sync,
}

/// `haul_status`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C)]
pub enum Status {
    /// `HAUL_OK`
    Ok = 0,
    /// `HAUL_INCOMPLETE`
    Incomplete = 1,
    /// `HAUL_CANCELLED`
    Cancelled = 2,
    /// `HAUL_NOT_STARTED`
    NotStarted = 3,
    /// `HAUL_INVALID`
    Invalid = 4,
    /// `HAUL_INTERNAL`
    Internal = 5,
}

/// Settings of a job that has not begun.
#[derive(Clone, Debug, Default)]
pub(crate) struct JobSetup {
    pub(crate) sources: Vec<PathBuf>,
    pub(crate) target: Option<PathBuf>,
    pub(crate) recursive: bool,
    pub(crate) preserve: bool,
    pub(crate) exact: bool,
    pub(crate) delete: bool,
    pub(crate) delete_max: Option<u64>,
    pub(crate) really: bool,
    pub(crate) by_content: bool,
    pub(crate) dry_run: bool,
    pub(crate) verify: bool,
    pub(crate) fsync: bool,
    pub(crate) config: Config,
}

haul::flow::kinds! {
    "c"
    /// Why a job can't begin.
    pub(crate) enum SetupKind {
        NoSource = "no source was set",
        NoTarget = "no target was set",
        /// A sync, or a copy to an exact target, can have only one.
        SeveralSources = "several sources can only be copied into a directory",
        OnlyForCopies = "{bare} is for copies only",
        OnlyForSyncs = "{bare} is for syncs only",
        OnlyWithDelete = "{bare} has no effect without HAUL_DELETE",
        /// The system refuses the thread of a job.
        NoThread = "cannot start a thread: {bare}",
    }
}

/// A problem with strings for C.
#[derive(Debug)]
pub(crate) struct ListedProblem {
    pub(crate) message: CString,
    pub(crate) kind: CString,
    pub(crate) path: Option<CString>,
    pub(crate) error_number: i32,
    pub(crate) is_warning: bool,
}

/// A job.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) tool: JobKind,
    pub(crate) setup: Mutex<JobSetup>,
    has_begun: AtomicBool,
    /// Set by `haul_cancel`. A signal handler can do no more than that; the token takes a lock.
    is_cancelled: AtomicBool,
    tally: Mutex<Tally>,
    /// A list for each time that it was run or refused. The last is shown; the others are kept
    /// because C has pointers to their strings.
    problems: Mutex<Vec<Vec<ListedProblem>>>,
}

impl Job {
    pub(crate) fn new(tool: JobKind) -> Self {
        Self {
            tool,
            setup: Mutex::default(),
            has_begun: AtomicBool::new(false),
            is_cancelled: AtomicBool::new(false),
            tally: Mutex::default(),
            problems: Mutex::default(),
        }
    }

    /// Changes the settings. Returns `Invalid` if the job has begun or `change` refuses.
    pub(crate) fn change(&self, change: impl FnOnce(&mut JobSetup) -> Option<()>) -> Status {
        if self.has_begun.load(Ordering::Acquire) {
            return Status::Invalid;
        }
        change(&mut lock(&self.setup)).map_or(Status::Invalid, |()| Status::Ok)
    }

    pub(crate) fn cancel(&self) {
        self.is_cancelled.store(true, Ordering::Release);
    }

    pub(crate) fn tally(&self) -> Tally {
        *lock(&self.tally)
    }

    pub(crate) fn problem_count(&self) -> usize {
        lock(&self.problems).last().map_or(0, Vec::len)
    }

    /// Calls `read` with the problem at `index`. Returns its result, or `None` without a problem.
    pub(crate) fn problem_at<T>(&self, index: usize, read: impl FnOnce(&ListedProblem) -> T) -> Option<T> {
        lock(&self.problems).last()?.get(index).map(read)
    }

    fn list(&self, problems: &[Problem]) {
        lock(&self.problems).push(problems.iter().map(ListedProblem::of).collect());
    }

    /// Runs the job in a thread of its own, and calls `progress` in this one. If that returns
    /// false, the job is cancelled.
    pub(crate) fn run(&self, mut progress: impl FnMut(Tally) -> bool) -> Status {
        let setup = lock(&self.setup).clone();
        let work = match self.work(&setup) {
            Ok(work) => work,
            Err(refused) => {
                self.list(&[refused]);
                return Status::Invalid;
            }
        };
        if self.has_begun.swap(true, Ordering::AcqRel) {
            return Status::Invalid;
        }
        let token = CancelToken::default();
        if self.is_cancelled.load(Ordering::Acquire) {
            token.cancel();
        }
        let (ended, is_ended) = mpsc::channel();
        let outcome = std::thread::scope(|scope| {
            let (token, work) = (&token, &work);
            let run = move || {
                // The program's handlers run in its own threads only.
                block_signals();
                // A panic must not reach the scope, which would pass it on to the caller.
                let outcome = catch_unwind(AssertUnwindSafe(|| work.run(token, self)));
                drop(ended.send(outcome.ok()));
            };
            // Not `Scope::spawn`, which panics if the system refuses a thread.
            if let Err(cause) = Builder::new().name("haul".to_owned()).spawn_scoped(scope, run) {
                let refused = Problem::new(SetupKind::NoThread).naming(cause.to_string());
                return Some(Err(Error::NotStarted(refused)));
            }
            loop {
                let waited = is_ended.recv_timeout(INTERVAL);
                if !progress(self.tally()) {
                    self.cancel();
                }
                if self.is_cancelled.load(Ordering::Acquire) {
                    token.cancel();
                }
                match waited {
                    Ok(outcome) => return outcome,
                    Err(RecvTimeoutError::Timeout) => {}
                    Err(RecvTimeoutError::Disconnected) => return None,
                }
            }
        });
        let (status, problems) = match outcome {
            None => (Status::Internal, Vec::new()),
            Some(Ok(summary)) => (Status::Ok, summary.problems),
            Some(Err(Error::Incomplete(summary))) => (Status::Incomplete, summary.problems),
            Some(Err(Error::Cancelled(summary))) => (Status::Cancelled, summary.problems),
            Some(Err(Error::NotStarted(problem))) => (Status::NotStarted, vec![problem]),
            Some(Err(_)) => (Status::Invalid, Vec::new()),
        };
        self.list(&problems);
        status
    }

    /// Refuses options that a setup's tool doesn't have, or that have no effect.
    fn check_options(&self, setup: &JobSetup) -> Result<(), Problem> {
        let deletion = [(setup.delete_max.is_some(), "HAUL_MAX_DELETE"), (setup.really, "HAUL_REALLY")];
        let of_sync = [(setup.delete, "HAUL_DELETE"), (setup.by_content, "HAUL_BY_CONTENT")];
        let of_copy = [
            (setup.recursive, "HAUL_RECURSIVE"),
            (setup.preserve, "HAUL_PRESERVE"),
            (setup.exact, "HAUL_EXACT_TARGET"),
        ];
        let (wrong, why) = match self.tool {
            JobKind::Copy => ([deletion, of_sync].concat(), SetupKind::OnlyForSyncs),
            JobKind::Sync if of_copy.iter().any(|(is_set, _)| *is_set) => {
                (of_copy.to_vec(), SetupKind::OnlyForCopies)
            }
            JobKind::Sync if !setup.delete => (deletion.to_vec(), SetupKind::OnlyWithDelete),
            JobKind::Sync => return Ok(()),
        };
        let first = wrong.into_iter().find(|(is_set, _)| *is_set);
        first.map_or(Ok(()), |(_, option)| Err(Problem::new(why).naming(option)))
    }

    /// Returns the library's copy or sync for a setup.
    ///
    /// # Errors
    /// A [`SetupKind`], if it isn't complete or makes no sense.
    fn work(&self, setup: &JobSetup) -> Result<JobBuilder, Problem> {
        let JobSetup { sources, target, config, .. } = setup;
        let (first, others) = sources.split_first().ok_or_else(|| Problem::new(SetupKind::NoSource))?;
        let target = target.as_ref().ok_or_else(|| Problem::new(SetupKind::NoTarget))?;
        self.check_options(setup)?;
        let change = |copy: &mut haul::CopyOptions| {
            (copy.dry_run, copy.verbose) = (setup.dry_run, setup.dry_run);
            if setup.fsync {
                copy.fsync = Fsync::End;
            }
            if setup.verify {
                (copy.verify, copy.if_changed) = (Verify::Target, IfChanged::Retry(RETRIES));
            }
        };
        if !others.is_empty() && (self.tool == JobKind::Sync || setup.exact) {
            return Err(Problem::new(SetupKind::SeveralSources));
        }
        Ok(match self.tool {
            JobKind::Copy => {
                let copy = match others {
                    [] if setup.exact => Copy::exactly(first, target),
                    [] => Copy::new(first, target),
                    _ => Copy::into_directory(sources, target),
                };
                let copy = if setup.recursive { copy.recursive() } else { copy };
                let copy = if setup.preserve { copy.preserve_all() } else { copy };
                JobBuilder::Copy(copy.options(change).config(config.clone()))
            }
            JobKind::Sync => {
                let sync = Sync::new(first, target).options(change).config(config.clone());
                let usual = DeletionOptions::default();
                let limit = setup.delete_max.map_or(usual.limit, Limit::Entries);
                let deletion = DeletionOptions { limit, really: setup.really, ..usual };
                let sync = if setup.delete { sync.delete_with(deletion) } else { sync };
                JobBuilder::Sync(if setup.by_content { sync.by_content() } else { sync })
            }
        })
    }
}

enum JobBuilder {
    Copy(Copy),
    Sync(Sync),
}

impl JobBuilder {
    fn run(&self, token: &CancelToken, job: &Job) -> Result<Summary, Error> {
        match self {
            Self::Copy(copy) => copy.clone().cancel_with(token).run_with(job),
            Self::Sync(sync) => sync.clone().cancel_with(token).run_with(job),
        }
    }
}

impl ListedProblem {
    fn of(problem: &Problem) -> Self {
        let text = |text: String| CString::new(text.replace('\0', " ")).unwrap_or_default();
        // The names of some problems are values.
        let is_path = ![FlowKind::CannotUseEngine, FlowKind::BadPattern, FlowKind::BadIgnoreLine]
            .map(Kind::from)
            .contains(&problem.kind)
            && problem.kind != SyncKind::Conflict
            && problem.kind != CopyKind::Conflict
            && SetupKind::of(problem.kind).is_none();
        // Of others, only the last is no value.
        let is_last = problem.kind == DeleteKind::TooMany
            || [CopyKind::GettingAttribute, CopyKind::SettingAttribute]
                .map(Kind::from)
                .contains(&problem.kind);
        let path = if is_last { problem.names.last() } else { problem.names.first().filter(|_| is_path) };
        Self {
            message: text(problem.to_string()),
            kind: text(problem.kind.to_string()),
            path: path.and_then(|name| CString::new(name.clone()).ok()),
            error_number: problem.cause.as_ref().map_or(0, |cause| cause.errno().raw_os_error()),
            is_warning: problem.severity == Severity::Warning,
        }
    }
}

/// The problems are in the summary.
impl Reporter for Job {
    fn count(&self, more: Tally) {
        *lock(&self.tally) += more;
    }
    fn problem(&self, _: Problem) {}
    fn line(&self, _: OutputLine) {}
    fn output(&self, _: Standard, _: &[u8]) {}
    fn debug(&self, _: &str) {}
}

/// Converts a path from C.
pub(crate) fn path(bytes: &[u8]) -> PathBuf {
    PathBuf::from(OsString::from_vec(bytes.to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_problem_is_no_attribute_and_no_number() {
        for (kind, names) in [
            (Kind::from(CopyKind::SettingAttribute), ["user.test", "a/file"].as_slice()),
            (CopyKind::GettingAttribute.into(), &["user.test", "a/file"]),
            (DeleteKind::TooMany.into(), &["3", "4", "a/file"]),
            (CopyKind::CannotStat.into(), &["a/file"]),
        ] {
            let problem = names.iter().fold(Problem::new(kind), |problem, name| problem.naming(*name));
            assert_eq!(ListedProblem::of(&problem).path.as_deref(), Some(c"a/file"), "{kind}");
        }
    }
}
