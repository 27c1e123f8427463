//! `haul tar -t` and `-x`: archives of other programs, and malicious ones.
//!
//! Invariant: without `-P` nothing is created, changed or removed outside the
//! extraction directory, whatever the archive contains and whatever existed before.
//! Test: `no_archive_writes_outside_hangs_or_takes_much_memory`.

#![allow(clippy::unwrap_used, clippy::panic)]

mod archive;
mod compressed;
mod escapes;
mod extended;
mod formats;
mod hostile;
mod links;
mod processes;
mod replaced;
mod semantics;
mod streams;

use std::path::PathBuf;

use haul_testkit::TestRun;

fn built() -> PathBuf {
    std::env::var_os("HAUL_BIN").map_or_else(|| PathBuf::from(env!("CARGO_BIN_EXE_haul")), PathBuf::from)
}

fn haul() -> TestRun {
    TestRun::new(&built())
}
