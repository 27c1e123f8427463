//! Manifests: lists of files and their hashes.
//!
//! | format | a file | names |
//! |---|---|---|
//! | `b3sum` | `HASH  NAME`, as `b3sum` and `sha256sum` print it | escaped: `\\`, `\n`, `\r` |
//! | `bsd` | `BLAKE3 (NAME) = HASH`, as `--tag` prints it | escaped likewise |
//! | `json` | a JSON object on a line of its own | Base64 unless UTF-8 |
//! | `mhl` | an element of an ASC MHL 2.0 hash list | must be valid in XML |
//!
//! A [`Writer`] appends records to a buffer. A [`Parser`] is given a manifest in pieces and returns
//! its records; it recognises the format by itself.
//!
//! Promises: a parser returns the records that a writer wrote, for any names. A parser never
//! panics, and buffers no more than a line of bounded length, except that an MHL file is buffered
//! whole.

mod json;
mod line;
mod mhl;
mod parse;
mod text;
mod write;

pub use parse::{ExpectedHash, ManifestEntry, ManifestLine, ParseError, Parser};
pub use text::append_escaped;
pub use write::{Creator, HashRecord, WriteError, Writer};

/// End of a manifest's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LineEnd {
    /// A line feed; names are escaped.
    #[default]
    LineFeed,
    /// NUL; names aren't escaped.
    Nul,
}

impl LineEnd {
    fn byte(self) -> u8 {
        match self {
            Self::LineFeed => b'\n',
            Self::Nul => 0,
        }
    }
}

/// A format of manifests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Format {
    /// Lines of `b3sum`, `sha256sum` and the like.
    #[default]
    B3sum,
    /// BSD lines, which name the algorithm.
    Bsd,
    /// JSON Lines.
    Json,
    /// ASC MHL 2.0, the Media Hash List of the film industry.
    Mhl,
}
