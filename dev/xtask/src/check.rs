//! `check`: all checks that don't run tests.

use crate::steps::{StepFailure, cargo, run, workspace};
use crate::{generate, licences, pages, width};

/// The features that compile in the fault hook.
pub(crate) const FAULT: &str = "haul-cli/fault,haul-engine/fault,haul-sys/fault";

/// Checks the format, the lints with and without the fault hook, the documentation, the licences of
/// dependencies, the width of comments and prose, the links and commands in Markdown, and that the
/// generated files are up to date.
pub(crate) fn check() -> Result<(), StepFailure> {
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
    // The features of other members of the workspace don't help who uses the library.
    run(&mut cargo(&["clippy", "--package", "haul", "--lib", "--", "-D", "warnings"]))?;
    // The binary and the library have the same name and output path. `--workspace` documents only
    // the library, so the binary needs its own run.
    document(&["--package", "haul-cli", "--bin", "haul"])?;
    document(&["--workspace"])?;
    licences::check()?;
    width::check()?;
    pages::check()?;
    one_way_to_skip()?;
    generate::check()
}

/// Fails if anything but `haul_testkit::skip` reports a skipped test: such a skip would
/// count as passed.
fn one_way_to_skip() -> Result<(), StepFailure> {
    let workspace = workspace();
    // Not dev/xtask: it parses skip records, and its tests contain some.
    let mut folders = ["crates", "dev/bench", "dev/simulation", "dev/standin", "dev/testkit"]
        .map(|folder| workspace.join(folder))
        .to_vec();
    while let Some(folder) = folders.pop() {
        for entry in fs_err::read_dir(&folder)? {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs")
                && !path.ends_with("testkit/src/skip.rs")
                && prints_a_skip(&fs_err::read_to_string(&path)?)
            {
                let path = path.strip_prefix(&workspace).unwrap_or(&path).display();
                return Err(StepFailure(format!("{path}: a test skips by itself; use haul_testkit::skip!")));
            }
        }
    }
    Ok(())
}

/// Returns true if source code contains a string that starts like a skip record. Code that only
/// parses such records strips that prefix.
fn prints_a_skip(source: &str) -> bool {
    let own_test = "strip_prefix(\"SKIPPED";
    source.replace(own_test, "").contains("\"SKIPPED")
}

fn document(what: &[&str]) -> Result<(), StepFailure> {
    let mut command = cargo(&["doc", "--no-deps", "--document-private-items"]);
    run(command.args(what).env("RUSTDOCFLAGS", "-D warnings"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_that_a_test_prints_itself_is_found() {
        assert!(
            prints_a_skip("say(&format!(\"SKIPPED: no ring\"))")
                && prints_a_skip("eprintln!(\"SKIPPED {x}\")")
        );
        assert!(!prints_a_skip("skip!(\"no ring\")") && !prints_a_skip("line.strip_prefix(\"SKIPPED a\")"));
    }

    #[test]
    fn no_test_skips_by_itself() {
        assert!(one_way_to_skip().is_ok());
    }
}
