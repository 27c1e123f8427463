//! Sentences of the walk and of the copy loop, worded as GNU words them.

use crate::report::Wording;

/// A directory could not be listed.
pub const CANNOT_ACCESS: Wording = Wording("cannot access {}");
/// An entry doesn't exist, or can't be stat'ed.
pub const CANNOT_STAT: Wording = Wording("cannot stat {}");
/// A file could not be opened.
pub const CANNOT_OPEN: Wording = Wording("cannot open {} for reading");
/// An open file could not be stat'ed.
pub const CANNOT_FSTAT: Wording = Wording("cannot fstat {}");
/// Another file has taken the place of the listed one.
pub const REPLACED: Wording = Wording("skipping file {}, as it was replaced while being copied");
/// A file that is read in ranges has shrunk.
pub const SHORTER: Wording = Wording("file {} became shorter while being copied");
/// Reading failed.
pub const ERROR_READING: Wording = Wording("error reading {}");
/// Writing failed.
pub const ERROR_WRITING: Wording = Wording("error writing {}");
/// Closing failed, so data may be lost.
pub const FAILED_TO_CLOSE: Wording = Wording("failed to close {}");
/// A run ended with incomplete entries. It must not pass for a success.
pub const UNFINISHED: Wording = Wording("some entries were not processed: this is a bug in haul");
/// The requested engine isn't available.
pub const CANNOT_USE_ENGINE: Wording = Wording("cannot use the engine {}");
