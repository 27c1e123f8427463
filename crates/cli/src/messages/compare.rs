//! Sentences of `haul cmp`, worded like `diff -rq` and `cmp` where those have one.

use haul_compare::CompareKind;
use haul_flow::FlowKind;

use super::flow;

sentences! { sentence(CompareKind):
    OnlyIn => "Only in {plain}: {plain}",
    Types => "File {plain} is a {bare} while file {plain} is a {bare}",
    Files => "Files {plain} and {plain} differ: {bare}",
    FilesBriefly => "Files {plain} and {plain} differ",
    Links => "Symbolic links {plain} and {plain} differ",
    Named => "{plain} {plain} differ: byte {bare}, line {bare}",
    Ends => "EOF on {plain} after byte {bare}, line {bare}",
    EndsInLine => "EOF on {plain} after byte {bare}, in line {bare}",
    IsEmpty => "EOF on {plain} which is empty",
    Changed => "{} changed while it was being compared",
    Loop => "{}: recursive directory loop",
    CannotStat => "cannot stat {}",
    CannotOpen => "cannot open {}",
    CannotList => "cannot access {}",
    ErrorReading => "error reading {}",
    CannotReadLink => "cannot read symbolic link {}",
    CannotReadXattrs => "cannot read the extended attributes of {}",
    FailedToClose => "failed to close {}",
    TooMany => "too many differences to sort; listing the rest as found",
    StreamAttributes => "--attributes compares files and trees, not pipes or devices",
    StreamDirect => "--direct compares files and trees, not pipes or devices",
    NotDirect => "cannot read {} past the page cache",
    BadResult => "cannot read the result of comparing {}",
}

/// Returns the sentence for a kind of the framework's.
pub(crate) fn of_flow(kind: FlowKind) -> &'static str {
    match kind {
        FlowKind::Replaced => "{} was replaced while it was being compared",
        other => flow::sentence(other),
    }
}
