//! The trees and file sets that `auto` copies, as parameters, and how they are made from a seed.
//!
//! Directories are made depth first, the entries of a directory before its subdirectories, so that
//! inode numbers follow the names, as in a tree that was unpacked.
//!
//! Promises: the same set, scale and seed give the same names and bytes.

use std::f64::consts::E;
use std::fs::{self, File};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::noise::Noise;
use crate::shapes::Totals;
use crate::trees::write_noise;

/// Kind and size of an entry.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum SetContent {
    /// Files of this many bytes.
    Files(u64),
    /// Files of random sizes: log-normal around this median, up to [`MIXED_MAX`].
    Mixed(u64),
    /// Files of this many bytes that are holes except for [`DATA_BYTES`] at the start of each
    /// quarter.
    Sparse(u64),
    /// Names of files, this many of each, with the bytes of each.
    HardLinks(u64, u64),
    /// Symbolic links.
    Links,
}

/// Deviation of the natural logarithm of a size in a mixed set.
const MIXED_DEVIATION: f64 = 2.0;

/// Largest file in a mixed set, in bytes.
const MIXED_MAX: u64 = 8 << 20;

/// Bytes of data in each quarter of a sparse file.
const DATA_BYTES: u64 = 256 << 10;

/// Default size of haul's blocks, in bytes.
const BLOCK_BYTES: u64 = 256 << 10;

/// Part of a set that is copied over a file system whose requests take [`LATENCY_REFERENCE`]
/// seconds. At other latencies it changes with the square root, so that a run stays short.
const LATENCY_PART: f64 = 0.12;
const LATENCY_REFERENCE: f64 = 0.000_2;

/// A tree, or files in one directory.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileSet {
    pub(crate) name: &'static str,
    pub(crate) about: &'static str,
    /// Subdirectories in each directory, in how many levels below the top.
    fan_out: u64,
    levels: u32,
    /// Entries that aren't directories.
    entries: u64,
    content: SetContent,
    /// Length of an entry's name.
    name_bytes: usize,
    /// Options of haul in addition to the measured ones.
    pub(super) mode: &'static str,
    /// True if every second file is cached when a cold run begins.
    pub(super) half_cached: bool,
    /// True if the set is copied over file systems with latency too.
    pub(super) with_latency: bool,
}

const fn set(
    name: &'static str,
    about: &'static str,
    (fan_out, levels): (u64, u32),
    entries: u64,
    content: SetContent,
) -> FileSet {
    FileSet {
        name,
        about,
        fan_out,
        levels,
        entries,
        content,
        name_bytes: 6,
        mode: "-r",
        half_cached: false,
        with_latency: false,
    }
}

const fn with_latency(set: FileSet) -> FileSet {
    FileSet { with_latency: true, ..set }
}

const FLAT: (u64, u32) = (0, 0);

use SetContent::{Files, HardLinks, Links, Mixed, Sparse};

/// All sets, at scale 1.
pub(crate) const SETS: [FileSet; 20] = [
    with_latency(set("many", "8,000 files of 4 KiB in 80 directories", (80, 1), 8_000, Files(4_096))),
    with_latency(set("flat", "8,000 files of 1 KiB in one directory", FLAT, 8_000, Files(1_024))),
    set("tiny", "8,000 files of 300 bytes in 80 directories", (80, 1), 8_000, Files(300)),
    set("empty", "10,000 empty files in 100 directories", (100, 1), 10_000, Files(0)),
    set("directories", "4,032 empty directories, 63 in each of two levels", (63, 2), 0, Files(0)),
    set("deep", "200 directories, each in the other, with 10 files of 4 KiB", (1, 200), 2_000, Files(4_096)),
    set("fat", "330 files of 200,000 bytes in 110 directories", (10, 2), 330, Files(200_000)),
    set("broad", "210 files of 300,000 bytes in 30 directories", (5, 2), 210, Files(300_000)),
    FileSet {
        name_bytes: 200,
        ..set("long-names", "6,000 files of 4 KiB with names of 200 bytes", (60, 1), 6_000, Files(4_096))
    },
    FileSet {
        half_cached: true,
        ..set(
            "half-cached",
            "6,000 files of 4 KiB; cold: every second one is cached",
            (60, 1),
            6_000,
            Files(4_096),
        )
    },
    FileSet {
        mode: "-a",
        ..set(
            "hard-links",
            "2,000 files of 4 KiB with four names each, with -a",
            (40, 1),
            8_000,
            HardLinks(4, 4_096),
        )
    },
    with_latency(set("symlinks", "10,000 symbolic links in 100 directories", (100, 1), 10_000, Links)),
    with_latency(set(
        "mixed",
        "2,000 files, log-normal around 8 KiB, in 50 directories",
        (50, 1),
        2_000,
        Mixed(8_192),
    )),
    set("64k", "1,500 files of 64 KiB in 15 directories", (15, 1), 1_500, Files(65_536)),
    set("300k", "300 files of 300,000 bytes in one directory", FLAT, 300, Files(300_000)),
    with_latency(set("1m", "96 files of 1 MB", FLAT, 96, Files(1_000_000))),
    set("10m", "10 files of 10 MB", FLAT, 10, Files(10_000_000)),
    set("25m", "5 files of 25 MB", FLAT, 5, Files(25_000_000)),
    set("one", "one file of 256 MB", FLAT, 1, Files(256_000_000)),
    set("sparse", "24 files of 16 MiB, with 1 MiB of data each", FLAT, 24, Sparse(16 << 20)),
];

