//! What `haul grep` says of patterns, in GNU grep's words.

use haul_grep::{PatternError, PatternWarning, Refused};

/// Returns GNU grep's sentences for invalid patterns. PCRE2 words its own. `place` returns the file
/// and line that a pattern comes from, if it comes from a file.
pub(crate) fn invalid_patterns(error: &PatternError, place: impl Fn(usize) -> Option<String>) -> Vec<String> {
    let sentence = |(index, refused): &(usize, Refused)| match place(*index) {
        Some(place) if *refused != Refused::ClassOutsideBrackets => {
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
