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
mod messages;
mod readers;
#[path = "../scene/mod.rs"]
mod scene;

use scene::Scene;

impl Scene {
    /// Runs a script that must succeed, as must every command of its pipes; returns its output.
    fn good(&self, script: &str) -> String {
        self.script(&format!("set -o pipefail\n{script}"))
    }
}
