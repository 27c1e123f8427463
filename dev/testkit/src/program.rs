//! The programs under test: haul, or a replacement, and GNU cp.
//!
//! `HAUL_BIN` names another program to test. If its file name is `cp`, it runs as is and gets none
//! of haul's own options, so the tests can be tried on GNU cp. `HAUL_GNU_CP` names a GNU cp to use
//! instead of the installed one. Programs run in the C locale, without any other environment
//! variables that could change their messages.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount;
use crate::release::Release;
use crate::run::TestRun;

/// Finds the program under test of the calling test's package.
#[macro_export]
macro_rules! program {
    () => {
        $crate::CopyProgram::find(env!("CARGO_BIN_EXE_haul"))
    };
}

/// A program that copies.
#[derive(Clone, Debug)]
pub struct CopyProgram {
    path: PathBuf,
    first: Vec<OsString>,
    ours: bool,
    release: Option<Release>,
}

impl CopyProgram {
    /// Finds the program under test: `HAUL_BIN`, or else `built`. Tests use [`program!`].
    pub fn find(built: &str) -> Self {
        Self::at(&std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(built), PathBuf::from))
    }

    /// Uses the program at a path: as is if it is named `cp`, else with `cp` as its first argument.
    pub fn at(path: &Path) -> Self {
        let as_cp = path.file_name() == Some(OsStr::new("cp"));
        let path = path.to_owned();
        Self { path, first: if as_cp { Vec::new() } else { vec!["cp".into()] }, ours: !as_cp, release: None }
    }

    /// Finds GNU cp, the reference: `HAUL_GNU_CP`, or else `/usr/bin/cp`. Returns `None` if that is
    /// another program, or a release unsuitable for comparison.
    pub fn gnu() -> Option<Self> {
        let path =
            std::env::var_os("HAUL_GNU_CP").map_or_else(|| PathBuf::from("/usr/bin/cp"), PathBuf::from);
        let said = Command::new(&path).arg("--version").env("LC_ALL", "C").output().ok()?.stdout;
        let release = Release::of_version(&said).filter(|release| release.is_standard())?;
        Some(Self { path, first: Vec::new(), ours: false, release: Some(release) })
    }

    /// Returns the reason to skip a comparison with GNU cp, for [`require!`](crate::require).
    #[must_use]
    pub fn needs_gnu() -> Option<String> {
        Self::gnu()
            .is_none()
            .then(|| "needs GNU cp (not 9.2 to 9.4) as /usr/bin/cp, or named by HAUL_GNU_CP".to_owned())
    }

    /// Returns true if it accepts haul's own options.
    pub fn is_haul(&self) -> bool {
        self.ours
    }

    /// Returns the reason to skip a test that only makes sense for haul,
    /// for [`require!`](crate::require).
    #[must_use]
    pub fn needs_haul(&self) -> Option<String> {
        (!self.ours).then(|| format!("{} stands in for haul, which this test is about", self.path.display()))
    }

    /// Returns the release, if this is GNU cp.
    pub fn release(&self) -> Option<Release> {
        self.release
    }

    /// Returns the path of the executable.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Starts a command line.
    pub fn run(&self) -> TestRun {
        TestRun::new(&self.path).args(&self.first)
    }

    /// Starts a command line with options that only haul knows. A replacement doesn't get them.
    pub fn run_with<S: AsRef<OsStr>>(&self, own: &[S]) -> TestRun {
        let run = self.run();
        if self.ours { run.args(own) } else { run }
    }

    /// Copies the executable into a directory, for a user who can't access the build directory.
    pub fn publish(&self, folder: &Path) -> io::Result<Self> {
        let name = self.path.file_name().unwrap_or(OsStr::new("program"));
        let path = folder.join(name);
        // Copy it in another process: an executable that this process has open for writing can't be
        // run while another test forks (see [`write_script`]).
        mount::run(Command::new("cp").arg(&self.path).arg(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path, ..self.clone() })
    }
}

/// Writes a script that can be run at once.
///
/// Uses another process. A child forked by another test inherits this process's descriptors until
/// its `exec`, and a file that is open for writing can't be executed (`ETXTBSY`).
pub fn write_script(path: &Path, text: &str) -> io::Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    mount::run(&mut shell).map(drop)
}

/// Options that must not change any result: sync and io_uring, each with one worker and with many.
pub const WAYS: [[&str; 4]; 4] = [
    ["--engine=sync", "-j1", "--look-ahead=1", "--queue-depth=2"],
    ["--engine=sync", "-j8", "--look-ahead=64", "--queue-depth=64"],
    ["--engine=io-uring", "-j1", "--look-ahead=64", "--queue-depth=64"],
    ["--engine=io-uring", "-j8", "--look-ahead=8", "--queue-depth=4"],
];

/// Options that select each engine.
pub const ENGINES: [&str; 5] =
    ["--engine=sync", "--engine=io-uring", "--engine=posix-aio", "--engine=kernel-aio", "--engine=retry"];

/// Options that select each mode of submitting operations.
pub const OPS: [&str; 3] = ["--ops=single", "--ops=multi", "--ops=batch"];

/// Returns every engine with every `--ops` mode, fifteen in all. The numbers of workers and
/// operations and the block size rotate; test files have several blocks.
pub fn matrix() -> Vec<Vec<&'static str>> {
    const REST: [[&str; 3]; 4] = [
        ["-j1", "--queue-depth=64", "--block-size=16K"],
        ["-j4", "--queue-depth=8", "--block-size=64K"],
        ["-j1", "--queue-depth=2", "--block-size=4K"],
        ["-j8", "--queue-depth=3", "--block-size=32K"],
    ];
    let pairs = ENGINES.iter().flat_map(|engine| OPS.iter().map(move |ops| (*engine, *ops)));
    pairs
        .enumerate()
        .map(|(index, (engine, ops))| [&[engine, ops], &REST[index % REST.len()][..]].concat())
        .collect()
}

/// Returns every engine with few workers and operations, for tests that don't need
/// more combinations.
pub fn each_engine() -> Vec<Vec<&'static str>> {
    let workers = ["-j1", "-j4"].into_iter().cycle();
    ENGINES.iter().zip(workers).map(|(engine, jobs)| vec![*engine, jobs, "--queue-depth=8"]).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_matrix_has_every_pair_once() {
        let mut pairs: Vec<_> = matrix().iter().map(|way| (way[0], way[1])).collect();
        pairs.sort_unstable();
        pairs.dedup();
        assert_eq!(pairs.len(), ENGINES.len() * OPS.len());
    }
}
