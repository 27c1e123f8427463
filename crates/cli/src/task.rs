//! The task of a command line: a tool's work, and the options for running and showing it.

use std::ffi::CStr;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::thread::Scope;

use haul_bzip2::Bzip2;
use haul_compare::Comparer;
use haul_copy::Copier;
use haul_delete::Deleter;
use haul_each::Runner;
use haul_flow::{CancelToken, Config, Executor, Reporter};
use haul_grep::Grep;
use haul_sum::Summer;
use haul_tar::{Extractor, PositionedWriter};

use crate::flags::{DefaultSetting, StatisticsForm};
use crate::line_file::Destination;
use crate::option_files::is_descriptor_path;
use crate::progress::{ProgressOptions, Total};
use crate::report::Console;

/// An executor for every tool: this process, or a process group.
pub(crate) trait Executors:
    Executor<Copier>
    + Executor<Deleter>
    + Executor<Bzip2>
    + Executor<Comparer>
    + Executor<Runner>
    + Executor<Grep>
    + Executor<Summer>
    + Executor<Extractor>
    + Executor<PositionedWriter>
{
}

impl<E> Executors for E where
    E: Executor<Copier>
        + Executor<Deleter>
        + Executor<Bzip2>
        + Executor<Comparer>
        + Executor<Runner>
        + Executor<Grep>
        + Executor<Summer>
        + Executor<Extractor>
        + Executor<PositionedWriter>
{
}

/// The work of one command line.
pub(crate) trait CliTask: Sync {
    /// Does the work and returns its exit status, which holds unless an error was reported.
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8;

    /// Returns the program's exit status, from the work's status and whether an error was reported.
    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        if trouble { status.max(1) } else { status }
    }

    /// Returns a path that the work reads or writes and that every host sees; a batch job's files
    /// are placed next to it. `None` if the request is invalid: the error needs no job.
    fn shared_path(&self) -> Option<&Path>;

    /// Returns the paths, named by the user, that the work reads or writes.
    fn operands(&self) -> Vec<&CStr>;

    /// True if the work needs standard input, or another descriptor of this process.
    fn needs_descriptors(&self) -> bool {
        self.operands().into_iter().any(|operand| is_descriptor_path(operand.to_bytes()))
    }

    /// Returns the file in which the work lists what it has done, and the option that names it.
    fn manifest_file(&self) -> Option<(&'static str, &Path)> {
        None
    }

    /// Returns the token that stops the work after the entries in progress are finished. `None` if
    /// only a signal can stop it, possibly leaving incomplete files.
    fn stop_token(&self) -> Option<&CancelToken> {
        None
    }

    /// Called before the work begins, if its total will be counted: by then the work may have
    /// changed the trees.
    fn before_total(&self) {}

    /// Counts the work, for progress; ends early once `over` is set. `None` if it can't be known.
    /// `report` is for warnings.
    fn count_total(&self, _over: &AtomicBool, _report: &dyn Reporter) -> Option<Total> {
        None
    }
}

/// Options for running and showing work.
#[derive(Clone, Debug, Default)]
pub(crate) struct RunOptions {
    /// Use of this machine.
    pub(crate) config: Config,
    /// Use of other hosts.
    pub(crate) hosts: haul_cluster::Options,
    /// Progress display.
    pub(crate) progress: ProgressOptions,
    /// Form of the statistics printed at the end, if any.
    pub(crate) statistics: Option<StatisticsForm>,
    /// Where events go, if anywhere.
    pub(crate) events: Option<Destination>,
    /// The log file, if there is one.
    pub(crate) log_file: Option<PathBuf>,
    /// True if a list of names or rules is read from standard input.
    pub(crate) reads_input: bool,
    /// True if one is read from standard input or another descriptor of this process.
    pub(crate) needs_descriptors: bool,
    /// True if `--debug` remarks are printed.
    pub(crate) debug: bool,
    /// The socket through which the command is controlled while it runs, if any.
    pub(crate) control: Option<PathBuf>,
    /// Settings of configuration files and `HAUL_OPTIONS`, for a batch job.
    pub(crate) configured: Vec<DefaultSetting>,
}

/// Counts the total in the background, if progress is shown or recorded.
pub(crate) fn count_in_background<'a>(
    scope: &'a Scope<'a, '_>,
    console: &'a Console,
    work: &'a impl CliTask,
) {
    if console.needs_total() {
        work.before_total();
        let count = || console.count_total(|over| work.count_total(over, console));
        // Without the thread there is just no percentage.
        std::thread::Builder::new().name("count".to_owned()).spawn_scoped(scope, count).ok();
    }
}
