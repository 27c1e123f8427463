//! `haul bench`: the benchmark's command line under haul's name.

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser;

/// Makes trees to copy, and races copiers over them.
#[derive(Parser)]
#[command(name = "haul bench", version, disable_help_subcommand = true)]
pub(crate) struct Bench {
    #[command(subcommand)]
    command: haul_bench::Command,
}

/// Runs the benchmark that `words` describe.
pub(crate) fn main(words: Vec<OsString>) -> ExitCode {
    let call = std::iter::once(OsString::from("haul bench")).chain(words);
    match Bench::try_parse_from(call) {
        Ok(bench) => haul_bench::run(&bench.command),
        Err(answer) => {
            // Help counts as an answer too. If it can't be printed, only the exit status can
            // show that.
            let printed = answer.print().is_ok();
            if printed && !answer.use_stderr() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
    }
}
