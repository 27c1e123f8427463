//! `oracle`: runs GNU's own tests of `cp` with haul as `cp`.
//!
//! The suite is downloaded as a source package from Debian's archive ([`fetch`]), in the versions
//! of the running release and all later ones, and built in the target directory ([`build`]). It is
//! not part of this project. The oldest and newest versions run; those in between only with
//! `HAUL_FULL=1` or if named. Each test of `cp` ([`select`]) runs with the suite's own `cp`, the
//! baseline, and with haul in its place ([`stage`], [`mod@run`]): as root and as an ordinary user,
//! on ext4, and on btrfs and xfs where that matters ([`ground`]). haul selects its engine; the
//! other engines are tested in one additional round. Packages are built under `fakeroot` with haul
//! as `cp` ([`package`]).
//!
//! Promise: the task fails if the baseline passes any test that haul doesn't, and lists those tests
//! ([`report`]). What this machine can't run is skipped, and the reason is printed.

mod build;
mod fetch;
mod ground;
mod options;
mod package;
mod report;
mod run;
mod select;
mod stage;

use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Parser;
use fs_err as fs;

use build::Suite;
use fetch::Package;
use ground::{Grounds, TestGround};
use options::{OracleOptions, User};
use report::Table;
use run::{Column, Reach, Round};
use stage::TestedProgram;

use crate::setup::{setup, target_folder};
use crate::steps::{StepFailure, cargo, is_full_run, run, say};

/// Fetches, builds and runs the tests, and prints the results.
pub(crate) fn oracle(words: &[String]) -> Result<(), StepFailure> {
    let options =
        OracleOptions::parse_from(["cargo xtask oracle"].into_iter().chain(words.iter().map(String::as_str)));
    if let Some(succeeded) = ground::start_apart(words)? {
        return if succeeded { Ok(()) } else { Err(StepFailure("oracle: see above".to_owned())) };
    }
    let folder = target_folder()?.join("oracle");
    fs::create_dir_all(&folder)?;
    let packages = match prepared(&folder) {
        Ok(packages) => packages,
        Err(reason) => {
            say(&format!("SKIPPED oracle: {reason}"));
            return Ok(());
        }
    };
    let wanted = wanted(packages, &options, is_full_run());
    let suites = build::suites(&wanted, &folder)?;
    if options.list {
        return list(&suites, &folder, &options);
    }
    let engines = engines(&folder, &options)?;
    let grounds = ground::prepare(&folder, &options)?;
    let packages = match options.wants_test(package::NAME) {
        true => build_packages(&folder, &suites, &grounds),
        false => Ok(()),
    };
    if options.tests == [package::NAME] {
        return packages;
    }
    let chore = Chore { newest: suites.last().cloned(), options, folder, engines, suites: grounds.suites };
    let mut tables = Vec::new();
    for suite in &suites {
        for ground in &grounds.list {
            for user in &grounds.users {
                tables.extend(chore.table(suite, *user, ground)?);
            }
        }
    }
    let tests = report::print_and_check(&tables);
    if let (Err(_), Err(StepFailure(reason))) = (&tests, &packages) {
        say(reason);
    }
    tests.and(packages)
}

/// Builds Debian packages with haul as `cp`, and with the newest suite's `cp`.
fn build_packages(folder: &Path, suites: &[Suite], grounds: &Grounds) -> Result<(), StepFailure> {
    let (Some(suite), Some(ground)) = (suites.last(), grounds.list.first()) else { return Ok(()) };
    if !grounds.users.contains(&User::Plain) {
        say(&format!("SKIPPED {}: needs an ordinary user", package::NAME));
        return Ok(());
    }
    let baseline = grounds.suites.join(&suite.folder).join("src/cp");
    let haul = grounds.suites.join("haul");
    let folder_of_builds = ground.folder.join("packages");
    package::Builder { folder: folder_of_builds, baseline: &baseline, haul: &haul }.check(folder)
}

/// Drops the versions that are not selected. Without a selection, keeps the oldest and newest, or
/// all if `full`.
fn wanted(packages: Vec<Package>, options: &OracleOptions, full: bool) -> Vec<Package> {
    let last = packages.len().saturating_sub(1);
    let is_between = |place| place != 0 && place != last;
    let skips = |place| options.suites.is_empty() && !full && is_between(place);
    let kept = packages
        .into_iter()
        .enumerate()
        .filter(|(place, package)| options.wants_suite(&package.version) && !skips(*place));
    kept.map(|(_, package)| package).collect()
}

/// Installs what is missing and fetches the suite. `Err` is the reason it can't run.
fn prepared(folder: &Path) -> Result<Vec<Package>, String> {
    if build::missing().is_some() {
        setup().map_err(|StepFailure(reason)| reason)?;
    }
    match build::missing() {
        Some(reason) => Err(reason),
        None => fetch::packages(folder),
    }
}

fn list(suites: &[Suite], folder: &Path, options: &OracleOptions) -> Result<(), StepFailure> {
    for suite in suites {
        let tests = select::tests(&folder.join(&suite.folder))?;
        for test in tests.iter().filter(|test| options.wants_test(test)) {
            say(&format!("{} {test}", suite.version));
        }
    }
    Ok(())
}

