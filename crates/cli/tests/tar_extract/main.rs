//! `haul tar -t` and `-x`: archives of other programs, and archives made to do harm.
//!
//! Invariant: without `-P` nothing is made, changed or removed outside of the folder of extraction, whatever is in the archive
//! or was there before.

#![allow(clippy::unwrap_used, clippy::panic)]

mod archive;
mod compressed;
mod escapes;
mod formats;
mod hostile;
mod replaced;
mod semantics;

use std::path::PathBuf;

use haul_testkit::Run;

/// Returns the path of the program under test.
fn built() -> PathBuf {
    std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

/// Begins a command line of the program under test.
fn haul() -> Run {
    Run::new(&built())
}
