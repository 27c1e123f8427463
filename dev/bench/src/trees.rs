//! Makes a tree: the directories and files of a [`TreeShape`], from a seed.
//!
//! The tree is made depth first, the files of a directory before its subdirectories, one file at a
//! time in a single thread. Inode numbers then follow the names, as in a tree that was unpacked.
//! The `n`th file made holds the `n`th stream of [`Noise`].
//!
//! Promises: the same shape and seed give the same names and bytes; existing files are never
//! touched; a tree that could not be finished is reported as incomplete, with the number of
//! files made.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::noise::Noise;
use crate::shapes::TreeShape;

/// Bytes generated at a time; a multiple of eight, as [`Noise`] requires.
const BLOCK_BYTES: usize = 128 * 1024;

/// Makes the tree at `destination`, which must not exist or must be an empty directory.
///
/// # Errors
///
/// [`Error::Refused`] if `destination` is not empty or has too little space; nothing was touched
/// then. [`Error::PartlyMade`] if it stopped half way.
pub(crate) fn make(shape: &TreeShape, seed: u64, destination: &Path, interrupt: &Interrupt) -> Result<()> {
    prepare(shape, destination)?;
    let mut maker = TreeMaker { shape, seed, interrupt, made: 0 };
    maker.make_below(destination).map_err(|cause| Error::PartlyMade {
        destination: destination.to_owned(),
        made: maker.made,
        wanted: shape.totals().files,
        cause: Box::new(cause),
    })
}

/// Checks the destination and its free space, and creates the directory last.
fn prepare(shape: &TreeShape, destination: &Path) -> Result<()> {
    let refuse = |why: &str| Err(Error::Refused(format!("{} {why}", destination.display())));
    let exists = match fs::read_dir(destination) {
        Ok(mut entries) => match entries.next() {
            None => true,
            Some(_) => return refuse("exists and is not empty; give a directory that is new or empty"),
        },
        Err(error) if error.kind() == io::ErrorKind::NotFound => false,
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
            return refuse("exists and is not a directory");
        }
        Err(error) => return Err(Error::doing("read directory", destination)(error)),
    };
    let parent = match destination.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let wanted = shape.totals().bytes;
    let free = bytes_free(if exists { destination } else { parent })?;
    if wanted > free {
        return refuse(&format!("has room for {free} bytes; the tree has {wanted}"));
    }
    if !exists {
        fs::create_dir(destination).map_err(Error::doing("create directory", destination))?;
    }
    Ok(())
}

/// Returns the bytes available on the file system that holds `path`. Returns `u64::MAX` if it
/// reports no size, as CephFS does without a manager daemon.
pub(crate) fn bytes_free(path: &Path) -> Result<u64> {
    let facts = rustix::fs::statvfs(path)
        .map_err(|errno| Error::doing("ask for the free space of", path)(errno.into()))?;
    if facts.f_blocks == 0 {
        return Ok(u64::MAX);
    }
    Ok(facts.f_bavail.saturating_mul(facts.f_frsize))
}

struct TreeMaker<'a> {
    shape: &'a TreeShape,
    seed: u64,
    interrupt: &'a Interrupt,
    made: u64,
}

/// A directory that exists and is still empty.
struct Pending {
    path: PathBuf,
    level: u32,
    /// Its index among the directories of its level.
    index: u64,
}

impl TreeMaker<'_> {
    fn make_below(&mut self, top: &Path) -> Result<()> {
        let mut pending = vec![Pending { path: top.to_owned(), level: 0, index: 0 }];
        while let Some(directory) = pending.pop() {
            for number in 0..self.shape.files_in(directory.level, directory.index) {
                self.interrupt.check()?;
                self.make_file(&directory.path.join(format!("f{number:05}")))?;
            }
            if directory.level + 1 == self.shape.levels {
                continue;
            }
            // Pushed in reverse, so the first subdirectory is popped next. Invariant: at most
            // levels x fan-out directories are pending.
            for number in (0..self.shape.fan_out).rev() {
                let path = directory.path.join(format!("d{number:03}"));
                fs::create_dir(&path).map_err(Error::doing("create directory", &path))?;
                let index = directory.index * self.shape.fan_out + number;
                pending.push(Pending { path, level: directory.level + 1, index });
            }
        }
        Ok(())
    }

    fn make_file(&mut self, path: &Path) -> Result<()> {
        let mut noise = Noise::new(self.seed, self.made);
        let mut file = File::create_new(path).map_err(Error::doing("create", path))?;
        write_noise(&mut file, path, &mut noise, self.shape.file_bytes, self.interrupt)?;
        self.made += 1;
        Ok(())
    }
}

