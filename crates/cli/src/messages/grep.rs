//! Sentences of `haul grep`, in GNU grep's words.

use haul_flow::FlowKind;
use haul_grep::{GrepKind, PatternError, PatternWarning, Refused};

sentences! { sentence(GrepKind):
    CannotRead => "{bare}",
    IsADirectory => "{bare}: Is a directory",
    BinaryMatches => "{bare}: binary file matches",
    IsOutput => "{bare}: input file is also the output",
    ResultLost => "{bare}: cannot read back the result from its temporary file",
    Loop => "{bare}: warning: recursive directory loop",
    Exhausted => "{bare}: a line takes too long with back-references",
    PerlMatchLimit => "{bare}: exceeded PCRE's backtracking limit",
    PerlDepthLimit => "{bare}: exceeded PCRE's nested backtracking limit",
    PerlHeapLimit => "{bare}: exceeded PCRE's heap limit",
    PerlStackLimit => "{bare}: exhausted PCRE JIT stack",
    PerlMemory => "{bare}: memory exhausted",
    PerlLoop => "{bare}: PCRE detected recurse loop",
    PerlInternal => "{bare}: internal PCRE error",
}

sentences! { of_flow(FlowKind):
    CannotAccess | CannotStat | CannotOpen | CannotFstat | ErrorReading | FailedToClose => "{bare}",
    Replaced => "{bare}: replaced while being searched",
    Shorter => "{bare}: became shorter while being searched",
    ErrorWriting => "error writing {}",
    Unfinished => "some entries were left unfinished; this is a bug",
    CannotUseEngine => "cannot use the engine {}",
    BadPattern => "invalid pattern {}",
    BadIgnoreLine => "{}: ignoring the invalid pattern {}",
    UnreadableIgnoreFile => "cannot read the patterns in {}",
    BadIgnoreFile => "ignoring {}: it is not a regular file",
    LargeIgnoreFile => "ignoring {}: it is larger than 16 MiB",
}

/// Returns GNU grep's sentence for an invalid pattern. PCRE2 words its own.
pub(crate) fn invalid_pattern(error: &PatternError) -> String {
    match error {
        PatternError::Refused(refused) => of_refused(*refused).to_owned(),
        PatternError::SeveralPerlPatterns => "the -P option only supports a single pattern".to_owned(),
        PatternError::Perl(error) => error.to_string(),
    }
}

sentences! { of_refused(Refused):
    UnmatchedBracket => "Unmatched [, [^, [:, [., or [=",
    UnmatchedOpen => "Unmatched ( or \\(",
    UnmatchedClose => "Unmatched ) or \\)",
    UnmatchedBrace => "Unmatched \\{",
    InvalidRangeEnd => "Invalid range end",
    ClassOutsideBrackets => "character class syntax is [[:space:]], not [:space:]",
    UnknownClass => "Invalid character class name",
    InvalidCollation => "Invalid collation character",
    InvalidInterval => "Invalid content of \\{\\}",
    Invalid => "Invalid regular expression",
    TrailingBackslash => "Trailing backslash",
    InvalidBackReference => "Invalid back reference",
    TooBig => "Regular expression too big",
}

sentences! { of_warning(PatternWarning):
    Star => "warning: * at start of expression",
    Plus => "warning: + at start of expression",
    Question => "warning: ? at start of expression",
    Brace => "warning: {...} at start of expression",
}
