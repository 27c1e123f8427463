//! A striped file system of stated speed, for tests and benchmarks: it stands in for Lustre where there is none.
//!
//! One process serves several mounts. Each mount is a **client**, as a node of a cluster is one; all of them show the same
//! tree, whose files lie in **targets**, as [`layout`] says. Bytes are really stored and really read back ([`tree`]); what is
//! made up is time ([`pace`]): each target and each client moves so many bytes a second, each request takes so long, and each
//! metadata operation too. Answers are given by a timer ([`timer`]), so that requests overlap as they do on a network.
//!
//! ```text
//! mount 0 ─┐                     ┌─► target 0 (bytes a second)
//! mount 1 ─┼─► client (bytes a   ├─► target 1
//!   ...    │   second, window) ──┤     ...
//! mount K ─┘                     └─► tree (operations a second, time for each)
//! ```
//!
//! What it promises:
//! - no target and no client moves more than its rate, over any time longer than the burst;
//! - layouts are set and read as on Lustre, by the attribute `lustre.lov` ([`lov`]), with its oddities;
//! - what one client wrote, another that opens the file afterwards reads.
//!
//! What it does not do: survive its end (the tree is in memory, only the bytes are in files), check permissions (the kernel
//! does), access lists, locks between clients.

pub mod amounts;
pub mod client;
pub mod faults;
pub mod layout;
pub mod lov;
pub mod model;
pub mod pace;
pub mod serve;
pub mod settings;
pub mod statistics;
pub mod timer;
pub mod tree;
mod xattrs;
