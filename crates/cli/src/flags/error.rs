//! Errors and warnings about a command line. Their wording is up to `messages`.

/// Reason why a keyword is rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Doubt {
    /// It begins no valid value.
    Invalid,
    /// It begins several.
    Ambiguous,
}

/// The values a flag accepts, with synonyms grouped.
pub(crate) type Valid = Vec<Vec<&'static str>>;

/// A problem that does not stop the command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Warning {
    /// A context to set, on a kernel without SELinux.
    ContextIgnored,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FlagError {
    /// No flag begins like this. Includes the rest of the word.
    Unrecognized {
        given: Vec<u8>,
        /// The name that was probably meant.
        meant: Option<&'static str>,
    },
    /// Several flags begin like this.
    Ambiguous {
        given: Vec<u8>,
        possibilities: Vec<&'static str>,
    },
    /// A long flag without its argument.
    ArgumentMissing {
        long: &'static str,
    },
    /// A long flag with an argument that it does not accept.
    ArgumentRefused {
        long: &'static str,
    },
    /// A letter that is not a flag.
    UnknownLetter {
        letter: u8,
    },
    /// A letter without its argument.
    LetterArgumentMissing {
        letter: u8,
    },
    /// A value that the flag does not accept.
    Value {
        doubt: Doubt,
        value: Vec<u8>,
        flag: &'static str,
        valid: Valid,
    },
    /// A number or size that the flag does not accept, and the accepted range.
    Number {
        value: Vec<u8>,
        flag: &'static str,
        wanted: String,
    },
    TargetDirectoryTwice,
    HardAndSymbolicLinks,
    /// Backups of files that are never replaced.
    BackupOfNothing,
    /// `--reflink=always` with `--sparse=always` or `never`.
    ReflinkWithSparse,
    /// `--preserve=context` on a kernel without SELinux.
    NoContexts,
    /// Two flags that contradict each other.
    Exclusive {
        flag: &'static str,
        other: &'static str,
    },
    /// `--preserve=context` with `-Z` or `--context`.
    ContextSetAndPreserved,
    /// A flag that means nothing without another one.
    Requires {
        flag: &'static str,
        other: &'static str,
    },
    /// A flag that another makes useless.
    Useless {
        flag: &'static str,
        other: &'static str,
    },
    Missing {
        operand: &'static str,
    },
    Extra {
        operand: Vec<u8>,
    },
    /// A value with a grammar of its own, and the error in it.
    Sentence(String),
    /// A flag that a configuration file or a variable set to a value it doesn't accept.
    Configured {
        /// Where it was set.
        origin: String,
        error: Box<FlagError>,
    },
    /// An operand with a NUL, which no file name can have.
    NulInName,
}

impl FlagError {
    /// True if the message ends with a pointer to help, as GNU's does for usage errors.
    pub(crate) fn points_to_help(&self) -> bool {
        !matches!(
            self,
            Self::TargetDirectoryTwice
                | Self::NoContexts
                | Self::NulInName
                | Self::Sentence(_)
                | Self::Configured { .. }
        )
    }
}
