//! Messages of `bzip2`, worded as in version 1.0.8.

use haul_flow::Wording;

/// An input can't be opened; the second hole is the reason.
pub const CANNOT_OPEN: Wording = Wording("Can't open input file {escape}: {bare}.");
/// An input is a directory.
pub const IS_DIRECTORY: Wording = Wording("Input file {escape} is a directory.");
/// An input's name already has a compressed suffix.
pub const HAS_SUFFIX: Wording = Wording("Input file {escape} already has {bare} suffix.");
/// An input that would be replaced is not a regular file.
pub const NOT_NORMAL: Wording = Wording("Input file {escape} is not a normal file.");
/// The output exists.
pub const OUTPUT_EXISTS: Wording = Wording("Output file {escape} already exists.");
/// An input has another hard link, which would keep the old content.
pub const OTHER_LINK: Wording = Wording("Input file {escape} has {bare} other link.");
/// An input has several other hard links.
pub const OTHER_LINKS: Wording = Wording("Input file {escape} has {bare} other links.");
/// An output can't be created; the second hole is the reason.
pub const CANNOT_CREATE: Wording = Wording("Can't create output file {escape}: {bare}.");
/// A compressed file's name has no known suffix.
pub const CANNOT_GUESS: Wording = Wording("Can't guess original name for {escape} -- using {escape}");
/// Compressed output would go to a terminal.
pub const NOT_TO_TERMINAL: Wording = Wording("I won't write compressed data to a terminal.");
/// Compressed input would come from a terminal.
pub const NOT_FROM_TERMINAL: Wording = Wording("I won't read compressed data from a terminal.");
/// An input is not a bzip2 file.
pub const NOT_BZIP2: Wording = Wording("{escape} is not a bzip2 file.");
/// Compressed data is corrupt.
pub const DAMAGED: Wording = Wording(
    "Data integrity error when decompressing.\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
);
/// Compressed data is truncated.
pub const ENDED: Wording = Wording(
    "Compressed file ends unexpectedly;\n\tperhaps it is corrupted?\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
);
/// Trailing garbage follows the last stream.
pub const GARBAGE: Wording = Wording("{escape}: trailing garbage after EOF ignored");
/// A test found corrupt data.
pub const TEST_DAMAGED: Wording = Wording("{escape}: data integrity (CRC) error in data");
/// A test found truncated data.
pub const TEST_ENDED: Wording = Wording("{escape}: file ends unexpectedly");
/// A test found a foreign format.
pub const TEST_NOT_BZIP2: Wording = Wording("{escape}: bad magic number (file not created by bzip2)");
/// An input's attributes can't be copied to the output.
pub const CANNOT_KEEP: Wording = Wording("failed to preserve the attributes of {escape}");
/// An input can't be removed although its output is complete.
pub const CANNOT_REMOVE: Wording = Wording("cannot remove {escape}");
/// An input was replaced or changed, so it is not removed.
pub const NOT_REMOVED: Wording = Wording("not removing {escape}, as it was replaced or changed meanwhile");
/// An output disappeared, so its input is not removed.
pub const OUTPUT_GONE: Wording =
    Wording("not removing {escape}, as {escape} was removed or replaced meanwhile");
