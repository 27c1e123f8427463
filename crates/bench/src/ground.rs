//! The ground of a race: a source image with a workload on it, and a target image.
//!
//! ```text
//!   WORK/source.image ── loop ── source file system, read-only ── WORK/source/tree
//!   WORK/target.image ── loop ── target file system ───────────── WORK/target/copy    (what candidates make)
//!                                                                 WORK/target/tree    (the source, on one file system)
//! ```
//!
//! Before every run the target's file system is made anew, and the source's cache state is set: *cold*
//! unmounts the source and mounts it again, which drops its pages, inodes and names and nothing else
//! (neither the programs' own pages nor the disk's cache); *warm* reads every byte of it.
//!
//! On one file system ([`Sides::One`]) the source has to be where the target is, so after the target was
//! made anew the workload is copied onto it from the source image; the file system is then writable
//! throughout, and cold unmounts and mounts that.
//!
//! Promises: everything lives in one new directory, and [`Ground::finish`] takes all of it away, or says
//! what is left.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

use clap::ValueEnum;
use serde::Serialize;
use tempfile::TempDir;

use crate::error::{Error, Result};
use crate::image::{Access, FileSystem, Image, Room};
use crate::interrupt::Interrupt;
use crate::programs;
use crate::shapes::{Shape, Totals};
use crate::trees;
use crate::verify::{self, Digest};

/// Says what of the source is in memory when a run begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum CacheState {
    /// Nothing: the source was unmounted and mounted again
    Cold,
    /// Everything: every file was read just before
    Warm,
}

impl CacheState {
    /// Returns the word for it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            CacheState::Cold => "cold",
            CacheState::Warm => "warm",
        }
    }
}

/// Says where source and target are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Sides {
    /// On two file systems.
    Two,
    /// On one and the same.
    One,
}

/// Says which file systems the ground has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Layout {
    /// The file system of the source image.
    pub(crate) source: FileSystem,
    /// The file system of the target image.
    pub(crate) target: FileSystem,
    /// Whether the source is read from the target's file system.
    pub(crate) sides: Sides,
}

/// What is to be copied.
#[derive(Clone, Debug)]
pub(crate) enum Workload {
    /// A tree of the documents.
    Made {
        /// Its numbers.
        shape: Shape,
        /// The seed of its contents.
        seed: u64,
    },
    /// A copy of a real directory.
    Real(PathBuf),
}

impl Workload {
    /// Returns what to call it.
    pub(crate) fn name(&self) -> String {
        match self {
            Workload::Made { shape, .. } => shape.kind.name().to_owned(),
            // The last part says enough; the whole path says much about somebody's machine.
            Workload::Real(directory) => {
                directory.file_name().unwrap_or(OsStr::new("/")).display().to_string()
            }
        }
    }

    /// Counts it.
    ///
    /// # Errors
    ///
    /// [`Error::Io`] when a real directory cannot be read.
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

/// Copies a directory with everything about it, by the system's own cp.
fn copy_whole(source: &Path, target: &Path, interrupt: &Interrupt) -> Result<()> {
    let words = ["-a", "--"].map(OsStr::new);
    let arguments = [&words[..], &[source.as_os_str(), target.as_os_str()][..]].concat();
    programs::run_with("cp", &arguments, interrupt).map(drop)
}

/// Two images and the directory they are in.
#[derive(Debug)]
pub(crate) struct Ground {
    layout: Layout,
    // Order of fields: the images are closed before their directory is removed, should it come to drops.
    source: Image,
    target: Image,
    work: TempDir,
}

impl Ground {
    /// Makes the working directory, in `parent`, for a workload of this size; mounts nothing yet.
    ///
    /// # Errors
    ///
    /// [`Error::Refused`] when there is too little room for the images, or the place is no disk.
    pub(crate) fn new(parent: &Path, layout: Layout, totals: Totals) -> Result<Ground> {
        let (source_room, target_room) = check_place(parent, layout, totals)?;
        let work = tempfile::Builder::new()
            .prefix("haul-bench-")
            .tempdir_in(parent)
            .map_err(Error::doing("create a directory in", parent))?;
        // The programs are given absolute paths, so that the candidates' working directory does not matter.
        let place = fs::canonicalize(work.path()).map_err(Error::doing("resolve", work.path()))?;
        let source = Image::new(&place, "source", layout.source, source_room);
        let target = Image::new(&place, "target", layout.target, target_room);
        Ok(Ground { layout, source, target, work })
    }

