//! Copies by several processes, from the command line to the copy.
//!
//! Each test does what a user does (`haul cp --clients`, `mpirun haul cp`) with real MPI installations and real launchers, and
//! compares with a copy by one process: the tree, the messages, the exit status. Then things go wrong: processes are killed,
//! hosts lost, links cut, sources change.
//!
//! - [`start`]: the ways to start a copy, and a process's relatives.
//! - [`matrix`]: every kind of operand and option, under every MPI, by any number of ranks.
//! - [`large`]: files that are cut in ranges.
//! - [`kills`]: processes that are killed at any moment.
//! - [`journal`]: reruns with a journal.
//! - [`hosts`]: three hosts, of which one is different, or gone.
//! - [`tools`]: the tools beside the copy.
//! - [`bad_input`]: what cannot be started.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bad_input;
mod hosts;
mod journal;
mod kills;
mod large;
mod matrix;
mod start;
mod tools;
