//! Where the data of a sparse file is.

use std::ops::Range;

use haul_sys::{Errno, Error, Fd, Seek, seek};

/// Returns the data at or after the start of a range; `None` if only holes are left in it.
///
/// # Errors
/// Any error from `lseek(2)`, except those of file systems that don't report holes: there,
/// everything is data.
pub(super) fn next_data(source: &Fd, range: Range<u64>) -> Result<Option<Range<u64>>, Error> {
    let start = match seek(source, Seek::Data, range.start) {
        Ok(Some(start)) if start < range.end => start,
        Ok(_) => return Ok(None),
        Err(cause) if matches!(cause.errno(), Errno::INVAL | Errno::OPNOTSUPP | Errno::SPIPE) => {
            return Ok(Some(range));
        }
        Err(cause) => return Err(cause),
    };
    // The file may change between the two calls: if data has become a hole, each turn must still
    // advance, and past EOF the seek finds nothing.
    let hole = seek(source, Seek::Hole, start)?.unwrap_or(range.end);
    Ok(Some(start..hole.clamp(start + 1, range.end)))
}
