//! Development tasks of the workspace: `cargo xtask TASK`.
//!
//! Each task is a module. Tasks run cargo and system programs, and contain none of haul's logic. A
//! task stops at the first failure, prints what failed, and exits with status 1.

mod check;
mod dist;
mod environment;
mod generate;
mod install;
mod licences;
mod oracle;
mod pages;
mod sanitize;
mod setup;
mod skips;
mod start;
mod steps;
mod test;
mod width;

use std::process::ExitCode;

use steps::{StepFailure, say};

/// A task: its name, help text and function.
type Chore = (&'static str, &'static str, TaskFunction);

/// The function of a task, without or with the arguments that follow the task's name.
enum TaskFunction {
    Plain(fn() -> Result<(), StepFailure>),
    Asked(fn(&[String]) -> Result<(), StepFailure>),
}

use TaskFunction::{Asked, Plain};

const CHORES: [Chore; 11] = [
    ("setup", "install what the tests need (as root; else say what is missing)", Plain(setup::setup)),
    (
        "check",
        "format, lints, documentation, licences, prose and links, generated files",
        Plain(check::check),
    ),
    ("test", "run every test, the fault sweep too, and tell what was skipped and why", Plain(test::test)),
    (
        "sanitize",
        "run the tests of the unsafe code under AddressSanitizer or valgrind",
        Plain(sanitize::sanitize),
    ),
    ("oracle", "run GNU's own tests of cp with haul as cp", Asked(oracle::oracle)),
    ("ci", "check, test, sanitize and oracle", Plain(ci)),
    ("gen", "write the generated files anew", Plain(generate::write)),
    ("start", "find the functions that a small copy calls, for the linker", Plain(start::start)),
    ("dist", "build archives and packages of haul", Asked(dist::dist)),
    ("install", "build haul and install it below --prefix, or remove it", Asked(install::install)),
    ("book", "make the site of docs/ in target/book", Plain(pages::book::build)),
];

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (wanted, words) = words.split_first().unzip();
    let words = words.unwrap_or_default();
    let chore = CHORES.iter().find(|(name, ..)| wanted.is_some_and(|wanted| wanted == name));
    let Some((_, _, work)) = chore else {
        CHORES.iter().for_each(|(name, about, _)| say(&format!("cargo xtask {name:<8} {about}")));
        return ExitCode::from(2);
    };
    let ended = match work {
        Plain(work) if words.is_empty() => work(),
        Plain(_) => Err(StepFailure(format!("'{}' is not understood", words.join(" ")))),
        Asked(work) => work(words),
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            say(&format!("xtask: {failure}"));
            ExitCode::FAILURE
        }
    }
}

fn ci() -> Result<(), StepFailure> {
    check::check()?;
    test::test()?;
    sanitize::sanitize()?;
    oracle::oracle(&[])
}
