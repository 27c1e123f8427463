//! The file: opened and locked by one run at a time, read once, and appended to.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::fs::{File, FileTimes, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Read, Write};
use std::mem::take;
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use crate::PartialFile;
use crate::record::{JournalRecord, MAGIC, parse};
use crate::stamp::{EntryKey, MadeEntry, Stamp};

/// Completed entries are written when this many wait, or when the first has waited for
/// [`WRITTEN_WITHIN`]: a killed run loses no more.
const WAITING_MAX: usize = 1024;

/// See [`WAITING_MAX`]. Then the file is also flushed, for the same reason in a power cut.
const WRITTEN_WITHIN: Duration = Duration::from_secs(1);

/// Maximum wait for another run's lock. A child that a killed run has just forked holds the lock
/// until its `exec`.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// One run of a copy that may take several. Temporary names are derived from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunId {
    /// Number shared by all runs with one journal.
    pub number: u64,
    /// Number of this run, starting at 1.
    pub epoch: u32,
}

/// Why a journal can't be used.
#[derive(Debug)]
pub enum JournalError {
    /// Another run has locked it.
    InUse,
    /// The file is something else.
    NoJournal,
    /// Another release of haul wrote it, in another format.
    OtherRelease,
    /// It belongs to a run with other operands or options.
    OtherRun,
    /// Another user has made it, or something that isn't a file.
    Foreign,
    /// Its first records are damaged or missing. They were flushed before anything was copied.
    Damaged,
    /// A record is too long for the format.
    RecordTooLong,
    /// The file can't be read or written.
    Io(io::Error),
}

impl fmt::Display for JournalError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse => out.write_str("another run is using it"),
            Self::NoJournal => out.write_str("it is not a journal"),
            Self::OtherRelease => out.write_str("another release of haul wrote it"),
            Self::OtherRun => out.write_str("it is the journal of another copy"),
            Self::Foreign => out.write_str("it is not a file of this user"),
            Self::Damaged => out.write_str("its beginning is damaged"),
            Self::RecordTooLong => out.write_str("a record is too long"),
            Self::Io(cause) => cause.fmt(out),
        }
    }
}

impl std::error::Error for JournalError {}

impl From<io::Error> for JournalError {
    fn from(cause: io::Error) -> Self {
        Self::Io(cause)
    }
}

/// Sum of the records of a journal.
#[derive(Default)]
struct JournalContent {
    run: Option<(u64, u8)>,
    starts: u32,
    done: HashMap<EntryKey, Stamp>,
    begun: HashMap<EntryKey, PartialFile>,
    unfinished: HashSet<MadeEntry>,
}

/// The journal of a run.
#[derive(Debug)]
pub struct Journal {
    path: PathBuf,
    run: RunId,
    note: u8,
    done: HashMap<EntryKey, Stamp>,
    begun: HashMap<EntryKey, PartialFile>,
    unfinished: HashSet<MadeEntry>,
    file: Mutex<Appended>,
    not_locked: Option<io::Error>,
    cut_off: u64,
}

/// The open file, and the records that this run adds to it.
#[derive(Debug)]
struct Appended {
    file: File,
    /// True if it contains work of this run.
    has_work: bool,
    /// True if all of it is on storage.
    is_flushed: bool,
    /// Completed entries that are not written yet, and since when the first waits.
    waiting: Vec<(EntryKey, Stamp)>,
    since: Instant,
    /// The first error. Nothing is written after it: a record that was written in part would hide
    /// later ones.
    failure: Option<JournalError>,
    has_failed: bool,
}

impl Journal {
    /// Opens the journal of the job with the fingerprint `spec`, or creates one with a `note` for
    /// those who open it later.
    ///
    /// # Errors
    /// If the file can't be used, is in use by another run, or belongs to another job. It is not
    /// changed then.
    pub fn open(path: &Path, spec: u64, note: u8) -> Result<Self, JournalError> {
        Self::begin(path, open_locked(path, Access::Usual)?, spec, note)
    }

