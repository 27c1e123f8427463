//! The flags that all applets share: machine, hosts and display.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;

use haul_flow::Limits;

use super::Action::{Optional, Plain, Required};
use super::selection::{self, CHOOSING};
use super::values::{self, Bounds};
use super::{Environment, FlagError, Sections, Value};
use crate::option_files::OptionFiles;
use crate::progress::ProgressOptions;
use crate::task::RunOptions;

/// Help heading of the flags about the machine.
pub(crate) const MACHINE: &str = "Options of haul";
/// Help heading of the flags for many hosts.
pub(super) const HOSTS: &str = "Running on many hosts, by MPI";

/// `--jobs`: more threads than this would only wait for each other.
const JOBS: Bounds = Bounds { least: 1, most: 1024, text: "1 to 1024" };
const QUEUE_DEPTH: Bounds = Bounds { least: 1, most: 4096, text: "1 to 4096" };
const LOOK_AHEAD: Bounds = Bounds { least: 1, most: 4096, text: "1 to 4096" };
const CLIENTS: Bounds = Bounds { least: 1, most: 1 << 20, text: "1 to 1048576" };

/// Information requested instead of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Information {
    Help,
    Version,
}

/// Output form of `--stats`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StatisticsForm {
    /// A table for people, on standard error.
    Table,
    /// One JSON object, on standard output.
    Json,
}

