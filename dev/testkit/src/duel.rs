//! Runs two programs on the same task and reports differences.
//!
//! Both run the same command line in directories prepared alike, with the same names, so that
//! messages can be compared literally. Compared are the exit status, the lines of standard output
//! and standard error (sorted, without the program's name), and everything in the directory
//! afterwards, both source and target. [`Release`] accounts for intentional changes between
//! releases of GNU cp.
//!
//! A [`Duel`] runs one command line, or a shell script in which `cp` is each program in turn.

use std::ffi::{OsStr, OsString};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::os::unix::fs::{lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use crate::compare::{CompareRules, compare_paths};
use crate::message::normalise;
use crate::program::CopyProgram;
use crate::release::Release;
use crate::run::{NOBODY, RunEnding, RunOutcome, TestRun};
use crate::sandbox::Sandbox;
use crate::snapshot::Facts;

/// Two programs: the reference, and the one judged by it.
#[derive(Clone, Debug)]
pub struct Duel {
    /// The reference.
    pub standard: CopyProgram,
    /// The program being judged.
    pub judged: CopyProgram,
    /// Facts to compare in the directory afterwards.
    pub facts: Facts,
    /// Time limit for each.
    pub limit: Duration,
    /// Standard input of each; for a script that answers prompts itself, its answers.
    pub input: Vec<u8>,
    /// Environment variables for both.
    pub environment: Vec<(OsString, OsString)>,
    /// Umask for both.
    pub umask: u32,
    /// True to run both as the user nobody, who then owns the directory and its contents.
    pub as_nobody: bool,
}

/// Subject of a complaint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Complaint {
    /// The exit status or the output.
    Words,
    /// The directory's contents.
    Tree,
    /// The directory's contents, which are too broken to read back.
    Ruin,
}

/// The result of one command line.
#[derive(Debug)]
pub struct DuelVerdict {
    /// Outcome of the reference.
    pub standard: RunOutcome,
    /// Outcome of the judged program.
    pub judged: RunOutcome,
    /// Differences in behavior; empty if there are none.
    pub complaints: Vec<(Complaint, String)>,
}

impl DuelVerdict {
    /// Returns true if the reference itself hung, so that there is nothing to compare with.
    pub fn standard_hung(&self) -> bool {
        self.standard.ending == RunEnding::Hung
    }

    /// Drops complaints about trees, for cases in which GNU cp's tree depends on the
    /// directory order.
    pub fn compare_words_only(&mut self) {
        self.complaints.retain(|(about, _)| *about != Complaint::Tree);
    }

    /// Formats the complaints and the output of both.
    pub fn report(&self) -> String {
        let mut text = String::new();
        for (_, complaint) in &self.complaints {
            text.push_str(complaint.trim_end());
            text.push('\n');
        }
        for (name, outcome) in [("standard", &self.standard), ("judged", &self.judged)] {
            let lines = normalise(&outcome.stderr).join("\n      ");
            // Writing to a String can't fail.
            write!(text, "    {name}: {:?}\n      {lines}\n", outcome.ending).unwrap_or_default();
        }
        text
    }
}

impl Duel {
    /// Creates a duel between GNU cp and the judged program; `None` without GNU cp. Holes are not
    /// compared if this release of GNU cp creates different ones.
    pub fn with_gnu(judged: CopyProgram) -> Option<Self> {
        let standard = CopyProgram::gnu()?;
        let same_holes = judged.is_haul() && standard.release().is_some_and(Release::leaves_the_usual_holes);
        Some(Self {
            standard,
            judged,
            facts: if same_holes { Facts::PRESERVED } else { Facts::PRESERVED - Facts::HOLES },
            limit: Duration::from_secs(20),
            input: Vec::new(),
            environment: Vec::new(),
            umask: 0o022,
            as_nobody: false,
        })
    }

