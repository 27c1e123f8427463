//! `haul-standin`: mounts the striped stand-in until it is told to end. See the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use haul_standin::serve::serve;
use haul_standin::settings::Settings;

/// Storage has processors of its own: who copies must not make it slow by being busy.
const PRIORITY: i32 = -15;

fn main() -> ExitCode {
    // As root; without, its times are less exact.
    rustix::process::setpriority_process(None, PRIORITY).unwrap_or_default();
    let outcome = serve(Settings::parse());
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            writeln!(io::stderr(), "haul-standin: {error}").unwrap_or_default();
            1
        }
    };
    // Not by returning: that would wait for mounts that somebody still uses. With the process, they fail at once.
    std::process::exit(code)
}