    /// Like [`Journal::open`], for a path that the user didn't choose. A journal is trusted, and
    /// anybody may write to a directory like `/tmp`.
    ///
    /// # Errors
    /// Also if it is not a regular file of this user.
    pub fn open_private(path: &Path, spec: u64, note: u8) -> Result<Self, JournalError> {
        Self::begin(path, open_locked(path, Access::Private)?, spec, note)
    }

    fn begin(
        path: &Path,
        OpenedFile { mut file, not_locked, was_created }: OpenedFile,
        spec: u64,
        note: u8,
    ) -> Result<Self, JournalError> {
        let mut bytes = Vec::new();
        Read::by_ref(&mut file).take(MAGIC.len() as u64).read_to_end(&mut bytes)?;
        // Before all of it is read: another file may be large.
        parse(&bytes)?;
        file.read_to_end(&mut bytes)?;
        let (records, end) = parse(&bytes)?;
        let JournalContent { run, starts, done, begun, unfinished } = JournalContent::of(records, spec)?;
        let is_new = bytes.is_empty();
        if !is_new && (run.is_none() || starts == 0) {
            return Err(JournalError::Damaged);
        }
        let (number, note) = run.unwrap_or_else(|| (RandomState::new().hash_one(0), note));
        let run_id = RunId { number, epoch: starts.saturating_add(1) };
        // Without this record a later run would reuse this run's temporary names.
        let mut first = JournalRecord::Start.framed()?;
        if is_new {
            first = [MAGIC, &JournalRecord::Run { number, spec, note }.framed()?, &first].concat();
        }
        let begin = |file: &mut File| {
            // A damaged record would hide those appended after it.
            file.set_len(end as u64)?;
            // At once: a run that is killed here leaves all of it or nothing.
            file.write_all(&first)?;
            // Before anything is copied: without its first record a later run would not know that
            // this one has made the target.
            file.sync_all()?;
            File::open(parent_of(path))?.sync_all()
        };
        if let Err(error) = begin(&mut file) {
            // Later runs would refuse a file with a part of the first record. The lock is still
            // held, so this run's file has the name, unless that is a symbolic link to it.
            file.set_len(end as u64).unwrap_or_default();
            if was_created && is_new && path.symlink_metadata().is_ok_and(|there| there.is_file()) {
                remove(path).unwrap_or_default();
            }
            return Err(error.into());
        }
        let appended = Appended {
            file,
            has_work: false,
            is_flushed: true,
            waiting: Vec::new(),
            since: Instant::now(),
            failure: None,
            has_failed: false,
        };
        let (path, cut_off) = (path.to_owned(), (bytes.len() - end) as u64);
        let file = Mutex::new(appended);
        Ok(Self { path, run: run_id, note, done, begun, unfinished, file, not_locked, cut_off })
    }

    /// Returns the path it was opened with.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the identity of this run.
    #[must_use]
    pub fn run(&self) -> RunId {
        self.run
    }

    /// Returns the note it was created with.
    #[must_use]
    pub fn note(&self) -> u8 {
        self.note
    }

    /// Returns why the journal is not locked, if its file system has no locks.
    #[must_use]
    pub fn not_locked(&self) -> Option<&io::Error> {
        self.not_locked.as_ref()
    }

    /// Returns how many bytes at its end were damaged. They were cut off.
    #[must_use]
    pub fn cut_off(&self) -> u64 {
        self.cut_off
    }

    /// Returns the stamp of an entry that an earlier run completed; [`Stamp::NONE`] if none did.
    #[must_use]
    pub fn stamp(&self, entry: EntryKey) -> Stamp {
        self.done.get(&entry).copied().unwrap_or_default()
    }

    /// Returns the progress of earlier runs on a large file.
    #[must_use]
    pub fn begun(&self, entry: EntryKey) -> Option<&PartialFile> {
        self.begun.get(&entry)
    }

