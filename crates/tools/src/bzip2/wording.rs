//! The sentences of `bzip2`, worded as version 1.0.8 words them.

use haul_flow::Wording;

/// An input is not there, or may not be read; the second hole is for the reason.
pub const CANNOT_OPEN: Wording = Wording("Can't open input file {escape}: {bare}.");
/// An input is a directory.
pub const IS_DIRECTORY: Wording = Wording("Input file {escape} is a directory.");
/// An input is compressed already, by its name.
pub const HAS_SUFFIX: Wording = Wording("Input file {escape} already has {bare} suffix.");
/// An input is no regular file, and would be replaced.
pub const NOT_NORMAL: Wording = Wording("Input file {escape} is not a normal file.");
/// There is a file already where the output belongs.
pub const OUTPUT_EXISTS: Wording = Wording("Output file {escape} already exists.");
/// An input has other names, which would go on having the old content.
pub const OTHER_LINK: Wording = Wording("Input file {escape} has {bare} other link.");
/// It has several.
pub const OTHER_LINKS: Wording = Wording("Input file {escape} has {bare} other links.");
/// The output cannot be made; the second hole is for the reason.
pub const CANNOT_CREATE: Wording = Wording("Can't create output file {escape}: {bare}.");
/// The name of a compressed file does not say what it was.
pub const CANNOT_GUESS: Wording = Wording("Can't guess original name for {escape} -- using {escape}");
/// Compressed data makes no sense on a terminal.
pub const NOT_TO_TERMINAL: Wording = Wording("I won't write compressed data to a terminal.");
/// Nor does it come from one.
pub const NOT_FROM_TERMINAL: Wording = Wording("I won't read compressed data from a terminal.");
/// An input has not the format.
pub const NOT_BZIP2: Wording = Wording("{escape} is not a bzip2 file.");
/// A checksum is wrong, or something else that a compressor writes.
pub const DAMAGED: Wording = Wording(
    "Data integrity error when decompressing.\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
);
/// The input ends where something is missing.
pub const ENDED: Wording = Wording(
    "Compressed file ends unexpectedly;\n\tperhaps it is corrupted?\n\tInput file = {escape}, output file = {escape}\n\n\
     It is possible that the compressed file(s) have become corrupted.\n\
     You can use the -tvv option to test integrity of such files.",
);
/// What follows the last stream is none.
pub const GARBAGE: Wording = Wording("{escape}: trailing garbage after EOF ignored");
/// A test found wrong data.
pub const TEST_DAMAGED: Wording = Wording("{escape}: data integrity (CRC) error in data");
/// A test found an end too early.
pub const TEST_ENDED: Wording = Wording("{escape}: file ends unexpectedly");
/// A test found another format.
pub const TEST_NOT_BZIP2: Wording = Wording("{escape}: bad magic number (file not created by bzip2)");
/// The attributes of an input cannot be given to the output.
pub const CANNOT_KEEP: Wording = Wording("failed to preserve the attributes of {escape}");
/// An input stays although its output is complete.
pub const CANNOT_REMOVE: Wording = Wording("cannot remove {escape}");
/// Something else has the name of an input now, or somebody has written to it.
pub const NOT_REMOVED: Wording = Wording("not removing {escape}, as it was replaced or changed meanwhile");
/// An input stays because what was made of it is not where it was put.
pub const OUTPUT_GONE: Wording =
    Wording("not removing {escape}, as {escape} was removed or replaced meanwhile");