/// Builds haul, or uses the program named by `HAUL_BIN`. Copies it next to the suites and
/// queries its engines.
fn engines(folder: &Path, options: &OracleOptions) -> Result<Vec<String>, StepFailure> {
    let haul = folder.join("haul");
    let program = match std::env::var_os("HAUL_BIN") {
        Some(program) => PathBuf::from(program),
        None => {
            run(&mut cargo(&["build", "--quiet", "--package", "haul-cli"]))?;
            target_folder()?.join("debug/haul")
        }
    };
    // A running executable can't be overwritten.
    if haul.exists() {
        fs::remove_file(&haul)?;
    }
    fs::copy(&program, &haul)?;
    run(Command::new("chmod").args(["-R", "a+rX"]).arg(&haul))?;
    let said = Command::new(&haul).args(["cp", "--engine=?"]).env("LC_ALL", "C").output()?;
    let known = engines_in(&String::from_utf8_lossy(&said.stderr));
    let is_known = |name: &String| name == "all" || known.contains(name);
    match options.engines.iter().find(|name| !is_known(name)) {
        Some(name) => Err(StepFailure(format!("haul has no engine '{name}', only {}", known.join(", ")))),
        None => Ok(known),
    }
}

/// Parses the engines from the message that lists them.
fn engines_in(message: &str) -> Vec<String> {
    let quoted = message.lines().filter_map(|line| line.strip_prefix("  - '")?.strip_suffix('\''));
    quoted.map(str::to_owned).collect()
}

/// State shared by all tables.
struct Chore {
    options: OracleOptions,
    /// The task's own directory.
    folder: PathBuf,
    /// The same directory where every user can access it.
    suites: PathBuf,
    engines: Vec<String>,
    newest: Option<Suite>,
}

impl Chore {
    /// Runs and prints one table. Returns `None` if no test is selected for it.
    fn table(&self, suite: &Suite, user: User, ground: &TestGround) -> Result<Option<Table>, StepFailure> {
        let thorough = self.newest.as_ref() == Some(suite) && user == User::Root && ground.all_tests;
        let named = !self.options.tests.is_empty();
        let mut tests = select::tests(&self.folder.join(&suite.folder))?;
        tests.retain(|test| {
            let wanted = (ground.all_tests || select::is_about_file_systems(test))
                && (thorough || !select::is_long(test));
            self.options.wants_test(test) && (named || wanted)
        });
        if tests.is_empty() {
            return Ok(None);
        }
        let mut columns = Vec::new();
        for (program, reach) in programs(&self.engines, &self.options, thorough) {
            let place = [&suite.version, user.name(), &ground.file_system, &program.name().replace(':', "-")];
            let logs = place.iter().fold(self.folder.join("logs"), |logs, part| logs.join(part));
            let logs = run::make_logs(&logs)?;
            let stage = stage::build(suite, user, &program, ground, &self.suites)?;
            columns.push(Column { program, stage, logs, reach });
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
}

/// Lists the programs of a table. Unless engines are selected, those that haul doesn't choose
/// itself are only tested in one table, the thorough one.
fn programs(engines: &[String], options: &OracleOptions, thorough: bool) -> Vec<(TestedProgram, Reach)> {
    let asked = |engine: &&String| {
        let named = options.engines.iter().any(|name| name == *engine || name == "all");
        named || options.engines.is_empty() && (thorough || *engine == "auto")
    };
    let tested = engines.iter().filter(asked).map(|engine| match engine.as_str() {
        "auto" => (TestedProgram::Haul(None), Reach::All),
        _ if options.engines.is_empty() => (TestedProgram::Haul(Some(engine.clone())), Reach::Copying),
        _ => (TestedProgram::Haul(Some(engine.clone())), Reach::All),
    });
    std::iter::once((TestedProgram::Baseline, Reach::All)).chain(tested).collect()
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
    fn versions_between_the_oldest_and_the_newest_run_when_asked_for() {
        let versions = |suites: &[&str], full| {
            let packages = ["9.1", "9.7", "9.8", "9.10"]
                .map(|version| Package { version: version.to_owned(), archive: PathBuf::new() });
            let suites = suites.iter().map(|&suite| suite.to_owned()).collect();
            let options = OracleOptions { suites, ..OracleOptions::default() };
            let kept = wanted(packages.to_vec(), &options, full).into_iter();
            kept.map(|package| package.version).collect::<Vec<_>>()
        };
        assert_eq!(versions(&[], false), ["9.1", "9.10"]);
        assert_eq!(versions(&[], true), ["9.1", "9.7", "9.8", "9.10"]);
        assert_eq!(versions(&["9.7"], false), ["9.7"]);
    }

    #[test]
    fn engines_that_haul_does_not_choose_are_tried_in_one_table() {
        let engines = ["auto", "retry"].map(str::to_owned);
        let auto = (TestedProgram::Haul(None), Reach::All);
        let baseline = (TestedProgram::Baseline, Reach::All);
        let retry = |reach| (TestedProgram::Haul(Some("retry".to_owned())), reach);
        let none = OracleOptions::default();
        assert_eq!(programs(&engines, &none, false), [baseline.clone(), auto.clone()]);
        assert_eq!(programs(&engines, &none, true), [baseline.clone(), auto, retry(Reach::Copying)]);
        let asked = OracleOptions { engines: vec!["retry".to_owned()], ..OracleOptions::default() };
        assert_eq!(programs(&engines, &asked, false), [baseline, retry(Reach::All)]);
    }
}
