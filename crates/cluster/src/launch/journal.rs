//! The journal: what of a run is finished, in a file, so that a later run of the same copy skips it.
//!
//! ```text
//! header: the run's number, and the fingerprint of what is to be done
//! record: length u16 | low half of the XXH3 of the payload u32 | payload, again and again
//! ```
//!
//! Records are only added. A part is recorded after all its entries were done without a problem, and before it is settled;
//! ranges of large files as they are moved. A record that was cut off, as by a machine that stopped, ends the journal: what
//! stood there is done again. Parts are known by fingerprints of where they are and of their names, so a directory that
//! has changed is done again too.
//!
//! Promise: what is in it was reported as done. What a host that crashed had not given to the storage yet is not seen here.

use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io::{self, ErrorKind, Read, Write};
use std::ops::Range;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

use haul_flow::Begun;
use serde::{Deserialize, Serialize};
use xxhash_rust::xxh3::xxh3_64;

use crate::wire::{pack, unpack};

/// One line of the journal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
enum Record {
    /// The first: which run it is, and what is to be done.
    Run { number: u64, undertaking: u64, note: u8 },
    /// A part is done.
    Part(u128),
    /// A large file was begun, under the fingerprint of its entry.
    Begun { entry: u128, ticket: Vec<u8> },
    /// A range of it was moved.
    Moved { entry: u128, range: Range<u64> },
}

/// The journal of a run.
pub struct Journal {
    run: u64,
    note: u8,
    parts: HashSet<u128>,
    begun: HashMap<u128, Begun>,
    file: Mutex<Written>,
}

/// What is written, and whether it could be.
struct Written {
    file: File,
    /// Records of work added by this run.
    records: u64,
    lost: Option<io::Error>,
}

impl Journal {
    /// Opens the journal of what `undertaking` is the fingerprint of, or begins one, with a `note` for those who open it later.
    ///
    /// # Errors
    /// When the file cannot be used, or is the journal of something else.
    pub fn open(path: &Path, undertaking: u64, note: u8) -> io::Result<Self> {
        let mut file = File::options().read(true).append(true).create(true).open(path)?;
        let mut bytes = Vec::new();
        file.read_to_end(&mut bytes)?;
        let (records, end) = records(&bytes);
        if !bytes.is_empty() && records.is_empty() {
            return Err(io::Error::new(ErrorKind::InvalidData, "it is no journal"));
        }
        // What was cut off would hide what is added after it.
        file.set_len(end as u64)?;
        let (mut run, mut parts, mut begun) = (None, HashSet::new(), HashMap::<u128, Begun>::new());
        for record in records {
            match record {
                Record::Run { number, undertaking: other, note } if other == undertaking => {
                    run = Some((number, note))
                }
                Record::Run { .. } => {
                    return Err(io::Error::new(ErrorKind::InvalidInput, "it is the journal of another copy"));
                }
                Record::Part(print) => {
                    parts.insert(print);
                }
                Record::Begun { entry, ticket } => {
                    let known = begun
                        .entry(entry)
                        .or_insert_with(|| Begun { ticket: ticket.clone(), done: Vec::new() });
                    if known.ticket != ticket {
                        *known = Begun { ticket, done: Vec::new() };
                    }
                }
                Record::Moved { entry, range } => {
                    if let Some(begun) = begun.get_mut(&entry) {
                        begun.done.push(range);
                    }
                }
            }
        }
        let is_new = run.is_none();
        let (run, note) = run.unwrap_or_else(|| (rand::random(), note));
        let journal =
            Self { run, note, parts, begun, file: Mutex::new(Written { file, records: 0, lost: None }) };
        if is_new {
            journal.add(&Record::Run { number: run, undertaking, note });
        }
        Ok(journal)
    }

    /// Returns the number of the run that began it.
    #[must_use]
    pub fn run(&self) -> u64 {
        self.run
    }

    /// Returns the note that it was begun with.
    #[must_use]
    pub fn note(&self) -> u8 {
        self.note
    }

    /// Tells whether a part was done before.
    #[must_use]
    pub fn has(&self, part: u128) -> bool {
        self.parts.contains(&part)
    }

    /// Returns what was done before of a large file.
    #[must_use]
    pub fn begun(&self, entry: u128) -> Option<&Begun> {
        self.begun.get(&entry)
    }

