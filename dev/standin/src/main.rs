//! `haul-standin`: mounts the striped stand-in until it receives a stop signal. See the library.

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use haul_standin::serve::serve;
use haul_standin::settings::StandInSettings;

/// Nice value. Real storage has processors of its own: a busy copier must not slow it down.
const PRIORITY: i32 = -15;

fn main() -> ExitCode {
    // Needs root; without it, the timing is less exact.
    rustix::process::setpriority_process(None, PRIORITY).unwrap_or_default();
    let outcome = serve(StandInSettings::parse());
    let code = match outcome {
        Ok(()) => 0,
        Err(error) => {
            writeln!(io::stderr(), "haul-standin: {error}").unwrap_or_default();
            1
        }
    };
    // Returning from `main` would wait for busy mounts. They fail at once when the process exits.
    std::process::exit(code)
}
