//! The test bed of a race: a source image that holds a workload, and a target image.
//!
//! ```text
//!   WORK/source.image ── loop ── source file system, read-only ── WORK/source/tree
//!   WORK/target.image ── loop ── target file system ───── WORK/target/copy    (made by candidates)
//!                                                         WORK/target/tree    (source, on one fs)
//! ```
//!
//! Before every run the target is reformatted and the cache state of the source is set. *Cold*
//! unmounts the source and mounts it again, which drops its pages, inodes and names, but neither
//! the page cache of the programs nor the disk's own cache. *Warm* reads every byte of it. Then the
//! memory that the run will need is [taken back from the host](crate::memory).
//!
//! On a single file system ([`Sides::One`]) the source must live on the target: after each
//! reformat, the workload is copied there from the source image. The file system is writable
//! throughout, and *cold* remounts that one.
//!
//! Promises: everything lives in one new directory, and [`ImageGround::finish`] removes all of it
//! or reports what is left.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::image::{Access, FileSystem, Image, Room};
use crate::interrupt::Interrupt;
use crate::memory::touch_free;
use crate::names::ValueName;
use crate::programs;
use crate::shapes::{Totals, TreeShape};
use crate::trees;
use crate::verify::{self, Digest};

/// Cache state of the source at the start of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheState {
    /// Nothing: the source was unmounted and mounted again
    Cold,
    /// Everything: every file was read just before
    Warm,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sides {
    Two,
    One,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct ImageLayout {
    pub(crate) source: FileSystem,
    pub(crate) target: FileSystem,
    pub(crate) sides: Sides,
}

#[derive(Clone, Debug)]
pub(crate) enum Workload {
    /// A generated tree of the documents.
    Made {
        shape: TreeShape,
        seed: u64,
    },
    Real(PathBuf),
}

impl Workload {
    pub(crate) fn name(&self) -> String {
        match self {
            Workload::Made { shape, .. } => shape.kind.name(),
            // The whole path would reveal too much about somebody's machine.
            Workload::Real(directory) => {
                directory.file_name().unwrap_or(OsStr::new("/")).display().to_string()
            }
        }
    }

    pub(crate) fn totals(&self) -> Result<Totals> {
        match self {
            Workload::Made { shape, .. } => Ok(shape.totals()),
            Workload::Real(directory) => verify::census(directory),
        }
    }

    fn make(&self, tree: &Path, interrupt: &Interrupt) -> Result<()> {
        match self {
            Workload::Made { shape, seed } => trees::make(shape, *seed, tree, interrupt),
            Workload::Real(directory) => copy_whole(directory, tree, interrupt),
        }
    }
}

/// Copies a directory with all its metadata, using the system's cp.
fn copy_whole(source: &Path, target: &Path, interrupt: &Interrupt) -> Result<()> {
    let words = ["-a", "--"].map(OsStr::new);
    let arguments = [&words[..], &[source.as_os_str(), target.as_os_str()][..]].concat();
    programs::run_with("cp", &arguments, interrupt).map(drop)
}

/// Two images and their working directory.
#[derive(Debug)]
pub(crate) struct ImageGround {
    layout: ImageLayout,
    content_bytes: u64,
    // Drop order matters on a panic: the images must be closed before their directory is removed.
    source: Image,
    target: Image,
    work: TempDir,
}

impl ImageGround {
    /// Makes the working directory in `parent`, for a workload of this size; mounts nothing yet.
    pub(crate) fn new(parent: &Path, layout: ImageLayout, totals: Totals) -> Result<ImageGround> {
        let (source_room, target_room) = check_place(parent, layout, totals)?;
        let work = tempfile::Builder::new()
            .prefix("haul-bench-")
            .tempdir_in(parent)
            .map_err(Error::doing("create a directory in", parent))?;
        // Absolute paths, so that the working directory of the candidates does not matter.
        let place = fs::canonicalize(work.path()).map_err(Error::doing("resolve", work.path()))?;
        let source = Image::new(&place, "source", layout.source, source_room);
        let target = Image::new(&place, "target", layout.target, target_room);
        Ok(ImageGround { layout, content_bytes: totals.bytes, source, target, work })
    }

    /// Makes the source image, its workload and the target's device; returns the workload's digest.
    ///
    /// # Errors
    ///
    /// Any failure on the way; [`ImageGround::finish`] cleans up all the same.
    pub(crate) fn prepare(&mut self, workload: &Workload, interrupt: &Interrupt) -> Result<Digest> {
        self.source.attach()?;
        self.source.format()?;
        self.source.mount(Access::ReadWrite)?;
        workload.make(&self.made_tree(), interrupt)?;
        self.source.unmount()?;
        self.source.mount(Access::ReadOnly)?;
        self.target.attach()?;
        verify::digest(&self.made_tree(), interrupt)
    }

    fn made_tree(&self) -> PathBuf {
        self.source.mount_point().join("tree")
    }

    pub(crate) fn source_tree(&self) -> PathBuf {
        match self.layout.sides {
            Sides::Two => self.made_tree(),
            Sides::One => self.target.mount_point().join("tree"),
        }
    }

    /// Returns the directory that candidates create; only its parent exists.
    pub(crate) fn target_tree(&self) -> PathBuf {
        self.target.mount_point().join("copy")
    }

    pub(crate) fn target_top(&self) -> &Path {
        self.target.mount_point()
    }

    /// Reformats the target and sets the cache state of the source, which must match `expected`.
    pub(crate) fn ready(&mut self, cache: CacheState, expected: Digest, interrupt: &Interrupt) -> Result<()> {
        self.target.format()?;
        self.target.mount(Access::ReadWrite)?;
        if self.layout.sides == Sides::One {
            copy_whole(&self.made_tree(), &self.source_tree(), interrupt)?;
        }
        match (cache, self.layout.sides) {
            (CacheState::Cold, Sides::Two) => {
                self.source.unmount()?;
                self.source.mount(Access::ReadOnly)?;
            }
            (CacheState::Cold, Sides::One) => {
                self.target.unmount()?;
                self.target.mount(Access::ReadWrite)?;
            }
            (CacheState::Warm, _) => {
                if verify::digest(&self.source_tree(), interrupt)? != expected {
                    return Err(Error::Refused("the source has changed between two runs".to_owned()));
                }
            }
        }
        sync(self.target_top())?;
        touch_free(self.content_bytes);
        Ok(())
    }

    /// Removes everything and returns what could not be removed.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut leftovers = self.target.close();
        leftovers.extend(self.source.close());
        if self.target.is_mounted() || self.source.is_mounted() {
            // Removing a directory with a mount in it would delete the contents of the mount.
            leftovers.push(format!("the images in {}; remove them", self.work.keep().display()));
            return leftovers;
        }
        let place = self.work.path().to_owned();
        if let Err(error) = self.work.close() {
            leftovers.push(format!("{} ({error}); remove it", place.display()));
        }
        leftovers
    }
}

