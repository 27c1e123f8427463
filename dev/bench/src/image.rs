//! A file-system image: a file, a loop device on it, a file system on that, and its mount.
//!
//! ```text
//!   none ─attach─► device ─format─► formatted ─mount─► mounted ─unmount─► formatted ─close─► none
//! ```
//!
//! The loop device uses direct I/O on the file, so the page cache of the underlying file system
//! isn't used: data that the mounted file system doesn't cache comes from the disk. mkfs runs with
//! discard and lazy initialisation off, because the latter would run in the background during the
//! first minutes.
//!
//! Promises: [`Image::close`] works in any state: it undoes whatever was done, and names what it
//! could not undo.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use rustix::fs::OFlags;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};
use crate::names::ValueName;
use crate::programs;

/// Maximum wait until nobody uses a device that is to be formatted.
const UNUSED_WITHIN: Duration = Duration::from_secs(60);

/// Maximum wait for the last use of a file system. After a process with a ring has exited, a kernel
/// thread closes what the ring still holds.
const BUSY_MAX: Duration = Duration::from_secs(10);

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
    pub(crate) fn maker(self) -> String {
        format!("mkfs.{}", self.name())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Room {
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
}

/// Minimum size of an image, in bytes. Its ext4 has a journal of 64 MiB, large enough not to
/// dominate the measurement.
const IMAGE_BYTES_MIN: u64 = 4 << 30;

/// Default bytes-per-inode ratio of ext4.
const BYTES_PER_INODE: u64 = 16_384;

impl Room {
    /// Returns the bytes actually written: contents, plus last block, inode and name per entry.
    pub(crate) fn bytes_written(self) -> u64 {
        self.bytes.saturating_add(self.entries.saturating_mul(4_096 + 512))
    }

    /// Returns the size of an image with ample free space, in bytes.
    fn image_bytes(self) -> u64 {
        let written = self.bytes_written();
        let roomy = written.saturating_add(written / 2).saturating_add(1 << 30);
        roomy.max(IMAGE_BYTES_MIN).next_multiple_of(1 << 20)
    }

    /// Returns the number of inodes to request from ext4, if its default ratio gives too few.
    fn inodes(self) -> Option<u64> {
        let wanted = self.entries.saturating_add(self.entries / 4).saturating_add(1_024);
        (wanted > self.image_bytes() / BYTES_PER_INODE).then_some(wanted)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Access {
    /// Read-only: not even access times are written.
    ReadOnly,
    ReadWrite,
}

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
    /// Describes an image `name` below `work`; creates nothing yet.
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

    pub(crate) fn mount_point(&self) -> &Path {
        &self.mount_point
    }

    /// Creates a sparse file and a loop device on it.
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

    pub(crate) fn format(&mut self) -> Result<()> {
        self.unmount()?;
        let inodes = self.room.inodes().map(|count| count.to_string());
        // No lazy initialisation and no discard (-K): both would do I/O during the runs.
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
        await_unused(self.device()?)?;
        programs::run(&self.file_system.maker(), &arguments).map(drop)
    }

    pub(crate) fn mount(&mut self, access: Access) -> Result<()> {
        let option = match access {
            Access::ReadOnly => "ro",
            Access::ReadWrite => "rw",
        };
        let file_system = self.file_system.name();
        let words = ["-t", &file_system, "-o", option].map(OsStr::new);
        let places = [self.device()?.as_os_str(), self.mount_point.as_os_str()];
        programs::run("mount", &[&words[..], &places[..]].concat())?;
        self.mounted = true;
        Ok(())
    }

    /// Unmounts the file system, if mounted, which drops its cached pages, inodes and names.
    pub(crate) fn unmount(&mut self) -> Result<()> {
        if self.mounted {
            let begun = Instant::now();
            while let Err(busy) = programs::run("umount", &[self.mount_point.as_os_str()]) {
                if begun.elapsed() >= BUSY_MAX {
                    return Err(busy);
                }
                thread::sleep(Duration::from_millis(10));
            }
            self.mounted = false;
        }
        Ok(())
    }

    /// Unmounts and detaches the image and returns what could not be undone. The file stays.
    ///
    /// A busy mount is detached lazily; its loop device goes away with the last user.
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

    pub(crate) fn is_mounted(&self) -> bool {
        self.mounted
    }
}

impl Drop for Image {
    /// Backstop for a panic. Normally [`Image::close`] was called and nothing is left to do.
    fn drop(&mut self) {
        self.close();
    }
}

/// Waits until no mount uses the device. A process with a mount namespace of its own may have had a
/// copy of the mount.
fn await_unused(device: &Path) -> Result<()> {
    let began = Instant::now();
    loop {
        match File::options().read(true).custom_flags(OFlags::EXCL.bits().cast_signed()).open(device) {
            Ok(_) => return Ok(()),
            Err(cause) if cause.kind() != ErrorKind::ResourceBusy || began.elapsed() > UNUSED_WITHIN => {
                return Err(Error::doing("use", device)(cause));
            }
            Err(_) => thread::sleep(Duration::from_millis(20)),
        }
    }
}

/// Checks that the loop device really uses direct I/O: losetup only warns if it does not.
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