impl FileSet {
    /// Returns the set `factor` times as big: fewer directories and entries, or one smaller file.
    pub(super) fn scaled(self, factor: f64) -> FileSet {
        let scaled = |count: u64, factor: f64| ((count as f64 * factor).round() as u64).max(1);
        let mut set = self;
        if set.fan_out > 1 {
            set.fan_out = scaled(set.fan_out, factor.powf(1.0 / f64::from(set.levels)));
        }
        match set.content {
            Files(bytes) if set.entries == 1 => set.content = Files(scaled(bytes, factor)),
            _ if set.entries > 0 => set.entries = scaled(set.entries, factor),
            _ => {}
        }
        set
    }

    /// Returns the part of the set that is copied where every request takes `seconds`.
    pub(super) fn for_latency(self, seconds: f64) -> FileSet {
        self.scaled(LATENCY_PART * (LATENCY_REFERENCE / seconds.max(1e-6)).sqrt())
    }

    /// True if a file has data.
    pub(super) fn has_data(&self) -> bool {
        self.entries > 0 && !matches!(self.content, Links | Files(0))
    }

    /// True if a file has more than a block.
    pub(super) fn has_blocks(&self) -> bool {
        match self.content {
            Files(bytes) | HardLinks(_, bytes) => self.entries > 0 && bytes > BLOCK_BYTES,
            Mixed(_) | Sparse(_) => true,
            Links => false,
        }
    }

    /// True if more than one worker can have something to do.
    pub(super) fn can_be_shared(&self) -> bool {
        self.entries > 1 || self.fan_out > 1
    }

    /// Returns the room the set needs. The size of a mixed set is an upper estimate.
    pub(super) fn totals(&self) -> Totals {
        let directories = (1..=self.levels).map(|level| self.fan_out.saturating_pow(level)).sum();
        let bytes = match self.content {
            Files(bytes) | HardLinks(_, bytes) => bytes,
            Mixed(median) => (median as f64 * E.powf(MIXED_DEVIATION * MIXED_DEVIATION / 2.0) * 2.0) as u64,
            Sparse(bytes) => bytes.min(4 * DATA_BYTES),
            Links => 0,
        };
        Totals { files: self.entries, directories, bytes: bytes.saturating_mul(self.entries) }
    }

    /// Makes the set in the new directory `top`.
    pub(super) fn make(&self, top: &Path, seed: u64, interrupt: &Interrupt) -> Result<()> {
        let below = self.totals().directories;
        // If there are directories, they have all entries.
        let mut maker = SetMaker { set: self, seed, interrupt, made: 0, first_name: PathBuf::new() };
        make_directory(top)?;
        if below == 0 {
            maker.fill(top, self.entries)?;
        }
        let mut pending = vec![(top.to_owned(), 0)];
        let mut visited = 0;
        while let Some((directory, level)) = pending.pop() {
            if level > 0 {
                visited += 1;
                maker.fill(&directory, self.entries * visited / below)?;
            }
            if level < self.levels {
                for number in (0..self.fan_out).rev() {
                    let path = directory.join(format!("d{number:03}"));
                    make_directory(&path)?;
                    pending.push((path, level + 1));
                }
            }
        }
        Ok(())
    }
}

fn make_directory(path: &Path) -> Result<()> {
    fs::create_dir(path).map_err(Error::doing("create directory", path))
}

struct SetMaker<'a> {
    set: &'a FileSet,
    seed: u64,
    interrupt: &'a Interrupt,
    made: u64,
    /// The first name of the file whose other names are being made.
    first_name: PathBuf,
}

