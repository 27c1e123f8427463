//! Sentences of `haul sum`, in the words of `sha256sum`.

use haul_flow::FlowKind;
use haul_sum::SumKind;

sentences! { sentence(SumKind):
    CannotRead => "{plain}",
    IsADirectory => "{plain}: Is a directory",
    Loop => "{plain}: recursive directory loop",
    CannotWrite => "cannot write {}",
    NotRegular => "cannot write {}: not a regular file",
    NotInMhl => "{plain}: cannot be listed in an MHL file",
    BadResult => "cannot read the result of hashing {}",
    BadLine => "{plain}: {bare}: improperly formatted {bare}checksum line",
    NoLines => "{plain}: no properly formatted checksum lines found",
    NoneVerified => "{plain}: no file was verified",
    BadLineCount => "WARNING: 1 line is improperly formatted",
    BadLinesCount => "WARNING: {bare} lines are improperly formatted",
    UnreadableCount => "WARNING: 1 listed file could not be read",
    UnreadablesCount => "WARNING: {bare} listed files could not be read",
    MismatchCount => "WARNING: 1 computed checksum did NOT match",
    MismatchesCount => "WARNING: {bare} computed checksums did NOT match",
    OnlyIn => "Only in {plain}: {plain}",
    DiffersFrom => "File {plain} differs from its hash in {plain}",
    OutsideTree => "{plain}: the name leads out of the tree",
    NotADirectory => "{plain}: Not a directory",
}

sentences! { of_flow(FlowKind):
    CannotAccess | CannotStat | CannotOpen | CannotFstat | ErrorReading | FailedToClose => "{plain}",
    Replaced => "{plain}: replaced while being read",
    Shorter => "{plain}: became shorter while being read",
    ErrorWriting => "error writing {}",
    Unfinished => "some entries were left unfinished; this is a bug",
    CannotUseEngine => "cannot use the engine {}",
    BadPattern => "invalid pattern {}",
    BadIgnoreLine => "{}: ignoring the invalid pattern {}",
    UnreadableIgnoreFile => "cannot read the patterns in {}",
    BadIgnoreFile => "ignoring {}: it is not a regular file",
    LargeIgnoreFile => "ignoring {}: it is larger than 16 MiB",
}