/// When progress is shown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum When {
    /// If standard error is a terminal.
    #[default]
    Auto,
    /// Always; as plain lines if it is not a terminal.
    Always,
    Never,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct SharedArguments {
    pub(crate) run: RunOptions,
    pub(crate) information: Option<Information>,
    /// Number of times `-g` was given.
    pub(super) progress_flags: usize,
    /// First flag about how a job is started.
    pub(super) without_job: Option<&'static str>,
    /// First flag about how ranks share the work.
    pub(super) without_ranks: Option<&'static str>,
    /// True if rules were read from a file, which may have none.
    pub(super) rule_files: bool,
    /// True if a rule is from `--include`.
    pub(super) includes: bool,
    /// The file with a list of names, the flag that gave it, and the byte that ends a name.
    pub(super) list: Option<(&'static str, PathBuf, u8)>,
    /// True if names in the list end with NUL in any case.
    pub(super) null: bool,
    /// Whether the files that options name are read.
    pub(crate) files: OptionFiles,
}

impl SharedArguments {
    /// Returns the limits of the run, which has them from now on.
    pub(super) fn limits(&mut self) -> &Limits {
        self.run.config.limits.get_or_insert_default()
    }

    /// Sets when progress is shown, if the environment says.
    pub(crate) fn set_progress(&mut self, environment: &Environment) -> Result<(), FlagError> {
        if let Some(when) = &environment.progress {
            self.run.progress.when = values::choose("$HAUL_PROGRESS", when, values::PROGRESS)?;
        }
        Ok(())
    }
}

/// The shared flags, in help order.
pub(super) static SECTIONS: Sections<SharedArguments> =
    &[(CHOOSING, selection::FLAGS), (MACHINE, OF_MACHINE), (HOSTS, OF_HOSTS)];

type SharedFlag = super::FlagSpec<SharedArguments>;

static OF_MACHINE: &[SharedFlag] = &[
    SharedFlag::own(
        "-j --jobs",
        Required("N", |shared, value| value.count(JOBS).map(|n| shared.run.config.jobs = Some(n))),
        "use N worker threads (default: depends on the processors and file systems)",
    )
    .configurable(),
    SharedFlag::own(
        "--engine",
        Required("NAME", |shared, value| {
            value.choose(&values::engines()).map(|engine| shared.run.config.engine = engine)
        }),
        "use the I/O engine NAME: {engines}",
    )
    .configurable(),
    SharedFlag::own(
        "--queue-depth",
        Required("N", |shared, value| {
            value.count(QUEUE_DEPTH).map(|n| shared.run.config.queue_depth = Some(n))
        }),
        "keep up to N operations per worker in flight, if the engine can",
    )
    .configurable(),
    SharedFlag::own(
        "--look-ahead",
        Required("N", |shared, value| {
            value.count(LOOK_AHEAD).map(|n| shared.run.config.look_ahead = Some(n))
        }),
        "let each worker open up to N files ahead of the current one",
    )
    .configurable(),
    SharedFlag::own(
        "--nice",
        Plain(|shared| shared.run.config.nice = true),
        "run at the lowest CPU priority, and use the disk only when it is otherwise idle",
    )
    .configurable(),
    SharedFlag::own(
        "--iops-limit",
        Required("N", |shared, value| {
            let limit = value.count(values::OPERATIONS)?;
            shared
                .limits()
                .change(|limits| limits.operations_per_second = (limit > 0).then_some(limit as u64));
            Ok(())
        }),
        "do at most N operations per second, over all workers and ranks together (0: no limit); each \
         entry that is not excluded and each block of data that is moved counts as one",
    )
    .configurable(),
    SharedFlag::own(
        "--max-latency",
        Required("MS", |shared, value| {
            let latency = values::milliseconds(value.count(values::LATENCY)?);
            shared.limits().change(|limits| limits.latency = latency);
            Ok(())
        }),
        "use fewer workers while metadata calls, such as opening a file, take longer than MS milliseconds on average, \
         and more again when they take much less (0: no limit); each rank decides for itself",
    )
    .configurable(),
    SharedFlag::own(
        "--control",
        Required("SOCKET", |shared, value| {
            shared.run.control = Some(value.output_path()?);
            shared.limits();
            Ok(())
        }),
        "create SOCKET, through which 'haul ctl' can query, throttle, pause and stop this command; only \
         for this user, and removed at the end",
    ),
    SharedFlag::own(
        "-g --progress",
        Optional("WHEN", |shared, value| {
            let when = value.map_or(Ok(When::Auto), |value| value.choose(values::PROGRESS))?;
            shared.progress_flags += 1;
            shared.run.progress = ProgressOptions { when, slow_ranks: shared.progress_flags > 1 };
            Ok(())
        }),
        "show progress on standard error: auto (if it is a terminal; the default for WHEN), always, or never; without \
         this option, the variable HAUL_PROGRESS decides; given twice, also show the ranks that have completed nothing \
         for five seconds",
    )
    .configurable(),
    SharedFlag::own(
        "--stats",
        Optional("json", |shared, value| {
            let form = value.map_or(Ok(StatisticsForm::Table), |value| value.choose(values::STATISTICS))?;
            shared.run.statistics = Some(form);
            Ok(())
        }),
        "print statistics at the end: counts, bytes, times and memory, on standard error; with =json, as a JSON object \
         on standard output",
    )
    .configurable_without_argument(),
    SharedFlag::own(
        "--events",
        Required("FILE", |shared, value| value.destination().map(|events| shared.run.events = Some(events))),
        "write events to FILE as JSON Lines; fd:N writes to the open descriptor N",
    ),
    SharedFlag::own(
        "--log-file",
        Required("FILE", |shared, value| value.output_path().map(|path| shared.run.log_file = Some(path))),
        "append all messages, and the lines of --verbose, to FILE, with the time",
    ),
    SharedFlag::own("--debug", Plain(|shared| shared.run.debug = true), "print how the run was set up"),
];

static OF_HOSTS: &[SharedFlag] = &[
    SharedFlag::own(
        "--clients",
        Required("M", SharedArguments::set_clients),
        "run M MPI ranks: on the hosts of the current allocation, else in a batch job if there is a batch system, \
         else on this host",
    ),
    SharedFlag::own(
        "--account",
        Required("P", SharedArguments::set_account),
        "charge the batch job to account P",
    ),
    SharedFlag::own(
        "--walltime",
        Required("TIME", SharedArguments::set_walltime),
        "limit the batch job to TIME, in seconds or as [HH:]MM:SS",
    ),
    SharedFlag::own(
        "--queue",
        Required("QUEUE", SharedArguments::set_queue),
        "submit the batch job to QUEUE",
    ),
    SharedFlag::own(
        "--launcher",
        Required("COMMAND", SharedArguments::set_launcher),
        "start the ranks with COMMAND, split at spaces; the default is the mpirun or srun that is found",
    ),
    SharedFlag::own(
        "--mpi-lib",
        Required("PATH", |shared, value| {
            shared.run.hosts.mpi_library = Some(value.path()?);
            shared.needs_ranks(value.flag);
            Ok(())
        }),
        "load the MPI library PATH; the default is the one that fits the launcher",
    ),
];

impl SharedArguments {
    pub(super) fn set_clients(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.run.hosts.clients = u32::try_from(value.count(CLIENTS)?).ok();
        Ok(())
    }

    pub(super) fn set_account(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.run.hosts.account = Some(value.name()?);
        self.needs_clients(value.flag);
        Ok(())
    }

    pub(super) fn set_queue(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.run.hosts.queue = Some(value.name()?);
        self.needs_clients(value.flag);
        Ok(())
    }

    pub(super) fn set_walltime(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.run.hosts.walltime = Some(value.walltime()?);
        self.needs_clients(value.flag);
        Ok(())
    }

    fn set_launcher(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        let words = value.bytes.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
        let words: Vec<OsString> = words.map(|word| OsStr::from_bytes(word).to_owned()).collect();
        if words.is_empty() {
            return Err(value.refused("a command line, like 'mpirun --host a,b'"));
        }
        self.run.hosts.launcher = Some(words);
        self.needs_clients(value.flag);
        Ok(())
    }

    /// Records the first flag about starting a job, which is meaningless without one.
    fn needs_clients(&mut self, flag: &'static str) {
        self.without_job.get_or_insert(flag);
    }

    /// Records the first flag about how several ranks share the work.
    pub(super) fn needs_ranks(&mut self, flag: &'static str) {
        self.without_ranks.get_or_insert(flag);
    }

    /// Checks that job flags apply to a job: one that is started, or one this process is a rank of.
    /// No batch job is submitted if the user says how to start the ranks.
    pub(crate) fn check_job(&self, clients: &'static str, is_rank: bool) -> Result<(), FlagError> {
        self.check_selection()?;
        let hosts = &self.run.hosts;
        let without_ranks = self.without_ranks.filter(|_| !is_rank);
        if let (Some(flag), None) = (self.without_job.or(without_ranks), hosts.clients) {
            return Err(FlagError::Requires { flag, other: clients });
        }
        let of_batch = [
            ("--account", hosts.account.is_some()),
            ("--queue", hosts.queue.is_some()),
            ("--walltime", hosts.walltime.is_some()),
        ];
        let useless = of_batch.into_iter().find(|(_, given)| *given && hosts.launcher.is_some());
        useless.map_or(Ok(()), |(flag, _)| Err(FlagError::Useless { flag, other: "--launcher" }))
    }
}
