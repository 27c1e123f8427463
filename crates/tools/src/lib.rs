//! The tools of haul, each a folder of its own; none imports another.
//!
//! Tools know what they make of files; they do not know flags, terminals, or on how many machines they run.

pub mod copy;
