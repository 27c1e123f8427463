//! One file-system image: a file, a loop device on it, a file system on that, and its mount.
//!
//! ```text
//!   nothing ─attach─► device ─format─► formatted ─mount─► mounted ─unmount─► formatted ─close─► nothing
//! ```
//!
//! The loop device does direct I/O on the file, so that nothing stays in the page cache of the file
//! system below: what the mounted file system does not hold in memory comes from the disk. The maker of
//! the file system is told not to leave work for later (lazy initialisation runs in the background of the
//! first minutes) and not to discard.
//!
//! Promises: [`Image::close`] undoes whatever was done, in any state, and names what it could not undo.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::programs;

/// Names a file system that an image can have.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum FileSystem {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
    /// Btrfs
    Btrfs,
}

impl FileSystem {
    /// Returns the name that mount knows.
    pub(crate) fn name(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "ext4",
            FileSystem::Xfs => "xfs",
            FileSystem::Btrfs => "btrfs",
        }
    }

    /// Returns the program that makes it.
    pub(crate) fn maker(self) -> &'static str {
        match self {
            FileSystem::Ext4 => "mkfs.ext4",
            FileSystem::Xfs => "mkfs.xfs",
            FileSystem::Btrfs => "mkfs.btrfs",
        }
    }
}

/// What an image has to hold.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    /// Bytes of file contents.
    pub(crate) bytes: u64,
    /// Files and directories.
    pub(crate) entries: u64,
}

/// Smallest image: its ext4 has a journal of 64 MiB, enough not to be what is measured.
const IMAGE_BYTES_MIN: u64 = 4 << 30;

/// What ext4 gives one inode to, if it is not told otherwise.
const BYTES_PER_INODE: u64 = 16_384;

impl Room {
    /// Returns the bytes that will really be written: every entry has its last block, its inode and its name.
    pub(crate) fn bytes_written(self) -> u64 {
        self.bytes.saturating_add(self.entries.saturating_mul(4_096 + 512))
    }

    /// Returns the size of an image that is never nearly full.
    fn image_bytes(self) -> u64 {
        let written = self.bytes_written();
        let roomy = written.saturating_add(written / 2).saturating_add(1 << 30);
        roomy.max(IMAGE_BYTES_MIN).next_multiple_of(1 << 20)
    }

    /// Returns how many inodes to ask of ext4, if its own rule gives too few.
    fn inodes(self) -> Option<u64> {
        let wanted = self.entries.saturating_add(self.entries / 4).saturating_add(1_024);
        (wanted > self.image_bytes() / BYTES_PER_INODE).then_some(wanted)
    }
}

/// How a mounted file system may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read, without even the access times being written.
    ReadOnly,
    /// Read and written.
    ReadWrite,
}

/// A file-system image.
#[derive(Debug)]
pub(crate) struct Image {
    file: PathBuf,
    mount_point: PathBuf,
    file_system: FileSystem,
    room: Room,
    device: Option<PathBuf>,
    mounted: bool,
}

impl Image {
    /// Names an image `name` below `work`; nothing is done yet.
    pub(crate) fn new(work: &Path, name: &str, file_system: FileSystem, room: Room) -> Image {
        Image {
            file: work.join(format!("{name}.image")),
            mount_point: work.join(name),
            file_system,
            room,
            device: None,
            mounted: false,
        }
    }

