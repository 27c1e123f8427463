//! The test beds of `auto`: images, memory, or the stand-in with its latency.
//!
//! ```text
//!   images    WORK/source, read-only     WORK/target/copy    the target is formatted before every run
//!   memory    WORK/source                WORK/target/copy    the target is a new tmpfs for every run
//!   stand-in  WORK/client0               WORK/client0/copy   the copy is removed without latency
//! ```
//!
//! One source holds all sets. Removing files instead of formatting would distort the next run: ext4
//! doesn't use inodes that were freed a short time ago, and searches for others.
//!
//! Promises: everything lives in one new directory, and [`AutoGround::close`] removes all of it or
//! reports what is left.

use std::fs::{self, File};
use std::io::{self, BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::ValueEnum;
use rustix::fs::{XattrFlags, setxattr};

use super::Latency;
use crate::error::{Error, Result};
use crate::ground::{CacheState, sync};
use crate::image::{Access, FileSystem, Image, Room};
use crate::programs;
use crate::run::striped::memory;
use crate::shapes::Totals;

/// A local file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum LocalFileSystem {
    /// ext4
    Ext4,
    /// XFS
    Xfs,
    /// Btrfs
    Btrfs,
    /// Memory, always warm
    Tmpfs,
}

/// Attribute of the stand-in that turns its latency on and off.
const PACE: &str = "user.standin.pace";

pub(super) struct AutoGround {
    // Drop order matters on a panic: mounts must be gone before their directory is removed.
    storage: GroundStorage,
    work: tempfile::TempDir,
}

enum GroundStorage {
    Images { source: Image, target: Image },
    Memory { source: Memory, target: Memory },
    StandIn { child: Child, root: PathBuf },
}

impl AutoGround {
    /// Makes a local file system for sets of this size in all, the largest of which has `largest`.
    pub(super) fn local(
        parent: &Path,
        place: LocalFileSystem,
        all: Totals,
        largest: Totals,
    ) -> Result<AutoGround> {
        let image = match place {
            LocalFileSystem::Ext4 => Some(FileSystem::Ext4),
            LocalFileSystem::Xfs => Some(FileSystem::Xfs),
            LocalFileSystem::Btrfs => Some(FileSystem::Btrfs),
            LocalFileSystem::Tmpfs => None,
        };
        let work = new_directory(parent)?;
        let path = resolved(&work)?;
        let Some(kind) = image else {
            let [source, target] = ["source", "target"].map(|name| Memory::new(path.join(name)));
            let mut ground = AutoGround { work, storage: GroundStorage::Memory { source, target } };
            let mounted = ground.mount_memory();
            return ground.or_closed(mounted);
        };
        let [source, target] = [("source", all), ("target", largest)].map(|(name, totals)| {
            let entries = totals.files.saturating_add(totals.directories).saturating_add(2);
            Image::new(&path, name, kind, Room { bytes: totals.bytes, entries })
        });
        let mut ground = AutoGround { work, storage: GroundStorage::Images { source, target } };
        let attached = ground.attach_images();
        ground.or_closed(attached)
    }

