//! Shared code of the package tests. They use the installed files, as a user does, never the
//! crates.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the top directory of the workspace.
#[must_use]
pub fn workspace() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.ancestors().nth(2).unwrap_or(here).to_path_buf()
}

/// Runs a program to its end and returns its standard output.
///
/// # Errors
/// If it can't be run or fails: the command, its exit status, and all of its output.
pub fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let [text, messages] =
        [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    if output.status.success() {
        Ok(text)
    } else {
        Err(format!("{command:?}: {}\n{text}{messages}", output.status))
    }
}
