//! The chores of the workspace: `cargo xtask CHORE`.
//!
//! Each chore is one module. They drive cargo and the system's own programs and hold no logic of haul's. A chore ends at
//! its first failure with what failed and exit status 1.

mod check;
mod generate;
mod licences;
mod setup;
mod steps;
mod test;

use std::process::ExitCode;

use steps::{Failure, say};

/// A chore: its name, what help says of it, and what does it.
type Chore = (&'static str, &'static str, fn() -> Result<(), Failure>);

const CHORES: [Chore; 5] = [
    ("setup", "install what the tests need (as root; else say what is missing)", setup::setup),
    ("check", "format, lints, documentation, licences, generated files", check::check),
    ("test", "run every test, the fault sweep too, and tell what was skipped and why", test::test),
    ("ci", "check, then test", ci),
    ("gen", "write the generated files anew", generate::write),
];

fn main() -> ExitCode {
    let wanted = std::env::args().nth(1);
    let chore = CHORES.iter().find(|(name, ..)| Some(*name) == wanted.as_deref());
    let Some((_, _, run)) = chore else {
        CHORES.iter().for_each(|(name, about, _)| say(&format!("cargo xtask {name:<7} {about}")));
        return ExitCode::from(2);
    };
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("xtask: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), Failure> {
    check::check()?;
    test::test()
}
