//! Checks whether a copy is correct.
//!
//! A tree is reduced to one number that does not depend on the order in which it was read: the sum
//! of a hash (XXH3, 128 bits) per entry, over the entry's path below the top, its type, its
//! permissions and its content (bytes, link target, or device number). The source is hashed once,
//! and every copy is compared with that digest. Only if they differ is the copy compared with the
//! source entry by entry, to report where.
//!
//! ```text
//!   walker (caller) ── batches of paths, at most QUEUE_BATCHES ──► workers: lstat, read, hash, add
//! ```
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
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use serde::{Serialize, Serializer};
use xxhash_rust::xxh3::Xxh3;

use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::shapes::Totals;

/// Permissions that a plain `cp -r` under [`UMASK`] must give a copy.
const PERMISSIONS: u32 = 0o777 & !UMASK;

/// Umask of all candidates.
pub(crate) const UMASK: u32 = 0o022;

const BUFFER_BYTES: usize = 128 * 1024;
const BATCH_PATHS: usize = 64;
const QUEUE_BATCHES: usize = 16;
const WORKERS_MAX: usize = 8;

/// Paths on their way to a worker.
type Batch = Vec<PathBuf>;

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
///
/// # Errors
///
/// [`Error::Io`] if anything cannot be read; [`Error::Interrupted`] after a signal.
pub(crate) fn digest(top: &Path, interrupt: &Interrupt) -> Result<Digest> {
    let (sender, receiver) = sync_channel(QUEUE_BATCHES);
    let receiver = Arc::new(Mutex::new(receiver));
    let workers = thread::available_parallelism().map_or(1, usize::from).min(WORKERS_MAX);
    thread::scope(|scope| {
        let running: Vec<_> = (0..workers)
            .map(|_| {
                let batches = Arc::clone(&receiver);
                scope.spawn(move || digest_batches(top, &batches, interrupt))
            })
            .collect();
        // From here on only the workers hold the receiver. If all of them fail, the walker's next
        // send fails too, so nobody waits forever.
        drop(receiver);
        let walked = send_paths(top, &sender);
        drop(sender);
        let mut sum = Digest::default();
        for worker in running {
            // A panicking worker is a bug in this module: propagate it.
            let part = worker.join().unwrap_or_else(|payload| resume_unwind(payload))?;
            sum.0 = sum.0.wrapping_add(part.0);
        }
        walked.map(|()| sum)
    })
}

/// Hashes batches until the walker has no more.
fn digest_batches(top: &Path, batches: &Mutex<Receiver<Batch>>, interrupt: &Interrupt) -> Result<Digest> {
    let mut reader = Reader::new();
    let mut sum = Digest::default();
    loop {
        let received = batches.lock().unwrap_or_else(PoisonError::into_inner).recv();
        // Disconnected: the walker is done, successfully or not.
        let Ok(batch) = received else { return Ok(sum) };
        interrupt.check()?;
        for path in batch {
            let entry = reader.read(&path)?;
            let relative = path.strip_prefix(top).unwrap_or(&path);
            sum.0 = sum.0.wrapping_add(reader.hash(relative, &entry));
        }
    }
}

/// Sends all paths of a tree, the top first.
fn send_paths(top: &Path, batches: &SyncSender<Batch>) -> Result<()> {
    let mut batch = Batch::new();
    let mut receivers_left = true;
    walk(top, |path, _| {
        batch.push(path);
        if batch.len() == BATCH_PATHS {
            receivers_left = batches.send(std::mem::take(&mut batch)).is_ok();
        }
        // If no receiver is left, the workers hold the error to report.
        Ok(receivers_left)
    })?;
    // Likewise.
    batches.send(batch).ok();
    Ok(())
}

