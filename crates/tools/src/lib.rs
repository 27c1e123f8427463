//! The tools of haul, one module each. No tool imports another; code that several need sits
//! beside them.
//!
//! Tools decide what to do with files. They know nothing about flags, terminals or how many
//! machines a run uses.

pub mod bzip2;
pub mod compare;
pub mod copy;
pub mod each;
pub mod grep;
pub mod tar;
mod whole;
