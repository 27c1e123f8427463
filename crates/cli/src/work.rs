//! Runs any tool's work, from request to exit status: in this process, in a process group, under an
//! MPI launcher, or in a batch job; with messages, progress and statistics.

use std::ffi::{CStr, CString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Instant;

use haul_cluster::launch::ProcessGroup;
use haul_flow::{Alone, Config, Reporter, Selection};
use haul_journal::Journal;
use haul_sys::{Fd, Identity, c_string, reason, stat_path};
use signal_hook::consts::SIGINT;

use crate::batch::{self, ProgressFeed};
use crate::cluster;
use crate::control::{ControlServer, ControlSocket, Controlled};
use crate::flags::StatisticsForm;
use crate::messages::Messages;
use crate::messages::cluster::{not_shut_down, not_started};
use crate::output::LineSink;
use crate::report::{Console, complain};
use crate::run_log::RunLog;
use crate::signals;
use crate::statistics::Statistics;
use crate::task::{CliTask, RunOptions, count_in_background};

/// Runs work where it belongs: in a batch job if that is the only way to get hosts, otherwise as
/// [`launch`] does.
pub(crate) fn run_anywhere(messages: Messages, run_options: &RunOptions, work: &impl CliTask) -> ExitCode {
    match batch::system(run_options, work) {
        Ok(Some(system)) => batch::submit(messages, run_options, work, system),
        Ok(None) => launch(messages, run_options, None, work),
        Err(why) => cluster::refuse(ExitCode::from(work.exit_status(0, true)), || {
            complain(&messages.debug(&why));
        }),
    }
}

/// Runs work in as many processes as were requested, or were started.
pub(crate) fn launch(
    messages: Messages,
    run_options: &RunOptions,
    journal: Option<Arc<Journal>>,
    work: &impl CliTask,
) -> ExitCode {
    if cluster::is_under_launcher() && run_options.hosts.clients.is_none() {
        return cluster::under_launcher(&run_options.hosts, journal, |group| {
            run_in(messages, run_options, Some(group), work)
        });
    }
    let Some(clients) = run_options.hosts.clients else { return run_in(messages, run_options, None, work) };
    match cluster::group(clients, &run_options.hosts, journal) {
        Ok(group) => run_in(messages, run_options, Some(&group), work),
        Err(why) => cluster::refuse(ExitCode::from(work.exit_status(0, true)), || {
            complain(&messages.debug(&not_started(clients, &why)));
        }),
    }
}

/// Runs work in a process group, or in this process alone.
pub(crate) fn run_in(
    messages: Messages,
    run_options: &RunOptions,
    group: Option<&ProcessGroup>,
    work: &impl CliTask,
) -> ExitCode {
    // Before any thread is started, which would keep the usual priority.
    if run_options.config.nice
        && let Err(why) = haul_sys::lower_priority()
    {
        complain(&messages.debug(&format!("cannot lower the priority: {}", reason(&why))));
        return ExitCode::from(work.exit_status(0, true));
    }
    // Before there are threads that a signal could end the program from.
    let socket = match run_options.control.as_deref().map(ControlSocket::create).transpose() {
        Ok(socket) => socket,
        Err(why) => {
            complain(&messages.debug(&why));
            return ExitCode::from(work.exit_status(0, true));
        }
    };
    let began = Instant::now();
    let run_log = match RunLog::begin(run_options, &messages, &work.operands()) {
        Ok(run_log) => Arc::new(run_log),
        Err(why) => {
            complain(&messages.debug(&why));
            return ExitCode::from(work.exit_status(0, true));
        }
    };
    let console = Console::new(messages.clone(), LineSink::standard())
        .with_debug(run_options.debug)
        .with_progress(batch::local_display(run_options.progress))
        .with_run_log(Arc::clone(&run_log))
        .with_status_line();
    let feed = ProgressFeed::begin(run_options.progress, console.figures());
    let control = socket.and_then(|socket| controlled(socket, run_options, &console, work));
    let config = &config_of_run(run_options, &run_log);
    let status = std::thread::scope(|scope| {
        count_in_background(scope, &console, work);
        let status = match group {
            Some(group) => run_in_group(work, run_options, config, group, &console),
            None => work.run(&Alone, config, &console),
        };
        console.end_progress();
        status
    });
    drop(feed);
    let statistics = (run_options.statistics.is_some() || run_log.is_wanted()).then(|| {
        let (tally, problems) = console.counted();
        Statistics::of_run(tally, problems, began.elapsed(), console.run_info())
    });
    match (run_options.statistics, &statistics) {
        (Some(StatisticsForm::Table), Some(statistics)) => console.complain(statistics.table().as_bytes()),
        (Some(StatisticsForm::Json), Some(statistics)) => console.print(statistics.json().as_bytes()),
        _ => {}
    }
    let is_stopping = control.is_some_and(|control| control.is_stopping());
    if is_stopping {
        console.remark("stopped as requested: entries not yet begun were not processed");
    }
    let finish = console.finish_run();
    let status = if is_stopping { 128 + SIGINT as u8 } else { work.exit_status(status, finish.is_failure()) };
    statistics.iter().for_each(|statistics| run_log.end(status, statistics));
    let is_lost = run_log.report_failures(|why| {
        complain(&messages.debug(why));
    });
    if is_stopping {
        signals::end_by(SIGINT);
    }
    finish.end_unread();
    ExitCode::from(if is_lost { work.exit_status(status, true) } else { status })
}

/// Runs work in a process group, and shuts the group down.
fn run_in_group(
    work: &impl CliTask,
    run_options: &RunOptions,
    config: &Config,
    group: &ProcessGroup,
    console: &Console,
) -> u8 {
    let status = work.run(group, config, console);
    shut_down(group, console);
    batch::keep_job_directory(group, console);
    if status == 0 {
        batch::remove_used(run_options, console);
    }
    status
}

/// Returns the configuration of a run, which leaves out the files that it writes itself.
fn config_of_run(run_options: &RunOptions, run_log: &RunLog) -> Config {
    let socket = run_options.control.as_ref().and_then(|path| identity_of(&c_path(path)));
    let own_files = run_log.identities().chain(socket).collect();
    let selection = Selection { own_files, ..run_options.config.selection.clone() };
    Config { selection, ..run_options.config.clone() }
}

/// Returns the identity of the file that a path leads to, if there is one.
pub(crate) fn identity_of(path: &CStr) -> Option<Identity> {
    stat_path::<&Fd>(None, path, true).ok().map(|stat| stat.identity)
}

/// Converts a path for the kernel.
pub(crate) fn c_path(path: &Path) -> CString {
    c_string(path.as_os_str().as_bytes())
}

/// Starts the server of the control socket. If its thread can't be started, the run goes on without
/// it.
fn controlled(
    socket: ControlSocket,
    run_options: &RunOptions,
    console: &Console,
    work: &impl CliTask,
) -> Option<ControlServer> {
    let controlled = Controlled {
        limits: run_options.config.limits.clone().unwrap_or_default(),
        figures: console.figures(),
        stop: work.stop_token().cloned(),
        is_stopping: Arc::default(),
    };
    let served = socket.serve(controlled);
    served
        .map_err(|why| console.remark(&format!("cannot answer at the control socket: {}", reason(&why))))
        .ok()
}

/// Shuts a process group down and logs how many messages it exchanged.
fn shut_down(group: &ProcessGroup, console: &Console) {
    match group.shut_down(console) {
        Ok(messages) => console.debug(&format!("{messages} messages between the processes")),
        Err(why) => console.debug(&not_shut_down(&why)),
    }
}