    /// Tells whether any large file was begun before.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        !self.begun.is_empty()
    }

    /// Tells whether anything of the work is in it, of this run or of one before.
    pub(crate) fn has_records(&self) -> bool {
        let written = self.file.lock().unwrap_or_else(PoisonError::into_inner).records > 0;
        written || !self.parts.is_empty() || self.has_begun()
    }

    /// Records that a part is done.
    pub fn part_done(&self, part: u128) {
        self.add(&Record::Part(part));
    }

    /// Records that a large file was begun.
    pub fn file_begun(&self, entry: u128, ticket: Vec<u8>) {
        self.add(&Record::Begun { entry, ticket });
    }

    /// Records that a range of a large file was moved.
    pub fn range_moved(&self, entry: u128, range: Range<u64>) {
        self.add(&Record::Moved { entry, range });
    }

    /// Returns why the journal is not whole, once, if it is not: what is missing in it will be done again.
    pub fn take_failure(&self) -> Option<io::Error> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner).lost.take()
    }

    fn add(&self, record: &Record) {
        let mut written = self.file.lock().unwrap_or_else(PoisonError::into_inner);
        match frame(&pack(record)).and_then(|bytes| written.file.write_all(&bytes)) {
            Ok(()) => written.records += u64::from(!matches!(record, Record::Run { .. })),
            Err(error) => {
                written.lost.get_or_insert(error);
            }
        }
    }
}

/// Puts the head before a record. One that is too long is none: it would be read as another.
fn frame(payload: &[u8]) -> io::Result<Vec<u8>> {
    let too_long = |_| io::Error::new(ErrorKind::InvalidInput, "a record is too long");
    let length = u16::try_from(payload.len()).map_err(too_long)?;
    let sum = xxh3_64(payload) as u32;
    Ok([&length.to_le_bytes()[..], &sum.to_le_bytes(), payload].concat())
}

/// Reads records up to the first that is not whole; returns where that begins.
fn records(bytes: &[u8]) -> (Vec<Record>, usize) {
    let (mut records, mut at) = (Vec::new(), 0);
    while let Some((head, rest)) = bytes[at..].split_at_checked(6) {
        let length = usize::from(u16::from_le_bytes([head[0], head[1]]));
        let sum = u32::from_le_bytes([head[2], head[3], head[4], head[5]]);
        let Some(payload) = rest.get(..length) else { break };
        let record = unpack(payload).ok().filter(|_| xxh3_64(payload) as u32 == sum);
        let Some(record) = record else { break };
        records.push(record);
        at += 6 + length;
    }
    (records, at)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_record_can_hold_is_told_of_and_hides_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        journal.file_begun(6, vec![0; 1 << 16]);
        journal.part_done(200);
        assert!(journal.take_failure().is_some());
        let journal = Journal::open(&path, 7, 1).unwrap();
        assert!(journal.has(200) && journal.begun(6).is_none());
    }

    #[test]
    fn what_is_recorded_is_known_to_the_next_run_up_to_where_it_was_cut_off() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("journal");
        let journal = Journal::open(&path, 7, 1).unwrap();
        let run = journal.run();
        assert!(!journal.has_records());
        (0..100).for_each(|part| journal.part_done(part));
        journal.file_begun(5, b"ticket".to_vec());
        journal.range_moved(5, 0..10);
        assert!(journal.take_failure().is_none() && journal.has_records());
        let whole = std::fs::read(&path).unwrap();
        for cut in [0, 1, 5, 20] {
            std::fs::write(&path, &whole[..whole.len() - cut]).unwrap();
            let journal = Journal::open(&path, 7, 1).unwrap();
            assert_eq!(journal.run(), run);
            assert!((0..100).all(|part| journal.has(part)) && !journal.has(100));
            let done = journal.begun(5).map(|begun| begun.done.clone());
            assert_eq!(done.unwrap_or_default(), Vec::from_iter((cut == 0).then_some(0..10)));
            journal.part_done(100);
            drop(journal);
            assert!(Journal::open(&path, 7, 1).unwrap().has(100));
        }
        assert!(Journal::open(&path, 8, 1).is_err(), "the journal of another copy was taken");
        std::fs::write(&path, "a letter to my aunt").unwrap();
        assert!(Journal::open(&path, 7, 1).is_err());
        assert_eq!(std::fs::read(&path).unwrap(), b"a letter to my aunt");
    }
}
