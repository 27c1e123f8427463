//! A striped file system with configurable speed, for tests and benchmarks: a stand-in for Lustre.
//!
//! One process serves several mounts. Each mount is a **client**, like a node of a cluster. All
//! clients see the same tree, whose files are striped over **targets** as described in
//! [`layout`]. Data is really stored and read back ([`tree`]); only the timing is simulated
//! ([`pace`]): each target and each client has a maximum rate, and each request and each metadata
//! operation has a latency. A timer ([`timer`]) sends the replies, so that requests overlap as
//! they do on a network.
//!
//! ```text
//! mount 0 ─┐                       ┌─► target 0 (bytes per second)
//! mount 1 ─┼─► client (bytes per   ├─► target 1
//!   ...    │   second, window) ────┤     ...
//! mount K ─┘                       └─► tree (operations per second, latency of each)
//! ```
//!
//! Promises:
//! - no target and no client exceeds its rate over any time longer than the burst;
//! - layouts are set and read as on Lustre, with the attribute `lustre.lov` ([`lov`]),
//!   quirks included;
//! - a client that opens a file sees what other clients wrote to it before.
//!
//! Not provided: persistence (the tree is in memory, only file contents are in files), permission
//! checks (the kernel does them), ACLs, and locks between clients.

mod amounts;
mod client;
mod faults;
mod layout;
mod lov;
mod model;
mod pace;
mod relay;
pub mod serve;
pub mod settings;
mod statistics;
mod timer;
mod tree;
mod xattrs;