/// Visits every entry of a tree, the top first, until `visit` returns false.
fn walk(top: &Path, mut visit: impl FnMut(PathBuf, FileType) -> Result<bool>) -> Result<()> {
    let facts = fs::symlink_metadata(top).map_err(Error::doing("look at", top))?;
    let mut directories = Vec::new();
    if facts.is_dir() {
        directories.push(top.to_owned());
    }
    if !visit(top.to_owned(), facts.file_type())? {
        return Ok(());
    }
    while let Some(directory) = directories.pop() {
        for entry in fs::read_dir(&directory).map_err(Error::doing("read directory", &directory))? {
            let entry = entry.map_err(Error::doing("read directory", &directory))?;
            let path = entry.path();
            let file_type = entry.file_type().map_err(Error::doing("look at", &path))?;
            if file_type.is_dir() {
                directories.push(path.clone());
            }
            if !visit(path, file_type)? {
                return Ok(());
            }
        }
    }
    Ok(())
}

/// Counts the entries below a directory.
///
/// # Errors
///
/// [`Error::Io`] if anything cannot be read.
pub(crate) fn census(top: &Path) -> Result<Totals> {
    let mut totals = Totals::default();
    walk(top, |path, file_type| {
        if file_type.is_file() {
            let facts = fs::symlink_metadata(&path).map_err(Error::doing("look at", &path))?;
            totals.bytes += facts.len();
        }
        if file_type.is_dir() {
            // Only directories below the top are counted.
            totals.directories += u64::from(path != top);
        } else {
            totals.files += 1;
        }
        Ok(true)
    })?;
    Ok(totals)
}