    /// Mounts the stand-in, whose every request takes `latency`.
    pub(super) fn with_latency(standin: &Path, latency: Latency) -> Result<AutoGround> {
        let work = new_directory(&memory())?;
        let path = resolved(&work)?;
        let mut child = Command::new(standin)
            .args([
                format!("--latency={}us", latency.micros),
                format!("--metadata-latency={}us", latency.micros),
            ])
            .args([path.join("bytes"), path.join("client")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            // A ^C at the terminal must not reach it: the mount would be gone before the cleanup.
            .process_group(0)
            .spawn()
            .map_err(Error::doing("run", standin))?;
        let mut said = String::new();
        let heard = child.stdout.take().map(|output| BufReader::new(output).read_line(&mut said));
        let heard = heard.unwrap_or(Ok(0)).map_err(Error::doing("listen to", standin));
        let ground =
            AutoGround { work, storage: GroundStorage::StandIn { child, root: path.join("client0") } };
        let ready = heard.and_then(|_| match said.is_empty() {
            true => Err(Error::Refused(format!("{} does not mount", standin.display()))),
            false => ground.pace("off"),
        });
        ground.or_closed(ready)
    }

    /// Returns the test bed, or removes it if `made` is an error.
    fn or_closed(self, made: Result<()>) -> Result<AutoGround> {
        match made {
            Ok(()) => Ok(self),
            Err(error) => Error::unless_left(Err(error), self.close()),
        }
    }

    fn attach_images(&mut self) -> Result<()> {
        let GroundStorage::Images { source, target } = &mut self.storage else { return Ok(()) };
        source.attach()?;
        source.format()?;
        source.mount(Access::ReadWrite)?;
        target.attach()
    }

    fn mount_memory(&mut self) -> Result<()> {
        let GroundStorage::Memory { source, target } = &mut self.storage else { return Ok(()) };
        source.mount()?;
        target.mount()
    }

    /// Returns the place of a set.
    pub(super) fn source(&self, name: &str) -> PathBuf {
        match &self.storage {
            GroundStorage::Images { source, .. } => source.mount_point().join(name),
            GroundStorage::Memory { source, .. } => source.point.join(name),
            GroundStorage::StandIn { root, .. } => root.join(name),
        }
    }

    /// Returns the directory that a run creates; only its parent exists.
    pub(super) fn target(&self) -> PathBuf {
        match &self.storage {
            GroundStorage::Images { target, .. } => target.mount_point().join("copy"),
            GroundStorage::Memory { target, .. } => target.point.join("copy"),
            GroundStorage::StandIn { root, .. } => root.join("copy"),
        }
    }

    /// Called when all sets are made: from now on images are read only.
    pub(super) fn seal(&mut self) -> Result<()> {
        if let GroundStorage::Images { source, .. } = &mut self.storage {
            source.unmount()?;
            source.mount(Access::ReadOnly)?;
        }
        Ok(())
    }

    /// Makes the target anew, and drops the source from memory for a cold run.
    pub(super) fn renew(&mut self, cache: CacheState) -> Result<()> {
        let copy = self.target();
        match &mut self.storage {
            GroundStorage::Images { source, target } => {
                target.format()?;
                target.mount(Access::ReadWrite)?;
                if cache == CacheState::Cold {
                    source.unmount()?;
                    source.mount(Access::ReadOnly)?;
                }
                sync(target.mount_point())
            }
            GroundStorage::Memory { target, .. } => {
                target.unmount()?;
                target.mount()
            }
            GroundStorage::StandIn { .. } => {
                self.pace("off")?;
                match fs::remove_dir_all(&copy) {
                    Err(error) if error.kind() != io::ErrorKind::NotFound => {
                        Err(Error::doing("remove", &copy)(error))
                    }
                    _ => self.pace("on"),
                }
            }
        }
    }

    /// Turns the latency of the stand-in on or off; does nothing elsewhere.
    pub(super) fn pace(&self, pace: &str) -> Result<()> {
        let GroundStorage::StandIn { root, .. } = &self.storage else { return Ok(()) };
        setxattr(root, PACE, pace.as_bytes(), XattrFlags::empty())
            .map_err(|errno| Error::doing("set the pace of", root)(errno.into()))
    }

    /// Removes everything and returns what could not be removed.
    pub(super) fn close(self) -> Vec<String> {
        let AutoGround { storage, work } = self;
        let mut leftovers = Vec::new();
        let is_mounted = match storage {
            GroundStorage::Images { mut source, mut target } => {
                leftovers.extend(target.close());
                leftovers.extend(source.close());
                source.is_mounted() || target.is_mounted()
            }
            GroundStorage::Memory { mut source, mut target } => {
                let closed = [target.unmount(), source.unmount()];
                leftovers.extend(closed.into_iter().filter_map(Result::err).map(|error| error.to_string()));
                source.is_mounted || target.is_mounted
            }
            GroundStorage::StandIn { mut child, root } => {
                // It unmounts at the end of its input.
                drop(child.stdin.take());
                match child.wait() {
                    Ok(status) if status.success() => {}
                    ended => leftovers.push(format!("the mount {} ({ended:?}); umount it", root.display())),
                }
                !leftovers.is_empty()
            }
        };
        if is_mounted {
            // Removing a directory with a mount in it would delete the contents of the mount.
            leftovers.push(format!("the files in {}; remove them", work.keep().display()));
            return leftovers;
        }
        let place = work.path().to_owned();
        if let Err(error) = work.close() {
            leftovers.push(format!("{} ({error}); remove it", place.display()));
        }
        leftovers
    }
}

/// A tmpfs.
struct Memory {
    point: PathBuf,
    is_mounted: bool,
}

impl Memory {
    fn new(point: PathBuf) -> Memory {
        Memory { point, is_mounted: false }
    }

    fn mount(&mut self) -> Result<()> {
        fs::create_dir_all(&self.point).map_err(Error::doing("create directory", &self.point))?;
        let words = ["-t", "tmpfs", "-o", "mode=755", "tmpfs"].map(AsRef::as_ref);
        programs::run("mount", &[&words[..], &[self.point.as_os_str()]].concat())?;
        self.is_mounted = true;
        Ok(())
    }

    fn unmount(&mut self) -> Result<()> {
        if self.is_mounted {
            programs::run("umount", &[self.point.as_os_str()])?;
            self.is_mounted = false;
        }
        Ok(())
    }
}

impl Drop for Memory {
    /// Backstop for a panic. Normally nothing is mounted any more, or it was reported.
    fn drop(&mut self) {
        self.unmount().ok();
    }
}

fn new_directory(parent: &Path) -> Result<tempfile::TempDir> {
    let made = tempfile::Builder::new().prefix("haul-bench-").tempdir_in(parent);
    made.map_err(Error::doing("create a directory in", parent))
}

/// Returns an absolute path, so that the working directory of a run does not matter.
fn resolved(work: &tempfile::TempDir) -> Result<PathBuf> {
    fs::canonicalize(work.path()).map_err(Error::doing("resolve", work.path()))
}

/// Reads every second file below `top` whole, by the last digit of its name.
pub(super) fn read_half(top: &Path) -> Result<()> {
    let is_odd = |path: &Path| path.as_os_str().as_encoded_bytes().last().is_some_and(|digit| digit % 2 == 1);
    let files = walkdir::WalkDir::new(top).into_iter().filter_map(|entry| entry.ok());
    files.filter(|entry| entry.file_type().is_file() && is_odd(entry.path())).try_for_each(|entry| {
        let read = File::open(entry.path()).and_then(|mut file| io::copy(&mut file, &mut io::sink()));
        read.map(drop).map_err(Error::doing("read", entry.path()))
    })
}
