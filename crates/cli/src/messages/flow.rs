//! The framework's kinds in the words of the applets that don't say what GNU cp says.

use haul_flow::FlowKind;

/// An applet's sentences. `None` where it has none of its own.
pub(crate) type Sentences = fn(FlowKind) -> Option<&'static str>;

/// Worded as in bzip2 1.0.8.
pub(crate) fn in_bzip2(kind: FlowKind) -> Option<&'static str> {
    Some(match kind {
        FlowKind::CannotStat | FlowKind::CannotOpen => "Can't open input file {escape}: {cause}.",
        FlowKind::Replaced => "Input file {escape} was replaced while it was being processed.",
        _ => return None,
    })
}

pub(crate) fn in_compare(kind: FlowKind) -> Option<&'static str> {
    (kind == FlowKind::Replaced).then_some("{} was replaced while it was being compared")
}

pub(crate) fn in_each(kind: FlowKind) -> Option<&'static str> {
    (kind == FlowKind::Replaced).then_some("{} was replaced while it was being examined")
}

/// Worded as by GNU grep.
pub(crate) fn in_grep(kind: FlowKind) -> Option<&'static str> {
    use FlowKind::{CannotAccess, CannotFstat, CannotOpen, CannotStat, ErrorReading, FailedToClose};
    Some(match kind {
        CannotAccess | CannotStat | CannotOpen | CannotFstat | ErrorReading | FailedToClose => "{bare}",
        FlowKind::Replaced => "{bare}: replaced while being searched",
        FlowKind::Shorter => "{bare}: became shorter while being searched",
        _ => return None,
    })
}

/// Worded as by `sha256sum`.
pub(crate) fn in_sum(kind: FlowKind) -> Option<&'static str> {
    use FlowKind::{CannotAccess, CannotFstat, CannotOpen, CannotStat, ErrorReading, FailedToClose};
    Some(match kind {
        CannotAccess | CannotStat | CannotOpen | CannotFstat | ErrorReading | FailedToClose => "{plain}",
        FlowKind::Replaced => "{plain}: replaced while being read",
        FlowKind::Shorter => "{plain}: became shorter while being read",
        _ => return None,
    })
}

/// Worded as by GNU tar.
pub(crate) fn in_tar(kind: FlowKind) -> Option<&'static str> {
    Some(match kind {
        FlowKind::CannotAccess | FlowKind::CannotOpen => "{escape}: Cannot open",
        FlowKind::CannotStat | FlowKind::CannotFstat => "{escape}: Cannot stat",
        FlowKind::Replaced => "{escape}: file was replaced as we read it; not dumped",
        FlowKind::ErrorReading => "{escape}: Read error",
        FlowKind::ErrorWriting => "{escape}: Cannot write",
        FlowKind::FailedToClose => "{escape}: Cannot close",
        _ => return None,
    })
}
