//! The environment of a test: a directory that looks like a build of the suite, with the program
//! under test as `cp`.
//!
//! The directory is on the file system in question and belongs to the user who runs the tests. The
//! suite's files are symlinks; tests create their own directories next to them.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fs_err as fs;
use fs_err::os::unix::fs::{chown, symlink};

use super::build::Suite;
use super::ground::{NOBODY_NUMBER, TestGround};
use super::options::User;
use crate::environment::is_root;
use crate::steps::{StepFailure, output_of};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum TestedProgram {
    Baseline,
    /// haul, with the given engine or its default.
    Haul(Option<String>),
}

impl TestedProgram {
    /// Returns its name for reports and directory names.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Baseline => "baseline".to_owned(),
            Self::Haul(None) => "haul".to_owned(),
            Self::Haul(Some(engine)) => format!("haul:{engine}"),
        }
    }
}

#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) folder: PathBuf,
    /// Names of the programs in its `src`.
    pub(crate) programs: Vec<String>,
    pub(crate) version: String,
}

/// Creates the stage for a suite, user and program. `suites` is where every user can access the
/// suites and haul.
pub(crate) fn build(
    suite: &Suite,
    user: User,
    program: &TestedProgram,
    ground: &TestGround,
    suites: &Path,
) -> Result<Stage, StepFailure> {
    let name = format!("{}-{}-{}", suite.version, user.name(), program.name().replace(':', "-"));
    let folder = ground.folder.join(name);
    let built = suites.join(&suite.folder);
    let bin = folder.join("src");
    fs::create_dir_all(&bin)?;
    for name in ["tests", "init.cfg", "lib"] {
        symlink(built.join(name), folder.join(name))?;
    }
    let programs = programs_in(&built.join("src"))?;
    for name in programs.iter().filter(|name| *name != "cp") {
        symlink(built.join("src").join(name), bin.join(name))?;
    }
    place(program, &bin.join("cp"), &built, suites)?;
    if user == User::Plain && is_root() {
        chown(&folder, Some(NOBODY_NUMBER), Some(NOBODY_NUMBER))?;
    }
    let version = version_of(&bin.join("cp"))?;
    Ok(Stage { folder, programs, version })
}

fn place(program: &TestedProgram, cp: &Path, built: &Path, suites: &Path) -> std::io::Result<()> {
    match program {
        TestedProgram::Baseline => symlink(built.join("src/cp"), cp),
        TestedProgram::Haul(None) => symlink(suites.join("haul"), cp),
        TestedProgram::Haul(Some(engine)) => {
            let haul = suites.join("haul");
            fs::write(
                cp,
                format!("#!/bin/bash\nexec -a cp '{}' --engine={engine} \"$@\"\n", haul.display()),
            )?;
            fs::set_permissions(cp, Permissions::from_mode(0o755))
        }
    }
}

fn programs_in(folder: &Path) -> std::io::Result<Vec<String>> {
    let mut programs = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let metadata = entry.metadata()?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if metadata.is_file() && metadata.permissions().mode() & 0o100 != 0 && !name.contains('.') {
            programs.push(name);
        }
    }
    programs.sort();
    Ok(programs)
}

/// Returns the version of a `cp`: the last word of the first line of `--version`.
fn version_of(cp: &Path) -> Result<String, StepFailure> {
    let said = output_of(Command::new(cp).arg("--version").env("LC_ALL", "C"))?;
    let said = String::from_utf8_lossy(&said);
    Ok(said.lines().next().and_then(|line| line.rsplit(' ').next()).unwrap_or_default().to_owned())
}
