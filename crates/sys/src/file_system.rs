//! Properties of the file system a file is on.

use std::os::fd::{AsFd, AsRawFd};

use crate::data::read_path;
use crate::error::Result;
use crate::gate;
use crate::magic;
use crate::operation::Operation;
use crate::stat::Stat;

/// Maximum bytes to read of the mount list.
const LIST_BYTES_MAX: usize = 16 << 20;

/// Types of file systems that only this kernel serves: no other host writes to them, and no process
/// serves them.
const LOCAL_TYPES: [u64; 17] = [
    magic::EXT,
    magic::XFS,
    magic::BTRFS,
    magic::TMPFS,
    magic::RAMFS,
    magic::F2FS,
    magic::BCACHEFS,
    magic::OVERLAYFS,
    magic::ZFS,
    magic::VFAT,
    magic::EXFAT,
    magic::NTFS3,
    magic::JFS,
    magic::NILFS2,
    magic::REISERFS,
    magic::UDF,
    magic::HFSPLUS,
];

/// Returns the kernel's number for the type of the file's file system (`f_type` of `fstatfs`);
/// see [`magic`].
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn file_system_type(file: impl AsFd) -> Result<u64> {
    let file = file.as_fd();
    let answer =
        gate::call(Operation::Fstatfs, || rustix::fs::fstatfs(file), || file.as_raw_fd().to_string())?;
    // The sign of the field depends on the C library.
    #[allow(clippy::unnecessary_cast)]
    let kind = answer.f_type as u64;
    Ok(kind)
}

/// Returns true if the file is on a local file system: no other host writes to it, and no process
/// serves it.
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn is_local(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| LOCAL_TYPES.contains(&kind))
}

/// Returns true if the file is on a file system that exists in memory only, so that reading never
/// waits for a disk (but for swap).
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn is_in_memory(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| [magic::TMPFS, magic::RAMFS].contains(&kind))
}

/// Returns true if the file is on a file system whose contents the kernel generates when they are
/// read, so that the sizes of files mean nothing.
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn is_generated_by_kernel(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| [magic::PROC, magic::SYSFS, magic::CONFIGFS].contains(&kind))
}

/// Returns true if the file is on a file system where threads that create files wait for each
/// other, even in different directories: for XFS's allocation groups and Btrfs's trees. There, a
/// copy with two workers per processor takes longer than with one (docs/measurements/choices.md).
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn has_coarse_locks(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| [magic::XFS, magic::BTRFS].contains(&kind))
}

/// Returns true if the file is on a file system where two threads copy one file faster than one,
/// each reading while the other writes. On Btrfs they don't, and on tmpfs hardly
/// (docs/measurements/choices.md, "One large file by two workers"); others weren't measured.
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn suits_two_workers(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| [magic::EXT, magic::XFS].contains(&kind))
}

/// Returns true if the file is on a file system where the reader of a large file does much of the
/// work of reading ahead: on Btrfs, looking up the checksums. Then another thread should do it
/// (docs/measurements/choices.md, "One large file from Btrfs"). Ext4 and XFS are slower with it.
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn is_read_ahead_costly(file: impl AsFd) -> Result<bool> {
    file_system_type(file).map(|kind| kind == magic::BTRFS)
}

/// Returns the resolution of modification times on the file system of `directory`, in nanoseconds:
/// the kernel's `s_time_gran`, which no call returns. `None` if it is unknown or depends on a
/// server. `file` is a file on it.
///
/// # Errors
/// Any error from `fstatfs(2)`.
pub fn time_resolution(directory: impl AsFd, file: &Stat) -> Result<Option<u64>> {
    Ok(match file_system_type(directory)? {
        // An inode of 128 bytes has no room for nanoseconds, nor for the time of birth.
        magic::EXT if file.born.is_none() => None,
        magic::EXT | magic::XFS | magic::BTRFS | magic::TMPFS | magic::RAMFS => Some(1),
        magic::F2FS | magic::BCACHEFS | magic::OVERLAYFS | magic::ZFS => Some(1),
        magic::JFS | magic::NILFS2 | magic::CEPH => Some(1),
        magic::NTFS3 => Some(100),
        magic::UDF => Some(1_000),
        magic::EXFAT => Some(10_000_000),
        magic::HFSPLUS | magic::REISERFS => Some(1_000_000_000),
        magic::VFAT => Some(2_000_000_000),
        _ => None,
    })
}

