//! `sanitize`: the tests of the crates with `unsafe` code, under a checker of their accesses to memory.
//!
//! AddressSanitizer, where a nightly toolchain is installed; else valgrind's memcheck, without its check for undefined values, as
//! it doesn't see what the kernel writes through a ring. Neither sees the kernel's own accesses: the tests find those by the
//! contents of buffers. The run fails if fewer tests passed than there are at least, so a checker that ran nothing shows.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::target_folder;
use crate::skips::Skips;
use crate::steps::{Failure, cargo, is_installed, output_of, say};
use crate::test::{Totals, conclude, run_round};

const PACKAGES: [&str; 4] = ["--package", "haul-sys", "--package", "haul-engine"];

/// Tests that have to pass: fewer than there are, as a container may refuse rings.
const PASSED_MIN: usize = 250;
/// The same under memcheck, which is slow: it gets the tests of one depth.
const MEMCHECK_PASSED_MIN: usize = 50;

/// A nightly toolchain that has AddressSanitizer.
struct Nightly {
    host: String,
}

/// Runs the tests under the checker that is there.
pub(crate) fn sanitize() -> Result<(), Failure> {
    let (mut totals, mut skips) = (Totals::default(), Skips::default());
    let min = if let Some(nightly) = Nightly::find() {
        run_round(&mut nightly.test()?, &mut totals, &mut skips)?;
        PASSED_MIN
    } else if is_installed("valgrind") {
        run_round(&mut memcheck()?, &mut totals, &mut skips)?;
        MEMCHECK_PASSED_MIN
    } else {
        return Err(Failure("neither a nightly toolchain nor valgrind is installed".to_owned()));
    };
    conclude(&totals, &skips, 1)?;
    let passed = totals.passed.saturating_sub(skips.count);
    if passed < min {
        return Err(Failure(format!("only {passed} tests passed under the sanitizer, of at least {min}")));
    }
    Ok(())
}

impl Nightly {
    fn find() -> Option<Self> {
        let rustc = |argument: &str| {
            let said = Command::new("rustup").args(["run", "nightly", "rustc", argument]).output().ok()?;
            said.status.success().then(|| String::from_utf8_lossy(&said.stdout).into_owned())
        };
        let host = rustc("-vV")?.lines().find_map(|line| line.strip_prefix("host: "))?.to_owned();
        let libraries =
            Path::new(rustc("--print=sysroot")?.trim()).join("lib/rustlib").join(&host).join("lib");
        let is_runtime = |name: &str| name.ends_with("rt.asan.a");
        let files = std::fs::read_dir(libraries).ok()?;
        let has = files.flatten().any(|file| file.file_name().to_str().is_some_and(is_runtime));
        has.then_some(Self { host })
    }

    /// Begins the run of the tests under AddressSanitizer.
    fn test(&self) -> Result<Command, Failure> {
        say("==> AddressSanitizer, of the nightly toolchain");
        let mut command = Command::new("rustup");
        command.args([
            "run",
            "nightly",
            "cargo",
            "test",
            "--no-fail-fast",
            "--target",
            &self.host,
            "--tests",
        ]);
        command.args(PACKAGES).arg("--target-dir").arg(own_target_folder()?);
        // Some tests leak memory on purpose, as the kernel might still write there.
        command.env("RUSTFLAGS", "-Zsanitizer=address").env("ASAN_OPTIONS", "detect_leaks=0");
        command.current_dir(crate::steps::workspace()).env_remove("CARGO").env_remove("RUSTC");
        Ok(command)
    }
}

/// Begins the run of the contract's tests of one depth under memcheck.
fn memcheck() -> Result<Command, Failure> {
    let words =
        ["test", "--package", "haul-engine", "--test", "contract", "--no-run", "--message-format=json"];
    let built = output_of(&mut cargo(&words))?;
    let built = String::from_utf8_lossy(&built).into_owned();
    let program = built.lines().filter_map(executable).next_back();
    let program =
        program.ok_or_else(|| Failure("cargo names no executable of the contract's tests".to_owned()))?;
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--undef-value-errors=no", "--fair-sched=yes"]);
    command.arg(program).arg("depth_8");
    Ok(command)
}

/// Returns the program that a line of cargo's messages says was built.
fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
}

/// Returns a folder for what is built with other flags than usual.
fn own_target_folder() -> Result<PathBuf, Failure> {
    let target = target_folder().ok_or_else(|| Failure("the target directory is not found".to_owned()))?;
    Ok(target.join("sanitize"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_executable_is_found_in_cargos_messages() {
        let line = r#"{"reason":"compiler-artifact","executable":"/t/contract-1"}"#;
        assert_eq!(executable(line), Some(PathBuf::from("/t/contract-1")));
        assert_eq!(executable(r#"{"reason":"build-finished","executable":null}"#), None);
        assert_eq!(executable("warning: x"), None);
    }
}
