//! The format of a journal.
//!
//! ```text
//! magic | records: length u16 | low half of the XXH3 of the payload u32 | payload
//! payload: type u8 | fields
//! ```
//!
//! Numbers are little-endian. A record that is incomplete or doesn't have its checksum, after a
//! crash for instance, ends the journal.

use std::ops::Range;

use xxhash_rust::xxh3::xxh3_64;

use crate::journal::JournalError;
use crate::stamp::{EntryKey, MadeEntry, Stamp};

/// First bytes of a journal, with the format's version.
pub(crate) const MAGIC: &[u8] = b"haul journal 4\n";

/// First bytes of every format.
const MAGIC_OF_ALL: &[u8] = b"haul journal ";

/// Size of a record's header, in bytes.
const HEAD: usize = 6;

/// A record of the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum JournalRecord {
    /// First record: the number shared by all runs, a fingerprint of the job, and a note.
    Run { number: u64, spec: u64, note: u8 },
    /// A run has started.
    Start,
    /// Entries are done.
    Done(Vec<(EntryKey, Stamp)>),
    /// A large file was begun.
    Begun { entry: EntryKey, ticket: Vec<u8> },
    /// A range of it was moved. Its content has these hashes, if they are known.
    Moved { entry: EntryKey, range: Range<u64>, hashes: Vec<u8> },
    /// An entry was made, which isn't done.
    Made(MadeEntry),
    /// The whole copy is complete.
    Complete,
}

impl JournalRecord {
    fn pack(&self) -> Vec<u8> {
        let mut bytes = Vec::new();
        let mut put = |kind: u8, numbers: &[u64], rest: &[u8]| {
            bytes.push(kind);
            numbers.iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
            bytes.extend_from_slice(rest);
        };
        match self {
            Self::Run { number, spec, note } => put(1, &[*number, *spec], &[*note]),
            Self::Start => put(2, &[], &[]),
            Self::Done(entries) => {
                let numbers: Vec<u64> =
                    entries.iter().flat_map(|(EntryKey(key), Stamp(stamp))| [*key, *stamp]).collect();
                put(3, &numbers, &[]);
            }
            Self::Begun { entry, ticket } => put(4, &[entry.0], ticket),
            Self::Moved { entry, range, hashes } => put(5, &[entry.0, range.start, range.end], hashes),
            Self::Made(made) => put(6, &[made.0], &[]),
            Self::Complete => put(7, &[], &[]),
        }
        bytes
    }

    fn unpack(payload: &[u8]) -> Option<Self> {
        let (&kind, mut rest) = payload.split_first()?;
        let mut number = || {
            let (number, after) = rest.split_first_chunk()?;
            rest = after;
            Some(u64::from_le_bytes(*number))
        };
        let record = match kind {
            1 => {
                let (run, spec) = (number()?, number()?);
                Self::Run { number: run, spec, note: *rest.split_off_first()? }
            }
            2 => Self::Start,
            3 => {
                let pair = || Some((EntryKey(number()?), Stamp(number()?)));
                Self::Done(std::iter::from_fn(pair).collect())
            }
            4 => Self::Begun { entry: EntryKey(number()?), ticket: std::mem::take(&mut rest).to_vec() },
            5 => {
                let (entry, range) = (EntryKey(number()?), number()?..number()?);
                Self::Moved { entry, range, hashes: std::mem::take(&mut rest).to_vec() }
            }
            6 => Self::Made(MadeEntry(number()?)),
            7 => Self::Complete,
            _ => return None,
        };
        rest.is_empty().then_some(record)
    }

    /// Returns the record as it is in the file. Fails if the payload is too long for its length
    /// field, because it would be read as another record.
    pub(crate) fn framed(&self) -> Result<Vec<u8>, JournalError> {
        frame(&self.pack())
    }
}

fn frame(payload: &[u8]) -> Result<Vec<u8>, JournalError> {
    let length = u16::try_from(payload.len()).map_err(|_| JournalError::RecordTooLong)?;
    let sum = xxh3_64(payload) as u32;
    Ok([&length.to_le_bytes()[..], &sum.to_le_bytes(), payload].concat())
}

/// Parses the records up to the first that is damaged. Returns its offset too: 0 if not even the
/// magic is complete.
pub(crate) fn parse(bytes: &[u8]) -> Result<(Vec<JournalRecord>, usize), JournalError> {
    if MAGIC.starts_with(bytes) && bytes.len() < MAGIC.len() {
        return Ok((Vec::new(), 0));
    }
    if !bytes.starts_with(MAGIC) {
        // The first format had no magic and began with a record.
        let is_other = bytes.starts_with(MAGIC_OF_ALL) || payload(bytes).is_some();
        return Err(if is_other { JournalError::OtherRelease } else { JournalError::NoJournal });
    }
    let (mut records, mut at) = (Vec::new(), MAGIC.len());
    while let Some(payload) = payload(&bytes[at..]) {
        let Some(record) = JournalRecord::unpack(payload) else { break };
        records.push(record);
        at += HEAD + payload.len();
    }
    Ok((records, at))
}

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

    #[test]
    fn records_are_read_as_they_were_written() {
        let records = [
            JournalRecord::Run { number: u64::MAX, spec: 7, note: 1 },
            JournalRecord::Start,
            JournalRecord::Done(Vec::new()),
            JournalRecord::Done((0..1000).map(|key| (EntryKey(key), Stamp(key * 3))).collect()),
            JournalRecord::Begun { entry: EntryKey(6), ticket: b"ticket".to_vec() },
            JournalRecord::Moved { entry: EntryKey(6), range: 1..u64::MAX, hashes: Vec::new() },
            JournalRecord::Moved { entry: EntryKey(6), range: 1..7, hashes: vec![8; 4096] },
            JournalRecord::Made(MadeEntry(u64::MAX)),
            JournalRecord::Complete,
        ];
        let mut bytes = MAGIC.to_vec();
        records.iter().for_each(|record| bytes.extend(record.framed().unwrap()));
        assert_eq!(parse(&bytes).unwrap(), (records.to_vec(), bytes.len()));
    }

    #[test]
    fn a_damaged_record_ends_the_journal() {
        let record = JournalRecord::Begun { entry: EntryKey(6), ticket: vec![9; 40] };
        let first = [MAGIC, &record.framed().unwrap()].concat();
        let whole = [&first[..], &record.framed().unwrap(), &record.framed().unwrap()].concat();
        for at in first.len()..first.len() + HEAD + 49 {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x10;
            let (records, end) = parse(&damaged).unwrap();
            assert_eq!((records.len(), end), (1, first.len()), "byte {at}");
        }
        // Of a type that this release doesn't know.
        let unknown = [&first[..], &frame(&[77, 1]).unwrap()].concat();
        assert_eq!(parse(&unknown).unwrap().1, first.len());
    }

    #[test]
    fn files_that_are_no_journals_of_this_release_are_distinguished() {
        assert!(matches!(parse(b"a letter to my aunt"), Err(JournalError::NoJournal)));
        let older = frame(b"\0\x07\x07\0").unwrap();
        for content in [&older[..], b"haul journal 2\n", b"haul journal 5\nmore"] {
            assert!(matches!(parse(content), Err(JournalError::OtherRelease)), "{content:?}");
        }
    }
}