    /// Runs a command line with both, each in a directory made by `prepare`. `own` are options that
    /// only haul understands.
    ///
    /// The parent of the directory is compared too, in case a command writes to `..`.
    pub fn run(
        &self,
        prepare: &dyn Fn(&Path) -> io::Result<()>,
        arguments: &[impl AsRef<OsStr>],
        own: &[OsString],
    ) -> io::Result<DuelVerdict> {
        let now_from = Some(seconds_now());
        let sandboxes = [Sandbox::in_memory()?, Sandbox::in_memory()?];
        let mut outcomes = Vec::new();
        for (sandbox, program, own) in
            [(&sandboxes[0], &self.standard, &[][..]), (&sandboxes[1], &self.judged, own)]
        {
            let work = sandbox.join("work");
            fs::create_dir(&work)?;
            prepare(&work)?;
            if self.as_nobody {
                give_away(sandbox.path())?;
            }
            let run = program.run_with(own).args(arguments).in_folder(&work);
            outcomes.push(self.finish(run)?);
        }
        self.judge(outcomes, [sandboxes[0].path(), sandboxes[1].path()], now_from)
    }

    /// Runs a shell script once with each program as `cp`, in a directory made by `prepare` with
    /// the same path both times. `own` are options that only haul understands; they are added to
    /// every `cp` that the shell itself starts.
    pub fn run_script(
        &self,
        prepare: &dyn Fn(&Path) -> io::Result<()>,
        script: &str,
        own: &[&str],
    ) -> io::Result<DuelVerdict> {
        let now_from = Some(seconds_now());
        let sandbox = Sandbox::in_memory()?;
        let work = sandbox.join("work");
        let mut outcomes = Vec::new();
        for (name, program) in [("standard", &self.standard), ("judged", &self.judged)] {
            let tools = sandbox.join(format!("{name}-tools"));
            fs::create_dir(&tools)?;
            fs::create_dir(&work)?;
            symlink(fs::canonicalize(program.path())?, tools.join("cp"))?;
            prepare(&work)?;
            let with_options = format!("cp() {{ command cp {} \"$@\"; }}\n{script}", own.join(" "));
            let script = if program.is_haul() && !own.is_empty() { &with_options } else { script };
            let run = TestRun::new(Path::new("/bin/sh")).args(["-c", script]).in_folder(&work);
            outcomes.push(self.finish(run.env("PATH", search_path(tools)?))?);
            fs::rename(&work, sandbox.join(name))?;
        }
        self.judge(outcomes, [&sandbox.join("standard"), &sandbox.join("judged")], now_from)
    }

    fn finish(&self, run: TestRun) -> io::Result<RunOutcome> {
        let run = run.umask(self.umask).within(self.limit);
        let run = if self.as_nobody { run.as_nobody() } else { run };
        let run = if self.input.is_empty() { run } else { run.input(&self.input) };
        self.environment.iter().fold(run, |run, (name, value)| run.env(name, value)).finish()
    }

    /// Compares results and directories; the reference comes first.
    fn judge(
        &self,
        mut outcomes: Vec<RunOutcome>,
        folders: [&Path; 2],
        now_from: Option<i64>,
    ) -> io::Result<DuelVerdict> {
        let mut complaints = Vec::new();
        if let [standard, judged] = &outcomes[..] {
            self.compare_outcomes(standard, judged, &mut complaints);
        }
        let rules = CompareRules { facts: self.facts, now_from };
        match compare_paths(folders[0], folders[1], rules) {
            Ok(differences) if differences.is_empty() => {}
            Ok(differences) => complaints.push((Complaint::Tree, format!("    trees: {differences}"))),
            Err(error) => complaints.push((Complaint::Ruin, format!("    trees: {error}"))),
        }
        let judged = outcomes.pop().ok_or_else(|| io::Error::other("no outcome"))?;
        let standard = outcomes.pop().ok_or_else(|| io::Error::other("no outcome"))?;
        Ok(DuelVerdict { standard, judged, complaints })
    }

