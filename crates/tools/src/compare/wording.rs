//! What the comparison says. Sentences are those of `diff -rq` and `cmp` where these have one.

use haul_flow::Wording;

/// An entry that stands in one of two directories only.
pub const ONLY_IN: Wording = Wording("Only in {plain}: {plain}");
/// Two entries of different types.
pub const TYPES: Wording = Wording("File {plain} is a {bare} while file {plain} is a {bare}");
/// Two files that differ in something.
pub const FILES: Wording = Wording("Files {plain} and {plain} differ: {bare}");
/// Two files that differ, without saying in what.
pub const FILES_BRIEFLY: Wording = Wording("Files {plain} and {plain} differ");
/// Two symbolic links that lead to different names.
pub const LINKS: Wording = Wording("Symbolic links {plain} and {plain} differ");
/// Two files that were named, where they differ first.
pub const NAMED: Wording = Wording("{plain} {plain} differ: byte {bare}, line {bare}");
/// One of two files that were named is the beginning of the other, and ends with a line.
pub const ENDS: Wording = Wording("EOF on {plain} after byte {bare}, line {bare}");
/// One of two files that were named is the beginning of the other, and ends in a line.
pub const ENDS_IN_LINE: Wording = Wording("EOF on {plain} after byte {bare}, in line {bare}");
/// One of two files that were named is empty.
pub const IS_EMPTY: Wording = Wording("EOF on {plain} which is empty");
/// A file whose content or length was changed by somebody meanwhile.
pub const CHANGED: Wording = Wording("{} has changed while it was compared");
/// A link that leads to a directory it is in.
pub const LOOP: Wording = Wording("{}: recursive directory loop");
/// What cannot be looked at.
pub const CANNOT_STAT: Wording = Wording("cannot stat {}");
/// What cannot be opened.
pub const CANNOT_OPEN: Wording = Wording("cannot open {}");
/// What cannot be listed.
pub const CANNOT_LIST: Wording = Wording("cannot access {}");
/// What cannot be read.
pub const ERROR_READING: Wording = Wording("error reading {}");
/// A symbolic link that cannot be read.
pub const CANNOT_READ_LINK: Wording = Wording("cannot read symbolic link {}");
/// Extended attributes that cannot be read.
pub const CANNOT_READ_XATTRS: Wording = Wording("cannot read the extended attributes of {}");
/// What cannot be closed.
pub const FAILED_TO_CLOSE: Wording = Wording("failed to close {}");
/// More differences than are kept to be sorted.
pub const TOO_MANY: Wording =
    Wording("more differences than can be sorted: those that follow are listed as found");
/// Attributes of what is read as a stream.
pub const STREAM_ATTRIBUTES: Wording =
    Wording("--attributes compares files and trees, not pipes or devices that are named");
/// A pattern of names that is none.
pub const BAD_PATTERN: Wording = Wording("invalid pattern {}");
/// What another process has found, and cannot be read here.
pub const LOST: Wording = Wording("what was found out about {} cannot be read");
