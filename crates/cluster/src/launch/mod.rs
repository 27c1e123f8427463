//! The launch process: it walks, keeps the tree, starts the job and ends it, and starts it again when it is lost.
//!
//! - [`ProcessGroup`]: the job over all its attempts; `remote.rs` is the driver that sends files to it, `outstanding.rs` what is
//!   under way, [`Journal`] what is finished.
//!   `failed_host.rs` and `places.rs`: who is to blame when it is lost, and which hosts it goes on with.
//! - [`command`]: what of this host and its environment bears on the job, and the command line that follows.
//! - [`job`]: the running job, linked by pipes to rank 0, and its end; `marked.rs` knows its processes.

pub mod command;
mod failed_host;
mod given;
pub(crate) mod group;
pub mod job;
mod job_processes;
pub(crate) mod journal;
mod outstanding;
mod places;
mod remote;
mod spawn;
mod start;

pub use group::{GroupOptions, ProcessGroup};
pub use journal::Journal;
pub use places::Place;
pub use spawn::Spawn;
pub use start::{Processes, Start, Started};
