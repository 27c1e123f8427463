//! `sanitize`: runs the tests of the crates below the tools under memory checkers.
//!
//! With a nightly toolchain, AddressSanitizer checks the crates with `unsafe` code. Otherwise
//! valgrind's memcheck does, without its check for undefined values, because it doesn't see what
//! the kernel writes through a ring. Neither sees the kernel's own accesses: tests detect those by
//! buffer contents. In a full run (`HAUL_FULL=1`), ThreadSanitizer also checks the queues and
//! engines for data races, and Miri checks code without system calls. The run fails if fewer tests
//! pass than a minimum, so a checker that ran nothing is noticed.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::setup::target_folder;
use crate::skips::Skips;
use crate::steps::{StepFailure, cargo, is_full_run, is_installed, output_of, run, say};
use crate::test::{Totals, print_and_check, run_round};

/// Arguments for AddressSanitizer.
const ADDRESS: [&str; 7] =
    ["test", "--no-fail-fast", "--tests", "--package", "haul-sys", "--package", "haul-engine"];

/// Arguments for ThreadSanitizer. It crashes in the C library's threads for POSIX AIO, which it
/// can't see, so the tests of that engine are excluded.
const THREAD: &[&str] = &[
    "test",
    "-Zbuild-std",
    "--no-fail-fast",
    "--package",
    "haul-flow",
    "--package",
    "haul-sys",
    "--package",
    "haul-engine",
    "--lib",
    "--test=contract",
    "--test=doubles",
    "--test=kernel_aio",
    "--test=order",
    "--test=parts",
    "--test=retry",
    "--test=sequence",
    "--test=storm",
    "--test=unfinished",
    "--test=uring",
    "--",
    "--skip=posix",
];

/// Arguments for Miri: the tests of queues, tables and buffers, because it supports
/// few system calls.
const MIRI: &[&str] = &[
    "miri",
    "test",
    "--no-fail-fast",
    "--package",
    "haul-flow",
    "--package",
    "haul-sys",
    "--lib",
    "--",
    "local::",
    "links::",
    "operand::",
    "buffer::",
    "names::",
];

/// Minimum number of passed tests. Lower than their total, because a container may refuse rings.
const PASSED_MIN: usize = 250;
/// Minimum under memcheck, which is slow and runs only the tests of one depth.
const MEMCHECK_PASSED_MIN: usize = 50;

/// A nightly toolchain with AddressSanitizer.
struct Nightly {
    host: String,
}

/// Runs the tests under the available checker.
pub(crate) fn sanitize() -> Result<(), StepFailure> {
    let (mut totals, mut skips, mut rounds) = (Totals::default(), Skips::default(), 1);
    let min = if let Some(nightly) = Nightly::find() {
        let mut round = |mut command: Command| run_round(&mut command, &mut totals, &mut skips);
        say("==> AddressSanitizer, of the nightly toolchain");
        // Some tests leak memory on purpose, because the kernel might still write to it.
        let mut address = nightly.checked("address", &ADDRESS)?;
        address.env("ASAN_OPTIONS", "detect_leaks=0");
        round(address)?;
        if is_full_run() {
            run(Command::new("rustup").args([
                "component",
                "add",
                "--toolchain=nightly",
                "rust-src",
                "miri",
            ]))?;
            say("==> ThreadSanitizer");
            round(nightly.checked("thread", THREAD)?)?;
            say("==> Miri");
            round(Nightly::miri()?)?;
            rounds = 3;
        }
        PASSED_MIN
    } else if is_installed("valgrind") {
        run_round(&mut memcheck()?, &mut totals, &mut skips)?;
        MEMCHECK_PASSED_MIN
    } else {
        return Err(StepFailure("neither a nightly toolchain nor valgrind is installed".to_owned()));
    };
    print_and_check(&totals, &skips, rounds)?;
    let passed = totals.passed.saturating_sub(skips.count);
    if passed < min {
        return Err(StepFailure(format!(
            "only {passed} tests passed under the sanitizer, of at least {min}"
        )));
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

    /// Returns a command that runs tests built with a sanitizer.
    fn checked(&self, sanitizer: &str, words: &[&str]) -> Result<Command, StepFailure> {
        let mut command = Self::cargo(words, sanitizer)?;
        command.env("RUSTFLAGS", format!("-Zsanitizer={sanitizer}")).env("CARGO_BUILD_TARGET", &self.host);
        Ok(command)
    }

    /// Returns a command that runs tests under Miri.
    fn miri() -> Result<Command, StepFailure> {
        let mut command = Self::cargo(MIRI, "miri")?;
        // Tests read the environment. The queue library follows the Tree Borrows model, and
        // leaks at exit.
        let flags = "-Zmiri-disable-isolation -Zmiri-tree-borrows -Zmiri-ignore-leaks";
        command.env("MIRIFLAGS", flags);
        Ok(command)
    }

    /// Returns a command for the toolchain's cargo, with a separate target directory.
    fn cargo(words: &[&str], folder: &str) -> Result<Command, StepFailure> {
        let mut command = Command::new("rustup");
        command.args(["run", "nightly", "cargo"]).args(words);
        command.env("CARGO_TARGET_DIR", target_folder()?.join("sanitize").join(folder));
        command.current_dir(crate::steps::workspace()).env_remove("CARGO").env_remove("RUSTC");
        Ok(command)
    }
}

/// Returns a command that runs the contract tests of one depth under memcheck.
fn memcheck() -> Result<Command, StepFailure> {
    let words =
        ["test", "--package", "haul-engine", "--test", "contract", "--no-run", "--message-format=json"];
    let built = output_of(&mut cargo(&words))?;
    let built = String::from_utf8_lossy(&built).into_owned();
    let program = built.lines().filter_map(executable).next_back();
    let program =
        program.ok_or_else(|| StepFailure("cargo names no executable of the contract's tests".to_owned()))?;
    let mut command = Command::new("valgrind");
    command.args(["--quiet", "--error-exitcode=99", "--undef-value-errors=no", "--fair-sched=yes"]);
    command.arg(program).arg("depth_8");
    Ok(command)
}

/// Returns the executable named by a line of cargo's JSON messages.
fn executable(line: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(line).ok()?;
    message.get("executable")?.as_str().map(PathBuf::from)
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
