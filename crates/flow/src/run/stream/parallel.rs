//! Parallelism within one file: several streams of one worker, two workers that write in turn, or a
//! worker that reads ahead for another.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use haul_engine::Ops;
use haul_sys::{cached_bytes, is_read_ahead_costly, suits_two_workers};

use super::Stream;
use crate::context::Context;
use crate::decision::{Holes, Transfer};
use crate::run::block_cursor::BlockCursor;
use crate::run::io::Io;
use crate::run::turns::Turns;
use crate::tool::{Job, OpenFile, Tool};

/// Minimum bytes that another worker helps with: enough to hide the start of a thread.
pub const HELP_BYTES_MIN: u64 = 32 << 20;

/// Bytes that another worker fetches at once.
const FETCH_BYTES: u64 = 4 << 20;

/// Maximum distance from the current read to the start of the read-ahead, in bytes.
const FETCH_AHEAD_MAX: u64 = 12 << 20;

impl<T: Tool> Stream<T> {
    /// Cuts a stream into as many as the engine should have.
    pub(in crate::run) fn split(self, io: &Io) -> Vec<Self> {
        let several = matches!(io.settings.ops, Some(Ops::Multi | Ops::Batch));
        // Where holes are skipped, or the end is unknown, the blocks aren't known in advance.
        if !several || !self.has_known_end() || self.transfer != Transfer::Blocks(Holes::Read) {
            return vec![self];
        }
        let block_bytes = io.settings.block_bytes as u64;
        let streams = (self.end - self.position).div_ceil(block_bytes).min(io.queue_space as u64);
        if streams <= 1 {
            return vec![self];
        }
        let Self { file, position, end, transfer, .. } = self;
        let cursor = Arc::new(BlockCursor::new(position, end, block_bytes));
        let stream =
            |_| Self { cursor: Some(Arc::clone(&cursor)), ..Self::new(Arc::clone(&file), 0..0, transfer) };
        (0..streams).map(stream).collect()
    }

    /// Lets an idle worker help with a large file, if a processor is idle too.
    pub(super) fn get_help(&mut self, cx: &Context<'_, T>, io: &Io) {
        let left = self.end - self.position;
        let has_idle_processor = || cx.run.busy.load(Ordering::Relaxed) < io.processors();
        if !self.may_get_help
            || self.transfer != Transfer::Blocks(Holes::Read)
            || left < HELP_BYTES_MIN
            || !cx.run.driver.has_idle_worker()
            || cx.run.limits.is_some()
            || !has_idle_processor()
        {
            return;
        }
        match self.may_use_pipe() {
            true => self.share_turns(cx, io),
            false => self.fetch_ahead(cx, io),
        }
    }

    /// Lets an idle worker write the file, which is in memory, in turn with this one. From then on,
    /// both take their blocks from the file's [`Turns`].
    fn share_turns(&mut self, cx: &Context<'_, T>, io: &Io) {
        self.may_get_help = false;
        let Some(target) = &self.file.target else { return };
        if suits_two_workers(&**target).unwrap_or(false) {
            cx.remark(&self.file.entry, "two workers write it in turn");
            let turns = Turns::new(self.position..self.end, io.settings.block_bytes as u64);
            self.file.turns.get_or_init(|| Box::new(turns));
            self.end = self.position;
            let job = Job::Range(Arc::clone(&self.file), 0..0, self.transfer);
            cx.run.driver.share_first(cx.worker, job);
        }
    }

    /// Lets an idle worker read ahead of this one, where read-ahead costs CPU time
    /// ([`is_read_ahead_costly`]).
    fn fetch_ahead(&mut self, cx: &Context<'_, T>, io: &Io) {
        let OpenFile::<T> { source, stat, cache_policy, .. } = &*self.file;
        if self.fetched == 0 {
            let is_cached = || cached_bytes(&**source).is_ok_and(|cached| cached >= stat.size / 2);
            self.may_get_help = io.caps.blocks
                && cache_policy.uses_cache()
                && is_read_ahead_costly(&**source).unwrap_or(false)
                && !is_cached();
            if !self.may_get_help {
                return;
            }
            cx.remark(&self.file.entry, "another worker reads ahead");
        }
        let start = self.fetched.max(self.position + FETCH_BYTES);
        if start <= self.position + FETCH_AHEAD_MAX {
            self.fetched = (start + FETCH_BYTES).min(self.end);
            let job = Job::Fetch(Arc::clone(&self.file), start..self.fetched);
            cx.run.driver.share_first(cx.worker, job);
        }
    }

    /// Advances to the next block of several streams. Returns false if there are no more.
    pub(super) fn take_next(&mut self, io: &Io) -> bool {
        let block = match (&self.cursor, self.file.turns.get()) {
            (Some(cursor), _) => cursor.take(),
            // A worker with a ring has other files in flight, which must not wait for a turn.
            (None, Some(turns)) if io.caps.blocks => turns.take(),
            _ => None,
        };
        let Some(block) = block else { return false };
        (self.position, self.end, self.data_end) = (block.start, block.end, block.end);
        true
    }

    /// Ends the stream. Returns its file, and true if the worker has no other stream of it.
    pub(in crate::run) fn end(self) -> (Arc<OpenFile<T>>, bool) {
        if let Some(turns) = self.file.turns.get()
            && self.position < self.end
        {
            turns.stop();
        }
        // If several streams end at once, exactly one gets the cursor.
        let is_last_here = self.cursor.is_none_or(|cursor| Arc::into_inner(cursor).is_some());
        (self.file, is_last_here)
    }
}
