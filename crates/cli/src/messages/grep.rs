//! What `haul grep` says of patterns, in GNU grep's words.

use haul_grep::{PatternError, PatternWarning, Refused};

/// Returns GNU grep's sentence for an invalid pattern. PCRE2 words its own.
pub(crate) fn invalid_pattern(error: &PatternError) -> String {
    match error {
        PatternError::Refused(refused) => of_refused(*refused).to_owned(),
        PatternError::SeveralPerlPatterns => "the -P option only supports a single pattern".to_owned(),
        PatternError::Perl(error) => error.to_string(),
    }
}

fn of_refused(refused: Refused) -> &'static str {
    match refused {
        Refused::UnmatchedBracket => "Unmatched [, [^, [:, [., or [=",
        Refused::UnmatchedOpen => "Unmatched ( or \\(",
        Refused::UnmatchedClose => "Unmatched ) or \\)",
        Refused::UnmatchedBrace => "Unmatched \\{",
        Refused::InvalidRangeEnd => "Invalid range end",
        Refused::ClassOutsideBrackets => "character class syntax is [[:space:]], not [:space:]",
        Refused::UnknownClass => "Invalid character class name",
        Refused::InvalidCollation => "Invalid collation character",
        Refused::InvalidInterval => "Invalid content of \\{\\}",
        Refused::Invalid => "Invalid regular expression",
        Refused::TrailingBackslash => "Trailing backslash",
        Refused::InvalidBackReference => "Invalid back reference",
        Refused::TooBig => "Regular expression too big",
    }
}

pub(crate) fn of_warning(warning: PatternWarning) -> &'static str {
    match warning {
        PatternWarning::Star => "warning: * at start of expression",
        PatternWarning::Plus => "warning: + at start of expression",
        PatternWarning::Question => "warning: ? at start of expression",
        PatternWarning::Brace => "warning: {...} at start of expression",
    }
}