/// Flushes a file system's dirty data to disk, like `sync -f`.
pub(crate) fn sync(top: &Path) -> Result<()> {
    let directory = fs::File::open(top).map_err(Error::doing("open", top))?;
    rustix::fs::syncfs(&directory).map_err(|errno| Error::doing("sync", top)(errno.into()))
}

/// Checks that `parent` is on a disk with space for a workload of this size. Returns the space that
/// source and target need.
pub(crate) fn check_place(parent: &Path, layout: ImageLayout, totals: Totals) -> Result<(Room, Room)> {
    let entries = totals.files.saturating_add(totals.directories).saturating_add(2);
    let source = Room { bytes: totals.bytes, entries };
    let target = match layout.sides {
        Sides::Two => source,
        Sides::One => Room { bytes: 2 * totals.bytes, entries: 2 * entries },
    };
    check_disk(parent)?;
    check_room(parent, source, target)?;
    Ok((source, target))
}

/// `statfs` types of in-memory file systems.
const IN_MEMORY: [u64; 2] = [haul_sys::magic::TMPFS, haul_sys::magic::RAMFS];

/// Refuses an in-memory file system, on which a cold run would read memory.
fn check_disk(parent: &Path) -> Result<()> {
    let facts = rustix::fs::statfs(parent)
        .map_err(|errno| Error::doing("ask for the file system of", parent)(errno.into()))?;
    if !IN_MEMORY.contains(&(facts.f_type as u64)) {
        return Ok(());
    }
    Err(Error::Refused(format!("{} is in memory; give a directory on a disk with --work", parent.display())))
}

/// Refuses to fill the disk that holds the images.
fn check_room(parent: &Path, source: Room, target: Room) -> Result<()> {
    let wanted = source.bytes_written().saturating_add(target.bytes_written()).saturating_add(1 << 30);
    let free = trees::bytes_free(parent)?;
    if wanted <= free {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "the images need about {} MB in {}, which has {} MB; give another directory with --work, or --scale",
        wanted / 1_000_000,
        parent.display(),
        free / 1_000_000
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const LAYOUT: ImageLayout =
        ImageLayout { source: FileSystem::Ext4, target: FileSystem::Ext4, sides: Sides::Two };

    #[test]
    fn a_tree_that_does_not_fit_is_refused_and_nothing_is_made() {
        let parent = tempfile::tempdir_in("/var/tmp").unwrap();
        let totals = Totals { files: 1, directories: 0, bytes: 1 << 60 };
        let refusal = ImageGround::new(parent.path(), LAYOUT, totals).unwrap_err().to_string();
        assert!(refusal.contains("the images need about"), "{refusal}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_not_taken_for_a_disk() {
        haul_testkit::require!(haul_testkit::needs::root());
        let memory = haul_testkit::mount::Mount::memory(1 << 20).unwrap();
        let refusal = ImageGround::new(memory.path(), LAYOUT, Totals::default()).unwrap_err().to_string();
        assert!(refusal.contains("is in memory"), "{refusal}");
    }

    #[test]
    fn a_real_directory_is_called_by_its_last_name() {
        assert_eq!(Workload::Real(PathBuf::from("/home/somebody/photos")).name(), "photos");
    }
}
