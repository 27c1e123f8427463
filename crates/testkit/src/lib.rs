//! Real parts for the tests of haul.
//!
//! The tests of the binary do what a user, an attacker or a broken disk does, and look at what is left. This library
//! holds the parts they share, so that each test file reads as the list of situations it is about.
//!
//! - [`spec`] describes a tree as plain data and builds it; [`random`] and [`everything`] make such descriptions.
//! - [`snapshot`] reads a tree back and [`mod@compare`] says in words how two trees differ.
//! - [`duel`] gives two programs the same work and says what they did differently; [`verdict`] says whether a copy that met
//!   an error was honest.
//! - [`mod@program`] finds the program under test and GNU cp, whose older releases [`release`] brings to the newest; [`run`] runs one with limits, users, forbidden system calls
//!   and a time limit that turns a hang into a result, [`message`] reads what it printed.
//! - [`sandbox`], [`mount`] and [`deep`] hold the places where that happens, and clean them up, also on panic.
//! - [`standin`] mounts a striped file system of stated speed, which stands in for Lustre.
//! - [`cold`] takes files out of memory; [`flip`] swaps two names until told to stop; [`strace`] lists the system calls of a run.
//! - [`mpi`] finds MPI installations and starts jobs under them; [`hosts`] makes several hosts of one machine.
//! - [`ceph`] is a real CephFS of several daemons and mounts on this machine.
//! - [`slurm`] is a real Slurm of several nodes on this machine.
//! - [`signals`] has programs find signals at their defaults; [`wait`] has an end for every wait.
//! - [`lease`] holds a file as a file server does.
//! - [`needs`] and the macros [`skip!`], [`require!`] end a test that cannot run here, and count it.
//!
//! Promises: nothing here asserts. Every function gives a result that the test judges, so a failing part shows as an
//! error of the test that used it. There is no `unsafe` code.

pub mod ceph;
pub mod cold;
pub mod compare;
pub mod deep;
pub mod duel;
pub mod everything;
pub mod flip;
pub mod hosts;
pub mod lease;
pub mod message;
pub mod mount;
pub mod mpi;
pub mod needs;
pub mod pbs;
pub mod program;
pub mod random;
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

/// The tests name error numbers and signals, and make calls of their own.
pub use {libc, rustix};

pub use ceph::Ceph;
pub use compare::{Differences, Rules, compare};
pub use program::Program;
pub use release::Release;
pub use run::{Ending, Outcome, Run};
pub use sandbox::Sandbox;
pub use snapshot::{Facts, Snapshot};
pub use standin::Standin;
