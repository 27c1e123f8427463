//! Messages of `each`.

use haul_flow::Wording;

/// The program can't be started.
pub const CANNOT_RUN: Wording = Wording("cannot run {}");
/// The command for a file can't be started.
pub const CANNOT_RUN_FOR: Wording = Wording("cannot run {} for {}");
/// No further commands are tried.
pub const OTHERS_NOT_RUN: Wording = Wording("the other commands are not run");
/// A running command's pipes broke.
pub const CANNOT_HEAR: Wording = Wording("lost the command for {}");
/// A command exited with a nonzero status.
pub const FAILED: Wording = Wording("{plain}: exit status {bare}");
/// A command was killed by a signal.
pub const SIGNALLED: Wording = Wording("{plain}: ended by signal {bare}");
/// A command was not started.
pub const NOT_STARTED: Wording = Wording("{plain}: not started");
/// Heading of the list of failed commands.
pub const SUMMARY: Wording = Wording("{bare} of {bare} commands failed:");
/// More commands failed than are listed.
pub const MORE: Wording = Wording("and {bare} more");
/// A name pattern is invalid.
pub const BAD_PATTERN: Wording = Wording("invalid pattern {}");
/// A file can't be examined.
pub const CANNOT_STAT: Wording = Wording("cannot stat {}");
/// A file can't be read.
pub const ERROR_READING: Wording = Wording("error reading {}");
/// A file can't be closed.
pub const FAILED_TO_CLOSE: Wording = Wording("failed to close {}");
/// Another rank's result can't be decoded.
pub const LOST: Wording = Wording("what became of the command for {} cannot be read");
