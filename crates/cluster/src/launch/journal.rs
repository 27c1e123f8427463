//! The journal: a file that records the completed work of a run, so that a later run of the same
//! copy skips it.
//!
//! ```text
//! magic | records: length u16 | low half of the XXH3 of the payload u32 | payload
//! ```
//!
//! Records are only appended. A work item is recorded when all its entries were processed without a
//! problem and are on storage, before they are completed in the walk; ranges of large files are
//! recorded as they are moved. A truncated record, after a crash for instance, ends the journal,
//! and the work after it is done again. Items are identified by fingerprints of their directory and
//! names, so a directory that has changed is processed again too. Each entry of an item has a
//! [`Stamp`]: a later run skips it only if source and target still match the stamp.
//!
//! A run holds a lock on its journal (`flock`), so two runs never share one. Every run has an
//! epoch, which is part of its temporary names: a later run removes those that earlier runs
//! have left.
//!
//! Guarantee: what it contains was reported as done, and was on storage at that time.

use std::collections::HashMap;
use std::fmt;
use std::fs::{File, TryLockError};
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::item::PartialFile;
use crate::stamp::{RunId, Stamp};
use crate::wire::{pack, unpack};
use haul_flow::lock;

/// First bytes of a journal, with the format's version.
const MAGIC: &[u8] = b"haul journal 2\n";

