//! Runs of several processes: the roles that this process can have.
//!
//! - [`rank`]: a process started by a launch process, which sends it orders over its standard
//!   input, or in messages.
//! - [`under_launcher`]: one of the processes of `mpirun -n N haul cp …`.

use std::ffi::OsString;
use std::io::IsTerminal;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use haul_bzip2::Bzip2;
use haul_cluster::launch::{GroupOptions, InProcess, MpiLauncher, ProcessGroup};
use haul_cluster::link::Link;
use haul_cluster::master::Master;
use haul_cluster::mpi::{LAUNCHER_VARIABLES, MpiRefusal, World, launched};
use haul_cluster::rank_loop::{RankLoop, ReadyRank, WaitOutcome};
use haul_cluster::transport::{Broken, Rank, Transport};
use haul_cluster::{Distributed, RankMismatch, WalkPlacement};
use haul_compare::Comparer;
use haul_copy::Copier;
use haul_delete::Deleter;
use haul_each::Runner;
use haul_grep::Grep;
use haul_journal::Journal;
use haul_sum::Summer;
use haul_tar::{Extractor, PositionedWriter};

use crate::report::complain;
use crate::signals;

/// Time after which a silent process is given up, unless `HAUL_SILENCE` is set. A file system may
/// block a process for long, but not the thread that answers.
const SILENCE: Duration = Duration::from_secs(60);

/// Maximum time for which a refused rank waits for the launcher to end it.
const JOB_END: Duration = Duration::from_secs(3);

/// Values that `HAUL_SILENCE` can have, in seconds: up to a day.
const SILENCE_SECONDS: RangeInclusive<u64> = 1..=86_400;

/// Returns a process group's options, from the environment and the user.
///
/// # Errors
/// `HAUL_SILENCE` is not a number of seconds.
fn group_options(options: &haul_cluster::Options) -> Result<GroupOptions, String> {
    let silence = match std::env::var_os("HAUL_SILENCE").filter(|text| !text.is_empty()) {
        None => SILENCE,
        Some(text) => silence_of(&text.to_string_lossy())?,
    };
    Ok(GroupOptions { silence, range_bytes: options.range_bytes, walk: options.walk })
}

fn silence_of(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().filter(|seconds| SILENCE_SECONDS.contains(seconds));
    let (first, last) = (SILENCE_SECONDS.start(), SILENCE_SECONDS.end());
    let refusal = || format!("HAUL_SILENCE must be a number of seconds from {first} to {last}, not '{text}'");
    seconds.map(Duration::from_secs).ok_or_else(refusal)
}

/// True if this is one of several processes that a launcher started with the same command line.
pub(crate) fn is_under_launcher() -> bool {
    let may_be = LAUNCHER_VARIABLES.iter().any(|name| std::env::var_os(name).is_some());
    may_be && launched().is_some_and(|launched| launched.ranks != Some(1))
}

/// True if standard output is the user's terminal.
pub(crate) fn stdout_is_terminal() -> bool {
    // Open MPI gives each process, even a single one, a pseudoterminal as its standard output. What
    // is written there goes wherever the output of `mpirun` does.
    let is_pseudoterminal = std::env::var_os("OMPI_COMM_WORLD_RANK").is_some() || is_under_launcher();
    !is_pseudoterminal && std::io::stdout().is_terminal()
}

/// True if this process prints messages for all that were started with the same command line.
pub(crate) fn prints_messages() -> bool {
    !is_under_launcher() || launched().is_none_or(|launched| launched.rank == 0)
}

/// Refuses to run: returns `status` after rank 0 has called `report`.
///
/// All ranks join before they end. The other ranks may have nothing to refuse, because only rank 0
/// reads streams, configuration files and the journal, and with MPICH they would wait for it
/// forever. A rank that refuses what rank 0 accepts does its share of the work, for which it needs
/// no command line.
pub(crate) fn refuse(status: ExitCode, report: impl FnOnce()) -> ExitCode {
    if prints_messages() {
        report();
    }
    if !is_under_launcher() {
        return status;
    }
    let options = GroupOptions { silence: SILENCE, range_bytes: None, walk: WalkPlacement::default() };
    match World::open(None) {
        Ok(world) => run_rank(world, options, None, |_| status),
        Err(_) => refuse_unjoined(status, || {}),
    }
}

