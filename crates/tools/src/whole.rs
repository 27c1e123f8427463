//! Reads a whole range, in as many calls as it takes.

use haul_sys::{Cache, Error, Fd, read};

/// Fills `bytes` from `offset`, stopping early only at EOF. Returns the number of bytes read. EOF
/// is confirmed by a second read of zero bytes.
///
/// # Errors
/// If a read fails.
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
