//! The tools of haul, each a folder of its own; none imports another. What several of them need is in a file beside them.
//!
//! Tools know what they make of files; they do not know flags, terminals, or on how many machines they run.

pub mod bzip2;
pub mod compare;
pub mod copy;
pub mod each;
pub mod grep;
pub mod tar;
mod whole;