    /// Makes both images and the workload on the source's, and returns the workload's digest.
    ///
    /// # Errors
    ///
    /// Whatever fails of it; [`Ground::finish`] cleans up all the same.
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

    /// Where the workload is made.
    fn made_tree(&self) -> PathBuf {
        self.source.mount_point().join("tree")
    }

    /// Returns the directory that candidates copy.
    pub(crate) fn source_tree(&self) -> PathBuf {
        match self.layout.sides {
            Sides::Two => self.made_tree(),
            Sides::One => self.target.mount_point().join("tree"),
        }
    }

    /// Returns the directory that candidates make; its parent is there, and it is not.
    pub(crate) fn target_tree(&self) -> PathBuf {
        self.target.mount_point().join("copy")
    }

    /// Returns the top of the target's file system.
    pub(crate) fn target_top(&self) -> &Path {
        self.target.mount_point()
    }

    /// Makes the target anew and sets the cache state of the source, which must hold `expected`.
    ///
    /// # Errors
    ///
    /// Whatever fails of it, and [`Error::Refused`] should the source not be what it was.
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
        sync(self.target_top())
    }

    /// Takes everything away and returns what could not be.
    pub(crate) fn finish(mut self) -> Vec<String> {
        let mut leftovers = self.target.close();
        leftovers.extend(self.source.close());
        if self.target.is_mounted() || self.source.is_mounted() {
            // Removing a directory in which something is mounted would remove what is mounted.
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

/// Writes a file system's dirty data and waits for it, as `sync -f` does.
///
/// # Errors
///
/// [`Error::Io`] when the writing fails.
pub(crate) fn sync(top: &Path) -> Result<()> {
    let directory = fs::File::open(top).map_err(Error::doing("open", top))?;
    rustix::fs::syncfs(&directory).map_err(|errno| Error::doing("sync", top)(errno.into()))
}

/// Makes sure that `parent` is on a disk with room for a workload of this size, and returns the room that
/// source and target need.
///
/// # Errors
///
/// [`Error::Refused`] when it is not.
pub(crate) fn check_place(parent: &Path, layout: Layout, totals: Totals) -> Result<(Room, Room)> {
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

/// What statfs calls a file system that is in memory: tmpfs, ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58f6];

/// Refuses a place that is no disk: there, a cold run would read memory.
fn check_disk(parent: &Path) -> Result<()> {
    let facts = rustix::fs::statfs(parent)
        .map_err(|errno| Error::doing("ask for the file system of", parent)(errno.into()))?;
    if !IN_MEMORY.contains(&(facts.f_type as u64)) {
        return Ok(());
    }
    Err(Error::Refused(format!("{} is in memory; give a directory on a disk with --work", parent.display())))
}

/// Refuses to fill the disk that the images are on.
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

    const LAYOUT: Layout = Layout { source: FileSystem::Ext4, target: FileSystem::Ext4, sides: Sides::Two };

    #[test]
    fn a_tree_that_does_not_fit_is_refused_and_nothing_is_made() {
        let parent = tempfile::tempdir_in("/var/tmp").unwrap();
        let totals = Totals { files: 1, directories: 0, bytes: 1 << 60 };
        let refusal = Ground::new(parent.path(), LAYOUT, totals).unwrap_err().to_string();
        assert!(refusal.contains("the images need about"), "{refusal}");
        assert_eq!(fs::read_dir(parent.path()).unwrap().count(), 0);
    }

    #[test]
    fn memory_is_not_taken_for_a_disk() {
        haul_testkit::require!(haul_testkit::needs::root());
        let memory = haul_testkit::mount::Mount::memory(1 << 20).unwrap();
        let refusal = Ground::new(memory.path(), LAYOUT, Totals::default()).unwrap_err().to_string();
        assert!(refusal.contains("is in memory"), "{refusal}");
    }

    #[test]
    fn a_real_directory_is_called_by_its_last_name() {
        assert_eq!(Workload::Real(PathBuf::from("/home/somebody/photos")).name(), "photos");
    }
}
