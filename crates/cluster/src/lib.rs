//! haul on many hosts: the same run, its files done by the ranks of an MPI job.
//!
//! The launch process walks and keeps the tree; rank 0 hands out parts of it; every rank does its parts with the same
//! workers and engines as on one machine. `docs/design/cluster.md` has the picture and the vocabulary.

mod agent;
pub mod batch;
mod build;
pub mod direct;
mod distributed;
mod entered;
pub mod launch;
pub mod link;
pub mod master;
pub mod mpi;
mod options;
mod outbox;
mod owner;
mod part;
pub mod schedule;
mod seal;
pub mod simulate;
mod stamp;
mod standstill;
pub mod station;
mod token;
pub mod transport;
mod ways;
pub mod wire;

pub use distributed::{Distributed, Joined};
pub use options::{Options, Walk};
pub use part::{
    Arrivals, Begun, Errand, LargeFile, Outlet, PackedPart, Parcel, Part, PartKey, PartOutcome, Piece,
    part_of,
};
pub use stamp::{RunId, Stamp};
pub use ways::{Way, Ways};
