//! Messages of `haul grep` about patterns, in GNU grep's words.

use haul_grep::{InvalidPattern, PatternError, PatternWarning};

/// Returns GNU grep's sentence for an invalid pattern. PCRE2 words its own.
pub(crate) fn invalid_pattern(error: &PatternError) -> String {
    match error {
        PatternError::Refused(refused) => of_refused(*refused).to_owned(),
        PatternError::SeveralPerlPatterns => "the -P option only supports a single pattern".to_owned(),
        PatternError::Perl(error) => error.to_string(),
    }
}

fn of_refused(refused: InvalidPattern) -> &'static str {
    match refused {
        InvalidPattern::UnmatchedBracket => "Unmatched [, [^, [:, [., or [=",
        InvalidPattern::UnmatchedOpen => "Unmatched ( or \\(",
        InvalidPattern::UnmatchedClose => "Unmatched ) or \\)",
        InvalidPattern::UnmatchedBrace => "Unmatched \\{",
        InvalidPattern::InvalidRangeEnd => "Invalid range end",
        InvalidPattern::ClassOutsideBrackets => "character class syntax is [[:space:]], not [:space:]",
        InvalidPattern::UnknownClass => "Invalid character class name",
        InvalidPattern::InvalidCollation => "Invalid collation character",
        InvalidPattern::InvalidInterval => "Invalid content of \\{\\}",
        InvalidPattern::Invalid => "Invalid regular expression",
        InvalidPattern::TrailingBackslash => "Trailing backslash",
        InvalidPattern::InvalidBackReference => "Invalid back reference",
        InvalidPattern::TooBig => "Regular expression too big",
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
