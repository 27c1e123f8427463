//! The program `haul`, also when called as `cp` or `spdcp`.
//!
//! - [`applet`]: which program is asked for.
//! - [`copy`]: one copy, from the command line to the exit status; and of what it consists:
//!   [`flags`], [`report`], [`messages`], [`output`], [`progress`] (with [`ahead`]), [`statistics`].
//! - [`work`]: the work of any tool, from what was asked for to the exit status; [`cluster`], [`batch`]: by several processes,
//!   and in a batch job.
//! - [`shared`]: the flags that all tools but the copy share; [`signals`]: what they do before a signal ends them.
//! - [`spdcp`]: the same copy by the options of `spdcp`.
//! - [`tools`]: the other tools.
//! - [`mod@bench`]: the benchmark.
//! - [`definitions`]: all commands as data, for what is generated from them.
//!
//! What is copied how is the business of `haul_copy`, and how that uses the machine of `haul_flow`.

mod ahead;
mod amounts;
mod applet;
mod batch;
mod bench;
mod cluster;
mod copy;
mod definitions;
mod flags;
mod messages;
mod output;
mod progress;
mod report;
mod shared;
mod signals;
mod spdcp;
mod statistics;
mod tools;
mod work;

use std::process::ExitCode;

use applet::Applet;
use messages::{Charset, Messages};
use report::complain;
use tools::Call;

fn main() -> ExitCode {
    let status = be(Applet::of_call(std::env::args_os()));
    #[cfg(feature = "fault")]
    let status = after_faults(status);
    status
}

fn be(applet: Applet) -> ExitCode {
    let haul = || Messages::new("haul", Charset::Ascii);
    let refuse = |why: String| {
        complain(why.as_bytes());
        ExitCode::FAILURE
    };
    match applet {
        Applet::Copy { program, words } => copy::main(program, &words),
        Applet::Spdcp { program, words } => spdcp::main(program, &words),
        Applet::Tool { tool, name, stands_in, words } => {
            (tool.main)(&Call { tool, name, stands_in, words: &words })
        }
        Applet::Rank { words } => cluster::rank(&words),
        Applet::Bench { words } => bench::main(words),
        Applet::Help => copy::tell(haul(), &applet::help()),
        Applet::Version => copy::tell(haul(), concat!("haul ", env!("CARGO_PKG_VERSION"), "\n")),
        Applet::Definitions => match definitions::json() {
            Ok(text) => copy::tell(haul(), &text),
            Err(error) => refuse(format!("haul: {error}\n")),
        },
        Applet::Nothing => refuse(applet::nothing()),
        Applet::Unknown { word } => refuse(applet::unknown(&word)),
    }
}

/// Writes what the fault hook did. A fault sweep must not take a lost log for a run without faults.
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
