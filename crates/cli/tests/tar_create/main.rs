//! `haul tar -c` beside GNU tar, bsdtar and Python's tarfile: what is in the archives, messages, exit statuses.
//!
//! - [`readers`]: every tar reads what is written, with all attributes.
//! - [`forms`]: formats, compression, streams, orders, places: the same members whatever the way.
//! - [`told`]: messages and exit statuses are GNU tar's; what cannot be read, changes or is not there.

#![allow(clippy::unwrap_used, clippy::panic)]

mod forms;
mod readers;
mod told;

use std::fs;
use std::path::{Path, PathBuf};

use haul_testkit::{Outcome, Run, Sandbox};

/// A folder in which archives are made.
struct Scene {
    sandbox: Sandbox,
}

impl Scene {
    /// Makes one by a script of the shell, which is run inside.
    fn of(script: &str) -> Self {
        let scene = Self { sandbox: Sandbox::on_disk().unwrap() };
        scene.good(script);
        scene
    }

    fn path(&self) -> &Path {
        self.sandbox.path()
    }

    /// Runs a script of the shell inside, in which `$HAUL` is the program.
    fn shell(&self, script: &str) -> Outcome {
        Run::new(Path::new("/bin/bash"))
            .args(["-c", script])
            .env("HAUL", haul())
            .env("LC_ALL", "C.UTF-8")
            .in_folder(self.path())
            .finish()
            .unwrap()
    }

    /// Runs a script that must succeed; returns what it printed.
    fn good(&self, script: &str) -> String {
        let outcome = self.shell(&format!("set -e -o pipefail\n{script}"));
        assert!(outcome.succeeded(), "{script}: {:?}: {}", outcome.ending, outcome.errors());
        outcome.printed()
    }
}

fn haul() -> PathBuf {
    fs::canonicalize(env!("CARGO_BIN_EXE_haul")).unwrap()
}
