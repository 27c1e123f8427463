//! `haul bzip2` beside the real bzip2, and with what other programs make of the format.

#![allow(clippy::unwrap_used, clippy::panic)]

mod beside;
mod damage;
mod replaced;
mod scene;
mod streams;
