//! Shell patterns and the bracket expressions that they share with regular expressions, matched as
//! the C library matches them in UTF-8 and in single-byte locales.

pub mod bracket;
pub mod case;
pub mod glob;
mod set;

use std::fmt;

pub use set::GlobSet;

/// Why a pattern is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InvalidPattern {
    /// A bracket expression has no end.
    UnmatchedBracket,
    /// A group has no end.
    UnmatchedOpen,
    /// A group has no beginning.
    UnmatchedClose,
    /// An interval has no end.
    UnmatchedBrace,
    /// A range in brackets has an invalid end.
    InvalidRangeEnd,
    /// A character class is not in a bracket expression.
    ClassOutsideBrackets,
    /// A character class does not exist.
    UnknownClass,
    /// A collating element is not a single character.
    InvalidCollation,
    /// An interval has invalid bounds.
    InvalidInterval,
    /// An operator has no operand where one is required.
    Invalid,
    /// The pattern ends with an unquoted backslash.
    TrailingBackslash,
    /// A back-reference refers to no group before it.
    InvalidBackReference,
    /// The compiled pattern exceeds the limits.
    TooBig,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, out)
    }
}

impl std::error::Error for InvalidPattern {}
