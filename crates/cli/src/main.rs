//! The program `haul`, also when called as `cp` or `spdcp`.
//!
//! - [`applet`]: selects the command to run.
//! - [`copy`]: one copy, from command line to exit status. It uses [`report`],
//!   [`messages`], [`output`], [`progress`] (with [`precount`]) and [`statistics`].
//! - [`option_files`]: files that are read while a command line is parsed.
//! - [`run_log`]: the logs of a run: [`events`] and a log file, each a [`line_file`].
//! - [`work`]: any tool's work ([`task`]), from request to exit status; [`cluster`]: in several
//!   processes; [`batch`]: in a batch job.
//! - [`control`]: the socket through which a running command is controlled.
//! - [`flags`]: the command lines of all applets; [`signals`]: cleanup before a signal ends the
//!   program.
//! - [`mod@sync`]: a copy of the entries that differ.
//! - [`configuration`]: defaults for flags, from files and a variable.
//! - [`spdcp`]: the same copy with the options of `spdcp`.
//! - [`tools`]: the other tools.
//! - [`mod@bench`]: starts the benchmark, a separate program.
//! - [`definitions`]: all commands as data, for generated files.
//!
//! The rules of copying are in `haul_copy`; the use of the machine is in `haul_flow`.

mod amounts;
mod applet;
mod batch;
mod bench;
mod cluster;
mod configuration;
mod control;
mod copy;
mod definitions;
mod events;
mod flags;
mod journal;
mod line_file;
mod manifest;
mod messages;
mod option_files;
mod output;
mod own_files;
mod precount;
mod progress;
mod report;
mod run_log;
mod signals;
mod spdcp;
mod statistics;
mod sync;
mod task;
mod timestamp;
mod tools;
mod work;

use std::process::ExitCode;

use applet::Applet;
use messages::{Charset, Messages};
use report::{complain, print_information};
use tools::AppletCall;

#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Only works within the hard limit; the run adapts to the limit it gets.
    haul_sys::raise_descriptor_limit(haul_flow::DESCRIPTORS_WANTED);
    haul_flow::before_first_entry(signals::remove_temporary_entries);
    let status = run_applet(Applet::of_call(std::env::args_os()));
    #[cfg(feature = "fault")]
    let status = after_faults(status);
    status
}

fn run_applet(applet: Applet) -> ExitCode {
    let haul = || Messages::new("haul", Charset::Ascii);
    let refuse = |why: String| {
        cluster::refuse(ExitCode::FAILURE, || {
            complain(why.as_bytes());
        })
    };
    match applet {
        Applet::Copy { program, words } => copy::main(program, &words),
        Applet::Sync { words } => sync::main(&words),
        Applet::Spdcp { program, words } => spdcp::main(program, &words),
        Applet::Tool { tool, name, stands_in, words } => {
            (tool.main)(&AppletCall { tool, name, stands_in, words: &words })
        }
        Applet::Rank { words } => cluster::rank(&words),
        Applet::Bench { words } => bench::main(&words),
        Applet::Help => print_information(haul(), &applet::help()),
        Applet::Version => print_information(haul(), concat!("haul ", env!("CARGO_PKG_VERSION"), "\n")),
        Applet::Definitions => match definitions::json() {
            Ok(text) => print_information(haul(), &text),
            Err(error) => refuse(format!("haul: {error}\n")),
        },
        Applet::Nothing => refuse(applet::nothing()),
        Applet::Unknown { word } => refuse(applet::unknown(&word)),
    }
}

/// Writes the fault hook's log. A fault sweep must not mistake a lost log for a run without faults.
#[cfg(feature = "fault")]
fn after_faults(status: ExitCode) -> ExitCode {
    match haul_sys::fault::write_log() {
        Ok(()) => status,
        Err(error) => {
            complain(format!("haul: cannot write the log of faults: {error}\n").as_bytes());
            ExitCode::from(2)
        }
    }
}
