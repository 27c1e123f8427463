//! Errors in patterns.

use std::fmt;

use haul_patterns::InvalidPattern;
use haul_sys::pcre2::CompileError;

/// Why patterns can't be compiled.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PatternError {
    /// Basic or extended regular expressions are invalid: their indices, and why.
    Invalid(Vec<(usize, InvalidPattern)>),
    /// The patterns together can't be compiled.
    Refused(InvalidPattern),
    /// PCRE2 rejects the Perl pattern.
    Perl(CompileError),
    /// There are several Perl patterns, which can't be combined.
    SeveralPerlPatterns,
}

impl fmt::Display for PatternError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(invalid) => {
                let reasons: Vec<_> = invalid.iter().map(|(_, refused)| refused.to_string()).collect();
                write!(out, "invalid patterns: {}", reasons.join(", "))
            }
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
            Self::Invalid(_) | Self::SeveralPerlPatterns => None,
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