    fn compare_outcomes(
        &self,
        standard: &RunOutcome,
        judged: &RunOutcome,
        complaints: &mut Vec<(Complaint, String)>,
    ) {
        let expected = self.ending_of_the_newest(standard);
        if expected != judged.ending {
            let text = format!("    status: expected {expected:?}, found {:?}", judged.ending);
            complaints.push((Complaint::Words, text));
        }
        for (name, expected, found) in
            [("stdout", &standard.stdout, &judged.stdout), ("stderr", &standard.stderr, &judged.stderr)]
        {
            let [expected, found] = [expected, found].map(|printed| self.common_words(printed));
            if expected == found {
                continue;
            }
            let only = |these: &[String], those: &[String]| {
                let lines: Vec<_> = these.iter().filter(|line| !those.contains(line)).cloned().collect();
                lines.join("\n      ")
            };
            let (missing, extra) = (only(&expected, &found), only(&found, &expected));
            let text =
                format!("    {name}: only the standard:\n      {missing}\n    only judged:\n      {extra}");
            complaints.push((Complaint::Words, text));
        }
    }

    fn common_words(&self, printed: &[u8]) -> Vec<String> {
        let lines = normalise(printed);
        match self.standard.release() {
            Some(release) => release.common_words(lines),
            None => lines,
        }
    }

    fn ending_of_the_newest(&self, standard: &RunOutcome) -> RunEnding {
        match (standard.ending, self.standard.release()) {
            (RunEnding::Exited(status), Some(release)) => {
                let lines = normalise(&standard.stderr);
                RunEnding::Exited(release.newest_status(status, &lines, &self.input))
            }
            (ending, _) => ending,
        }
    }
}

/// Returns `PATH` with `first` prepended.
fn search_path(first: PathBuf) -> io::Result<OsString> {
    let usual = std::env::var_os("PATH").unwrap_or_default();
    std::env::join_paths(std::iter::once(first).chain(std::env::split_paths(&usual)))
        .map_err(io::Error::other)
}

/// Changes the owner of a directory and everything in it to nobody.
fn give_away(path: &Path) -> io::Result<()> {
    lchown(path, Some(NOBODY), Some(NOBODY))?;
    if fs::symlink_metadata(path)?.is_dir() {
        for entry in fs::read_dir(path)? {
            give_away(&entry?.path())?;
        }
    }
    Ok(())
}

/// Returns the current time, in seconds.
pub fn seconds_now() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_secs()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::write_script;
    use std::fs;

    fn judge(script: &str) -> DuelVerdict {
        let sandbox = Sandbox::on_disk().unwrap();
        let path = sandbox.join("haul");
        write_script(&path, &format!("#!/bin/sh\n{script}\n")).unwrap();
        let duel = Duel::with_gnu(CopyProgram::at(&path)).unwrap();
        let prepare = |folder: &Path| fs::write(folder.join("a"), "x");
        duel.run(&prepare, &["a", "b", "missing", "c"], &[]).unwrap()
    }

    #[test]
    fn the_same_is_the_same_and_each_difference_is_seen() {
        crate::require!(CopyProgram::needs_gnu());
        // This fake haul is called as `haul cp ...`, and its messages start with its name.
        let same = judge("shift; exec /usr/bin/cp \"$@\"");
        assert!(same.complaints.is_empty(), "{}", same.report());
        let status = judge("shift; /usr/bin/cp \"$@\"; exit 0");
        assert!(status.complaints[0].1.contains("status"));
        let silent = judge("shift; exec /usr/bin/cp \"$@\" 2>/dev/null");
        assert!(silent.complaints[0].1.contains("stderr"));
        let tree = judge("shift; /usr/bin/cp \"$@\"; status=$?; echo more >> a; exit $status");
        assert_eq!(tree.complaints[0].0, Complaint::Tree);
    }
}
