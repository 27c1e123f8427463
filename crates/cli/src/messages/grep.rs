//! Messages of `haul grep` about patterns, in GNU grep's words.

use haul_grep::{InvalidPattern, PatternError, PatternWarning};

/// Returns GNU grep's sentences for invalid patterns. PCRE2 words its own. `place` returns the file
/// and line that a pattern comes from, if it comes from a file.
pub(crate) fn invalid_patterns(error: &PatternError, place: impl Fn(usize) -> Option<String>) -> Vec<String> {
    let sentence = |(index, refused): &(usize, InvalidPattern)| match place(*index) {
        Some(place) if *refused != InvalidPattern::ClassOutsideBrackets => {
            format!("{place}: {}", of_refused(*refused))
        }
        _ => of_refused(*refused).to_owned(),
    };
    match error {
        PatternError::Invalid(invalid) => invalid.iter().map(sentence).collect(),
        PatternError::Refused(refused) => vec![of_refused(*refused).to_owned()],
        PatternError::SeveralPerlPatterns => {
            vec!["the -P option only supports a single pattern".to_owned()]
        }
        PatternError::Perl(error) => vec![error.to_string()],
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
