//! `check`: everything about the code that needs no test to run.

use crate::steps::{Failure, cargo, run};
use crate::{generate, licences};

/// The features that compile the fault hook in, wherever it is looked at.
pub(crate) const FAULT: &str = "haul/fault,haul-engine/fault,haul-sys/fault";

/// Checks the format, the lints with and without the fault hook, the documentation, the licences of what is depended on,
/// and that the generated files are those the code generates.
pub(crate) fn check() -> Result<(), Failure> {
    run(&mut cargo(&["fmt", "--all", "--check"]))?;
    run(&mut cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    run(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        FAULT,
        "--",
        "-D",
        "warnings",
    ]))?;
    // The binary has the library's name: with the workspace, only the library is documented, in the same place.
    document(&["--package", "haul", "--bin", "haul"])?;
    document(&["--workspace"])?;
    licences::check()?;
    generate::check()
}

fn document(what: &[&str]) -> Result<(), Failure> {
    let mut command = cargo(&["doc", "--no-deps", "--document-private-items"]);
    run(command.args(what).env("RUSTDOCFLAGS", "-D warnings"))
}
