//! An engine that moves nothing: what remains of a run's time is what haul's own code costs.
//!
//! Every operation succeeds at once. Every file is a regular file of the configured size, full of zeros, and no two are
//! the same; what is written is forgotten. Descriptors are real ones (of `/dev/null`), because they are closed for real.

use std::collections::VecDeque;

use haul_sys::{FileType, Identity, Mode, Open, Result, Stat, Timestamp};

use crate::{Call, Caps, Done, Engine, Op, Outcome};

/// Completes everything at once and touches no file.
#[derive(Debug)]
pub struct Null {
    depth: usize,
    file_bytes: u64,
    /// How many files were looked at: the inode number of the next.
    looked_at: u64,
    ready: VecDeque<Done>,
}

impl Null {
    /// Makes the engine for `depth` operations (at least 1) on files of `file_bytes` bytes.
    #[must_use]
    pub fn new(depth: usize, file_bytes: u64) -> Self {
        let depth = depth.max(1);
        Self { depth, file_bytes, looked_at: 0, ready: VecDeque::with_capacity(depth) }
    }

    fn perform(&mut self, call: Call) -> Outcome {
        match call {
            Call::Open { .. } => Outcome::Opened(haul_sys::open_path(c"/dev/null", Open::READ)),
            Call::Stat { .. } => Outcome::Looked(Ok(self.look())),
            Call::Read { offset, mut buffer, length, .. } => {
                let length = self.available(offset, length);
                buffer.bytes_mut()[..length].fill(0);
                Outcome::Read { buffer, result: Ok(Some(length)) }
            }
            Call::Write { buffer, range, .. } => Outcome::Wrote { buffer, result: Ok(range.len()) },
            Call::Pair { offset, mut buffer, length, .. } => {
                let length = self.available(offset, length);
                buffer.bytes_mut()[..length].fill(0);
                Outcome::Paired { buffer, read: Ok(length), written: Ok(length) }
            }
            Call::CopyRange { offset, length, .. } => Outcome::Copied(Ok(self.available(offset, length))),
            Call::Synchronize { .. } => Outcome::Synchronized(Ok(())),
            Call::Close { file } => Outcome::Closed(file.close()),
        }
    }

    /// Returns how many of `length` bytes at `offset` a file has.
    fn available(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.file_bytes.saturating_sub(offset)).map_or(length, |left| left.min(length))
    }

    fn look(&mut self) -> Stat {
        self.looked_at += 1;
        let epoch = Timestamp { seconds: 0, nanoseconds: 0 };
        Stat {
            identity: Identity { device: u64::MAX, inode: self.looked_at },
            kind: FileType::Regular,
            mode: Mode::READ_WRITE,
            owner: 0,
            group: 0,
            size: self.file_bytes,
            blocks: self.file_bytes.div_ceil(512),
            block_size: 4096,
            links: 1,
            device_number: 0,
            accessed: epoch,
            modified: epoch,
            changed: epoch,
            born: None,
        }
    }
}

impl Engine for Null {
    fn caps(&self) -> Caps {
        Caps { name: "null", depth: self.depth, blocks: false, pairs: false, drops_cache: true }
    }

    fn submit(&mut self, op: Op) -> std::result::Result<(), Box<Op>> {
        if self.ready.len() >= self.depth {
            return Err(Box::new(op));
        }
        let outcome = self.perform(op.call);
        self.ready.push_back(Done { token: op.token, outcome });
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        Ok(())
    }

    fn reap(&mut self, _min: usize, done: &mut Vec<Done>) -> Result<()> {
        done.extend(self.ready.drain(..));
        Ok(())
    }

    fn in_flight(&self) -> usize {
        self.ready.len()
    }
}
