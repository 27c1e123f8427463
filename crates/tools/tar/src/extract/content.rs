//! Content of files: writes bytes that came with a piece, or a range of the archive, to
//! their offsets.

use std::sync::Arc;

use haul_flow::Pool;
use haul_sys::{CacheMode, Errno, Error, Fd, Operation, read, write};

use crate::read::sparse::Extent;

const COPY_BYTES: usize = 256 << 10;

/// Location of the bytes that a member stores.
#[derive(Clone, Debug)]
pub(super) enum StoredContent<'a> {
    Bytes(&'a [u8]),
    /// In a seekable archive: offset and length.
    Archive(&'a Seekable, u64, u64),
}

/// A seekable archive, with recycled blocks to read it into: as many as were in use at once.
#[derive(Debug)]
pub(super) struct Seekable {
    file: Arc<Fd>,
    blocks: Pool<Vec<u8>>,
}

impl Seekable {
    pub(super) fn new(file: Arc<Fd>) -> Self {
        Self { file, blocks: Pool::default() }
    }
}

/// Extents of a sparse file, searchable by stored offset.
#[derive(Clone, Debug)]
pub(super) struct Map {
    extents: Vec<Extent>,
    /// Bytes stored before each extent.
    before: Vec<u64>,
}

impl Map {
    /// Creates a map from extents that were checked.
    pub(super) fn new(extents: Vec<Extent>) -> Self {
        let mut sum = 0;
        let before = extents.iter().map(|extent| {
            let before = sum;
            sum += extent.length;
            before
        });
        let before = before.collect();
        Self { extents, before }
    }

    /// Returns the file offset of the `stored`-th stored byte, and how many bytes follow it there.
    fn place(&self, stored: u64) -> Option<(u64, u64)> {
        let index = self.before.partition_point(|before| *before <= stored).checked_sub(1)?;
        let (extent, inside) = (self.extents[index], stored - self.before[index]);
        (inside < extent.length).then(|| (extent.offset + inside, extent.length - inside))
    }
}

pub(super) enum ContentFailure {
    Write(Error),
    Read(Error),
    /// The archive is shorter than its headers say.
    Ended,
}

/// Writes stored bytes to their offsets in the file; `start` is the stored offset of the first one.
pub(super) fn put(
    file: &Fd,
    stored: &StoredContent<'_>,
    start: u64,
    map: Option<&Map>,
) -> Result<(), ContentFailure> {
    match *stored {
        StoredContent::Bytes(bytes) => put_bytes(file, bytes, start, map).map_err(ContentFailure::Write),
        StoredContent::Archive(archive, at, length) => {
            let copy = |block: &mut Vec<u8>| put_range(file, (&archive.file, at, length), start, map, block);
            archive.blocks.with(|| vec![0; COPY_BYTES], copy)
        }
    }
}

/// Copies a range of the archive, block by block.
fn put_range(
    file: &Fd,
    (archive, at, length): (&Fd, u64, u64),
    start: u64,
    map: Option<&Map>,
    block: &mut [u8],
) -> Result<(), ContentFailure> {
    let mut done = 0;
    while done < length {
        let wanted = block.len().min(usize::try_from(length - done).unwrap_or(block.len()));
        let count =
            read(archive, at + done, &mut block[..wanted], CacheMode::Keep).map_err(ContentFailure::Read)?;
        if count == 0 {
            return Err(ContentFailure::Ended);
        }
        put_bytes(file, &block[..count], start + done, map).map_err(ContentFailure::Write)?;
        done += count as u64;
    }
    Ok(())
}

fn put_bytes(file: &Fd, mut bytes: &[u8], mut start: u64, map: Option<&Map>) -> Result<(), Error> {
    while !bytes.is_empty() {
        let (offset, room) = match map {
            None => (start, u64::MAX),
            // A map that was checked has an offset for every byte.
            Some(map) => map.place(start).ok_or_else(misplaced)?,
        };
        let length = bytes.len().min(usize::try_from(room).unwrap_or(usize::MAX));
        let written = write(file, offset, &bytes[..length], CacheMode::Keep)?;
        // Tried again it might go on forever; GNU's programs take it for a full disk.
        if written == 0 {
            return Err(Error::new(Operation::Write, "0 bytes".to_owned(), Errno::NOSPC));
        }
        bytes = &bytes[written..];
        start += written as u64;
    }
    Ok(())
}

fn misplaced() -> Error {
    Error::new(Operation::Write, "outside of the map".to_owned(), Errno::INVAL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_a_place_for_every_stored_byte_and_no_other() {
        let map = Map::new(vec![Extent { offset: 10, length: 5 }, Extent { offset: 100, length: 1 }]);
        assert_eq!(map.place(0), Some((10, 5)));
        assert_eq!(map.place(4), Some((14, 1)));
        assert_eq!(map.place(5), Some((100, 1)));
        assert_eq!(map.place(6), None);
        assert_eq!(Map::new(vec![]).place(0), None);
    }
}