    /// True if an earlier run has begun a large file.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// True if an earlier run has made this entry, and none has completed the copy since.
    #[must_use]
    pub fn is_unfinished(&self, made: MadeEntry) -> bool {
        self.unfinished.contains(&made)
    }

    /// True if it contains any work, or may: an earlier run may have made what it could not record.
    #[must_use]
    pub fn has_work(&self) -> bool {
        self.run.epoch > 1 || self.lock().has_work
    }

    /// Records that entries are done. Their data must be on storage.
    pub fn done(&self, entries: impl IntoIterator<Item = (EntryKey, Stamp)>) {
        let mut appended = self.lock();
        if appended.waiting.is_empty() {
            appended.since = Instant::now();
        }
        appended.waiting.extend(entries);
        appended.has_work |= !appended.waiting.is_empty();
        let is_late = appended.since.elapsed() >= WRITTEN_WITHIN;
        if is_late || appended.waiting.len() >= WAITING_MAX {
            appended.write(is_late);
        }
    }

    /// Records that a large file was begun.
    pub fn file_begun(&self, entry: EntryKey, ticket: Vec<u8>) {
        self.add_work(&JournalRecord::Begun { entry, ticket });
    }

    /// Records that a range of a large file was moved, with hashes of its content, or without.
    /// Its data must be on storage.
    pub fn range_moved(&self, entry: EntryKey, range: Range<u64>, hashes: Vec<u8>) {
        self.add_work(&JournalRecord::Moved { entry, range, hashes });
    }

    /// Records that an entry was made. Unless this is flushed before a directory is used, or
    /// anything else gets its name, a power cut may leave an entry that no run finishes.
    pub fn entry_made(&self, made: MadeEntry) {
        self.add_work(&JournalRecord::Made(made));
    }

    /// Records that the copy is complete: later runs find every entry as any other.
    pub fn complete(&self) {
        self.lock().add(&JournalRecord::Complete);
    }

    /// Writes the pending records, and flushes the file.
    pub fn flush(&self) {
        self.lock().write(true);
    }

    /// Returns the first write error, once. Work missing in the journal will be done again.
    pub fn take_failure(&self) -> Option<JournalError> {
        self.lock().failure.take()
    }

    /// Removes the file: the copy is complete. Its directory keeps its times, which the copy may
    /// have set.
    ///
    /// # Errors
    /// If it can't be removed.
    pub fn remove(&self) -> io::Result<()> {
        remove(&self.path)
    }

    fn add_work(&self, record: &JournalRecord) {
        let mut appended = self.lock();
        appended.has_work = true;
        appended.add(record);
    }

    fn lock(&self) -> MutexGuard<'_, Appended> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn remove(path: &Path) -> io::Result<()> {
    keeping_times(parent_of(path), || std::fs::remove_file(path))
}

/// Changes the names in a directory, and sets its times as they were, if it can be read.
fn keeping_times<T>(directory: &Path, change: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
    let before = File::open(directory).and_then(|directory| Ok((directory.metadata()?, directory)));
    let changed = change()?;
    if let Ok((before, directory)) = before {
        let times = FileTimes::new().set_accessed(before.accessed()?).set_modified(before.modified()?);
        // Only its owner may, so no one else has set them before.
        directory.set_times(times).unwrap_or_default();
    }
    Ok(changed)
}