/// Refuses to run where no rank can join: returns `status` after rank 0 has called `report`.
///
/// Some launchers kill the whole job as soon as one rank fails. If that were another rank, rank 0
/// could die before it has reported, so the others wait to be killed. A rank that isn't killed
/// fails in the end: the reason was its host's alone, or its launcher kills nothing.
fn refuse_unjoined(status: ExitCode, report: impl FnOnce()) -> ExitCode {
    if prints_messages() {
        report();
    } else {
        std::thread::sleep(JOB_END);
    }
    status
}

/// Runs one process of `mpirun -n N haul cp …`: rank 0 calls `launch` with a process group, the
/// others do work items.
pub(crate) fn under_launcher(
    options: &haul_cluster::Options,
    journal: Option<Arc<Journal>>,
    launch: impl FnOnce(&ProcessGroup) -> ExitCode + Send,
) -> ExitCode {
    let group_options = match group_options(options) {
        Ok(group_options) => group_options,
        Err(refusal) => {
            return refuse_unjoined(ExitCode::FAILURE, || {
                fail(&format!("haul: {refusal}"));
            });
        }
    };
    let world = match World::open(options.mpi_library.as_deref()) {
        Ok(world) => world,
        // If the library belongs to another launcher every process would report it; other refusals
        // may concern one host only.
        Err(refusal @ (MpiRefusal::OtherSize { .. } | MpiRefusal::OtherRank { .. })) => {
            return refuse_unjoined(ExitCode::FAILURE, || {
                fail(&format!("haul: {refusal}"));
            });
        }
        Err(refusal) => return fail(&format!("haul: {refusal}")),
    };
    run_rank(world, group_options, journal, launch)
}

/// The part of [`under_launcher`] after the ranks have joined.
fn run_rank(
    world: World,
    group_options: GroupOptions,
    journal: Option<Arc<Journal>>,
    launch: impl FnOnce(&ProcessGroup) -> ExitCode + Send,
) -> ExitCode {
    if world.rank() != Rank::MASTER {
        // Launchers pass SIGUSR1 on to all ranks.
        signals::ignore_status_requests();
        return ended(serve(world, None).and_then(|world| world.finish_or_exit(0)));
    }
    let (launcher, link) = InProcess::new();
    let group = ProcessGroup::new(Box::new(launcher), group_options, journal);
    if let Err(error) = remove_tokens_before_end(&group) {
        return fail(&format!("haul: {error}"));
    }
    std::thread::scope(|threads| {
        let launched = threads.spawn(|| {
            let status = launch(&group);
            group.release();
            status
        });
        let served = serve(world, Some(link));
        // A panic ends the process before this.
        let status = launched.join().unwrap_or(ExitCode::FAILURE);
        // Everything is done and reported, so a library that never returns changes nothing.
        let finished = served.and_then(|world| world.finish_or_exit(u8::from(status != ExitCode::SUCCESS)));
        if ended(finished) == ExitCode::SUCCESS { status } else { ExitCode::FAILURE }
    })
}

/// Creates a process group of `clients` processes, which are started when needed.
pub(crate) fn group(
    clients: u32,
    options: &haul_cluster::Options,
    journal: Option<Arc<Journal>>,
) -> Result<ProcessGroup, String> {
    let program = std::env::current_exe().map_err(|error| format!("cannot find this program: {error}"))?;
    let launcher = MpiLauncher::new(clients, program, options).map_err(|refusal| refusal.to_string())?;
    let group = ProcessGroup::new(Box::new(launcher), group_options(options)?, journal);
    remove_tokens_before_end(&group)?;
    Ok(group)
}

