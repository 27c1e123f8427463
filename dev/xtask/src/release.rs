//! `release`: builds the program as it is shipped, stripped, with its symbols in a file beside it.

use std::path::Path;
use std::process::Command;

use crate::steps::{Failure, cargo, run, say, workspace};

/// Builds `target/release/haul` without symbols, and `haul.debug` with them. gdb and perf find the
/// latter by the link in the former.
pub(crate) fn release() -> Result<(), Failure> {
    run(&mut cargo(&["build", "--release", "--package", "haul-cli"]))?;
    let folder = workspace().join("target/release");
    split(&folder, "haul")?;
    for name in ["haul", "haul.debug"] {
        let bytes = std::fs::metadata(folder.join(name))?.len();
        say(&format!("{}: {:.1} MB", folder.join(name).display(), bytes as f64 / 1e6));
    }
    Ok(())
}

/// Moves the symbols of a program to a file with the ending `.debug`.
fn split(folder: &Path, program: &str) -> Result<(), Failure> {
    let symbols = format!("{program}.debug");
    let objcopy = |words: &[&str]| run(Command::new("objcopy").args(words).current_dir(folder));
    objcopy(&["--only-keep-debug", program, &symbols])?;
    objcopy(&["--strip-all", &format!("--add-gnu-debuglink={symbols}"), program])
}
