//! The programs under test: haul, or whatever stands in for it, and GNU cp.
//!
//! `HAUL_BIN` names another program to test. When its file name is `cp` it is run as it is and gets none of haul's own options,
//! so the tests can be tried on GNU cp. `HAUL_GNU_CP` names a GNU cp of another release than the installed one. Every program runs in the C locale with nothing else of the caller's environment that
//! could change its words.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::mount;
use crate::release::Release;
use crate::run::Run;

/// Finds the program under test of the package that holds the calling test.
#[macro_export]
macro_rules! program {
    () => {
        $crate::Program::find(env!("CARGO_BIN_EXE_haul"))
    };
}

/// A program that copies.
#[derive(Clone, Debug)]
pub struct Program {
    path: PathBuf,
    first: Vec<OsString>,
    ours: bool,
    release: Option<Release>,
}

impl Program {
    /// Finds the program under test: the one `HAUL_BIN` names, else `built`. Tests use [`program!`].
    #[must_use]
    pub fn find(built: &str) -> Self {
        Self::at(&std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(built), PathBuf::from))
    }

    /// Takes the program at a path: run as it is when it is called `cp`, else with `cp` as its first argument.
    #[must_use]
    pub fn at(path: &Path) -> Self {
        let as_cp = path.file_name() == Some(OsStr::new("cp"));
        let path = path.to_owned();
        Self { path, first: if as_cp { Vec::new() } else { vec!["cp".into()] }, ours: !as_cp, release: None }
    }

    /// Finds GNU cp, the standard to compare with: the one `HAUL_GNU_CP` names, else `/usr/bin/cp`. `None` where that is
    /// another program, or of a release that is no standard.
    #[must_use]
    pub fn gnu() -> Option<Self> {
        let path =
            std::env::var_os("HAUL_GNU_CP").map_or_else(|| PathBuf::from("/usr/bin/cp"), PathBuf::from);
        let said = Command::new(&path).arg("--version").env("LC_ALL", "C").output().ok()?.stdout;
        let release = Release::of_version(&said).filter(|release| release.is_standard())?;
        Some(Self { path, first: Vec::new(), ours: false, release: Some(release) })
    }

    /// Gives the reason to skip a comparison with GNU cp, for [`require!`](crate::require).
    #[must_use]
    pub fn needs_gnu() -> Option<String> {
        Self::gnu()
            .is_none()
            .then(|| "needs GNU cp (not 9.2 to 9.4) as /usr/bin/cp, or named by HAUL_GNU_CP".to_owned())
    }

    /// Says whether haul's own options can be given.
    #[must_use]
    pub fn is_haul(&self) -> bool {
        self.ours
    }

    /// Gives the reason to skip a test that makes sense for haul only, for [`require!`](crate::require).
    #[must_use]
    pub fn needs_haul(&self) -> Option<String> {
        (!self.ours).then(|| format!("{} stands in for haul, which this test is about", self.path.display()))
    }

    /// Gives the release, if this is GNU cp.
    #[must_use]
    pub fn release(&self) -> Option<Release> {
        self.release
    }

    /// Gives the path of the executable.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Begins a command line.
    #[must_use]
    pub fn run(&self) -> Run {
        Run::new(&self.path).args(&self.first)
    }

    /// Begins a command line with options that only haul knows; a stand-in does not get them.
    #[must_use]
    pub fn run_with<S: AsRef<OsStr>>(&self, own: &[S]) -> Run {
        let run = self.run();
        if self.ours { run.args(own) } else { run }
    }

    /// Copies the executable into a folder, so that a user who cannot reach the build folder can run it.
    ///
    /// # Errors
    /// When it cannot be copied.
    pub fn publish(&self, folder: &Path) -> io::Result<Self> {
        let name = self.path.file_name().unwrap_or(OsStr::new("program"));
        let path = folder.join(name);
        // By another process: a program that this one has open for writing could not be run while other tests start theirs.
        mount::run(Command::new("cp").arg(&self.path).arg(&path))?;
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755))?;
        Ok(Self { path, ..self.clone() })
    }
}

/// Writes a script that can be run at once.
///
/// By another process: what this one has open for writing, a child forked by another test holds until it runs its own
/// program, and nothing that is open for writing can be run (`ETXTBSY`).
///
/// # Errors
/// When it cannot be written.
pub fn write_script(path: &Path, text: &str) -> io::Result<()> {
    let mut shell = Command::new("sh");
    shell.args(["-c", "printf %s \"$1\" >\"$0\" && chmod 755 \"$0\""]).arg(path).arg(text);
    mount::run(&mut shell).map(drop)
}

/// Lists the ways to run haul that every result must be the same for: each engine with one worker and with many.
pub const WAYS: [[&str; 4]; 4] = [
    ["--engine=sync", "-j1", "--look-ahead=1", "--queue-depth=2"],
    ["--engine=sync", "-j8", "--look-ahead=64", "--queue-depth=64"],
    ["--engine=io-uring", "-j1", "--look-ahead=64", "--queue-depth=64"],
    ["--engine=io-uring", "-j8", "--look-ahead=8", "--queue-depth=4"],
];

/// Names every engine, as an option.
pub const ENGINES: [&str; 5] =
    ["--engine=sync", "--engine=io-uring", "--engine=posix-aio", "--engine=kernel-aio", "--engine=retry"];

/// Names the ways in which an engine has operations in flight, as options.
pub const OPS: [&str; 3] = ["--ops=single", "--ops=multi", "--ops=batch"];

/// Lists every engine in every way of its operations, fifteen in all. How many workers and operations there are, and how long
/// a block is, takes turns: files of the tests have several blocks.
#[must_use]
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

/// Lists every engine with one worker and a few operations, for tests to which more ways add nothing.
#[must_use]
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