/// First bytes of every format.
const MAGIC_OF_ALL: &[u8] = b"haul journal ";

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Record {
    /// First record: the run's number, and a fingerprint of the job.
    Run { number: u64, spec: u64, note: u8 },
    /// A run has started.
    Start,
    /// A work item is done; its entries have these stamps.
    Item { print: u128, stamps: Vec<Stamp> },
    /// A large file was begun; `entry` is its fingerprint.
    PartialFile { entry: u128, ticket: Vec<u8> },
    /// A range of it was moved.
    Moved { entry: u128, range: Range<u64> },
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
struct Known {
    run: Option<(u64, u8)>,
    starts: u32,
    items: HashMap<u128, Box<[Stamp]>>,
    begun: HashMap<u128, PartialFile>,
}

/// The journal of a run.
pub struct Journal {
    run: RunId,
    note: u8,
    items: HashMap<u128, Box<[Stamp]>>,
    begun: HashMap<u128, PartialFile>,
    file: Mutex<Written>,
    not_locked: Option<io::Error>,
}

/// The open file and the first write error.
struct Written {
    file: File,
    /// Records of work added by this run.
    records: u64,
    lost: Option<JournalError>,
}

impl Journal {
    /// Opens the journal of the job with the fingerprint `spec`, or creates one with a `note` for
    /// those who open it later.
    ///
    /// # Errors
    /// If the file can't be used, is in use by another run, or belongs to another job. It is not
    /// changed then.
    pub fn open(path: &Path, spec: u64, note: u8) -> Result<Self, JournalError> {
        let (mut file, not_locked) = open_locked(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (records, end) = records(&bytes)?;
        let known = Known::of(records, spec)?;
        // A truncated record would hide the records appended after it.
        file.set_len(end as u64)?;
        let Known { run, starts, items, begun } = known;
        let (number, note) = run.unwrap_or_else(|| (rand::random(), note));
        let run_id = RunId { number, epoch: starts.saturating_add(1) };
        if end == 0 {
            file.write_all(MAGIC)?;
        }
        let file = Mutex::new(Written { file, records: 0, lost: None });
        let journal = Self { run: run_id, note, items, begun, file, not_locked };
        if run.is_none() {
            journal.add(&Record::Run { number, spec, note });
        }
        journal.add(&Record::Start);
        // Without this record a later run would reuse this run's temporary names.
        journal.take_failure().map_or(Ok(journal), Err)
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

    /// Returns the stamps of a work item that an earlier run completed.
    #[must_use]
    pub fn stamps(&self, item: u128) -> Option<&[Stamp]> {
        self.items.get(&item).map(AsRef::as_ref)
    }

    /// Returns the progress of earlier runs on a large file.
    #[must_use]
    pub fn begun(&self, entry: u128) -> Option<&PartialFile> {
        self.begun.get(&entry)
    }

    /// True if an earlier run has begun a large file.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// True if it contains any work, of this run or of an earlier one.
    pub(crate) fn has_records(&self) -> bool {
        let written = lock(&self.file).records > 0;
        written || !self.items.is_empty() || self.has_begun()
    }

    /// Records that a work item is done.
    pub fn item_done(&self, print: u128, stamps: Vec<Stamp>) {
        self.add(&Record::Item { print, stamps });
    }

    /// Records that a large file was begun.
    pub fn file_begun(&self, entry: u128, ticket: Vec<u8>) {
        self.add(&Record::PartialFile { entry, ticket });
    }

    /// Records that a range of a large file was moved.
    pub fn range_moved(&self, entry: u128, range: Range<u64>) {
        self.add(&Record::Moved { entry, range });
    }

    /// Returns the first write error, once. Work missing in the journal will be done again.
    pub fn take_failure(&self) -> Option<JournalError> {
        lock(&self.file).lost.take()
    }

    fn add(&self, record: &Record) {
        let mut written = lock(&self.file);
        match frame(&pack(record)).and_then(|bytes| Ok(written.file.write_all(&bytes)?)) {
            Ok(()) => written.records += u64::from(!matches!(record, Record::Run { .. } | Record::Start)),
            Err(error) => {
                written.lost.get_or_insert(error);
            }
        }
    }
}

impl Known {
    fn of(records: Vec<Record>, spec: u64) -> Result<Self, JournalError> {
        let mut known = Self::default();
        for record in records {
            match record {
                Record::Run { number, spec: other, note } if other == spec => {
                    known.run = Some((number, note));
                }
                Record::Run { .. } => return Err(JournalError::OtherRun),
                Record::Start => known.starts = known.starts.saturating_add(1),
                Record::Item { print, stamps } => {
                    known.items.insert(print, stamps.into());
                }
                Record::PartialFile { entry, ticket } => {
                    let begun = known
                        .begun
                        .entry(entry)
                        .or_insert_with(|| PartialFile { ticket: ticket.clone(), done: Vec::new() });
                    // Another target was begun: the ranges moved so far are not in it.
                    if begun.ticket != ticket {
                        *begun = PartialFile { ticket, done: Vec::new() };
                    }
                }
                Record::Moved { entry, range } => {
                    if let Some(begun) = known.begun.get_mut(&entry) {
                        begun.done.push(range);
                    }
                }
            }
        }
        Ok(known)
    }
}

/// How long to wait for another run's lock. A child that a killed run has just forked holds the
/// lock until its `exec`.
const LOCK_WAIT: Duration = Duration::from_secs(1);

/// Opens and locks the file. If the file system has no locks, returns why it is not locked.
fn open_locked(path: &Path) -> Result<(File, Option<io::Error>), JournalError> {
    let deadline = Instant::now() + LOCK_WAIT;
    loop {
        let file = File::options().read(true).append(true).create(true).open(path)?;
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
        match std::fs::metadata(path) {
            Ok(there) if (there.dev(), there.ino()) == (opened.dev(), opened.ino()) => {
                return Ok((file, not_locked));
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
    }
}

/// Adds the header to a payload. Fails if the payload is too long for its length field, because it
/// would be read as another record.
fn frame(payload: &[u8]) -> Result<Vec<u8>, JournalError> {
    let length = u16::try_from(payload.len()).map_err(|_| JournalError::RecordTooLong)?;
    let sum = xxh3_64(payload) as u32;
    Ok([&length.to_le_bytes()[..], &sum.to_le_bytes(), payload].concat())
}

/// Parses records up to the first incomplete one. Returns its offset too: 0 if not even the magic
/// is complete.
fn records(bytes: &[u8]) -> Result<(Vec<Record>, usize), JournalError> {
    if MAGIC.starts_with(bytes) && bytes.len() < MAGIC.len() {
        return Ok((Vec::new(), 0));
    }
    if !bytes.starts_with(MAGIC) {
        let is_frame = payload(bytes).is_some();
        return Err(match is_frame || bytes.starts_with(MAGIC_OF_ALL) {
            true => JournalError::OtherRelease,
            false => JournalError::NoJournal,
        });
    }
    let (mut records, mut at) = (Vec::new(), MAGIC.len());
    while let Some(payload) = payload(&bytes[at..]) {
        let Ok(record) = unpack(payload) else { break };
        records.push(record);
        at += HEAD + payload.len();
    }
    Ok((records, at))
}

/// Size of a record's header, in bytes.
const HEAD: usize = 6;

/// Returns the payload of the first record in `bytes`, if it is complete.
fn payload(bytes: &[u8]) -> Option<&[u8]> {
    let (head, rest) = bytes.split_at_checked(HEAD)?;
    let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
    let sum = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
    rest.get(..length).filter(|payload| xxh3_64(payload) as u32 == sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(number: u128) -> Vec<Stamp> {
        vec![Stamp(number as u64 + 1); 3]
    }

    #[test]
    fn a_record_that_is_too_long_is_an_error_and_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        journal.file_begun(6, vec![0; 1 << 16]);
        journal.item_done(200, stamps(200));
        assert!(journal.take_failure().is_some());
        drop(journal);
        let journal = Journal::open(&path, 7, 1).unwrap();
        assert!(journal.stamps(200).is_some() && journal.begun(6).is_none());
    }

    #[test]
    fn records_are_known_to_the_next_run_up_to_where_they_were_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        let RunId { number, epoch } = journal.run();
        assert!(!journal.has_records() && epoch == 1);
        (0..100).for_each(|item| journal.item_done(item, stamps(item)));
        journal.file_begun(5, b"ticket".to_vec());
        journal.range_moved(5, 0..10);
        assert!(journal.take_failure().is_none() && journal.has_records());
        drop(journal);
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 1, 5, 20] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let journal = Journal::open(&path, 7, 1).unwrap();
            assert_eq!(journal.run(), RunId { number, epoch: 2 });
            assert!((0..100).all(|item| journal.stamps(item) == Some(&stamps(item))));
            assert!(journal.stamps(100).is_none());
            let done = journal.begun(5).map(|begun| begun.done.clone());
            assert_eq!(done.unwrap_or_default(), Vec::from_iter((cut == 0).then_some(0..10)));
            journal.item_done(100, stamps(100));
            drop(journal);
            let journal = Journal::open(&path, 7, 1).unwrap();
            assert!(journal.stamps(100).is_some() && journal.run().epoch == 3);
        }
        assert!(Journal::open(&path, 8, 1).is_err(), "the journal of another copy was taken");
    }

    #[test]
    fn a_journal_that_was_cut_off_in_its_first_bytes_begins_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        for length in [1, MAGIC.len() - 1, MAGIC.len(), MAGIC.len() + 3] {
            drop(Journal::open(&path, 7, 1).unwrap());
            let whole = std::fs::read(&path).unwrap();
            std::fs::write(&path, &whole[..length]).unwrap();
            drop(Journal::open(&path, 7, 1).unwrap());
            assert_eq!(Journal::open(&path, 7, 1).unwrap().run().epoch, 2, "cut at {length}");
            std::fs::remove_file(&path).unwrap();
        }
    }

    /// Opens a journal with this `content`, which must be refused and left unchanged. Returns
    /// the error.
    fn refusal(content: &[u8]) -> JournalError {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        std::fs::write(&path, content).unwrap();
        let error = Journal::open(&path, 7, 1).err().unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), content);
        error
    }

    #[test]
    fn files_that_are_no_journals_of_this_release_are_refused_and_left_alone() {
        assert!(matches!(refusal(b"a letter to my aunt"), JournalError::NoJournal));
        // The first format had no magic and began with a record.
        let older = frame(b"\0\x07\x07\0").unwrap();
        for content in [&older[..], b"haul journal 1\n", b"haul journal 3\nmore"] {
            assert!(matches!(refusal(content), JournalError::OtherRelease), "{content:?}");
        }
    }

    #[test]
    fn a_journal_that_is_in_use_is_refused_and_left_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        let before = std::fs::read(&path).unwrap();
        let error = Journal::open(&path, 7, 1).err().unwrap();
        assert!(matches!(error, JournalError::InUse));
        assert_eq!(std::fs::read(&path).unwrap(), before);
        drop(journal);
        assert_eq!(Journal::open(&path, 7, 1).unwrap().run().epoch, 2);
    }

    #[test]
    fn a_program_that_a_run_started_does_not_keep_its_journal_locked() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        // `spawn` returns after the child's `exec`.
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        drop(journal);
        let again = Journal::open(&path, 7, 1);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(again.unwrap().run().epoch, 2);
    }
}
