//! Keeps replaced files under another name (`--backup`), or in another directory (`--backup-dir`).
//!
//! With `--backup`, a backup is a rename within the target's directory. An unnumbered backup
//! replaces an older one; a numbered one never replaces anything, because the kernel is asked to
//! refuse that. Its number is one more than the highest existing one. The first backup in a
//! directory finds that by listing it; later ones use the cached result.
//!
//! From examining a target until its replacement exists, a [`Turn`] keeps other workers from making
//! backups in that directory. So if a file and its backup are both copied, one is handled first, as
//! with a single worker.

use std::collections::HashMap;
use std::ffi::{CStr, CString};
use std::sync::{Mutex, MutexGuard};

use haul_flow::{EarlierBackup, Original, OutputLine, Problem, lock, path_below};
use haul_sys::{DirectoryReader, Errno, Error, Fd, FileType, Identity, NameArena, Open, Operation};
use haul_sys::{c_string, open, rename, rename_to_new, stat_at};

use super::CopyKind;
use super::entry_copy::EntryCopy;
use super::options::{Backup, Existing};
use super::repeated;

/// Number of shards, so that turns in different directories rarely wait for each other.
const SHARDS: usize = 16;

/// Maximum length of a backup's name, in bytes. GNU cp takes one off the file system's limit, which
/// is 255 nearly everywhere.
const NAME_BYTES: usize = 254;

/// Names read from a listing at a time.
const LISTED_AT_ONCE: usize = 1 << 10;

/// Maximum attempts; each failure means that someone else has just made a backup of that number.
const TRIES: usize = 100;

/// Highest backup number of each name, in decimal digits: there is no upper limit.
type Versions = HashMap<Vec<u8>, Vec<u8>>;

/// Known backups in the directories being copied to.
#[derive(Debug, Default)]
pub(super) struct Backups {
    shards: [Mutex<HashMap<Identity, Versions>>; SHARDS],
}

impl Backups {
    fn shard(&self, directory: Identity) -> MutexGuard<'_, HashMap<Identity, Versions>> {
        let shard = &self.shards[directory.inode as usize % SHARDS];
        lock(shard)
    }

    /// Waits for the turn to make a backup in a directory.
    pub(super) fn turn(&self, directory: Identity) -> Turn<'_> {
        Turn { known: self.shard(directory), directory }
    }

    /// Forgets a directory that is complete.
    pub(super) fn forget(&self, directory: Identity) {
        self.shard(directory).remove(&directory);
    }
}

/// A backup that was made of an existing target.
#[derive(Debug)]
pub(super) struct MadeBackup {
    /// Its name.
    pub(super) name: CString,
    /// The file that got that name.
    pub(super) file: Identity,
}

impl MadeBackup {
    pub(super) fn name(&self) -> &CStr {
        &self.name
    }
}

/// Exclusive right to make backups in one directory.
pub(super) struct Turn<'b> {
    known: MutexGuard<'b, HashMap<Identity, Versions>>,
    directory: Identity,
}

impl Turn<'_> {
    /// Renames the entry `name` of `directory` to its backup name and returns that; `None` if the
    /// entry is gone.
    ///
    /// # Errors
    /// The kernel's.
    pub(super) fn back_up(
        &mut self,
        directory: &Fd,
        name: &CStr,
        existing: &Existing,
    ) -> Result<Option<CString>, Error> {
        let base = base_of(name);
        let mut last = None;
        for _ in 0..TRIES {
            let Chosen { name: new_name, version, is_whole } = self.choose(directory, base, existing);
            let outcome = match version {
                Some(_) => rename_to_new(directory, name, &new_name),
                None => rename(directory, name, &new_name),
            };
            match outcome {
                Ok(()) => {
                    if let Some(version) = version {
                        self.versions(directory).insert(base.to_vec(), version);
                    }
                    return Ok(Some(new_name));
                }
                Err(cause) if cause.is(Errno::NOENT) => return Ok(None),
                Err(cause) if cause.is(Errno::EXIST) && is_whole => {
                    // Someone else made this backup: list the directory again.
                    self.known.remove(&self.directory);
                    last = Some(cause);
                }
                Err(cause) => return Err(cause),
            }
        }
        Err(last.unwrap_or_else(|| Error::new(Operation::Renameat, format!("{name:?}"), Errno::EXIST)))
    }

    fn choose(&mut self, directory: &Fd, base: &[u8], existing: &Existing) -> Chosen {
        if existing.backup == Backup::Simple {
            return Chosen::simple(base, existing);
        }
        match (self.versions(directory).get(base), existing.backup) {
            (Some(highest), _) => Chosen::numbered(base, successor(highest), highest.len()),
            (None, Backup::Numbered) => Chosen::numbered(base, b"1".to_vec(), 0),
            (None, _) => {
                Chosen { name: fitted(base, existing.suffix.to_bytes()).0, ..Chosen::simple(base, existing) }
            }
        }
    }

    fn versions(&mut self, directory: &Fd) -> &mut Versions {
        self.known.entry(self.directory).or_insert_with(|| list(directory))
    }
}

