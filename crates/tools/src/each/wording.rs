//! What `each` says of the commands it runs.

use haul_flow::Wording;

/// A command that cannot be started at all.
pub const CANNOT_RUN: Wording = Wording("cannot run {}");
/// A command that cannot be started for a file.
pub const CANNOT_RUN_FOR: Wording = Wording("cannot run {} for {}");
/// None can be, so that no more is tried.
pub const OTHERS_NOT_RUN: Wording = Wording("the other commands are not run");
/// A command that was started, and whose streams broke.
pub const CANNOT_HEAR: Wording = Wording("lost the command for {}");
/// A command that ended with another status than 0.
pub const FAILED: Wording = Wording("{plain}: exit status {bare}");
/// A command that a signal ended.
pub const SIGNALLED: Wording = Wording("{plain}: ended by signal {bare}");
/// A command that was not started.
pub const NOT_STARTED: Wording = Wording("{plain}: not started");
/// The line before those of the failed commands.
pub const SUMMARY: Wording = Wording("{bare} of {bare} commands failed:");
/// More failed commands than are listed.
pub const MORE: Wording = Wording("and {bare} more");
/// A pattern of names that is none.
pub const BAD_PATTERN: Wording = Wording("invalid pattern {}");
/// A file that cannot be looked at.
pub const CANNOT_STAT: Wording = Wording("cannot stat {}");
/// A file that cannot be read.
pub const ERROR_READING: Wording = Wording("error reading {}");
/// A file that cannot be closed.
pub const FAILED_TO_CLOSE: Wording = Wording("failed to close {}");
/// What another process has found, and cannot be read here.
pub const LOST: Wording = Wording("what became of the command for {} cannot be read");
