//! Copies by several processes, from the command line to the result.
//!
//! Each test does what a user does (`haul cp --clients`, `mpirun haul cp`) with real MPI
//! installations and launchers. It compares the tree, messages and exit status with those of one
//! process. Then things go wrong: processes are killed, hosts lost, links cut, sources change.
//!
//! - [`start`]: ways to start a copy, and the processes of a run.
//! - [`matrix`]: every kind of operand and option, under every MPI, with any number of ranks.
//! - [`large`]: files split into ranges.
//! - [`kills`]: processes killed at any moment.
//! - [`repeated`]: existing targets, and work that is done again after a loss.
//! - [`lost`]: what a lost rank has made.
//! - [`sub_queues`]: the number of directories in which ranks work.
//! - [`journal`]: reruns with a journal.
//! - [`hosts`]: three hosts, of which one is different, or gone.
//! - [`deletion`]: who deletes, and what stays.
//! - [`sync`]: what `haul sync` keeps, links and foresees.
//! - [`tools`]: the applets other than `cp`.
//! - [`streams`]: standard input, other descriptors, and the children of ranks.
//! - [`unprivileged`]: ranks of a user who isn't root.
//! - [`verify`]: verified copies, and manifests.
//! - [`calls`]: what a new file costs a metadata server.
//! - [`bad_input`]: jobs that can't start.
//! - [`control`]: pausing and stopping all ranks.

#![allow(clippy::unwrap_used, clippy::panic)]

mod bad_input;
mod calls;
mod control;
mod deletion;
mod hosts;
mod journal;
mod kills;
mod large;
mod lost;
mod matrix;
mod repeated;
mod start;
mod streams;
mod sub_queues;
mod sync;
mod tools;
mod unprivileged;
mod verify;
