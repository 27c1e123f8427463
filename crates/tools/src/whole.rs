//! Reading all of a range, in as many calls as that takes.

use haul_sys::{Cache, Error, Fd, read};

/// Reads into all of `bytes`, unless the file ends before; returns how many were read. An end is believed when it is said twice.
///
/// # Errors
/// The kernel's.
pub(crate) fn read_all(file: &Fd, offset: u64, bytes: &mut [u8]) -> Result<usize, Error> {
    let (mut done, mut is_doubted) = (0, false);
    while done < bytes.len() {
        match read(file, offset + done as u64, &mut bytes[done..], Cache::Keep)? {
            0 if is_doubted => break,
            0 => is_doubted = true,
            more => (done, is_doubted) = (done + more, false),
        }
    }
    Ok(done)
}
