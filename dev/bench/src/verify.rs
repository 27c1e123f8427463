//! Checks whether a copy is correct.
//!
//! A tree is reduced to one number that does not depend on the order in which it was read: the sum
//! of a hash (XXH3, 128 bits) per entry, over the entry's path below the top, its type, its
//! permissions and its content (bytes, link target, or device number). The source is hashed once,
//! and every copy is compared with that digest. Only if they differ is the copy compared with the
//! source entry by entry, to report where.
//!
//! Nothing is kept per file: `measure` explains why the benchmark has to stay small.
//!
//! Promises: bytes, types, link targets and permissions are checked, for every entry and the top
//! directory. Permissions are held to what a plain `cp -r` must produce: the nine mode bits, less
//! those in the benchmark's umask, 022. Owners, times, extended attributes, holes and hard links
//! are not checked, because `cp -r` does not preserve them. A difference goes unnoticed with
//! probability 2^-128; there is no defence against somebody who tries to hide one.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::fmt;
use std::fs::{self, File, FileType, Metadata};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::thread;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use serde::{Serialize, Serializer};
use walkdir::{DirEntry, WalkDir};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::shapes::Totals;

/// Permissions that a plain `cp -r` under [`UMASK`] must give a copy.
const PERMISSIONS: u32 = 0o777 & !UMASK;

/// Umask of all candidates.
pub(crate) const UMASK: u32 = 0o022;

const BUFFER_BYTES: usize = 128 * 1024;
const WORKERS_MAX: usize = 8;
const DIRECTORIES_OPEN_MAX: usize = 512;

/// Digest of a whole tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Digest(u128);

impl fmt::Display for Digest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{:032x}", self.0)
    }
}

impl Serialize for Digest {
    fn serialize<S: Serializer>(&self, serializer: S) -> std::result::Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// Reads a whole tree and returns its digest.
pub(crate) fn digest(top: &Path, interrupt: &Interrupt) -> Result<Digest> {
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    let hash = |reader: &mut EntryReader, entry: walkdir::Result<DirEntry>| {
        interrupt.check()?;
        let entry = entry.map_err(unreadable)?;
        let read = reader.read(entry.path())?;
        Ok(reader.hash(entry.path().strip_prefix(top).unwrap_or(entry.path()), &read))
    };
    let hashes = || walk(top).par_bridge().map_init(EntryReader::new, hash);
    let sum = || hashes().try_reduce(|| 0, |sum, hash| Ok(sum.wrapping_add(hash)));
    // Threads that end here: the memory of those that stay would be charged to the candidates.
    let pool = ThreadPoolBuilder::new().num_threads(workers);
    let sum = pool.build_scoped(|thread| thread.run(), |pool| pool.install(sum));
    sum.map_err(io::Error::other).map_err(Error::doing("start threads to read", top))?.map(Digest)
}

/// Returns every entry of a tree, the top first; no symbolic link is followed.
fn walk(top: &Path) -> walkdir::IntoIter {
    // Above this many open directories the rest of a listing would be kept in memory.
    WalkDir::new(top).follow_root_links(false).max_open(DIRECTORIES_OPEN_MAX).into_iter()
}

fn unreadable(error: walkdir::Error) -> Error {
    let path = error.path().unwrap_or(Path::new("")).to_owned();
    let cause = error.into_io_error().unwrap_or_else(|| io::Error::other("a loop of links"));
    Error::doing("read", &path)(cause)
}

pub(crate) fn census(top: &Path) -> Result<Totals> {
    let mut totals = Totals::default();
    for entry in walk(top) {
        let entry = entry.map_err(unreadable)?;
        if entry.file_type().is_file() {
            totals.bytes += entry.metadata().map_err(unreadable)?.len();
        }
        if entry.file_type().is_dir() {
            // Only directories below the top are counted.
            totals.directories += u64::from(entry.depth() > 0);
        } else {
            totals.files += 1;
        }
    }
    Ok(totals)
}

/// Compares a copy with its source and returns the first `most` differences.
pub(crate) fn differences(
    source: &Path,
    copy: &Path,
    most: usize,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let mut reader = EntryReader::new();
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        interrupt.check()?;
        if found.len() >= most {
            break;
        }
        // Joining an empty path would append a slash, and the kernel then follows a symbolic link.
        let [here, there] = [source, copy]
            .map(|top| if relative.as_os_str().is_empty() { top.to_owned() } else { top.join(&relative) });
        let name = if relative.as_os_str().is_empty() { Path::new(".") } else { &relative };
        let Some(copied) = reader.read_if_there(&there)? else {
            found.push(format!("{} is missing", name.display()));
            continue;
        };
        let original = reader.read(&here)?;
        if let Some(difference) = original.difference(&copied) {
            found.push(format!("{} {difference}", name.display()));
        }
        if original.type_name == DIRECTORY && copied.type_name == DIRECTORY {
            let (wanted, present) = (names(&here)?, names(&there)?);
            found.extend(
                present
                    .difference(&wanted)
                    .map(|extra| format!("{} is not in the source", relative.join(extra).display())),
            );
            pending.extend(wanted.iter().map(|name| relative.join(name)));
        }
    }
    found.truncate(most);
    Ok(found)
}

