//! Runs tests, one per CPU at a time, and determines their results.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use fs_err as fs;
use rayon::prelude::*;

use super::ground::{EXTRA_GROUPS, become_user};
use super::options::User;
use super::select::{is_long, tries_every_program, why_not_applicable};
use super::stage::{Stage, TestedProgram};
use crate::steps::{StepFailure, cannot_run};

/// Time limit of a test, in seconds.
const SECONDS_MAX: &str = "240";

/// Prepares the shell like the suite's makefile, then executes the test.
const SHELL: &str = "umask 022; exec \"$@\" 9>&2";

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestVerdict {
    Pass,
    Fail,
    /// It can't run here, for this reason.
    Skip(String),
    /// It broke, or exceeded the time limit.
    Error(String),
    /// It doesn't apply to this program, for this reason.
    NotApplicable(&'static str),
}

#[derive(Clone, Debug)]
pub(crate) struct TestOutcome {
    pub(crate) verdict: TestVerdict,
    pub(crate) log: PathBuf,
    pub(crate) seconds: f64,
}

/// Tests of a table that a program runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reach {
    All,
    /// Those in the suite's `cp` directory, except the long ones.
    Copying,
}

/// A column of a table: a program and how to test it.
#[derive(Debug)]
pub(crate) struct Column {
    pub(crate) program: TestedProgram,
    pub(crate) stage: Stage,
    pub(crate) logs: PathBuf,
    pub(crate) reach: Reach,
}

#[derive(Debug)]
pub(crate) struct Round<'a> {
    pub(crate) version: &'a str,
    pub(crate) user: User,
    pub(crate) tests: &'a [String],
    pub(crate) columns: &'a [Column],
}

impl Round<'_> {
    /// Runs every test for every column. Returns a row per test with an entry per column, which is
    /// `None` if the column excludes the test.
    pub(crate) fn run(&self) -> Result<Vec<Vec<Option<TestOutcome>>>, StepFailure> {
        let row = |test: &String| self.columns.par_iter().map(|column| self.cell(test, column)).collect();
        self.tests.par_iter().map(row).collect()
    }

    fn cell(&self, test: &str, column: &Column) -> Result<Option<TestOutcome>, StepFailure> {
        if column.reach == Reach::Copying && (!test.starts_with("cp/") || is_long(test)) {
            return Ok(None);
        }
        self.one(test, column).map(Some)
    }

    fn one(&self, test: &str, column: &Column) -> Result<TestOutcome, StepFailure> {
        let log = column.logs.join(format!("{}.log", test.replace('/', "-")));
        if let (TestedProgram::Haul(_), Some(reason)) =
            (&column.program, why_not_applicable(self.version, test))
        {
            return Ok(TestOutcome { verdict: TestVerdict::NotApplicable(reason), log, seconds: 0.0 });
        }
        let out = fs::File::create(&log)?.into_parts().0;
        let mut command = self.command(test, &column.stage);
        command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
        let begun = Instant::now();
        let status = command.status().map_err(|error| cannot_run(&command, &error))?;
        let seconds = begun.elapsed().as_secs_f64();
        let said = fs::read(&log)?;
        let verdict = verdict(status.code(), &String::from_utf8_lossy(&said));
        Ok(TestOutcome { verdict, log, seconds })
    }

    /// Builds the command line of a test, with the environment set by the suite's makefile.
    fn command(&self, test: &str, stage: &Stage) -> Command {
        let path = format!("tests/{test}");
        let name = test.replace('/', "-");
        let mut command = Command::new("bash");
        command.args(["-c", SHELL, "bash"]);
        command.args(["timeout", "--kill-after=5", SECONDS_MAX]).args(become_user(self.user));
        if test.ends_with(".pl") {
            command.args(["perl", "-w", "-Itests", "-MCuSkip", "-MCoreutils"]);
            command.arg(format!("-MCuTmpdir qw({name})"));
        } else {
            command.arg("bash");
        }
        command.arg(path).current_dir(&stage.folder).env_clear();
        self.surround(&mut command, test, stage);
        command
    }

    fn surround(&self, command: &mut Command, test: &str, stage: &Stage) {
        let programs = if tries_every_program(test) { "cp".to_owned() } else { stage.programs.join(" ") };
        let path = format!(
            "{}/src:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
            stage.folder.display()
        );
        command.envs([("PATH", path), ("built_programs", programs), ("VERSION", stage.version.clone())]);
        for name in ["abs_srcdir", "abs_top_srcdir", "abs_top_builddir"] {
            command.env(name, &stage.folder);
        }
        command.env("CONFIG_HEADER", stage.folder.join("lib/config.h"));
        command.env("CU_TEST_NAME", format!("haul,{}", test.replace('/', "-")));
        command.env("COREUTILS_GROUPS", EXTRA_GROUPS.replace(',', " "));
        command.envs([
            ("PACKAGE_VERSION", self.version),
            ("srcdir", "."),
            ("top_srcdir", "."),
            ("host_os", "linux-gnu"),
            ("LC_ALL", "C"),
            ("LOCALE_FR", "none"),
            ("LOCALE_FR_UTF8", "none"),
            ("SHELL", "/bin/bash"),
            ("AWK", "awk"),
            ("CC", "gcc"),
            ("EGREP", "grep -E"),
            ("EXEEXT", ""),
            ("MAKE", "make"),
            ("PERL", "perl"),
            ("HOME", "/"),
            ("TMPDIR", "/tmp"),
            ("VERBOSE", "yes"),
            ("RUN_EXPENSIVE_TESTS", "yes"),
            ("RUN_VERY_EXPENSIVE_TESTS", "yes"),
            ("fail", "0"),
        ]);
    }
}

/// Derives the verdict from the exit status and the output.
fn verdict(status: Option<i32>, said: &str) -> TestVerdict {
    match status {
        Some(0) => TestVerdict::Pass,
        Some(77) => {
            TestVerdict::Skip(said.lines().rev().find_map(reason).unwrap_or("gives no reason").to_owned())
        }
        Some(99) => TestVerdict::Error("set-up failure".to_owned()),
        Some(124 | 137) => TestVerdict::Error(format!("given up after {SECONDS_MAX} seconds")),
        Some(_) => TestVerdict::Fail,
        None => TestVerdict::Error("killed".to_owned()),
    }
}

fn reason(line: &str) -> Option<&str> {
    let (test, reason) =
        line.split_once(": skipped test: ").or_else(|| line.split_once(": skipping test: "))?;
    (!test.contains(' ')).then_some(reason)
}

/// Creates an empty directory for the logs of a column.
pub(crate) fn make_logs(folder: &Path) -> Result<PathBuf, StepFailure> {
    if folder.exists() {
        fs::remove_dir_all(folder)?;
    }
    fs::create_dir_all(folder)?;
    Ok(folder.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_and_words_make_verdicts() {
        assert_eq!(verdict(Some(0), "acl.sh: skipped test: no"), TestVerdict::Pass);
        assert_eq!(verdict(Some(1), ""), TestVerdict::Fail);
        let said = "+ warn_ 'acl.sh: skipped test: quoted'\nacl.sh: skipped test: needs setfacl\n+ exit 77\n";
        assert_eq!(verdict(Some(77), said), TestVerdict::Skip("needs setfacl".to_owned()));
        assert_eq!(verdict(Some(77), ""), TestVerdict::Skip("gives no reason".to_owned()));
        assert!(matches!(verdict(Some(99), ""), TestVerdict::Error(_)));
        assert!(matches!(verdict(Some(124), ""), TestVerdict::Error(_)));
        assert!(matches!(verdict(None, ""), TestVerdict::Error(_)));
    }
}
