//! Feeds blocks of a file to commands.
//!
//! The file is cut at line ends. Each block is the standard input of its own command, and these run
//! in parallel. Their output is joined in block order.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use haul_flow::{Context, Entry, Problem, Stages, Tally, lock};
use haul_sys::{Error, Fd, read_all};

use super::EachKind;
use super::Runner;
use super::results::CommandResult;
use super::running::RunResult;

const STEP_BYTES: usize = 1 << 20;
/// Minimum size of a read that looks for a line end after a block, in bytes.
const STEP_BYTES_MIN: usize = 4 << 10;

pub(super) struct FileLines {
    entry: Entry<Runner>,
    source: Mutex<Option<Arc<Fd>>>,
    block_bytes: u64,
    position: Mutex<u64>,
    /// The results so far, unless they are emitted at once.
    whole: Option<Mutex<CommandResult>>,
    /// True if a command has failed, or if some of the file was not passed to one.
    has_failed: AtomicBool,
}

impl FileLines {
    /// Starts feeding an open file. `alone` means that there is no other file, so output need not
    /// wait for the end.
    pub(super) fn begin(
        cx: &Context<'_, Runner>,
        entry: Entry<Runner>,
        source: Arc<Fd>,
        block_bytes: u64,
        alone: bool,
    ) {
        let lines = Self {
            entry,
            source: Mutex::new(Some(source)),
            block_bytes: block_bytes.max(1),
            position: Mutex::new(0),
            whole: (!alone).then(Mutex::default),
            has_failed: AtomicBool::new(false),
        };
        cx.begin_sequence(Arc::new(lines), 2 * cx.settings().jobs);
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    fn source(&self) -> Option<Arc<Fd>> {
        lock(&self.source).clone()
    }

    /// Reads the block at a position: up to the last line end within the block size; if there is
    /// none, up to the first one after it; or to EOF.
    fn block(&self, source: &Fd, position: u64) -> Result<Vec<u8>, Error> {
        let wanted = usize::try_from(self.block_bytes).unwrap_or(usize::MAX);
        let is_end = |byte: &u8| *byte == b'\n';
        let mut bytes = Vec::new();
        // Grow the buffer with the data: the block size may exceed the file's, and the memory.
        while bytes.len() < wanted {
            let step = STEP_BYTES.min(wanted - bytes.len());
            if !append(source, position, &mut bytes, step)? {
                return Ok(bytes);
            }
        }
        let mut end = bytes.iter().rposition(is_end);
        while end.is_none() {
            let searched = bytes.len();
            let goes_on = append(source, position, &mut bytes, wanted.clamp(STEP_BYTES_MIN, STEP_BYTES))?;
            end = bytes[searched..].iter().position(is_end).map(|end| searched + end);
            if !goes_on && end.is_none() {
                return Ok(bytes);
            }
        }
        bytes.truncate(end.map_or(bytes.len(), |end| end + 1));
        Ok(bytes)
    }
}

/// Appends up to `step` bytes to the block that starts at `position`. Returns false at EOF.
fn append(source: &Fd, position: u64, bytes: &mut Vec<u8>, step: usize) -> Result<bool, Error> {
    let before = bytes.len();
    bytes.resize(before + step, 0);
    let read = read_all(source, position + before as u64, &mut bytes[before..])?;
    bytes.truncate(before + read);
    Ok(read == step)
}

impl Stages<Runner> for FileLines {
    type Piece = Vec<u8>;
    type Output = CommandResult;

    fn next(&self, cx: &Context<'_, Runner>) -> Option<Vec<u8>> {
        if cx.tool().running.is_stopped() {
            self.fail();
            return None;
        }
        let source = self.source()?;
        let mut position = lock(&self.position);
        match self.block(&source, *position) {
            Ok(block) => {
                *position += block.len() as u64;
                (!block.is_empty()).then_some(block)
            }
            Err(cause) => {
                let problem = Problem::new(EachKind::ErrorReading).naming(self.entry.path());
                cx.problem(problem.because(cause));
                self.fail();
                None
            }
        }
    }

    fn work(&self, cx: &Context<'_, Runner>, block: Vec<u8>) -> CommandResult {
        let ran = cx.tool().run(cx, &[self.entry.path()], Some(&block));
        cx.count(Tally { bytes: block.len() as u64, ..Tally::default() });
        match ran {
            RunResult::Ended(result) => {
                if !result.failures.is_empty() {
                    self.fail();
                }
                result
            }
            RunResult::Nothing | RunResult::TooLong => {
                self.fail();
                CommandResult::default()
            }
        }
    }

    fn put(&self, cx: &Context<'_, Runner>, result: CommandResult) {
        match &self.whole {
            Some(whole) => lock(whole).append(result),
            None => cx.emit(&self.entry, result.pack()),
        }
    }

    fn end(&self, cx: &Context<'_, Runner>) {
        if let Some(whole) = &self.whole {
            let whole = std::mem::take(&mut *lock(whole));
            cx.emit(&self.entry, whole.pack());
        }
        let source = lock(&self.source).take();
        if let Some(Err(cause)) = source.and_then(Arc::into_inner).map(Fd::close) {
            let problem = Problem::new(EachKind::FailedToClose).naming(self.entry.path());
            cx.problem(problem.because(cause));
            self.fail();
        }
        // Relaxed: the sequence ends after everything that it did.
        if !self.has_failed.load(Ordering::Relaxed) {
            Runner::count(cx, &self.entry);
        }
        cx.complete(&self.entry);
    }
}
