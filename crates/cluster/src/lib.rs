//! haul on many hosts: the same run, its files done by the ranks of an MPI job.
//!
//! The launch process walks and keeps the tree; rank 0 hands out parts of it; every rank does its parts with the same
//! workers and engines as on one machine. `docs/design/cluster.md` has the picture and the vocabulary.

mod agent;
pub mod batch;
mod build;
pub mod direct;
pub mod launch;
pub mod link;
pub mod master;
pub mod mpi;
mod options;
mod outbox;
pub mod schedule;
mod seal;
pub mod simulate;
mod standstill;
pub mod station;
mod token;
pub mod transport;
pub mod wire;

pub use options::{Options, Walk};
