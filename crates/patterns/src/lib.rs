//! Shell patterns and the bracket expressions that they share with regular expressions, matched as
//! the C library matches them in UTF-8 and in single-byte locales.

pub mod bracket;
pub mod case;
pub mod glob;
mod set;

use std::fmt;

pub use set::GlobSet;

/// Why a pattern is invalid, in GNU grep's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Refused(pub &'static str);

impl fmt::Display for Refused {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(self.0)
    }
}

impl std::error::Error for Refused {}
