//! An engine that moves no data, to measure the cost of haul's own code.
//!
//! Every operation succeeds immediately. Each file is a distinct regular file of the configured
//! size, full of zeros; written data is discarded. Descriptors are real (of `/dev/null`), because
//! they are really closed.

use std::collections::VecDeque;

use haul_sys::{FileType, Identity, Mode, Open, Result, Stat, Timestamp};

use crate::{Call, Caps, Done, Engine, Op, Outcome};

/// Completes every operation immediately and touches no file.
#[derive(Debug)]
pub struct Null {
    depth: usize,
    file_bytes: u64,
    /// The last inode number returned.
    last_inode: u64,
    ready: VecDeque<Done>,
}

impl Null {
    /// Creates an engine for `depth` operations (at least 1) on files of `file_bytes` bytes.
    #[must_use]
    pub fn new(depth: usize, file_bytes: u64) -> Self {
        let depth = depth.max(1);
        Self { depth, file_bytes, last_inode: 0, ready: VecDeque::with_capacity(depth) }
    }

    fn perform(&mut self, call: Call) -> Outcome {
        match call {
            Call::Open { .. } => Outcome::Opened(haul_sys::open_path(c"/dev/null", Open::READ)),
            Call::Stat { .. } => Outcome::Stated(Ok(self.next_stat())),
            Call::Read { offset, mut buffer, length, .. } => {
                let length = self.available(offset, length);
                buffer.bytes_mut()[..length].fill(0);
                Outcome::Read { buffer, result: Ok(Some(length)) }
            }
            // No file has a position, so all are at their end.
            Call::ReadStream { buffer, .. } => Outcome::Read { buffer, result: Ok(Some(0)) },
            Call::Write { buffer, range, .. } => Outcome::Wrote { buffer, result: Ok(range.len()) },
            Call::Pair { offset, mut buffer, length, .. } => {
                let length = self.available(offset, length);
                buffer.bytes_mut()[..length].fill(0);
                Outcome::Paired { buffer, read: Ok(length), written: Ok(length) }
            }
            Call::CopyRange { offset, length, pipe, .. } => {
                Outcome::Copied { pipe, result: Ok(self.available(offset, length)) }
            }
            Call::Synchronize { .. } => Outcome::Synchronized(Ok(())),
            Call::Close { file } => Outcome::Closed(file.close()),
        }
    }

    /// Returns how many of the `length` bytes at `offset` lie within a file.
    fn available(&self, offset: u64, length: usize) -> usize {
        usize::try_from(self.file_bytes.saturating_sub(offset)).map_or(length, |left| left.min(length))
    }

    fn next_stat(&mut self) -> Stat {
        self.last_inode += 1;
        let epoch = Timestamp { seconds: 0, nanoseconds: 0 };
        Stat {
            identity: Identity { device: u64::MAX, inode: self.last_inode },
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
