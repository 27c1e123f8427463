//! Unpacks, configures and builds a version of the suite: only its programs, with `cp`
//! as the baseline.
//!
//! Each version has its own directory. A marker file written after a successful build
//! prevents rebuilds.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use fs_err as fs;
use rayon::prelude::*;

use super::fetch::Package;
use crate::steps::{StepFailure, cannot_run, is_installed, say};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    pub(crate) version: String,
    /// Name of the directory in which it was built, below the task's.
    pub(crate) folder: String,
}

/// Requirements of the build: a program or file, and the Debian package that contains it.
const NEEDS: [(&str, &str); 7] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("xz", "xz-utils"),
    ("perl", "perl"),
    ("/usr/include/sys/acl.h", "libacl1-dev"),
    ("/usr/include/attr/libattr.h", "libattr1-dev"),
    ("/usr/include/sys/capability.h", "libcap-dev"),
];

/// Configure options: without features that `cp` and its tests don't use, and without optimization.
const CONFIGURED: [&str; 6] = [
    "--disable-nls",
    "--disable-dependency-tracking",
    "--without-openssl",
    "--without-libgmp",
    "--without-selinux",
    "CFLAGS=-O0 -g0",
];

/// A makefile that builds only the programs, without the manuals, which have more requirements.
const MAKEFILE: &str = "include Makefile\n\nprograms:\n\t+$(MAKE) $(BUILT_SOURCES)\n\t+$(MAKE) $(PROGRAMS)\n";

/// Returns what is missing for the build, if anything.
pub(crate) fn missing() -> Option<String> {
    let missing: Vec<_> =
        NEEDS.iter().filter(|(file, _)| !is_installed(file)).map(|(_, package)| *package).collect();
    (!missing.is_empty()).then(|| format!("needs Debian's packages {}", missing.join(", ")))
}

/// Builds all versions that aren't built yet, concurrently.
pub(crate) fn suites(packages: &[Package], folder: &Path) -> Result<Vec<Suite>, StepFailure> {
    packages.par_iter().map(|package| suite(package, folder)).collect()
}

fn suite(package: &Package, folder: &Path) -> Result<Suite, StepFailure> {
    let suite = Suite { version: package.version.clone(), folder: format!("coreutils-{}", package.version) };
    let sources = folder.join(&suite.folder);
    let done = sources.join("built-for-haul");
    let how = CONFIGURED.join(" ");
    if fs::read_to_string(&done).is_ok_and(|text| text == how) {
        return Ok(suite);
    }
    say(&format!("building coreutils {}, for its tests (in {})", suite.version, sources.display()));
    build(&package.archive, folder, &sources)?;
    fs::write(&done, how)?;
    say(&format!("built coreutils {}", suite.version));
    Ok(suite)
}

fn build(archive: &Path, folder: &Path, sources: &Path) -> Result<(), StepFailure> {
    if sources.exists() {
        fs::remove_dir_all(sources)?;
    }
    let log = log_of(sources);
    quietly(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder), &log)?;
    fs::write(sources.join("programs.mk"), MAKEFILE)?;
    let mut configure = Command::new("./configure");
    configure.args(["--quiet"]).args(CONFIGURED).env("FORCE_UNSAFE_CONFIGURE", "1");
    quietly(configure.current_dir(sources), &log)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.args(["--silent", "--file=programs.mk", "programs"]).arg(format!("--jobs={jobs}"));
    quietly(make.current_dir(sources), &log)?;
    // Another user runs the tests too.
    quietly(Command::new("chmod").args(["-R", "a+rX"]).arg(sources), &log)
}

/// Returns the path of the build log, next to the source directory.
fn log_of(sources: &Path) -> PathBuf {
    let mut name = sources.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Runs a build step with its output redirected to a log. A failure names the log.
pub(super) fn quietly(command: &mut Command, log: &Path) -> Result<(), StepFailure> {
    let out = fs::OpenOptions::new().create(true).append(true).open(log)?.into_parts().0;
    command.stdin(Stdio::null()).stdout(out.try_clone()?).stderr(out);
    let status = command.status().map_err(|error| cannot_run(command, &error))?;
    if status.success() {
        return Ok(());
    }
    Err(StepFailure(format!("{}: {status}, see {}", command.get_program().display(), log.display())))
}
