//! Messages of a comparison, worded like `diff -rq` and `cmp` where those have one.

use haul_flow::Wording;

/// An entry exists in only one of two directories.
pub const ONLY_IN: Wording = Wording("Only in {plain}: {plain}");
/// Two entries have different types.
pub const TYPES: Wording = Wording("File {plain} is a {bare} while file {plain} is a {bare}");
/// Two files differ in some respect.
pub const FILES: Wording = Wording("Files {plain} and {plain} differ: {bare}");
/// Two files differ, in brief.
pub const FILES_BRIEFLY: Wording = Wording("Files {plain} and {plain} differ");
/// Two symbolic links have different targets.
pub const LINKS: Wording = Wording("Symbolic links {plain} and {plain} differ");
/// Two file operands differ first at this position.
pub const NAMED: Wording = Wording("{plain} {plain} differ: byte {bare}, line {bare}");
/// A file operand is a prefix of the other, and ends with a complete line.
pub const ENDS: Wording = Wording("EOF on {plain} after byte {bare}, line {bare}");
/// A file operand is a prefix of the other, and ends within a line.
pub const ENDS_IN_LINE: Wording = Wording("EOF on {plain} after byte {bare}, in line {bare}");
/// A file operand is empty.
pub const IS_EMPTY: Wording = Wording("EOF on {plain} which is empty");
/// A file was changed during the comparison.
pub const CHANGED: Wording = Wording("{} has changed while it was compared");
/// A link leads to a directory above it.
pub const LOOP: Wording = Wording("{}: recursive directory loop");
/// A file can't be examined.
pub const CANNOT_STAT: Wording = Wording("cannot stat {}");
/// A file can't be opened.
pub const CANNOT_OPEN: Wording = Wording("cannot open {}");
/// A directory can't be listed.
pub const CANNOT_LIST: Wording = Wording("cannot access {}");
/// A file can't be read.
pub const ERROR_READING: Wording = Wording("error reading {}");
/// A symbolic link can't be read.
pub const CANNOT_READ_LINK: Wording = Wording("cannot read symbolic link {}");
/// Extended attributes can't be read.
pub const CANNOT_READ_XATTRS: Wording = Wording("cannot read the extended attributes of {}");
/// A file can't be closed.
pub const FAILED_TO_CLOSE: Wording = Wording("failed to close {}");
/// There are too many differences to sort.
pub const TOO_MANY: Wording =
    Wording("more differences than can be sorted: those that follow are listed as found");
/// Attributes were requested for a stream.
pub const STREAM_ATTRIBUTES: Wording =
    Wording("--attributes compares files and trees, not pipes or devices that are named");
/// An exclude pattern is invalid.
pub const BAD_PATTERN: Wording = Wording("invalid pattern {}");
/// Another rank's result can't be decoded.
pub const LOST: Wording = Wording("what was found out about {} cannot be read");
