//! A file whose blocks are fed to commands.
//!
//! The file is cut at ends of lines, one block after the other; each block is the standard input of a command of its own, all
//! of which run at once; what they write is joined in the order of the blocks.

use std::sync::{Arc, Mutex, PoisonError};

use haul_flow::{Desk, Found, Problem, Stages, Tally};
use haul_sys::{Error, Fd};

use super::Runner;
use super::results::Result;
use super::running::Ran;
use super::wording;
use crate::whole::read_all;

/// Bytes read at once, at most, and where an end of a line is looked for behind a block, at least.
const STEP_BYTES: usize = 1 << 20;
const STEP_BYTES_MIN: usize = 4 << 10;

/// A file that is cut in blocks of lines.
pub(super) struct Lines {
    found: Found<Runner>,
    source: Mutex<Option<Arc<Fd>>>,
    block_bytes: u64,
    position: Mutex<u64>,
    /// What was put, unless it may be passed on at once.
    whole: Option<Mutex<Result>>,
}

impl Lines {
    /// Begins to feed an open file. `alone` tells that there is no other file, so that output need not wait for the end.
    pub(super) fn begin(
        desk: &Desk<'_, Runner>,
        found: Found<Runner>,
        source: Arc<Fd>,
        block_bytes: u64,
        alone: bool,
    ) {
        let lines = Self {
            found,
            source: Mutex::new(Some(source)),
            block_bytes: block_bytes.max(1),
            position: Mutex::new(0),
            whole: (!alone).then(Mutex::default),
        };
        desk.begin_sequence(Arc::new(lines), 2 * desk.settings().jobs);
    }

    fn source(&self) -> Option<Arc<Fd>> {
        self.source.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Reads the block at a position: up to the last end of a line in as many bytes as it may have, or, if there is none, to the
    /// first behind them; or to the end of the file.
    fn block(&self, source: &Fd, position: u64) -> std::result::Result<Vec<u8>, Error> {
        let wanted = usize::try_from(self.block_bytes).unwrap_or(usize::MAX);
        let is_end = |byte: &u8| *byte == b'\n';
        let mut bytes = Vec::new();
        // Grown as the bytes come: a block may be larger than the file, and than the memory.
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

/// Appends `step` more bytes of a block that begins at a position; returns whether there were as many.
fn append(source: &Fd, position: u64, bytes: &mut Vec<u8>, step: usize) -> std::result::Result<bool, Error> {
    let before = bytes.len();
    bytes.resize(before + step, 0);
    let read = read_all(source, position + before as u64, &mut bytes[before..])?;
    bytes.truncate(before + read);
    Ok(read == step)
}

impl Stages<Runner> for Lines {
    type Piece = Vec<u8>;
    type Made = Result;

    fn next(&self, desk: &Desk<'_, Runner>) -> Option<Vec<u8>> {
        let source = self.source().filter(|_| !desk.tool().running.is_stopped())?;
        let mut position = self.position.lock().unwrap_or_else(PoisonError::into_inner);
        match self.block(&source, *position) {
            Ok(block) => {
                *position += block.len() as u64;
                (!block.is_empty()).then_some(block)
            }
            Err(cause) => {
                let problem = Problem::new(wording::ERROR_READING).naming(self.found.path());
                desk.problem(problem.because(cause));
                None
            }
        }
    }

    fn work(&self, desk: &Desk<'_, Runner>, block: Vec<u8>) -> Result {
        let ran = desk.tool().run(desk, &[self.found.path()], Some(&block));
        desk.count(Tally { bytes: block.len() as u64, ..Tally::default() });
        match ran {
            Ran::Ended(result) => result,
            Ran::Nothing | Ran::TooLong => Result::default(),
        }
    }

    fn put(&self, desk: &Desk<'_, Runner>, result: Result) {
        match &self.whole {
            Some(whole) => whole.lock().unwrap_or_else(PoisonError::into_inner).append(result),
            None => desk.tell(&self.found, result.pack()),
        }
    }

    fn end(&self, desk: &Desk<'_, Runner>) {
        if let Some(whole) = &self.whole {
            let whole = std::mem::take(&mut *whole.lock().unwrap_or_else(PoisonError::into_inner));
            desk.tell(&self.found, whole.pack());
        }
        let source = self.source.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Err(cause)) = source.and_then(Arc::into_inner).map(Fd::close) {
            let problem = Problem::new(wording::FAILED_TO_CLOSE).naming(self.found.path());
            desk.problem(problem.because(cause));
        }
        desk.settle(&self.found);
    }
}
