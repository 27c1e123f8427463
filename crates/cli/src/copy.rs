//! `haul cp`, from command line to exit status.

use std::ffi::{CStr, CString, OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};

use haul_copy::{CopyOptions, CopyOutcome, CopyRefusal, CopyRequest, FreeSpace};
use haul_flow::{CancelToken, Config, Reporter, Selection};
use haul_journal::Journal;
use haul_sys::{Fd, Identity};

use crate::batch;
use crate::cluster;
use crate::flags::{self, CopyCommand, Environment, Information, LoweredCopy};
use crate::journal;
use crate::manifest::Manifest;
use crate::messages::Messages;
use crate::own_files;
use crate::precount;
use crate::progress::Total;
use crate::report::{Console, complain, complain_of_usage, print_information};
use crate::task::{CliTask, Executors};
use crate::work;

/// Runs `cp`. Messages begin with `program`.
pub(crate) fn main(program: &str, words: &[OsString]) -> ExitCode {
    let messages = Messages::in_locale(program);
    let mut is_reported = true;
    // A script under mpirun that calls `cp` means one copy, with messages, in each process.
    let prints_messages = program == "cp" || cluster::prints_messages();
    let mut warn = |warning| is_reported &= !prints_messages || complain(&messages.warning(warning));
    let environment = match program {
        "cp" => Environment::of_stand_in(),
        _ => Environment::of_command("cp"),
    };
    let status = match flags::parse(words, environment, &mut warn) {
        Ok(CopyCommand::Copy(request)) => {
            let is_alone = program == "cp" && request.run.hosts.clients.is_none();
            copy(messages, &request, if is_alone { Processes::ThisOne } else { Processes::AsRequested })
        }
        Ok(CopyCommand::Print(_)) if !prints_messages => ExitCode::SUCCESS,
        Ok(CopyCommand::Print(Information::Help)) => {
            print_information(messages, &flags::COMMAND.help(program))
        }
        Ok(CopyCommand::Print(Information::Version)) => {
            print_information(messages, concat!("cp (haul) ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Err(error) if program == "cp" => {
            complain_of_usage(&messages, &error);
            ExitCode::FAILURE
        }
        Err(error) => cluster::refuse(ExitCode::FAILURE, || complain_of_usage(&messages, &error)),
    };
    if is_reported { status } else { ExitCode::FAILURE }
}

/// Processes that a copy may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Processes {
    /// This one, even if an MPI launcher started it.
    ThisOne,
    /// Those that were requested or that a launcher started.
    AsRequested,
}

/// Runs one copy and reports the outcome.
pub(crate) fn copy(messages: Messages, request: &LoweredCopy, processes: Processes) -> ExitCode {
    let run_options = &request.run;
    let complain_of = |why: &str| {
        complain(&messages.debug(why));
    };
    let refuse = |why: &str| match processes {
        Processes::ThisOne => {
            complain_of(why);
            ExitCode::FAILURE
        }
        Processes::AsRequested => cluster::refuse(ExitCode::FAILURE, || complain_of(why)),
    };
    let copy = CopyTask::of(request);
    if let Err(why) = own_files::check(run_options, &copy) {
        return refuse(&why);
    }
    match batch::system(run_options, &copy) {
        Ok(None) => {}
        Ok(Some(system)) => return batch::submit(messages, run_options, &copy, system),
        Err(why) => return refuse(&why),
    }
    let journal = match journal::open(request) {
        Ok(journal) => journal,
        Err(why) => return refuse(&why),
    };
    let request = &journal::resumed_request(request, journal.as_deref());
    let copy = CopyTask { journal: journal.clone(), ..CopyTask::of(request) };
    let is_local = run_options.hosts.clients.is_none()
        && (processes == Processes::ThisOne || !cluster::is_under_launcher());
    match is_local {
        true => work::run_in(messages, run_options, None, &copy),
        false => work::launch(messages, run_options, journal, &CopyTask { of_ranks: true, ..copy }),
    }
}

#[derive(Clone)]
struct CopyTask<'a> {
    request: &'a LoweredCopy,
    journal: Option<Arc<Journal>>,
    /// True if ranks copy: the process group has the journal.
    of_ranks: bool,
    /// Free space before the copy began, if its total is counted.
    space: OnceLock<Option<FreeSpace>>,
    /// Ends the copy when the files that have begun are done.
    stop: CancelToken,
}

/// Exit statuses of rsync: some entries were not copied; some have vanished.
const PARTIAL: u8 = 23;
const VANISHED: u8 = 24;

