//! Makes the input of the races, in a directory that is then copied into the source image.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use walkdir::{DirEntry, WalkDir};

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::programs;
use crate::shapes::{ShapeKind, ShapeOptions, TreeShape};
use crate::trees;

use super::races::Material;

const SEED: u64 = 1;

/// Size of the data to compress at scale 1, in bytes.
const DATA_BYTES: f64 = (1_u64 << 30) as f64;

/// Directories that text and binary files are taken from.
const SYSTEM: [&str; 2] = ["/usr/share", "/usr/lib"];

#[derive(Clone, Debug)]
pub(crate) struct Makings {
    /// Size of the data, relative to its default.
    pub(crate) scale: f64,
    pub(crate) many: TreeShape,
    pub(crate) share: PathBuf,
}

impl Makings {
    pub(crate) fn new(scale: f64, share: &Path) -> Result<Self> {
        if !(scale.is_finite() && scale > 0.0) {
            return Err(Error::Refused("--scale must be greater than 0".to_owned()));
        }
        let many = TreeShape::new(ShapeKind::Many, &ShapeOptions { scale, ..ShapeOptions::default() })?;
        Ok(Self { scale, many, share: share.to_owned() })
    }
}

/// Makes a material as the directory `place`, which must not exist yet.
pub(crate) fn make(material: Material, makings: &Makings, place: &Path, interrupt: &Interrupt) -> Result<()> {
    let tree = place.with_extension("beside");
    match material {
        Material::Data => {
            fs::create_dir(place).map_err(Error::doing("create", place))?;
            data(&place.join("data"), (makings.scale * DATA_BYTES) as u64, interrupt)?;
            compress(&place.join("data"), &place.join("data.bz2"), interrupt)
        }
        Material::Many => trees::make(&makings.many, SEED, place, interrupt),
        Material::Share => copy(&makings.share, place, interrupt),
        Material::Twins => {
            fs::create_dir(place).map_err(Error::doing("create", place))?;
            trees::make(&makings.many, SEED, &place.join("one"), interrupt)?;
            copy(&place.join("one"), &place.join("other"), interrupt)
        }
        Material::ManyArchive => {
            trees::make(&makings.many, SEED, &tree, interrupt)?;
            archive(&tree, place, interrupt)?;
            fs::remove_dir_all(&tree).map_err(Error::doing("remove", &tree))
        }
        Material::ShareArchive => archive(&makings.share, place, interrupt),
    }
}

/// Concatenates files of this machine until there are `bytes` bytes.
fn data(path: &Path, bytes: u64, interrupt: &Interrupt) -> Result<()> {
    let failed = || Error::doing("write", path);
    let mut file = File::create(path).map_err(failed())?;
    let mut left = bytes;
    while left > 0 {
        let before = left;
        // Alternates between both directories, to mix text and binary files.
        let mut folders = SYSTEM.map(|folder| files_below(Path::new(folder)));
        while left > 0 && folders.iter().any(|folder| !folder.is_empty()) {
            interrupt.check()?;
            for source in folders.iter_mut().filter_map(Vec::pop) {
                // Files that cannot be read are skipped.
                let Ok(source) = File::open(source) else { continue };
                left -= io::copy(&mut io::Read::take(source, left), &mut file).map_err(failed())?;
            }
        }
        if left == before {
            return Err(Error::Refused("there are no files to take data from".to_owned()));
        }
    }
    file.flush().map_err(failed())
}

/// Lists regular files in reverse order of their names, for `pop`.
fn files_below(folder: &Path) -> Vec<PathBuf> {
    let entries = WalkDir::new(folder).into_iter().flatten().filter(|entry| entry.file_type().is_file());
    let mut files: Vec<_> = entries.map(DirEntry::into_path).collect();
    files.sort_unstable_by(|one, other| other.cmp(one));
    files
}

/// Compresses into a single stream, with bzip2.
fn compress(source: &Path, target: &Path, interrupt: &Interrupt) -> Result<()> {
    programs::find("bzip2")?;
    let output = File::create(target).map_err(Error::doing("create", target))?;
    let mut command = Command::new("bzip2");
    command.arg("-c").arg(source).stdin(Stdio::null()).stdout(output);
    let limit = std::time::Duration::from_secs(3600);
    let ending = crate::measure::measure(&mut command, limit, interrupt)?.ending;
    match ending.failure() {
        None => Ok(()),
        Some(failure) => Err(Error::Refused(format!("bzip2 {}: {failure}", source.display()))),
    }
}

fn copy(source: &Path, target: &Path, interrupt: &Interrupt) -> Result<()> {
    let arguments = [OsStr::new("-a"), OsStr::new("--"), source.as_os_str(), target.as_os_str()];
    programs::run_with("cp", &arguments, interrupt).map(drop)
}

/// Makes a directory that contains only an archive of another.
fn archive(source: &Path, place: &Path, interrupt: &Interrupt) -> Result<()> {
    fs::create_dir(place).map_err(Error::doing("create", place))?;
    let target = place.join("archive");
    let words =
        [OsStr::new("-cf"), target.as_os_str(), OsStr::new("-C"), source.as_os_str(), OsStr::new(".")];
    programs::run_with("tar", &words, interrupt).map(drop)
}
