//! `haul bench`: runs the program `haul-bench`, which is built and installed apart from haul.

use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, ExitCode};

use crate::report::complain;

const PROGRAM: &str = "haul-bench";
/// Passes the running haul to `haul-bench`, which measures it (`dev/bench/src/candidates.rs`).
const CALLED: &str = "HAUL_BENCH_HAUL";

/// Replaces this process with `haul-bench`: the one next to this program, else the one on `PATH`.
pub(crate) fn main(words: &[OsString]) -> ExitCode {
    let own = std::env::current_exe().ok();
    let adjacent = own.as_ref().map(|own| own.with_file_name(PROGRAM)).filter(|program| program.is_file());
    let found = adjacent.is_some();
    // A name without a slash is looked up on PATH.
    let program = adjacent.unwrap_or_else(|| PathBuf::from(PROGRAM));
    let mut command = Command::new(&program);
    command.args(words);
    if let Some(own) = own {
        command.env(CALLED, own);
    }
    // Returns only if it failed.
    let error = command.exec();
    let why = if !found && error.kind() == ErrorKind::NotFound {
        format!(
            "{PROGRAM} is neither beside haul nor on PATH; \
             'cargo install --path dev/bench' in haul's source tree installs it"
        )
    } else {
        format!("cannot run {}: {error}", program.display())
    };
    complain(format!("haul bench: {why}\n").as_bytes());
    ExitCode::FAILURE
}
