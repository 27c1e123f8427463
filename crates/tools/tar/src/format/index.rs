//! The index that may follow an archive: the offset of each member.
//!
//! It is behind the zeros that end the archive, where no tar looks: first the entries, padded to
//! whole blocks, then one block with a magic string, the end of the members, the length of the
//! entries, and their hash. If another tar appends to the archive, the old index may still be at
//! its end. But there are no zeros where the members ended then, and the index is rejected.

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use super::{BLOCK, BLOCK_BYTES, in_blocks};

/// First bytes of the last block.
const MAGIC: &[u8; 16] = b"haul tar index 1";

/// Location of a member.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Indexed {
    /// Offset of its first header.
    pub offset: u64,
    /// Name; a directory's has a slash at the end.
    pub path: Vec<u8>,
}

/// Encodes the index of an archive whose members end at `members_end`.
///
/// # Errors
/// When it cannot be encoded, which is a bug.
pub fn write_index(members: &[Indexed], members_end: u64) -> Result<Vec<u8>, postcard::Error> {
    let mut bytes = postcard::to_stdvec(members)?;
    let length = bytes.len() as u64;
    let hash = xxh3_64(&bytes);
    bytes.resize(in_blocks(length) as usize, 0);
    bytes.extend_from_slice(MAGIC);
    for number in [members_end, length, hash] {
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes.resize(bytes.len().next_multiple_of(BLOCK), 0);
    Ok(bytes)
}

/// Reads the index at the end of an archive of `length` bytes; `None` if there is none that fits
/// it. `read` fills a buffer from an offset and returns true if it could.
pub fn read_index(length: u64, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Option<Vec<Indexed>> {
    let last_at = length.checked_sub(BLOCK_BYTES)?;
    let mut last = [0; BLOCK];
    let rest = read(last_at, &mut last).then_some(&last)?.strip_prefix(MAGIC)?;
    let (numbers, _) = rest.as_chunks::<8>();
    let [members_end, bytes, hash] = [0, 1, 2].map(|place| u64::from_le_bytes(numbers[place]));
    let begins = last_at.checked_sub(bytes.checked_next_multiple_of(BLOCK_BYTES)?)?;
    // Two blocks of zeros end the archive; the index is behind them.
    let mut zeros = [1; 2 * BLOCK];
    if members_end.checked_add(2 * BLOCK_BYTES)? > begins
        || !read(members_end, &mut zeros)
        || zeros != [0; 2 * BLOCK]
    {
        return None;
    }
    // No longer than the file, as checked above.
    let mut entries = vec![0; usize::try_from(bytes).ok()?];
    if !read(begins, &mut entries) || xxh3_64(&entries) != hash {
        return None;
    }
    let members: Vec<Indexed> = postcard::from_bytes(&entries).ok()?;
    let fits = |members: &[Indexed]| members.iter().all(|member| member.offset < members_end);
    fits(&members).then_some(members)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn archive() -> (Vec<u8>, Vec<Indexed>) {
        let member = |offset, path: &[u8]| Indexed { offset, path: path.to_vec() };
        let members = vec![member(0, b"a/"), member(512, b"a/b"), member(2048, &[0xff; 700])];
        let mut bytes = vec![7; 4096];
        bytes.resize(10240, 0);
        bytes.extend(write_index(&members, 4096).unwrap());
        (bytes, members)
    }

    fn read(bytes: &[u8]) -> Option<Vec<Indexed>> {
        read_index(bytes.len() as u64, |offset, buffer| {
            let wanted = bytes.get(offset as usize..).and_then(|rest| rest.get(..buffer.len()));
            wanted.is_some_and(|wanted| {
                buffer.copy_from_slice(wanted);
                true
            })
        })
    }

    #[test]
    fn an_index_is_read_as_it_was_written() {
        let (bytes, members) = archive();
        assert_eq!(bytes.len() % BLOCK, 0);
        assert_eq!(read(&bytes), Some(members));
    }

    #[test]
    fn an_index_that_does_not_fit_is_not_believed() {
        let (bytes, _) = archive();
        assert_eq!(read(&bytes[..10240]), None);
        assert_eq!(read(&[]), None);
        // Something was appended to the archive in the place of its zeros.
        let mut appended = bytes.clone();
        appended[4100] = 1;
        assert_eq!(read(&appended), None);
        for place in (10240..bytes.len() - BLOCK + 40).step_by(3) {
            let mut damaged = bytes.clone();
            damaged[place] ^= 0x55;
            // After the entries and the numbers there is only padding.
            let before = read(&bytes);
            let found = read(&damaged);
            assert!(found.is_none() || found == before);
            if place >= bytes.len() - BLOCK {
                assert_eq!(found, None, "{place}");
            }
        }
    }
}