    /// Returns where it is mounted, when it is.
    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Makes the file, sparse, and a loop device on it.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] where the loop device cannot do direct I/O.
    pub(crate) fn attach(&mut self) -> Result<()> {
        fs::create_dir(&self.mount_point).map_err(Error::doing("create directory", &self.mount_point))?;
        let file = File::create_new(&self.file).map_err(Error::doing("create", &self.file))?;
        file.set_len(self.room.image_bytes()).map_err(Error::doing("set the size of", &self.file))?;
        let words = ["--find", "--show", "--direct-io=on"].map(OsStr::new);
        let printed = programs::run("losetup", &[&words, &[self.file.as_os_str()][..]].concat())?;
        let device = PathBuf::from(printed.trim());
        self.device = Some(device.clone());
        check_direct(&device)
    }

    fn device(&self) -> Result<&Path> {
        let missing = || Error::Refused(format!("{} has no loop device", self.file.display()));
        self.device.as_deref().ok_or_else(missing)
    }

    /// Makes a new, empty file system on it.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] when the maker fails.
    pub(crate) fn format(&mut self) -> Result<()> {
        self.unmount()?;
        let inodes = self.room.inodes().map(|count| count.to_string());
        let mut arguments: Vec<&OsStr> = match self.file_system {
            FileSystem::Ext4 => {
                vec!["-q", "-F", "-E", "lazy_itable_init=0,lazy_journal_init=0,nodiscard"]
            }
            FileSystem::Xfs | FileSystem::Btrfs => vec!["-q", "-f", "-K"],
        }
        .into_iter()
        .map(OsStr::new)
        .collect();
        if let (FileSystem::Ext4, Some(count)) = (self.file_system, &inodes) {
            arguments.extend(["-N", count].map(OsStr::new));
        }
        arguments.push(self.device()?.as_os_str());
        programs::run(self.file_system.maker(), &arguments).map(drop)
    }

    /// Mounts it.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] when mount fails.
    pub(crate) fn mount(&mut self, access: Access) -> Result<()> {
        let option = match access {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        };
        let words = ["-t", self.file_system.name(), "-o", option].map(OsStr::new);
        let places = [self.device()?.as_os_str(), self.mount_point.as_os_str()];
        programs::run("mount", &[&words[..], &places[..]].concat())?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts it, if it is mounted; its cached pages, inodes and names are gone then.
    ///
    /// # Errors
    ///
    /// [`Error::Program`] when somebody still uses it.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        if self.mounted {
            programs::run("umount", &[self.mount_point.as_os_str()])?;
            self.mounted = false;
        }
        Ok(())
    }

    /// Unmounts and detaches it, and returns what could not be undone. The file stays.
    ///
    /// A mount that is busy is taken out of the tree of mounts all the same; its loop device goes with
    /// the last process that uses it.
    pub(crate) fn close(&mut self) -> Vec<String> {
        let mut leftovers = Vec::new();
        if let Err(busy) = self.unmount() {
            let place = self.mount_point.display();
            let lazily = programs::run("umount", &["--lazy".as_ref(), self.mount_point.as_os_str()]);
            if lazily.is_err() {
                leftovers.push(format!("a file system mounted at {place} ({busy}); umount it"));
                return leftovers;
            }
            self.mounted = false;
            leftovers.push(format!("whatever uses the file system that was mounted at {place} ({busy})"));
        }
        if let Some(device) = self.device.take()
            && let Err(error) = programs::run("losetup", &["--detach".as_ref(), device.as_os_str()])
        {
            leftovers.push(format!("the loop device {} ({error}); losetup --detach it", device.display()));
        }
        leftovers
    }

    /// Returns whether it is still mounted.
    pub(crate) fn is_mounted(&self) -> bool {
        self.mounted
    }
}

impl Drop for Image {
    /// A backstop, for a panic: the usual way is [`Image::close`], after which there is nothing to do.
    fn drop(&mut self) {
        self.close();
    }
}

/// Makes sure that the loop device really does direct I/O: losetup only warns when it does not.
fn check_direct(device: &Path) -> Result<()> {
    let name = device.file_name().unwrap_or_default();
    let flag = Path::new("/sys/block").join(name).join("loop/dio");
    let value = fs::read_to_string(&flag).map_err(Error::doing("read", &flag))?;
    if value.trim() == "1" {
        return Ok(());
    }
    Err(Error::Refused(
        "the loop device does no direct I/O on this file system, so that a cold run would not be cold; \
         give a directory on another one with --work"
            .to_owned(),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_tree_gets_the_smallest_image_and_the_usual_inodes() {
        let room = Room { bytes: 204_800_000, entries: 50_500 };
        assert_eq!(room.image_bytes(), IMAGE_BYTES_MIN);
        assert_eq!(room.inodes(), None);
    }

    #[test]
    fn a_large_tree_fits() {
        let room = Room { bytes: 20_000_000_000, entries: 10 };
        assert!(room.image_bytes() > 25_000_000_000);
    }

    #[test]
    fn many_tiny_files_get_inodes_enough() {
        let room = Room { bytes: 0, entries: 1_000_000 };
        let given = room.inodes().unwrap_or(room.image_bytes() / BYTES_PER_INODE);
        assert!(given > 1_000_000, "{given}");
    }
}