/// Arranges for the tokens in the user's directories to be removed before a signal ends the
/// program.
fn remove_tokens_before_end(group: &ProcessGroup) -> Result<(), String> {
    let tokens = group.tokens();
    let guard = signals::before_end(move || tokens.remove());
    guard.map(drop).map_err(|error| format!("cannot handle signals: {error}"))
}

/// Runs a process started by a launch process: `haul --rank [LIBRARY]`.
pub(crate) fn rank(words: &[OsString]) -> ExitCode {
    signals::ignore_status_requests();
    // Before any file is opened: the name of a file may lead to standard input.
    let streams = haul_sys::take_standard_streams();
    let library = words.first().map(PathBuf::from);
    let world = match World::open(library.as_deref().filter(|path| *path != Path::new(""))) {
        Ok(world) => world,
        Err(refusal) => return fail(&format!("haul: {refusal}")),
    };
    let link = if world.rank() == Rank::MASTER {
        match streams.and_then(|(input, output)| Link::to_launch(input, output)) {
            Ok(link) => Some(link),
            Err(error) => return fail(&format!("haul: cannot set up the link: {error}")),
        }
    } else {
        None
    };
    let status = ended(serve(world, link).and_then(|world| world.finish_or_exit(0)));
    // Don't wait for threads that hang in a file system.
    std::process::exit(i32::from(status != ExitCode::SUCCESS))
}

type MasterLink = Link<haul_cluster::wire::ToLaunch, haul_cluster::wire::ToMaster>;

/// Does one tool's work items in a rank.
type Serve = fn(ReadyRank<World>) -> Result<WaitOutcome<World>, Broken>;

/// The tools that ranks can run, by name.
const PORTABLE: &[(&str, Serve)] = &[
    (Copier::NAME, ReadyRank::serve::<Copier>),
    (Deleter::NAME, ReadyRank::serve::<Deleter>),
    (Bzip2::NAME, ReadyRank::serve::<Bzip2>),
    (Comparer::NAME, ReadyRank::serve::<Comparer>),
    (Runner::NAME, ReadyRank::serve::<Runner>),
    (Grep::NAME, ReadyRank::serve::<Grep>),
    (Summer::NAME, ReadyRank::serve::<Summer>),
    (Extractor::NAME, ReadyRank::serve::<Extractor>),
    (PositionedWriter::NAME, ReadyRank::serve::<PositionedWriter>),
];

/// Runs the rank event loop to its end.
fn serve(world: World, link: Option<MasterLink>) -> Result<World, Broken> {
    let host = world.host().to_owned();
    let master = link.map(|link| Master::new(link, world.size(), world.version().to_owned()));
    let mut word = RankLoop::new(world, host, master).wait()?;
    loop {
        let from_init = match word {
            WaitOutcome::Nothing(world) => return Ok(world),
            WaitOutcome::InitMessage(from_init) => from_init,
        };
        word = match PORTABLE.iter().find(|(name, _)| *name == from_init.tool()) {
            Some((_, serve)) => serve(*from_init)?,
            None => {
                let tool = from_init.tool().to_owned();
                return from_init.refuse(RankMismatch::NoTool(tool));
            }
        };
    }
}

fn ended(outcome: Result<(), Broken>) -> ExitCode {
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        // The launch process learns of it from rank 0, or over the link.
        Err(broken) if std::env::var_os("HAUL_RANK_DEBUG").is_some() => fail(&format!("haul: {broken}")),
        Err(_) => ExitCode::FAILURE,
    }
}

fn fail(text: &str) -> ExitCode {
    complain(format!("{text}\n").as_bytes());
    ExitCode::FAILURE
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_silence_limit_is_a_number_of_seconds() {
        for (text, seconds) in [("1", 1), ("60", 60), ("86400", 86_400)] {
            assert_eq!(silence_of(text), Ok(Duration::from_secs(seconds)));
        }
        for text in ["0", "86401", "18446744073709551615", "-1", "1.5", " 5", "5s", "abc"] {
            let refusal = silence_of(text).unwrap_err();
            assert!(refusal.ends_with(&format!("from 1 to 86400, not '{text}'")), "{refusal}");
        }
    }
}
