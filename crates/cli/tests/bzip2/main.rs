//! `haul bzip2` compared with the real bzip2 and with other implementations of the format.

#![allow(clippy::unwrap_used, clippy::panic)]

mod compared;
mod damage;
mod replaced;
mod scene;
mod streams;