struct Chosen {
    name: CString,
    /// Its number, if it has one.
    version: Option<Vec<u8>>,
    /// True if nothing was cut off.
    is_whole: bool,
}

impl Chosen {
    fn simple(base: &[u8], existing: &Existing) -> Self {
        let name = c_string(&[base, existing.suffix.to_bytes()].concat());
        Self { name, version: None, is_whole: true }
    }

    /// Makes a numbered name. If a backup with as many digits exists, `digits_there`, the directory
    /// is known to accept names of that length.
    fn numbered(base: &[u8], version: Vec<u8>, digits_there: usize) -> Self {
        let ending = [b".~", version.as_slice(), b"~"].concat();
        let (name, is_whole) = if version.len() == digits_there {
            (c_string(&[base, &ending].concat()), true)
        } else {
            fitted(base, &ending)
        };
        Self { name, version: Some(version), is_whole }
    }
}

/// Returns the backup name of `name` in `directory`, without taking a turn.
pub(super) fn backup_name(directory: &Fd, name: &CStr, existing: &Existing) -> CString {
    let backups = Backups::default();
    let nowhere = Identity { device: 0, inode: 0 };
    backups.turn(nowhere).choose(directory, base_of(name), existing).name
}

/// Returns a name without the endings that make it a backup's.
pub(super) fn without_endings<'a>(mut name: &'a [u8], existing: &Existing) -> &'a [u8] {
    let suffix = existing.suffix.to_bytes();
    loop {
        let simple = name.strip_suffix(suffix).filter(|base| !suffix.is_empty() && !base.is_empty());
        match parse(name).map(|(base, _)| base).or(simple) {
            Some(base) => name = base,
            None => return name,
        }
    }
}

/// Returns a name without trailing slashes.
pub(super) fn base_of(name: &CStr) -> &[u8] {
    let bytes = name.to_bytes();
    let end = bytes.iter().rposition(|byte| *byte != b'/').map_or(bytes.len(), |last| last + 1);
    &bytes[..end]
}

/// Appends an ending to a name; if that is too long, just `~`. Also returns whether the ending
/// is whole.
fn fitted(base: &[u8], ending: &[u8]) -> (CString, bool) {
    if base.len() + ending.len() <= NAME_BYTES {
        return (c_string(&[base, ending].concat()), true);
    }
    let kept = &base[..base.len().min(NAME_BYTES - 1)];
    (c_string(&[kept, b"~"].concat()), false)
}

/// Increments a decimal number.
fn successor(digits: &[u8]) -> Vec<u8> {
    let mut digits = digits.to_vec();
    for digit in digits.iter_mut().rev() {
        if *digit < b'9' {
            *digit += 1;
            return digits;
        }
        *digit = b'0';
    }
    digits.insert(0, b'1');
    digits
}

/// Splits a numbered backup's name into its base name and number; `None` for other names.
fn parse(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = name.strip_suffix(b"~")?;
    let start = rest.iter().rposition(|byte| !byte.is_ascii_digit())? + 1;
    let (base, version) = rest.split_at(start);
    let base = base.strip_suffix(b".~")?;
    (matches!(version, [b'1'..=b'9', ..]) && !base.is_empty()).then_some((base, version))
}

/// Finds the backups in a directory. If it can't be listed, or only in part, returns those seen.
fn list(directory: &Fd) -> Versions {
    let mut versions = Versions::new();
    let Ok(listed) = open(directory, c".", Open::DIRECTORY) else { return versions };
    let mut reader = DirectoryReader::new();
    loop {
        let mut names = NameArena::new();
        let more = reader.read(&listed, &mut names, LISTED_AT_ONCE);
        for index in 0..names.len() {
            note(&mut versions, names.name(index).to_bytes());
        }
        if !more.unwrap_or(false) {
            break;
        }
    }
    // Only read from, so a failed close doesn't matter.
    listed.close().unwrap_or_default();
    versions
}