fn names(directory: &Path) -> Result<BTreeSet<OsString>> {
    let read = || -> io::Result<_> {
        fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.file_name())).collect()
    };
    read().map_err(Error::doing("read directory", directory))
}

const DIRECTORY: &str = "directory";

fn type_name(file_type: FileType) -> &'static str {
    if file_type.is_dir() {
        DIRECTORY
    } else if file_type.is_file() {
        "file"
    } else if file_type.is_symlink() {
        "symbolic link"
    } else if file_type.is_fifo() {
        "FIFO"
    } else if file_type.is_socket() {
        "socket"
    } else if file_type.is_block_device() {
        "block device"
    } else {
        "character device"
    }
}

struct TreeEntry {
    type_name: &'static str,
    permissions: u32,
    content: EntryDigest,
}

#[derive(PartialEq, Eq)]
enum EntryDigest {
    Nothing,
    Bytes { length: u64, hash: u128 },
    Link(PathBuf),
    Device(u64),
}

impl TreeEntry {
    /// Describes what is wrong with `copied`, a copy of this entry.
    fn difference(&self, copied: &TreeEntry) -> Option<String> {
        if self.type_name != copied.type_name {
            return Some(format!("is a {}, should be a {}", copied.type_name, self.type_name));
        }
        let wrong = match (&self.content, &copied.content) {
            (EntryDigest::Link(wanted), EntryDigest::Link(found)) if wanted != found => {
                format!("points to {}, should point to {}", found.display(), wanted.display())
            }
            (EntryDigest::Bytes { length: wanted, .. }, EntryDigest::Bytes { length: found, .. })
                if wanted != found =>
            {
                format!("has {found} bytes, should have {wanted}")
            }
            (wanted, found) if wanted != found => "has other content".to_owned(),
            _ if self.permissions != copied.permissions => {
                format!("has permissions {:04o}, should have {:04o}", copied.permissions, self.permissions)
            }
            _ => return None,
        };
        Some(wrong)
    }
}

/// Reads entries, reusing one buffer and one hasher.
struct EntryReader {
    buffer: Vec<u8>,
    hasher: Box<Xxh3>,
}

impl EntryReader {
    fn new() -> EntryReader {
        EntryReader { buffer: vec![0; BUFFER_BYTES], hasher: Box::default() }
    }

    fn read_if_there(&mut self, path: &Path) -> Result<Option<TreeEntry>> {
        match fs::symlink_metadata(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            _ => self.read(path).map(Some),
        }
    }

    fn read(&mut self, path: &Path) -> Result<TreeEntry> {
        let facts = fs::symlink_metadata(path).map_err(Error::doing("look at", path))?;
        let content = self.content(path, &facts).map_err(Error::doing("read", path))?;
        let file_type = facts.file_type();
        // A symbolic link's own permissions are meaningless and cannot be set.
        let permissions = if file_type.is_symlink() { 0 } else { facts.mode() & PERMISSIONS };
        Ok(TreeEntry { type_name: type_name(file_type), permissions, content })
    }

