//! Sentences of the framework, worded like GNU cp's.

use haul_flow::FlowKind;

sentences! { sentence(FlowKind):
    CannotAccess => "cannot access {}",
    CannotStat => "cannot stat {}",
    CannotOpen => "cannot open {} for reading",
    CannotFstat => "cannot fstat {}",
    Replaced => "skipping file {}, as it was replaced while being copied",
    Shorter => "file {} became shorter while being copied",
    ErrorReading => "error reading {}",
    ErrorWriting => "error writing {}",
    FailedToClose => "failed to close {}",
    Unfinished => "some entries were left unfinished; this is a bug",
    CannotUseEngine => "cannot use the engine {}",
    BadPattern => "invalid pattern {}",
    BadIgnoreLine => "{}: ignoring the invalid pattern {}",
    UnreadableIgnoreFile => "cannot read the patterns in {}",
    BadIgnoreFile => "ignoring {}: it is not a regular file",
    LargeIgnoreFile => "ignoring {}: it is larger than 16 MiB",
}
