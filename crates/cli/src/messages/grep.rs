//! Sentences of `haul grep`, in GNU grep's words.

use haul_flow::FlowKind;
use haul_grep::GrepKind;

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
}
