//! State per directory: the operand it is below, or the records of a manifest that its entries
//! are.

use std::ffi::{CStr, CString};
use std::sync::Arc;

use haul_digest::Digest;
use haul_digest::manifest::ExpectedHash;
use haul_sys::Error;
use serde::{Deserialize, Serialize};

/// Maximum records in a group. Each work item that is sent to a rank has its whole group.
pub(super) const GROUP_RECORDS_MAX: usize = 64;

/// A directory's part in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DirectoryRole {
    /// It is below the operand with this index.
    Below(usize),
    /// Its only entry stands for standard input, the operand with this index.
    Input(usize),
    /// Its entries are these records of a manifest.
    Listed(Arc<Group>),
}

/// Consecutive records of a manifest, whose files are in one directory.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Group {
    records: Vec<GroupRecord>,
    /// True if the only record is standard input.
    pub(super) is_input: bool,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct GroupRecord {
    name: CString,
    number: u64,
    digest: Digest,
    /// The second candidate of a hash without an algorithm.
    other: Option<Digest>,
}

impl Group {
    /// Adds a record, unless the group is full or has the name.
    pub(super) fn add(&mut self, name: &CStr, number: u64, expected: &ExpectedHash) -> bool {
        let is_full = self.is_input || self.records.len() >= GROUP_RECORDS_MAX;
        if is_full || self.find(name).is_some() {
            return false;
        }
        let mut digests = expected.digests();
        let Some(digest) = digests.next() else { return false };
        let other = digests.next();
        self.records.push(GroupRecord { name: name.to_owned(), number, digest, other });
        true
    }

    /// Returns the number of the record with this name, and its hash.
    pub(super) fn find(&self, name: &CStr) -> Option<(u64, ExpectedHash)> {
        let record = self.records.iter().find(|record| record.name.as_c_str() == name)?;
        let expected = match record.other {
            None => ExpectedHash::Known(record.digest),
            Some(sha256) => ExpectedHash::Either { blake3: record.digest, sha256 },
        };
        Some((record.number, expected))
    }

    /// Returns the numbers of all records.
    pub(super) fn numbers(&self) -> impl Iterator<Item = u64> {
        self.records.iter().map(|record| record.number)
    }
}

/// A place as it is sent to a rank, which reads no standard input.
#[derive(Serialize, Deserialize)]
enum PackedPlace {
    Below(usize),
    Listed(Group),
}

impl DirectoryRole {
    pub(super) fn pack(&self) -> Vec<u8> {
        let packed = match self {
            Self::Below(index) | Self::Input(index) => PackedPlace::Below(*index),
            Self::Listed(group) => PackedPlace::Listed(Group::clone(group)),
        };
        postcard::to_allocvec(&packed).unwrap_or_default()
    }

    pub(super) fn unpack(packed: &[u8]) -> Result<Self, (Vec<u8>, Error)> {
        match postcard::from_bytes(packed) {
            Ok(PackedPlace::Below(index)) => Ok(Self::Below(index)),
            Ok(PackedPlace::Listed(group)) => Ok(Self::Listed(Arc::new(group))),
            Err(_) => {
                let operation = haul_sys::Operation::Openat;
                Err((Vec::new(), Error::new(operation, String::new(), haul_sys::Errno::INVAL)))
            }
        }
    }

    /// True if its only entry is standard input.
    pub(super) fn is_input(&self) -> bool {
        match self {
            Self::Below(_) => false,
            Self::Input(_) => true,
            Self::Listed(group) => group.is_input,
        }
    }
}
