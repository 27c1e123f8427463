//! The launch process: it walks, keeps the tree, starts the job and ends it, and starts it again when it is lost.
//!
//! [`Crew`] is the job over all its attempts, `remote.rs` the driver that sends files away, `outstanding.rs` what is under
//! way, [`Journal`] what is finished.

pub(crate) mod crew;
pub(crate) mod journal;
mod outstanding;
mod remote;

pub use crew::{Crew, CrewOptions, Processes, Start, Started};
pub use journal::Journal;