/// Writes the next `bytes` bytes of `noise` to `file`, whose name is `path`.
pub(crate) fn write_noise(
    file: &mut File,
    path: &Path,
    noise: &mut Noise,
    bytes: u64,
    interrupt: &Interrupt,
) -> Result<()> {
    let mut block = vec![0; bytes.min(BLOCK_BYTES as u64) as usize];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64) as usize;
        noise.fill(&mut block[..length]);
        file.write_all(&block[..length]).map_err(Error::doing("write", path))?;
        left -= length as u64;
        // A large file alone takes a second or more.
        interrupt.check()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shapes::{ShapeKind, Totals, tests::options};
    use crate::verify;

    fn made(kind: ShapeKind, line: &str) -> (tempfile::TempDir, TreeShape) {
        let top = tempfile::tempdir().unwrap();
        let options = options(line);
        let shape = TreeShape::new(kind, &options).unwrap();
        make(&shape, options.seed, &top.path().join("tree"), &Interrupt::never()).unwrap();
        (top, shape)
    }

    const SMALL: [(ShapeKind, &str); 8] = [
        (ShapeKind::Binary, "--depth 4 --files 2 --size 100"),
        (ShapeKind::Broad, "--scale 0.02 --size 3000"),
        (ShapeKind::Fat, "--scale 0.01 --size 2000"),
        (ShapeKind::Deep, "--scale 0.0001"),
        (ShapeKind::Flat, "--scale 0.002"),
        (ShapeKind::Many, "--scale 0.002"),
        (ShapeKind::Large, "--scale 0.001"),
        (ShapeKind::Practical, "--scale 0.0001"),
    ];

    #[test]
    fn every_kind_is_made_as_it_was_counted() {
        for (kind, line) in SMALL {
            let (top, shape) = made(kind, line);
            let census = verify::census(&top.path().join("tree")).unwrap();
            assert_eq!(census, shape.totals(), "{kind:?} {line}");
        }
    }

    #[test]
    fn a_seed_makes_the_same_tree_twice_and_another_seed_another_tree() {
        for (kind, line) in SMALL {
            let digest = |line: &str| {
                let (top, _) = made(kind, line);
                verify::digest(&top.path().join("tree"), &Interrupt::never()).unwrap()
            };
            let first = digest(line);
            assert_eq!(first, digest(line), "{kind:?}");
            assert_ne!(first, digest(&format!("{line} --seed 2")), "{kind:?}");
        }
    }

    #[test]
    fn the_files_of_a_tree_differ_from_each_other() {
        let (top, _) = made(ShapeKind::Flat, "--files 2");
        let read = |name: &str| fs::read(top.path().join("tree").join(name)).unwrap();
        assert_ne!(read("f00000"), read("f00001"));
    }

    #[test]
    fn an_empty_directory_is_used_and_a_full_one_or_a_file_refused() {
        let top = tempfile::tempdir().unwrap();
        let shape = TreeShape::new(ShapeKind::Flat, &options("--files 3")).unwrap();
        let attempt = |name: &str| make(&shape, 1, &top.path().join(name), &Interrupt::never());
        fs::create_dir(top.path().join("empty")).unwrap();
        attempt("empty").unwrap();
        let refusal = attempt("empty").unwrap_err();
        assert!(refusal.to_string().contains("not empty"), "{refusal}");
        fs::write(top.path().join("file"), "x").unwrap();
        let refusal = attempt("file").unwrap_err();
        assert!(refusal.to_string().contains("not a directory"), "{refusal}");
        assert_eq!(fs::read(top.path().join("file")).unwrap(), b"x");
    }

    #[test]
    fn a_tree_that_stopped_half_way_is_reported() {
        let top = tempfile::tempdir().unwrap();
        let tree = top.path().join("tree");
        let shape = TreeShape::new(ShapeKind::Flat, &options("--files 3")).unwrap();
        let interrupt = Interrupt::never();
        interrupt.raise();
        let error = make(&shape, 1, &tree, &interrupt).unwrap_err();
        assert!(error.is_interruption());
        assert!(error.to_string().contains("is incomplete: 0 of 3 files"), "{error}");
        assert_eq!(verify::census(&tree).unwrap(), Totals::default());
    }

    #[test]
    fn a_tree_larger_than_the_disk_is_refused_before_it_is_begun() {
        let top = tempfile::tempdir().unwrap();
        let shape = TreeShape::new(ShapeKind::Large, &options("--size 1000T")).unwrap();
        let refusal = make(&shape, 1, &top.path().join("tree"), &Interrupt::never()).unwrap_err();
        assert!(refusal.to_string().contains("has room for"), "{refusal}");
        assert!(!top.path().join("tree").exists());
    }
}
