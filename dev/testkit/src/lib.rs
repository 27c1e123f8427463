//! Building blocks for haul's tests: real programs, file systems and hosts.
//!
//! The tests of the binary do what a user, an attacker or a broken disk does, and examine
//! the result. This library holds the parts they share, so that each test file reads as a
//! list of cases.
//!
//! - [`spec`] describes a tree as plain data and builds it; [`random_tree`] and [`everything`]
//!   generate such descriptions.
//! - [`random`] is the random generator of all tests, with its printed seed.
//! - [`snapshot`] reads a tree back and [`mod@compare`] describes how two trees differ.
//! - [`duel`] runs two programs on the same task and reports differences; [`verdict`] checks that a
//!   copy that met an error reported it honestly.
//! - [`mod@program`] finds the program under test and GNU cp, and [`release`] accounts for older
//!   releases of it. [`run`] runs a program with limits, users, forbidden system calls and a time
//!   limit that turns a hang into a result. [`message`] parses what it printed.
//! - [`sandbox`], [`mount`] and [`deep`] create the directories where that happens, and clean them
//!   up, even after a panic.
//! - [`standin`] mounts a striped file system with a configurable speed, in place of Lustre.
//! - [`cold`] evicts files from the page cache; [`flip`] swaps two names until stopped; [`strace`]
//!   lists the system calls of a run.
//! - [`mpi`] finds MPI installations and starts jobs with them; [`hosts`] simulates several hosts
//!   on one machine.
//! - [`ceph`] runs a real CephFS on this machine, with several daemons and mounts.
//! - [`slurm`] runs a real Slurm on this machine, with several nodes.
//! - [`pbs`] replaces the commands of PBS.
//! - [`signals`] resets signals to their defaults for child processes; [`wait`] bounds every wait.
//! - [`memory_group`] limits the memory of a run.
//! - [`lease`] holds a lease on a file, as a file server does.
//! - [`examples`] finds the code blocks of the documentation.
//! - [`needs`] and the macros [`skip!`], [`require!`] end a test that can't run here, and count it.
//!
//! Promises: nothing here asserts. Every function returns a result for the test to judge, so a
//! failure here is an error in the test that used it. There is no `unsafe` code.

#![allow(clippy::missing_errors_doc, reason = "an error says which call failed, and every test ends there")]

pub mod aliases;
pub mod ceph;
pub mod change;
pub mod cold;
pub mod compare;
pub mod deep;
pub mod duel;
pub mod everything;
pub mod examples;
pub mod flip;
pub mod hosts;
pub mod lease;
pub mod memory_group;
pub mod message;
pub mod mount;
pub mod mpi;
pub mod needs;
pub mod pbs;
pub mod program;
pub mod random;
pub mod random_tree;
pub mod release;
pub mod run;
pub mod sandbox;
pub mod signals;
pub mod skip;
pub mod slurm;
pub mod snapshot;
pub mod spec;
pub mod standin;
pub mod strace;
pub mod verdict;
pub mod wait;

/// For tests that use error numbers and signals, or make their own system calls.
pub use {libc, rustix};

pub use ceph::Ceph;
pub use compare::{CompareRules, Differences, compare};
pub use program::CopyProgram;
pub use release::Release;
pub use run::{RunEnding, RunOutcome, TestRun};
pub use sandbox::Sandbox;
pub use snapshot::{Facts, Snapshot};
pub use standin::Standin;