impl CliTask for CopyTask<'_> {
    fn run(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let status = self.run_copy(executor, config, console);
        let is_there = |name: &CString| haul_sys::stat_path::<&Fd>(None, name, true).is_ok();
        match self.request.rsync_status {
            false => status,
            true if status == 0 && !console.has_failed() => 0,
            // A name in a list may never have been there.
            true if console.has_only_vanished_files()
                && config.selection.list.is_none()
                && self.request.operands.names.iter().all(is_there) =>
            {
                VANISHED
            }
            true => PARTIAL,
        }
    }

    fn exit_status(&self, status: u8, trouble: bool) -> u8 {
        let least = if self.request.rsync_status { PARTIAL } else { 1 };
        if trouble { status.max(least) } else { status }
    }

    fn operands(&self) -> Vec<&CStr> {
        let operands = &self.request.operands;
        operands.names.iter().chain(&operands.target_directory).map(|name| name.as_c_str()).collect()
    }

    fn manifest_file(&self) -> Option<(&'static str, &Path)> {
        let manifest = self.request.manifest.as_ref()?;
        Some(("--manifest", Path::new(OsStr::from_bytes(manifest.path.to_bytes()))))
    }

    fn shared_path(&self) -> Option<&Path> {
        let operands = &self.request.operands;
        let target = match (&operands.target_directory, operands.names.as_slice()) {
            (Some(target), [_, ..]) => Some(target),
            (None, [_, .., target]) => Some(target),
            _ => None,
        };
        target.map(|name: &CString| Path::new(OsStr::from_bytes(name.to_bytes())))
    }

    fn stop_token(&self) -> Option<&CancelToken> {
        Some(&self.stop)
    }

    fn before_total(&self) {
        let LoweredCopy { operands, options, manifest, .. } = self.request;
        let options = options.resolved(manifest.as_ref().map(|manifest| manifest.algorithm));
        self.space.get_or_init(|| FreeSpace::before(operands, &options));
    }

    fn count_total(&self, over: &AtomicBool, report: &dyn Reporter) -> Option<Total> {
        let space = self.space.get().and_then(Option::as_ref);
        let (total, needed) = precount::count(self.request, space, over)?;
        if let Some(shortage) = space.and_then(|space| precount::shortage(space, needed)) {
            report.problem(shortage);
        }
        Some(total)
    }
}

impl<'a> CopyTask<'a> {
    /// Copies, and returns 0 or 1.
    fn run_copy(&self, executor: &impl Executors, config: &Config, console: &Console) -> u8 {
        let LoweredCopy { operands, options, manifest, warnings, .. } = self.request;
        warnings.iter().for_each(|warning| console.problem(warning.clone()));
        self.journal.iter().for_each(|journal| journal::remark(journal, console));
        let manifest = manifest.as_ref().map(|request| Manifest::create(request, operands, console));
        let manifest = match manifest.transpose() {
            Ok(manifest) => manifest,
            Err(problem) => {
                console.problem(problem);
                return 1;
            }
        };
        let own_files = self.own_files(manifest.as_ref(), config);
        let selection = Selection { own_files: own_files.clone(), ..config.selection.clone() };
        let config = &Config { selection, ..config.clone() };
        let options = &CopyOptions { own_files: own_files.clone(), ..options.clone() };
        let deletion = self.request.deletion.clone();
        let deletion = deletion.map(|options| haul_delete::Options { own_files, ..options });
        let digests = manifest.as_ref().map(Manifest::sink);
        let cancel = &self.stop;
        let journal = self.journal.as_ref();
        let request = CopyRequest {
            operands,
            options,
            config,
            cancel,
            digests: digests.as_ref(),
            journal: journal.filter(|_| !self.of_ranks),
            deletion: None,
        };
        let has_failed = || console.has_failed();
        let outcome = haul_sync::run(executor, request, deletion.as_ref(), &has_failed, console);
        let mut status = Self::status(outcome, console);
        if let Some(journal) = journal {
            let succeeded = status == 0 && !console.has_failed();
            let is_written = journal::finish(journal, self.request, succeeded, console);
            status = if is_written { status } else { 1 };
        }
        // Also after errors: it lists what was copied.
        match manifest.map_or(Ok(()), Manifest::commit) {
            Ok(()) => status,
            Err(problem) => {
                console.problem(problem);
                1
            }
        }
    }

    /// Returns the files that this run writes besides the copy.
    fn own_files(&self, manifest: Option<&Manifest>, config: &Config) -> Vec<Identity> {
        let journal =
            self.journal.as_ref().and_then(|journal| work::identity_of(&work::c_path(journal.path())));
        let manifest = manifest.map(Manifest::own_files).unwrap_or_default();
        config.selection.own_files.iter().copied().chain(journal).chain(manifest).collect()
    }

    fn of(request: &'a LoweredCopy) -> Self {
        let (space, stop) = (OnceLock::new(), CancelToken::default());
        Self { request, journal: None, of_ranks: false, space, stop }
    }

    fn status(outcome: Result<CopyOutcome, CopyRefusal>, console: &Console) -> u8 {
        match outcome {
            Ok(CopyOutcome::Success) => return 0,
            Ok(CopyOutcome::Failure | CopyOutcome::Cancelled) => {}
            Err(CopyRefusal::Usage(problem)) => console.wrong_operands(&problem),
            Err(CopyRefusal::Fatal(problem)) => console.problem(problem),
        }
        1
    }
}
