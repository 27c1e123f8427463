//! What can be wrong, or useless, in a command line. How it is worded is the business of `messages`.

/// Why a value is none of those a flag takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It begins none of them.
    Invalid,
    /// It begins several.
    Ambiguous,
}

/// The values a flag takes, those that mean the same together.
pub(crate) type Valid = Vec<Vec<&'static str>>;

/// What a command line is warned of and goes on all the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// A context to set, on a kernel that has none.
    ContextIgnored,
}

/// The first thing wrong with a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Error {
    /// No flag begins like this; given with what followed it.
    Unrecognized { given: Vec<u8> },
    /// Several flags begin like this.
    Ambiguous { given: Vec<u8>, possibilities: Vec<&'static str> },
    /// A long flag without its argument.
    ArgumentMissing { long: &'static str },
    /// A long flag with an argument that it does not take.
    ArgumentRefused { long: &'static str },
    /// A letter that is no flag.
    UnknownLetter { letter: u8 },
    /// A letter without its argument.
    LetterArgumentMissing { letter: u8 },
    /// A value that is none of those the flag takes.
    Value { doubt: Doubt, value: Vec<u8>, flag: &'static str, valid: Valid },
    /// A number or size that the flag does not take, and what it does take.
    Number { value: Vec<u8>, flag: &'static str, wanted: String },
    /// `-t` twice.
    TargetDirectoryTwice,
    /// `-l` with `-s`.
    HardAndSymbolicLinks,
    /// Backups of what is never replaced.
    BackupOfNothing,
    /// `--reflink=always` with a wish about holes.
    ReflinkWithSparse,
    /// `--preserve=context` on a kernel that has no contexts.
    NoContexts,
    /// Two flags that contradict each other.
    Exclusive { flag: &'static str, other: &'static str },
    /// `--preserve=context` with `-Z` or `--context`.
    ContextSetAndPreserved,
    /// A flag that says something of what only another asks for.
    Requires { flag: &'static str, other: &'static str },
    /// A flag that another makes useless.
    Useless { flag: &'static str, other: &'static str },
    /// An operand that no file can be named by.
    NulInName,
}

impl Error {
    /// Tells whether the message ends in a pointer to help, as GNU's does for errors of usage.
    pub(crate) fn points_to_help(&self) -> bool {
        !matches!(self, Self::TargetDirectoryTwice | Self::NoContexts | Self::NulInName)
    }
}
