//! The journal of a copy: a record of completed entries, from which a later run resumes.
//!
//! - [`Journal`]: the file, which one run at a time appends to.
//! - [`Stamp`]: the state of an entry's source and target at completion. A later run skips the
//!   entry only if neither has changed.
//!
//! One machine and ranks use the same format, so a copy may be begun by one and finished by the
//! other.
//!
//! Guarantee: every entry in a journal was complete and on storage when it was recorded. So callers
//! add an entry after they have flushed its data.

mod journal;
mod record;
mod stamp;

pub use journal::{Journal, JournalError, RunId};
pub use stamp::{EntryKey, MadeEntry, Stamp, StampedState, is_past_clock_tick};

use std::ops::Range;

use serde::{Deserialize, Serialize};

/// A partial target of a large file, left by an earlier run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PartialFile {
    /// The tool's data for opening the target; opaque here.
    pub ticket: Vec<u8>,
    /// Ranges already moved, in any order.
    pub done: Vec<Range<u64>>,
    /// Hashes of the content of some of these ranges, as the tool has packed them.
    pub hashes: Vec<(Range<u64>, Vec<u8>)>,
}

impl PartialFile {
    /// Returns it without the ranges that have hashes: their content is still to be compared with
    /// these, which ranks don't do.
    #[must_use]
    pub fn for_ranks(&self) -> Self {
        let has_hashes = |range: &Range<u64>| self.hashes.iter().any(|(hashed, _)| hashed == range);
        let done = self.done.iter().filter(|range| !has_hashes(range)).cloned().collect();
        Self { ticket: self.ticket.clone(), done, hashes: Vec::new() }
    }
}
