//! Ranks that send each other bytes: the seam between a job's logic and what carries its messages.
//!
//! One thread of a process owns its end. Messages between two ranks arrive in the order they were sent; between three there
//! is no order. Nothing blocks: whoever waits for messages does so by calling [`Transport::receive`] again, after a pause of
//! its own making, because the waiting calls of MPI libraries burn a processor.

pub mod threads;

use std::fmt;

/// A process of a job: 0 is the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// The master.
    pub const MASTER: Rank = Rank(0);

    /// Returns the rank as an index of tables.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why the messages stop.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Broken {
    /// What was tried.
    pub doing: &'static str,
    /// What the carrier says of it.
    pub why: String,
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}: {}", self.doing, self.why)
    }
}

impl std::error::Error for Broken {}

/// One rank's end of what carries the messages.
pub trait Transport {
    /// Returns which rank this is.
    fn rank(&self) -> Rank;

    /// Returns how many ranks there are.
    fn size(&self) -> u32;

    /// Sends a message; returns before it has arrived. A message to oneself arrives like any other.
    ///
    /// # Errors
    /// When the carrier fails: the job is over.
    fn send(&mut self, to: Rank, message: Vec<u8>) -> Result<(), Broken>;

    /// Takes a message that has arrived, if one has.
    ///
    /// # Errors
    /// When the carrier fails: the job is over.
    fn receive(&mut self) -> Result<Option<(Rank, Vec<u8>)>, Broken>;

    /// Moves what is on its way along; tells whether everything that was sent has left.
    ///
    /// # Errors
    /// When the carrier fails: the job is over.
    fn settle(&mut self) -> Result<bool, Broken>;
}
