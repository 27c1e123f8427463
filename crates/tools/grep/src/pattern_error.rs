//! Errors in patterns.

use std::fmt;

use haul_patterns::InvalidPattern;
use haul_sys::pcre2::CompileError;

/// Why patterns can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// A basic or extended regular expression is invalid.
    Refused(InvalidPattern),
    /// PCRE2 rejects the Perl pattern.
    Perl(CompileError),
    /// There are several Perl patterns, which can't be combined.
    SeveralPerlPatterns,
}

impl fmt::Display for PatternError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(refused) => write!(out, "invalid pattern: {refused}"),
            Self::Perl(error) => write!(out, "invalid pattern: {error}"),
            Self::SeveralPerlPatterns => out.write_str("several Perl patterns"),
        }
    }
}

impl std::error::Error for PatternError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Refused(refused) => Some(refused),
            Self::Perl(error) => Some(error),
            Self::SeveralPerlPatterns => None,
        }
    }
}

impl From<InvalidPattern> for PatternError {
    fn from(refused: InvalidPattern) -> Self {
        Self::Refused(refused)
    }
}

impl From<CompileError> for PatternError {
    fn from(error: CompileError) -> Self {
        Self::Perl(error)
    }
}

/// A repetition operator with nothing to repeat, which matches itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PatternWarning {
    /// `*`.
    Star,
    /// `+`.
    Plus,
    /// `?`.
    Question,
    /// An interval.
    Brace,
}
