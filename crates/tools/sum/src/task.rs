//! The work on one file, and its result.

use std::sync::atomic::{AtomicU8, Ordering};

use haul_digest::manifest::ExpectedHash;
use haul_digest::{Algorithm, Digest};
use haul_sys::Error;
use serde::{Deserialize, Serialize};

/// The task for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Task {
    /// Compute its hash.
    Sum(Algorithm),
    /// Check it against this record of a manifest.
    Check { record: u64, expected: ExpectedHash },
}

/// The result for a file, as it is sent to the process that walks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum FileResult {
    /// Its size if it is known, and its hash.
    Summed(Option<u64>, Digest),
    /// The number of the record, and the verdict.
    Checked(u64, CheckVerdict),
}

/// The verdict on a file of a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum CheckVerdict {
    /// It has the listed hash.
    Same,
    /// It has another hash.
    Differs,
    /// It can't be opened or read.
    Unreadable,
    /// It doesn't exist, which is to be ignored.
    Missing,
}

/// The algorithm that the last hash with 64 digits turned out to have: BLAKE3 or SHA-256. A
/// manifest usually has only one of them, so this is tried first, and only if the hash is another
/// one, the other is.
#[derive(Default)]
pub(super) struct Learned(AtomicU8);

const SHA256: u8 = 1;

impl Learned {
    /// Returns the algorithm to begin with.
    pub(super) fn first(&self, task: &Task) -> Algorithm {
        match task {
            Task::Sum(algorithm) => *algorithm,
            Task::Check { expected: ExpectedHash::Known(digest), .. } => digest.algorithm(),
            Task::Check { expected: ExpectedHash::Either { .. }, .. } => match self.0.load(Ordering::Relaxed)
            {
                SHA256 => Algorithm::Sha256,
                _ => Algorithm::Blake3,
            },
        }
    }

    /// Makes the result of a file from its hash. `again` hashes it with another algorithm.
    ///
    /// # Errors
    /// If hashing it again fails.
    pub(super) fn result(
        &self,
        task: &Task,
        size: Option<u64>,
        digest: Digest,
        again: impl FnOnce(Algorithm) -> Result<Digest, Error>,
    ) -> Result<FileResult, Error> {
        let (record, expected) = match task {
            Task::Sum(_) => return Ok(FileResult::Summed(size, digest)),
            Task::Check { record, expected } => (*record, expected),
        };
        let is_right = |digest| expected.digests().any(|expected| expected == digest);
        let other = expected.digests().map(|digest| digest.algorithm()).find(|it| *it != digest.algorithm());
        let verdict = match other {
            _ if is_right(digest) => CheckVerdict::Same,
            Some(other) if is_right(again(other)?) => {
                self.0.store(u8::from(other == Algorithm::Sha256) * SHA256, Ordering::Relaxed);
                CheckVerdict::Same
            }
            _ => CheckVerdict::Differs,
        };
        Ok(FileResult::Checked(record, verdict))
    }
}

impl Task {
    /// Returns the result for a file that can't be read; `None` if that has none.
    pub(super) fn unreadable(&self) -> Option<FileResult> {
        match self {
            Self::Sum(_) => None,
            Self::Check { record, .. } => Some(FileResult::Checked(*record, CheckVerdict::Unreadable)),
        }
    }
}