    fn content(&mut self, path: &Path, facts: &Metadata) -> io::Result<EntryDigest> {
        let file_type = facts.file_type();
        if file_type.is_symlink() {
            return Ok(EntryDigest::Link(fs::read_link(path)?));
        }
        if file_type.is_block_device() || file_type.is_char_device() {
            return Ok(EntryDigest::Device(facts.rdev()));
        }
        if !file_type.is_file() {
            return Ok(EntryDigest::Nothing);
        }
        let mut file = File::open(path)?;
        self.hasher.reset();
        let mut length = 0;
        loop {
            match file.read(&mut self.buffer) {
                Ok(0) => return Ok(EntryDigest::Bytes { length, hash: self.hasher.digest128() }),
                Ok(count) => {
                    self.hasher.update(&self.buffer[..count]);
                    length += count as u64;
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Hashes an entry together with its name. Every field has a fixed width or ends in a NUL,
    /// which no name, link or type contains, so two different entries never give the hash the
    /// same input.
    fn hash(&mut self, relative: &Path, entry: &TreeEntry) -> u128 {
        let hasher = &mut self.hasher;
        hasher.reset();
        for text in [relative.as_os_str().as_bytes(), entry.type_name.as_bytes()] {
            hasher.update(text);
            hasher.update(&[0]);
        }
        hasher.update(&entry.permissions.to_le_bytes());
        match &entry.content {
            EntryDigest::Nothing => {}
            EntryDigest::Bytes { length, hash } => {
                hasher.update(&length.to_le_bytes());
                hasher.update(&hash.to_le_bytes());
            }
            EntryDigest::Link(target) => hasher.update(target.as_os_str().as_bytes()),
            EntryDigest::Device(number) => hasher.update(&number.to_le_bytes()),
        }
        hasher.digest128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, PermissionsExt, symlink};

    /// A tree of everything that can be made without privileges, and a correct copy of it.
    struct TreePair {
        top: tempfile::TempDir,
    }

    impl TreePair {
        fn new() -> TreePair {
            let pair = TreePair { top: tempfile::tempdir().unwrap() };
            for top in [pair.source(), pair.copy()] {
                fs::create_dir_all(top.join("directory/empty")).unwrap();
                fs::write(top.join("directory/file"), vec![7; 300_000]).unwrap();
                fs::write(top.join("nothing"), "").unwrap();
                symlink("directory/file", top.join("link")).unwrap();
                let fifo = top.join("fifo");
                rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, 0o600.into()).unwrap();
                for (name, mode) in [("directory/file", 0o644), ("nothing", 0o700), ("directory", 0o755)] {
                    chmod(&top.join(name), mode);
                }
            }
            pair
        }

        fn source(&self) -> PathBuf {
            self.top.path().join("source")
        }

        fn copy(&self) -> PathBuf {
            self.top.path().join("copy")
        }
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_right_copy_is_right() {
        let pair = TreePair::new();
        let never = Interrupt::never();
        assert_eq!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
        assert!(differences(&pair.source(), &pair.copy(), 10, &never).unwrap().is_empty());
    }

    /// The difference to be found, and what makes it in the copy.
    type Spoilt = (&'static str, &'static dyn Fn(&Path));

    #[test]
    fn every_kind_of_difference_is_found() {
        let differences: [Spoilt; 10] = [
            ("directory/file has other content", &|copy| {
                let file = File::options().write(true).open(copy.join("directory/file")).unwrap();
                file.write_all_at(&[6], 299_999).unwrap();
            }),
            ("directory/file has 4096 bytes, should have 300000", &|copy| {
                File::options().write(true).open(copy.join("directory/file")).unwrap().set_len(4096).unwrap();
            }),
            ("nothing is missing", &|copy| fs::remove_file(copy.join("nothing")).unwrap()),
            ("directory/empty is missing", &|copy| fs::remove_dir(copy.join("directory/empty")).unwrap()),
            ("directory/.extra.tmp is not in the source", &|copy| {
                fs::write(copy.join("directory/.extra.tmp"), "").unwrap();
            }),
            ("nothing has permissions 0600, should have 0700", &|copy| chmod(&copy.join("nothing"), 0o600)),
            ("directory has permissions 0700, should have 0755", &|copy| {
                chmod(&copy.join("directory"), 0o700);
            }),
            ("link points to directory/other, should point to directory/file", &|copy| {
                fs::remove_file(copy.join("link")).unwrap();
                symlink("directory/other", copy.join("link")).unwrap();
            }),
            // The link was followed.
            ("link is a file, should be a symbolic link", &|copy| {
                fs::remove_file(copy.join("link")).unwrap();
                fs::copy(copy.join("directory/file"), copy.join("link")).unwrap();
            }),
            ("fifo is a file, should be a FIFO", &|copy| {
                fs::remove_file(copy.join("fifo")).unwrap();
                fs::write(copy.join("fifo"), "").unwrap();
            }),
        ];
        for (expected, spoil) in differences {
            let pair = TreePair::new();
            spoil(&pair.copy());
            let never = Interrupt::never();
            let digests = [pair.source(), pair.copy()].map(|top| digest(&top, &never).unwrap());
            assert_ne!(digests[0], digests[1], "the digest does not see: {expected}");
            assert_eq!(super::differences(&pair.source(), &pair.copy(), 10, &never).unwrap(), [expected]);
        }
    }

    #[test]
    fn what_the_umask_takes_and_what_it_leaves_are_both_right() {
        let pair = TreePair::new();
        chmod(&pair.source().join("nothing"), 0o722);
        let never = Interrupt::never();
        assert!(differences(&pair.source(), &pair.copy(), 10, &never).unwrap().is_empty());
        assert_eq!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
    }

    #[test]
    fn two_files_that_changed_places_are_found() {
        let pair = TreePair::new();
        let directory = pair.copy().join("directory");
        for name in ["a", "b"] {
            fs::write(pair.source().join("directory").join(name), name).unwrap();
            fs::write(directory.join(name), name).unwrap();
        }
        let never = Interrupt::never();
        assert_eq!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
        fs::write(directory.join("a"), "b").unwrap();
        fs::write(directory.join("b"), "a").unwrap();
        assert_ne!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
    }

    #[test]
    fn the_list_of_differences_ends_at_its_limit() {
        let pair = TreePair::new();
        for number in 0..20 {
            fs::write(pair.copy().join(format!("extra{number}")), "").unwrap();
        }
        assert_eq!(differences(&pair.source(), &pair.copy(), 3, &Interrupt::never()).unwrap().len(), 3);
    }

    #[test]
    fn a_tree_that_is_not_there_is_an_error_and_not_a_hang() {
        let top = tempfile::tempdir().unwrap();
        let error = digest(&top.path().join("absent"), &Interrupt::never()).unwrap_err();
        assert!(error.to_string().contains("absent"), "{error}");
    }

    #[test]
    fn a_signal_stops_the_reading() {
        let pair = TreePair::new();
        let interrupt = Interrupt::never();
        interrupt.raise();
        assert!(digest(&pair.source(), &interrupt).unwrap_err().is_interruption());
    }
}
