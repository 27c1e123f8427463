//! Unpacks, configures and builds a version of the suite: its programs, of which `cp` is the baseline, and no more.
//!
//! Each version has its folder, with a file in it that is written when all went well; then it is never built again.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::fetch::Package;
use crate::steps::{Failure, is_installed, say};

/// A version that is built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Suite {
    /// The version.
    pub(crate) version: String,
    /// The name of the folder it was built in, below the chore's.
    pub(crate) folder: String,
}

/// What building takes: a program or a file, and Debian's package that has it.
const NEEDS: [(&str, &str); 7] = [
    ("gcc", "gcc"),
    ("make", "make"),
    ("xz", "xz-utils"),
    ("perl", "perl"),
    ("/usr/include/sys/acl.h", "libacl1-dev"),
    ("/usr/include/attr/libattr.h", "libattr1-dev"),
    ("/usr/include/sys/capability.h", "libcap-dev"),
];

/// What the suites are configured with: nothing that `cp` and its tests do not use, and no time spent on speed.
const CONFIGURED: [&str; 6] = [
    "--disable-nls",
    "--disable-dependency-tracking",
    "--without-openssl",
    "--without-libgmp",
    "--without-selinux",
    "CFLAGS=-O0 -g0",
];

/// A makefile beside the suite's own that builds the programs alone: without the manuals, which need more.
const MAKEFILE: &str = "include Makefile\n\nprograms:\n\t+$(MAKE) $(BUILT_SOURCES)\n\t+$(MAKE) $(PROGRAMS)\n";

/// Says what is missing for building, if something is.
pub(crate) fn missing() -> Option<String> {
    let missing: Vec<_> =
        NEEDS.iter().filter(|(file, _)| !is_installed(file)).map(|(_, package)| *package).collect();
    (!missing.is_empty()).then(|| format!("needs Debian's packages {}", missing.join(", ")))
}

/// Builds the versions that are not built yet, all at a time.
pub(crate) fn suites(packages: &[Package], folder: &Path) -> Result<Vec<Suite>, Failure> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = packages.iter().map(|package| scope.spawn(|| suite(package, folder))).collect();
        threads
            .into_iter()
            .map(|thread| {
                thread.join().unwrap_or_else(|_| Err(Failure("building: a bug in xtask".to_owned())))
            })
            .collect()
    })
}

fn suite(package: &Package, folder: &Path) -> Result<Suite, Failure> {
    let suite = Suite { version: package.version.clone(), folder: format!("coreutils-{}", package.version) };
    let sources = folder.join(&suite.folder);
    let done = sources.join("built-for-haul");
    let how = CONFIGURED.join(" ");
    if fs::read_to_string(&done).is_ok_and(|text| text == how) {
        return Ok(suite);
    }
    say(&format!("building coreutils {}, for its tests (in {})", suite.version, sources.display()));
    build(&package.archive, folder, &sources)?;
    fs::write(&done, how).map_err(|error| Failure(error.to_string()))?;
    say(&format!("built coreutils {}", suite.version));
    Ok(suite)
}

fn build(archive: &Path, folder: &Path, sources: &Path) -> Result<(), Failure> {
    let fail = |error: std::io::Error| Failure(format!("{}: {error}", sources.display()));
    if sources.exists() {
        fs::remove_dir_all(sources).map_err(fail)?;
    }
    let log = log_of(sources);
    quietly(Command::new("tar").arg("-xf").arg(archive).arg("-C").arg(folder), &log)?;
    fs::write(sources.join("programs.mk"), MAKEFILE).map_err(fail)?;
    let mut configure = Command::new("./configure");
    configure.args(["--quiet"]).args(CONFIGURED).env("FORCE_UNSAFE_CONFIGURE", "1");
    quietly(configure.current_dir(sources), &log)?;
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.args(["--silent", "--file=programs.mk", "programs"]).arg(format!("--jobs={jobs}"));
    quietly(make.current_dir(sources), &log)?;
    // Somebody else runs the tests too.
    quietly(Command::new("chmod").args(["-R", "a+rX"]).arg(sources), &log)
}

/// Gives the file beside a folder that takes what building there prints.
fn log_of(sources: &Path) -> PathBuf {
    let mut name = sources.as_os_str().to_owned();
    name.push(".log");
    name.into()
}

/// Runs a step of a build, what it prints going to a file that a failure names.
pub(super) fn quietly(command: &mut Command, log: &Path) -> Result<(), Failure> {
    let name = PathBuf::from(command.get_program()).display().to_string();
    let fail = |error: std::io::Error| Failure(format!("{name}: {error}"));
    let out = fs::File::options().create(true).append(true).open(log).map_err(fail)?;
    let also = out.try_clone().map_err(fail)?;
    let status = command.stdin(Stdio::null()).stdout(out).stderr(also).status().map_err(fail)?;
    if status.success() { Ok(()) } else { Err(Failure(format!("{name}: {status}, see {}", log.display()))) }
}
