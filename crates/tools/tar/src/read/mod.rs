//! Reads archives: every format in use, from files and streams, with every field checked before it
//! is believed.
//!
//! `header.rs`, `number.rs`, `pax.rs` and `sparse.rs` are pure functions of bytes; `members.rs`
//! combines them into members. `input.rs` is the source of the bytes, `decompress.rs`
//! decompresses them with `lzma.rs` and `lzw.rs`, `archive.rs` opens the archive.

pub(crate) mod archive;
pub(crate) mod decompress;
pub(crate) mod header;
pub(crate) mod input;
mod lzma;
mod lzw;
pub(crate) mod member;
pub(crate) mod members;
mod number;
pub(crate) mod pax;
pub(crate) mod select;
pub(crate) mod sparse;
