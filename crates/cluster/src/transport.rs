//! Ranks that send each other bytes: the seam between the logic of a job and its message transport.
//!
//! One thread of a process owns its end. Messages between two ranks arrive in the order they
//! were sent; there is no order across pairs. Nothing blocks: to wait for a message, call
//! [`Transport::receive`] again after a pause, because the waiting calls of MPI libraries burn
//! a processor.

use std::fmt;
use std::time::Duration;

use crate::error::{LinkClosed, Undecodable};

/// A process of a job: 0 is the master.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
pub struct Rank(pub u32);

impl Rank {
    /// The master.
    pub const MASTER: Rank = Rank(0);

    /// Returns the rank as a table index.
    #[must_use]
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Why a rank's event loop ended: the job is lost.
#[derive(Clone, Debug)]
pub enum Broken {
    /// The message transport failed.
    Transport {
        /// The operation.
        doing: &'static str,
        /// The transport's own error text.
        why: String,
    },
    /// A message can't be decoded.
    Undecodable(Undecodable),
    /// A rank is silent.
    LostRank {
        /// The rank.
        rank: Rank,
        /// Its host, if it ever answered.
        host: Option<String>,
        /// For how long.
        silence: Duration,
    },
    /// Rank 0 is silent.
    LostMaster(Duration),
    /// The link to the launch process is closed.
    Link(LinkClosed),
}

impl fmt::Display for Broken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Transport { doing, why } => write!(out, "{doing}: {why}"),
            Self::Undecodable(why) => write!(out, "reading a message: {why}"),
            Self::LostRank { rank, host, silence } => {
                let host = host.as_deref().unwrap_or("a host that never answered");
                let silence = silence.as_secs();
                write!(out, "lost a rank: no message from {host} (rank {}) for {silence} s", rank.0)
            }
            Self::LostMaster(silence) => {
                write!(out, "lost the master: no message from rank 0 for {} s", silence.as_secs())
            }
            Self::Link(why) => write!(out, "the link to the launch process: {why}"),
        }
    }
}

impl std::error::Error for Broken {}

/// One rank's end of the message transport.
pub trait Transport {
    /// Returns this process's rank.
    fn rank(&self) -> Rank;

    /// Returns the number of ranks.
    fn size(&self) -> u32;

    /// Sends a message; returns before it has arrived. A message to oneself arrives like any other.
    ///
    /// # Errors
    /// If the transport fails: the job is lost.
    fn send(&mut self, to: Rank, message: Vec<u8>) -> Result<(), Broken>;

    /// Receives a message, if one has arrived.
    ///
    /// # Errors
    /// If the transport fails: the job is lost.
    fn receive(&mut self) -> Result<Option<(Rank, Vec<u8>)>, Broken>;

    /// Advances outstanding sends. Returns true if everything sent has left.
    ///
    /// # Errors
    /// If the transport fails: the job is lost.
    fn advance_sends(&mut self) -> Result<bool, Broken>;
}
