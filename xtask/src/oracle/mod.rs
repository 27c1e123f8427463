//! `oracle`: GNU's own tests of `cp`, with haul as `cp`.
//!
//! The suite comes as a source package from Debian's archive ([`fetch`]), in two versions, and is built in the target folder
//! ([`build`]); nothing of it is part of this project. Each test that has `cp` under test ([`select`]) runs with the suite's
//! own `cp`, the baseline, and with haul in its place ([`stage`], [`run`]): as root and as an ordinary user, on ext4, and on
//! btrfs and xfs where that matters ([`ground`]). haul chooses its engine; one round more goes through each of the others.
//!
//! Promise: the chore fails when there is a test that the baseline passes and haul does not, and lists them ([`report`]).
//! What the machine cannot do is skipped, and the reason printed.

mod build;
mod fetch;
mod ground;
mod options;
mod report;
mod run;
mod select;
mod stage;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use build::Suite;
use ground::{Ground, Grounds};
use options::{Options, User};
use report::Table;
use run::{Column, Round};
use stage::Program;

use crate::setup::setup;
use crate::steps::{Failure, cargo, output_of, run, say};

/// Fetches, builds and runs, and prints what came out.
pub(crate) fn oracle(words: &[String]) -> Result<(), Failure> {
    let options = Options::parse(words)?;
    if let Some(succeeded) = ground::start_apart(words)? {
        return if succeeded { Ok(()) } else { Err(Failure("the oracle found fault".to_owned())) };
    }
    let folder = target_folder()?.join("oracle");
    fs::create_dir_all(&folder).map_err(|error| Failure(format!("{}: {error}", folder.display())))?;
    let packages = match prepared(&folder) {
        Ok(packages) => packages,
        Err(reason) => {
            say(&format!("SKIPPED oracle: {reason}"));
            return Ok(());
        }
    };
    let wanted: Vec<_> =
        packages.into_iter().filter(|package| options.wants_suite(&package.version)).collect();
    let suites = build::suites(&wanted, &folder)?;
    if options.list {
        return list(&suites, &folder, &options);
    }
    let engines = engines(&folder, &options)?;
    let grounds = ground::prepare(&folder, &options)?;
    let mut tables = Vec::new();
    for (suite, user, ground) in rounds(&suites, &grounds) {
        let is_newest = suites.last() == Some(suite);
        let thorough = is_newest && user == User::Root && ground.all_tests;
        let columns = columns(&engines, &options, thorough);
        tables.extend(table(suite, user, ground, &columns, &grounds, &folder, &options)?);
    }
    report::conclude(&tables)
}

/// Installs what is missing and fetches the suite. `Err` says why it cannot be run.
fn prepared(folder: &Path) -> Result<Vec<fetch::Package>, String> {
    if build::missing().is_some() {
        setup().map_err(|Failure(reason)| reason)?;
    }
    match build::missing() {
        Some(reason) => Err(reason),
        None => fetch::packages(folder),
    }
}

/// Gives the folder that cargo builds in.
fn target_folder() -> Result<PathBuf, Failure> {
    let text = output_of(&mut cargo(&["metadata", "--format-version", "1", "--no-deps"]))?;
    let metadata: serde_json::Value =
        serde_json::from_slice(&text).map_err(|error| Failure(format!("cargo metadata: {error}")))?;
    let folder = metadata["target_directory"].as_str().map(PathBuf::from);
    folder.ok_or_else(|| Failure("cargo metadata names no target folder".to_owned()))
}

fn list(suites: &[Suite], folder: &Path, options: &Options) -> Result<(), Failure> {
    for suite in suites {
        let tests = select::tests(&folder.join(&suite.folder))?;
        for test in tests.iter().filter(|test| options.wants_test(test)) {
            say(&format!("{} {test}", suite.version));
        }
    }
    Ok(())
}

/// Builds haul, or takes the program that `HAUL_BIN` names; puts it beside the suites, and asks it for its engines.
fn engines(folder: &Path, options: &Options) -> Result<Vec<String>, Failure> {
    let haul = folder.join("haul");
    let program = match std::env::var_os("HAUL_BIN") {
        Some(program) => PathBuf::from(program),
        None => {
            run(&mut cargo(&["build", "--quiet", "--package", "haul"]))?;
            target_folder()?.join("debug/haul")
        }
    };
    let fail = |error: std::io::Error| Failure(format!("{}: {error}", program.display()));
    // A program that runs cannot be written over.
    if haul.exists() {
        fs::remove_file(&haul).map_err(fail)?;
    }
    fs::copy(&program, &haul).map_err(fail)?;
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(&haul))?;
    let said = Command::new(&haul).args(["cp", "--engine=?"]).env("LC_ALL", "C").output().map_err(fail)?;
    let known = engines_in(&String::from_utf8_lossy(&said.stderr));
    let is_known = |name: &String| name == "all" || known.contains(name);
    match options.engines.iter().find(|name| !is_known(name)) {
        Some(name) => Err(Failure(format!("haul has no engine '{name}', only {}", known.join(", ")))),
        None => Ok(known),
    }
}

