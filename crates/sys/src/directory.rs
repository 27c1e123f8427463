//! Reading directories with `getdents64`.
//!
//! Unlike `std::fs::ReadDir`, which aborts the process if `closedir` fails and allocates a path for
//! every entry, this reader appends names from one buffer to a [`NameArena`]. It can stop in the
//! middle of a directory and continue later, which bounds the memory for a directory of millions of
//! files.

use std::ffi::CStr;
use std::os::fd::{AsFd, AsRawFd};

use crate::buffer::Buffer;
use crate::error::{Errno, Result};
use crate::fd::last_errno;
use crate::gate;
use crate::interposer::interposer;
use crate::names::{EntryType, NameArena};
use crate::operation::Operation;

/// Buffer size of one `getdents64` call, in bytes: about 2,000 short names.
const LISTING_BYTES: usize = 64 << 10;

/// Offsets in `struct linux_dirent64` (getdents(2)): inode 0, offset 8, record length 16, type 18,
/// name 19.
const RECORD_LENGTH_AT: usize = 16;
const TYPE_AT: usize = 18;
const NAME_AT: usize = 19;

/// Reads the entries of open directories. Holds only a buffer, so one reader serves any number
/// of directories.
pub struct DirectoryReader {
    /// Made for the first directory: a worker may never see one.
    buffer: Option<Buffer>,
}

impl Default for DirectoryReader {
    fn default() -> Self {
        Self::new()
    }
}

impl DirectoryReader {
    /// Creates a reader.
    #[must_use]
    pub fn new() -> Self {
        Self { buffer: None }
    }

    /// Appends entries of `directory` (except `.` and `..`) to `names` until it holds at least
    /// `limit` or the directory ends.
    ///
    /// Continues where the last call on this descriptor stopped. Returns true if there may be more.
    ///
    /// # Errors
    /// Any error from `getdents64(2)`; entries read before it stay in `names`.
    pub fn read(&mut self, directory: impl AsFd, names: &mut NameArena, limit: usize) -> Result<bool> {
        let directory = directory.as_fd();
        let buffer = self.buffer.get_or_insert_with(|| Buffer::new(LISTING_BYTES)).bytes_mut();
        while names.len() < limit {
            let filled = gate::call(
                Operation::Getdents,
                || list(directory.as_raw_fd(), buffer),
                || format!("{}, {LISTING_BYTES}", directory.as_raw_fd()),
            )?;
            if filled == 0 {
                return Ok(false);
            }
            append(&buffer[..filled], names);
        }
        Ok(true)
    }
}

/// Calls `getdents64`. A directory that was removed while open has no entries (POSIX readdir).
fn list(directory: i32, buffer: &mut [u8]) -> rustix::io::Result<usize> {
    // SAFETY: the kernel writes at most `buffer.len()` bytes to `buffer`, which is borrowed for
    // the call.
    let filled = unsafe { libc::syscall(libc::SYS_getdents64, directory, buffer.as_mut_ptr(), buffer.len()) };
    match usize::try_from(filled) {
        Ok(filled) => Ok(filled),
        Err(_) => match last_errno() {
            Errno::NOENT => Ok(0),
            errno => Err(errno),
        },
    }
}

/// Parses the kernel's records.
fn append(mut records: &[u8], names: &mut NameArena) {
    while records.len() > NAME_AT {
        let length =
            usize::from(u16::from_ne_bytes([records[RECORD_LENGTH_AT], records[RECORD_LENGTH_AT + 1]]));
        if length <= NAME_AT || length > records.len() {
            return;
        }
        let (record, rest) = records.split_at(length);
        records = rest;
        let mut inode = [0; 8];
        inode.copy_from_slice(&record[..8]);
        let Ok(name) = CStr::from_bytes_until_nul(&record[NAME_AT..]) else { return };
        if name != c"." && name != c".." {
            names.push(name, u64::from_ne_bytes(inode), kind(record[TYPE_AT]));
        }
    }
}

fn kind(listed: u8) -> EntryType {
    match listed {
        // fakeroot stores each device as a regular file, and only `stat` shows it as a device.
        libc::DT_REG if interposer().is_some() => EntryType::Unknown,
        libc::DT_REG => EntryType::Regular,
        libc::DT_DIR => EntryType::Directory,
        libc::DT_LNK => EntryType::Symlink,
        libc::DT_FIFO | libc::DT_SOCK | libc::DT_CHR | libc::DT_BLK => EntryType::Special,
        _ => EntryType::Unknown,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Open, open_path};
    use std::ffi::CString;
    use std::os::unix::ffi::OsStrExt;

    #[test]
    fn a_directory_is_read_in_parts_and_completely() {
        let folder = tempfile::tempdir().unwrap();
        for number in 0..5000 {
            std::fs::write(folder.path().join(format!("file-{number:05}")), b"").unwrap();
        }
        std::fs::create_dir(folder.path().join("inner")).unwrap();
        let path = CString::new(folder.path().as_os_str().as_bytes()).unwrap();
        let fd = open_path(&path, Open::DIRECTORY).unwrap();
        let mut reader = DirectoryReader::new();
        let (mut total, mut parts, mut directories) = (0, 0, 0);
        loop {
            let mut names = NameArena::new();
            let more = reader.read(&fd, &mut names, 1000).unwrap();
            total += names.len();
            parts += 1;
            directories += (0..names.len()).filter(|i| names.entry(*i).kind == EntryType::Directory).count();
            if !more {
                break;
            }
        }
        assert_eq!((total, directories), (5001, 1));
        assert!(parts > 1);
    }
}