/// Compares a copy with its source and returns the first `most` differences.
///
/// # Errors
///
/// [`Error::Io`] if anything cannot be read; [`Error::Interrupted`] after a signal.
pub(crate) fn differences(
    source: &Path,
    copy: &Path,
    most: usize,
    interrupt: &Interrupt,
) -> Result<Vec<String>> {
    let mut reader = Reader::new();
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

/// The compared properties of an entry.
struct TreeEntry {
    type_name: &'static str,
    permissions: u32,
    content: Content,
}

#[derive(PartialEq, Eq)]
enum Content {
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
            (Content::Link(wanted), Content::Link(found)) if wanted != found => {
                format!("points to {}, should point to {}", found.display(), wanted.display())
            }
            (Content::Bytes { length: wanted, .. }, Content::Bytes { length: found, .. })
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
struct Reader {
    buffer: Vec<u8>,
    hasher: Box<Xxh3>,
}

impl Reader {
    fn new() -> Reader {
        Reader { buffer: vec![0; BUFFER_BYTES], hasher: Box::default() }
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

    fn content(&mut self, path: &Path, facts: &Metadata) -> io::Result<Content> {
        let file_type = facts.file_type();
        if file_type.is_symlink() {
            return Ok(Content::Link(fs::read_link(path)?));
        }
        if file_type.is_block_device() || file_type.is_char_device() {
            return Ok(Content::Device(facts.rdev()));
        }
        if !file_type.is_file() {
            return Ok(Content::Nothing);
        }
        let mut file = File::open(path)?;
        self.hasher.reset();
        let mut length = 0;
        loop {
            match file.read(&mut self.buffer) {
                Ok(0) => return Ok(Content::Bytes { length, hash: self.hasher.digest128() }),
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
            Content::Nothing => {}
            Content::Bytes { length, hash } => {
                hasher.update(&length.to_le_bytes());
                hasher.update(&hash.to_le_bytes());
            }
            Content::Link(target) => hasher.update(target.as_os_str().as_bytes()),
            Content::Device(number) => hasher.update(&number.to_le_bytes()),
        }
        hasher.digest128()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    /// A tree of everything that can be made without privileges, and a correct copy of it.
    struct Pair {
        top: tempfile::TempDir,
    }

    impl Pair {
        fn new() -> Pair {
            let pair = Pair { top: tempfile::tempdir().unwrap() };
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

        /// Asserts that the verifier finds this difference and no other.
        fn assert_finds(&self, expected: &str) {
            let never = Interrupt::never();
            let digests = [self.source(), self.copy()].map(|top| digest(&top, &never).unwrap());
            assert_ne!(digests[0], digests[1], "the digest does not see: {expected}");
            assert_eq!(differences(&self.source(), &self.copy(), 10, &never).unwrap(), [expected]);
        }
    }

    fn chmod(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_right_copy_is_right() {
        let pair = Pair::new();
        let never = Interrupt::never();
        assert_eq!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
        assert!(differences(&pair.source(), &pair.copy(), 10, &never).unwrap().is_empty());
    }

    #[test]
    fn a_flipped_byte_is_found() {
        let pair = Pair::new();
        let file = pair.copy().join("directory/file");
        let mut bytes = fs::read(&file).unwrap();
        bytes[299_999] ^= 1;
        fs::write(&file, bytes).unwrap();
        pair.assert_finds("directory/file has other content");
    }

    #[test]
    fn a_short_file_is_found() {
        let pair = Pair::new();
        File::options().write(true).open(pair.copy().join("directory/file")).unwrap().set_len(4096).unwrap();
        pair.assert_finds("directory/file has 4096 bytes, should have 300000");
    }

    #[test]
    fn a_missing_file_is_found() {
        let pair = Pair::new();
        fs::remove_file(pair.copy().join("nothing")).unwrap();
        pair.assert_finds("nothing is missing");
    }

    #[test]
    fn a_missing_directory_is_found() {
        let pair = Pair::new();
        fs::remove_dir(pair.copy().join("directory/empty")).unwrap();
        pair.assert_finds("directory/empty is missing");
    }

    #[test]
    fn an_extra_file_is_found() {
        let pair = Pair::new();
        fs::write(pair.copy().join("directory/.extra.tmp"), "").unwrap();
        pair.assert_finds("directory/.extra.tmp is not in the source");
    }

    #[test]
    fn a_wrong_mode_is_found() {
        let pair = Pair::new();
        chmod(&pair.copy().join("nothing"), 0o600);
        pair.assert_finds("nothing has permissions 0600, should have 0700");
    }

    #[test]
    fn a_wrong_mode_of_a_directory_is_found() {
        let pair = Pair::new();
        chmod(&pair.copy().join("directory"), 0o700);
        pair.assert_finds("directory has permissions 0700, should have 0755");
    }

    #[test]
    fn what_the_umask_takes_and_what_it_leaves_are_both_right() {
        let pair = Pair::new();
        chmod(&pair.source().join("nothing"), 0o722);
        let never = Interrupt::never();
        assert!(differences(&pair.source(), &pair.copy(), 10, &never).unwrap().is_empty());
        assert_eq!(digest(&pair.source(), &never).unwrap(), digest(&pair.copy(), &never).unwrap());
    }

    #[test]
    fn a_wrong_link_target_is_found() {
        let pair = Pair::new();
        fs::remove_file(pair.copy().join("link")).unwrap();
        symlink("directory/other", pair.copy().join("link")).unwrap();
        pair.assert_finds("link points to directory/other, should point to directory/file");
    }

    #[test]
    fn a_link_that_was_followed_is_found() {
        let pair = Pair::new();
        fs::remove_file(pair.copy().join("link")).unwrap();
        fs::copy(pair.copy().join("directory/file"), pair.copy().join("link")).unwrap();
        pair.assert_finds("link is a file, should be a symbolic link");
    }

    #[test]
    fn a_fifo_that_became_a_file_is_found() {
        let pair = Pair::new();
        fs::remove_file(pair.copy().join("fifo")).unwrap();
        fs::write(pair.copy().join("fifo"), "").unwrap();
        pair.assert_finds("fifo is a file, should be a FIFO");
    }

    #[test]
    fn two_files_that_changed_places_are_found() {
        let pair = Pair::new();
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
        let pair = Pair::new();
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
        let pair = Pair::new();
        let interrupt = Interrupt::never();
        interrupt.raise();
        assert!(digest(&pair.source(), &interrupt).unwrap_err().is_interruption());
    }
}