/// Reads the engines from the message that lists them.
fn engines_in(message: &str) -> Vec<String> {
    let quoted = message.lines().filter_map(|line| line.strip_prefix("  - '")?.strip_suffix('\''));
    quoted.map(str::to_owned).collect()
}

fn rounds<'a>(suites: &'a [Suite], grounds: &'a Grounds) -> Vec<(&'a Suite, User, &'a Ground)> {
    let mut rounds = Vec::new();
    for suite in suites {
        for ground in &grounds.list {
            rounds.extend(grounds.users.iter().map(|user| (suite, *user, ground)));
        }
    }
    rounds
}

/// Lists the programs of a table, and whether each runs only the tests in the suite's folder `cp`. Unless engines are asked
/// for, those that haul does not choose are tried in one table, the `thorough` one.
fn columns(engines: &[String], options: &Options, thorough: bool) -> Vec<(Program, bool)> {
    let haul = |engine: &String| Program::Haul((engine != "auto").then(|| engine.clone()));
    let baseline = std::iter::once((Program::Baseline, false));
    let asked = |engine: &&String| {
        let named = options.engines.contains(engine) || options.engines.iter().any(|name| name == "all");
        named || options.engines.is_empty() && (thorough || *engine == "auto")
    };
    let tested = engines.iter().filter(asked);
    baseline.chain(tested.map(|name| (haul(name), name != "auto" && options.engines.is_empty()))).collect()
}

/// Runs and prints one table; none when no test is wanted in it.
fn table(
    suite: &Suite,
    user: User,
    ground: &Ground,
    programs: &[(Program, bool)],
    grounds: &Grounds,
    folder: &Path,
    options: &Options,
) -> Result<Option<Table>, Failure> {
    let mut tests = select::tests(&folder.join(&suite.folder))?;
    tests.retain(|test| {
        options.wants_test(test)
            && (ground.all_tests || !options.tests.is_empty() || select::is_about_file_systems(test))
    });
    if tests.is_empty() {
        return Ok(None);
    }
    let mut columns = Vec::new();
    for (program, only_cp) in programs {
        let place = [&suite.version, user.name(), &ground.file_system, &program.name().replace(':', "-")];
        let logs = run::make_logs(&place.iter().fold(folder.join("logs"), |logs, part| logs.join(part)))?;
        let stage = stage::build(suite, user, program, ground, &grounds.suites)?;
        columns.push(Column { program: program.clone(), stage, logs, only_cp: *only_cp });
    }
    let outcomes = Round { version: &suite.version, user, tests: &tests, columns: &columns }.run()?;
    let table = Table {
        title: format!("{} {} {}", suite.version, user.name(), ground.file_system),
        programs: columns.into_iter().map(|column| column.program).collect(),
        rows: tests.into_iter().zip(outcomes).collect(),
    };
    table.print();
    Ok(Some(table))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_are_read_from_the_message_that_lists_them() {
        let message =
            "cp: invalid argument '?' for '--engine'\nValid arguments are:\n  - 'auto'\n  - 'io-uring'\nTry";
        assert_eq!(engines_in(message), ["auto", "io-uring"]);
    }

    #[test]
    fn engines_that_haul_does_not_choose_are_tried_in_one_table() {
        let engines = ["auto", "retry"].map(str::to_owned);
        let auto = (Program::Haul(None), false);
        let baseline = (Program::Baseline, false);
        let retry = |only_cp| (Program::Haul(Some("retry".to_owned())), only_cp);
        let none = Options::default();
        assert_eq!(columns(&engines, &none, false), [baseline.clone(), auto.clone()]);
        assert_eq!(columns(&engines, &none, true), [baseline.clone(), auto, retry(true)]);
        let asked = Options { engines: vec!["retry".to_owned()], ..Options::default() };
        assert_eq!(columns(&engines, &asked, false), [baseline, retry(false)]);
    }
}
