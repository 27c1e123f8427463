//! `haul tar -c` compared with GNU tar, bsdtar and Python's tarfile: archive contents, messages,
//! exit statuses.
//!
//! - [`readers`]: every tar reads the archives, with all attributes.
//! - [`forms`]: formats, compression, streams, member order, operands: the same members in
//!   every case.
//! - [`told`]: messages and exit statuses match GNU tar's, for unreadable, changing and
//!   missing files.

#![allow(clippy::unwrap_used, clippy::panic)]

mod forms;
mod readers;
mod told;

use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::{Outcome, Run, Sandbox};

/// A directory for creating archives.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Creates a directory and runs a shell script in it.
    fn of(script: &str) -> Self {
        let scene = Self { sandbox: Sandbox::on_disk().unwrap() };
        scene.good(script);
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a shell script in the directory; `$HAUL` is the program.
    fn shell(&self, script: &str) -> Outcome {
        Run::new(Path::new("/bin/bash"))
            .args(["-c", script])
            .env("HAUL", haul())
            .env("LC_ALL", "C.UTF-8")
            .in_folder(self.path())
            .finish()
            .unwrap()
    }

    /// Runs a script that must succeed; returns its output.
    fn good(&self, script: &str) -> String {
        let outcome = self.shell(&format!("set -e -o pipefail\n{script}"));
        assert!(outcome.succeeded(), "{script}: {:?}: {}", outcome.ending, outcome.errors());
        outcome.printed()
    }
}

fn haul() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}