fn parent_of(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

impl Drop for Journal {
    fn drop(&mut self) {
        self.flush();
    }
}

impl Appended {
    fn add(&mut self, record: &JournalRecord) {
        self.is_flushed = false;
        let written = |file: &mut File| Ok(file.write_all(&record.framed()?)?);
        if !self.has_failed
            && let Err(error) = written(&mut self.file)
        {
            self.fail(error);
        }
    }

    /// Writes the waiting entries.
    fn write(&mut self, flushes: bool) {
        let waiting = take(&mut self.waiting);
        for entries in waiting.chunks(WAITING_MAX) {
            self.add(&JournalRecord::Done(entries.to_vec()));
        }
        if !flushes || self.is_flushed || self.has_failed {
            return;
        }
        match self.file.sync_data() {
            Ok(()) => self.is_flushed = true,
            Err(error) => self.fail(error.into()),
        }
    }

    fn fail(&mut self, error: JournalError) {
        self.has_failed = true;
        self.failure.get_or_insert(error);
    }
}

impl JournalContent {
    fn of(records: Vec<JournalRecord>, spec: u64) -> Result<Self, JournalError> {
        let mut known = Self::default();
        for record in records {
            match record {
                JournalRecord::Run { number, spec: other, note } if other == spec => {
                    known.run = Some((number, note));
                }
                JournalRecord::Run { .. } => return Err(JournalError::OtherRun),
                JournalRecord::Start => known.starts = known.starts.saturating_add(1),
                // Of several records of an entry, the last one counts.
                JournalRecord::Done(entries) => known.done.extend(entries),
                JournalRecord::Begun { entry, ticket } => {
                    let begun = known.begun.entry(entry).or_default();
                    // Another target was begun: the ranges moved so far are not in it.
                    if begun.ticket != ticket {
                        *begun = PartialFile { ticket, ..PartialFile::default() };
                    }
                }
                JournalRecord::Made(made) => {
                    known.unfinished.insert(made);
                }
                JournalRecord::Complete => known.unfinished.clear(),
                JournalRecord::Moved { entry, range, hashes } => {
                    if let Some(begun) = known.begun.get_mut(&entry) {
                        begun.done.push(range.clone());
                        begun.hashes.extend((!hashes.is_empty()).then_some((range, hashes)));
                    }
                }
            }
        }
        Ok(known)
    }
}

/// Who may have made a journal, and may read it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    /// Anybody, as with other files.
    Usual,
    /// This user.
    Private,
}

/// A file that was opened and, if its file system has locks, locked.
struct OpenedFile {
    file: File,
    not_locked: Option<io::Error>,
    /// True if nothing had its name.
    was_created: bool,
}

/// Opens and locks the file.
fn open_locked(path: &Path, access: Access) -> Result<OpenedFile, JournalError> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        let mut how = File::options();
        how.read(true).append(true);
        if access == Access::Private {
            how.custom_flags(libc::O_NOFOLLOW).mode(0o600);
        }
        let (file, was_created) = match how.open(path) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let mut create = || how.create(true).open(path);
                let created = match access {
                    Access::Usual => create(),
                    // It is removed again, and then nothing shows in the directory that it was
                    // there.
                    Access::Private => keeping_times(parent_of(path), create),
                };
                (created?, true)
            }
            outcome => (outcome?, false),
        };
        // flock(2): over NFS it becomes a lock on the server. It belongs to the open file, which a
        // forked child shares until `exec` closes its descriptor (`O_CLOEXEC`), so the programs
        // that a run starts don't keep the journal locked after it.
        let not_locked = match file.try_lock() {
            Ok(()) => None,
            Err(TryLockError::WouldBlock) if Instant::now() < deadline => {
                std::thread::sleep(LOCK_WAIT / 100);
                continue;
            }
            Err(TryLockError::WouldBlock) => return Err(JournalError::InUse),
            Err(TryLockError::Error(error)) => Some(error),
        };
        // Others may have removed and recreated the file before we locked it.
        let opened = file.metadata()?;
        let is_ours = || opened.is_file() && opened.uid() == haul_sys::effective_identity().user;
        if access == Access::Private && !is_ours() {
            return Err(JournalError::Foreign);
        }
        // A pipe would be waited for, and some devices never end.
        if !opened.is_file() {
            return Err(JournalError::NoJournal);
        }
        match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (opened.dev(), opened.ino()) => {
                return Ok(OpenedFile { file, not_locked, was_created });
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
