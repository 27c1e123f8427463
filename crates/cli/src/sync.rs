//! `haul sync`, from command line to exit status: checks the two operands (`haul-sync`), and copies
//! the entries that differ (`copy.rs`).

use std::ffi::OsString;
use std::process::ExitCode;

use haul_flow::Problem;

use crate::cluster;
use crate::copy::{self, Processes};
use crate::flags::sync::{COMMAND, parse};
use crate::flags::{CopyCommand, Environment, Information, LoweredCopy};
use crate::messages::Messages;
use crate::report::{complain, complain_of_usage, print_information};

/// Makes the target equal to the source, or prints the requested information.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    const PROGRAM: &str = "haul sync";
    let messages = Messages::in_locale(PROGRAM);
    match parse(words, &Environment::of_command("sync")) {
        Ok(CopyCommand::Copy(mut request)) => match prepare(&mut request) {
            Ok(()) => copy::copy(messages, &request, Processes::AsRequested),
            Err(why) => cluster::refuse(ExitCode::FAILURE, || {
                complain(&messages.problem(&why));
            }),
        },
        Ok(CopyCommand::Print(_)) if !cluster::prints_messages() => ExitCode::SUCCESS,
        Ok(CopyCommand::Print(Information::Help)) => print_information(messages, &COMMAND.help(PROGRAM)),
        Ok(CopyCommand::Print(Information::Version)) => {
            print_information(messages, concat!("sync (haul) ", env!("CARGO_PKG_VERSION"), "\n"))
        }
        Err(error) => cluster::refuse(ExitCode::FAILURE, || complain_of_usage(&messages, &error)),
    }
}

/// Checks the operands and completes the request.
///
/// # Errors
/// The problem that keeps them from being made equal.
fn prepare(request: &mut LoweredCopy) -> Result<(), Problem> {
    let LoweredCopy { operands, options, run, sync, warnings, .. } = request;
    let mut warn = |warning| warnings.push(warning);
    request.deletion = haul_sync::prepare(operands, options, sync, &run.config.selection, &mut warn)?;
    Ok(())
}