/// Records a backup's number if it is the highest of its name.
fn note(versions: &mut Versions, name: &[u8]) {
    let Some((base, version)) = parse(name) else { return };
    let order = |digits: &[u8]| (digits.len(), digits.to_vec());
    match versions.get_mut(base) {
        Some(highest) if order(highest) >= order(version) => {}
        Some(highest) => *highest = version.to_vec(),
        None => {
            versions.insert(base.to_vec(), version.to_vec());
        }
    }
}

/// Backs up the entry, if there is one, that is replaced next, with `--backup-dir`.
pub(super) fn keep(copy: EntryCopy<'_>, directory: &Fd, earlier: EarlierBackup) -> Result<(), Problem> {
    let Some(backup) = &copy.copier.backup_directory else { return Ok(()) };
    // A lost rank may have replaced it already, and kept what was there.
    let earlier = if repeated::is_repeated(copy) { EarlierBackup::Both } else { earlier };
    match stat_at(directory, copy.target_name()) {
        Err(cause) if cause.is(Errno::NOENT) => return Ok(()),
        // It can't be replaced.
        Ok(there) if there.kind == FileType::Directory => return Ok(()),
        _ => {}
    }
    let own = &copy.entry.node.own;
    let path = own.held.path();
    let original = Original { directory, below: path_below(&path, &own.operand.target) };
    copy.with_room(|| backup.keep(copy.cx.cache(), original, copy.target_name(), earlier))
        .map_err(|cause| copy.problem(CopyKind::CannotBackup, cause))
}

/// Restores a backup after its replacement could not be created.
pub(super) fn put_back(copy: EntryCopy<'_>, backup: Option<&MadeBackup>) {
    let Some(MadeBackup { name, file }) = backup else { return };
    let outcome = copy.open_directory().and_then(|directory| {
        // Another entry may have that name by now, and have moved this one on.
        match stat_at(&directory, name)?.identity == *file {
            true => rename(directory, name, copy.target_name()),
            false => Err(Error::new(Operation::Renameat, format!("{name:?}"), Errno::STALE)),
        }
    });
    match outcome {
        Ok(()) => report_put_back(copy, name),
        Err(cause) => copy.cx.problem(copy.problem(CopyKind::CannotUnbackup, cause)),
    }
}

/// Prints that a backup was restored.
pub(super) fn report_put_back(copy: EntryCopy<'_>, backup: &CStr) {
    if copy.options.verbose {
        let names = vec![copy.entry.node.own.held.path_of(backup), copy.target_path()];
        copy.cx.report().line(OutputLine::new(CopyKind::Unbackup, names));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_backup_is_known_by_its_name() {
        let parsed = |name: &'static str| {
            parse(name.as_bytes()).map(|(base, version)| (base.to_vec(), version.to_vec()))
        };
        assert_eq!(parsed("f.~1~"), Some((b"f".to_vec(), b"1".to_vec())));
        assert_eq!(parsed("f.~1~.~20~"), Some((b"f.~1~".to_vec(), b"20".to_vec())));
        for other in ["f", "f~", "f.~~", "f.~01~", "f.~1", "f.1~", ".~1~", "f.~x1~", "~", ""] {
            assert_eq!(parsed(other), None, "{other}");
        }
    }

    #[test]
    fn the_highest_number_counts_however_long_it_is() {
        let mut versions = Versions::new();
        for name in ["f.~9~", "f.~10~", "f.~2~", "g.~99999999999999999999999999999999999999999~"] {
            note(&mut versions, name.as_bytes());
        }
        assert_eq!(versions[b"f".as_slice()], b"10");
        assert_eq!(successor(&versions[b"f".as_slice()]), b"11");
        assert_eq!(successor(&versions[b"g".as_slice()]), b"100000000000000000000000000000000000000000");
        assert_eq!(successor(b"199"), b"200");
    }

    #[test]
    fn a_name_that_would_be_too_long_is_cut() {
        let long = vec![b'n'; 253];
        assert_eq!(fitted(&long, b"~"), (c_string(&[long.as_slice(), b"~"].concat()), true));
        assert_eq!(fitted(&long, b".~1~"), (c_string(&[long.as_slice(), b"~"].concat()), false));
        let longest = vec![b'n'; 255];
        assert_eq!(fitted(&longest, b"~").0.to_bytes().len(), 254);
    }
}