impl SetMaker<'_> {
    /// Makes entries in `directory` until there are `until` in all.
    fn fill(&mut self, directory: &Path, until: u64) -> Result<()> {
        while self.made < until {
            self.interrupt.check()?;
            let name = format!("f{:0digits$}", self.made, digits = self.set.name_bytes - 1);
            self.make(&directory.join(name))?;
            self.made += 1;
        }
        Ok(())
    }

    fn make(&mut self, path: &Path) -> Result<()> {
        match self.set.content {
            Files(bytes) => self.write(path, bytes),
            Mixed(median) => self.write(path, self.mixed(median)),
            Sparse(bytes) => self.write_sparse(path, bytes),
            Links => symlink(format!("../somewhere/else/{}", self.made), path)
                .map_err(Error::doing("create", path)),
            HardLinks(names, _) if !self.made.is_multiple_of(names) => {
                fs::hard_link(&self.first_name, path).map_err(Error::doing("link", path))
            }
            HardLinks(_, bytes) => {
                path.clone_into(&mut self.first_name);
                self.write(path, bytes)
            }
        }
    }

    fn write(&self, path: &Path, bytes: u64) -> Result<()> {
        let mut file = File::create_new(path).map_err(Error::doing("create", path))?;
        write_noise(&mut file, path, &mut Noise::new(self.seed, self.made), bytes, self.interrupt)
    }

    fn write_sparse(&self, path: &Path, bytes: u64) -> Result<()> {
        let file = File::create_new(path).map_err(Error::doing("create", path))?;
        let mut noise = Noise::new(self.seed, self.made);
        let mut data = vec![0; DATA_BYTES.min(bytes / 4) as usize];
        let mut write = || {
            file.set_len(bytes)?;
            (0..4).try_for_each(|quarter| {
                noise.fill(&mut data);
                file.write_all_at(&data, quarter * (bytes / 4))
            })
        };
        write().map_err(Error::doing("write", path))
    }

    /// Returns a random size. The sum of twelve uniform numbers is nearly normal, and needs no
    /// function whose last digit depends on the machine, except for one power.
    fn mixed(&self, median: u64) -> u64 {
        let mut noise = Noise::new(self.seed.wrapping_add(1), self.made);
        let sum: f64 = (0..12).map(|_| noise.next() as f64 / u64::MAX as f64).sum();
        let bytes = median as f64 * E.powf((sum - 6.0) * MIXED_DEVIATION);
        (bytes as u64).min(MIXED_MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verify;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn every_set_is_made_as_it_was_counted_and_the_same_twice() {
        let never = Interrupt::never();
        for set in SETS.map(|set| set.scaled(0.01)) {
            let top = tempfile::tempdir().unwrap();
            let trees = ["one", "two"].map(|name| top.path().join(name));
            trees.iter().for_each(|tree| set.make(tree, 1, &never).unwrap());
            let [made, again] = trees.each_ref().map(|tree| verify::digest(tree, &never).unwrap());
            assert_eq!(made, again, "{}", set.name);
            let (census, totals) = (verify::census(&trees[0]).unwrap(), set.totals());
            assert_eq!(
                (census.files, census.directories),
                (totals.files, totals.directories),
                "{}",
                set.name
            );
        }
    }

    #[test]
    fn sets_have_what_their_names_say() {
        let (top, never) = (tempfile::tempdir().unwrap(), Interrupt::never());
        let make = |name: &str| {
            let set = SETS.into_iter().find(|set| set.name == name).unwrap().scaled(0.02);
            let tree = top.path().join(name);
            set.make(&tree, 1, &never).unwrap();
            tree
        };
        let sparse = fs::metadata(make("sparse").join("f00000")).unwrap();
        assert_eq!(sparse.len(), 16 << 20);
        assert!(sparse.blocks() * 512 <= 2 << 20, "{}", sparse.blocks());
        let linked = fs::metadata(make("hard-links").join("d000/f00000")).unwrap();
        assert_eq!((linked.nlink(), linked.len()), (4, 4_096));
        assert!(fs::symlink_metadata(make("symlinks").join("d000/f00000")).unwrap().is_symlink());
        let names = fs::read_dir(make("long-names").join("d000")).unwrap();
        assert!(names.map(|entry| entry.unwrap().file_name().len()).all(|bytes| bytes == 200));
        let mixed = fs::read_dir(make("mixed").join("d000")).unwrap();
        let mut sizes: Vec<u64> = mixed.map(|entry| entry.unwrap().metadata().unwrap().len()).collect();
        sizes.dedup();
        assert!(sizes.len() > 10, "{sizes:?}");
    }

    #[test]
    fn the_set_with_one_file_gets_a_smaller_one() {
        let one = SETS.into_iter().find(|set| set.name == "one").unwrap().scaled(0.5);
        assert_eq!(one.totals(), Totals { files: 1, directories: 0, bytes: 128_000_000 });
    }
}
