//! A query: the patterns, their syntax, and the part of a line that must match.

use haul_patterns::bracket::Alphabet;

use super::pattern::Syntax;

/// The part of a line that must match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Extent {
    /// Any part.
    Part,
    /// A part with no letter, digit or underscore next to it (`-w`).
    Words,
    /// The whole line (`-x`).
    Line,
}

/// The patterns of a search and how they match.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Query {
    /// The patterns, any of which may match.
    pub patterns: Vec<Vec<u8>>,
    /// Their syntax.
    pub syntax: Syntax,
    /// True if case is ignored.
    pub ignore_case: bool,
    /// The part of a line that must match.
    pub extent: Extent,
    /// True if text is UTF-8; otherwise every byte is a character.
    pub utf8: bool,
    /// True if lines end with NUL instead of newline.
    pub null_data: bool,
}

impl Query {
    pub(super) fn alphabet(&self) -> Alphabet {
        let terminator = if self.null_data { 0 } else { b'\n' };
        Alphabet { utf8: self.utf8, ignore_case: self.ignore_case, terminator }
    }
}
