//! Sentences of `haul bzip2`, worded as in version 1.0.8.

use haul_bzip2::Bzip2Kind;
use haul_flow::FlowKind;

use super::flow;

sentences! { sentence(Bzip2Kind):
    CannotOpen => "Can't open input file {escape}: {bare}.",
    IsDirectory => "Input file {escape} is a directory.",
    HasSuffix => "Input file {escape} already has {bare} suffix.",
    NotNormal => "Input file {escape} is not a normal file.",
    OutputExists => "Output file {escape} already exists.",
    OtherLink => "Input file {escape} has {bare} other link.",
    OtherLinks => "Input file {escape} has {bare} other links.",
    CannotCreate => "Can't create output file {escape}: {bare}.",
    CannotGuess => "Can't guess original name for {escape} -- using {escape}",
    NotToTerminal => "I won't write compressed data to a terminal.",
    NotFromTerminal => "I won't read compressed data from a terminal.",
    NotBzip2 => "{escape} is not a bzip2 file.",
    Damaged => "Data integrity error when decompressing.\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
    Ended => "Compressed file ends unexpectedly;\n\tperhaps it is corrupted?\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
    Garbage => "{escape}: trailing garbage after EOF ignored",
    TestDamaged => "{escape}: data integrity (CRC) error in data",
    TestEnded => "{escape}: file ends unexpectedly",
    TestNotBzip2 => "{escape}: bad magic number (file not created by bzip2)",
    CannotKeep => "failed to preserve the attributes of {escape}",
    CannotRemove => "cannot remove {escape}",
    NotRemoved => "not removing {escape}, as it was replaced or changed meanwhile",
    OutputGone => "not removing {escape}, as {escape} was removed or replaced meanwhile",
}

/// Returns the sentence for a kind of the framework's.
pub(crate) fn of_flow(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::CannotStat | FlowKind::CannotOpen => "Can't open input file {escape}: {cause}.",
        FlowKind::Replaced => "Input file {escape} was replaced meanwhile.",
        other => flow::sentence(other),
    }
}
