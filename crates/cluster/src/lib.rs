//! Distributed runs: the ranks of an MPI job process the files.
//!
//! The launch process walks and owns the tree, rank 0 schedules work items, and every rank
//! processes its items with the same workers and engines as on a single machine. See
//! `docs/design/cluster.md` for an overview and the terms.

mod agent;
pub mod batch;
mod build;
mod distributed;
mod entered;
mod error;
mod item;
mod kind;
pub mod launch;
mod lease;
pub mod link;
pub mod master;
pub mod mpi;
mod options;
mod owner;
pub mod rank_loop;
mod remote_path;
pub mod schedule;
mod seal;
mod seen;
mod send_queue;
mod suspend_detector;
mod token;
pub mod transport;
pub mod wire;

pub use distributed::{Distributed, Joined};
pub use error::{JobError, LinkClosed, RankMismatch, Undecodable};
pub use item::{
    CompletionSink, ItemKey, ItemOutcome, ItemSpec, LargeFile, LargeFileRange, PackedItem, PendingItem,
    WorkItem, item_of,
};
pub use kind::ClusterKind;
pub use options::{Options, WalkPlacement};
pub use remote_path::{ItemReceiver, RemotePath, RemotePaths};