/// Returns how many bytes an unprivileged process may still write to the file's file system
/// (`f_bavail` of `fstatvfs`). `None` if the file system doesn't say how large it is.
///
/// # Errors
/// Any error from `fstatvfs(3)`.
pub fn free_bytes(file: impl AsFd) -> Result<Option<u64>> {
    let file = file.as_fd();
    let answer =
        gate::call(Operation::Fstatfs, || rustix::fs::fstatvfs(file), || file.as_raw_fd().to_string())?;
    Ok((answer.f_blocks > 0).then(|| answer.f_bavail.saturating_mul(answer.f_frsize)))
}

/// Returns the id of the file's file system (`f_fsid` of `fstatvfs`). Unlike `st_dev`, most shared
/// file systems return the same value on every host. Some have no id and return 0.
///
/// # Errors
/// Any error from `fstatvfs(3)`.
pub fn file_system_id(file: impl AsFd) -> Result<u64> {
    let file = file.as_fd();
    gate::call(Operation::Fstatfs, || rustix::fs::fstatvfs(file), || file.as_raw_fd().to_string())
        .map(|answer| answer.f_fsid)
}

/// Waits until everything written to the file system of `file` is on storage.
///
/// # Errors
/// Any error from `syncfs(2)`; since Linux 5.8 this includes errors of earlier writes.
pub fn synchronize_file_system(file: impl AsFd) -> Result<()> {
    let file = file.as_fd();
    gate::call(Operation::Syncfs, || rustix::fs::syncfs(file), || file.as_raw_fd().to_string())
}

/// Returns the mount type of a device (as in `st_dev`), such as `fuse.ceph-fuse`: all FUSE file
/// systems share one type number. `None` if this process has no such mount.
///
/// # Errors
/// If the mount list can't be read.
pub fn mount_type(device: u64) -> Result<Option<Vec<u8>>> {
    let list = read_path(c"/proc/self/mountinfo", LIST_BYTES_MAX)?;
    let wanted = format!("{}:{}", rustix::fs::major(device), rustix::fs::minor(device));
    Ok(list
        .split(|byte| *byte == b'\n')
        .find_map(|line| type_in(line, wanted.as_bytes()))
        .map(<[u8]>::to_vec))
}

/// Parses one line: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAG]... - TYPE SOURCE OPTIONS`.
fn type_in<'a>(line: &'a [u8], device: &[u8]) -> Option<&'a [u8]> {
    let mut words = line.split(|byte| *byte == b' ');
    if words.nth(2)? != device {
        return None;
    }
    // The number of optional fields varies; a single hyphen ends them (proc_pid_mountinfo(5)).
    words.find(|word| *word == b"-")?;
    words.next()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn proc_is_known_by_number_and_by_name() {
        let file = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!(file_system_type(&file).unwrap(), magic::PROC);
        let device = file.metadata().unwrap().dev();
        assert_eq!(mount_type(device).unwrap().as_deref(), Some(&b"proc"[..]));
        assert_eq!(mount_type(u64::MAX >> 12).unwrap(), None);
    }

    #[test]
    fn only_file_systems_with_a_size_have_room() {
        let proc = std::fs::File::open("/proc/self/stat").unwrap();
        assert_eq!((free_bytes(&proc).unwrap(), is_local(&proc).unwrap()), (None, false));
        let memory = std::fs::File::open("/dev/shm").unwrap();
        assert!(free_bytes(&memory).unwrap().is_some() && is_local(&memory).unwrap());
    }

    #[test]
    fn lines_are_read_with_and_without_tags() {
        let line = b"36 35 0:45 / /mnt rw shared:1 master:2 - fuse.ceph-fuse ceph-fuse rw";
        assert_eq!(type_in(line, b"0:45"), Some(&b"fuse.ceph-fuse"[..]));
        assert_eq!(type_in(b"36 35 0:45 / /mnt rw - ext4 x rw", b"0:45"), Some(&b"ext4"[..]));
        assert_eq!(type_in(b"36 35 0:45 / /mnt rw", b"0:45"), None);
        assert_eq!(type_in(b"", b"0:45"), None);
    }
}
