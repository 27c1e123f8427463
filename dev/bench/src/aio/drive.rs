//! The inner loop: drives records through one engine like aio-stress does.
//!
//! ```text
//!              room for an iteration                     no room, or no records left
//!   issue up to `per_iteration` records, ─────────►  wait for as many completions ─┐
//!   flushed after every `max_submit`     ◄─────────────────────────────────────────┘
//! ```
//!
//! Completions are not reaped while there is room. At most `depth` records are in flight, or the
//! engine's own limit if that is lower. The rest of a short transfer is resubmitted at once. The
//! clock runs from before the first record is issued until the last has completed; the file is
//! opened and the buffers are touched before that.
//!
//! Promises: every record is transferred once and completely, or there is no figure. Each read is
//! checked to have returned the right record, which costs a look at 16 bytes of it.
//!
//! Termination: each iteration of the loop issues a record or waits for a completion. A completion
//! transfers at least one byte of its record, or ends the benchmark.

use std::io;
use std::sync::Arc;
use std::time::Instant;

use haul_engine::{Call, Done, Engine, Op, Outcome, Wait};
use haul_sys::{Buffer, CacheMode, Fd};

use crate::aio::file::TestFile;
use crate::aio::order::RecordOrder;
use crate::aio::settings::{AioSettings, TransferKind};
use crate::error::{Error, Result};
use crate::interrupt::Interrupt;
use crate::noise::Noise;

#[derive(Clone, Copy, Debug)]
pub(crate) struct AioJob<'a> {
    pub(crate) file: &'a TestFile,
    pub(crate) settings: AioSettings,
    pub(crate) transfer: TransferKind,
    pub(crate) order: &'a RecordOrder,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Timing {
    /// Seconds from the first submission to the last completion.
    pub(crate) seconds: f64,
    pub(crate) in_flight_max: usize,
}

/// Transfers every record through `engine`.
pub(crate) fn run(engine: &mut dyn Engine, job: &AioJob<'_>, interrupt: &Interrupt) -> Result<Timing> {
    let mut run = AioRun::new(engine, job)?;
    let began = Instant::now();
    while run.finished < job.order.count() {
        interrupt.check()?;
        if run.has_room() { run.issue()? } else { run.wait()? }
    }
    Ok(Timing { seconds: began.elapsed().as_secs_f64(), in_flight_max: run.in_flight_max })
}

/// A record in flight, or space for one.
struct RecordSlot {
    record: u32,
    /// Bytes already transferred, after a short transfer.
    moved: usize,
    /// `None` while the engine owns it.
    buffer: Option<Buffer>,
}

struct AioRun<'a> {
    engine: &'a mut dyn Engine,
    job: &'a AioJob<'a>,
    descriptor: Arc<Fd>,
    /// One per record in flight; an operation's token is its slot number.
    slots: Vec<RecordSlot>,
    free: Vec<usize>,
    /// Records issued at a time.
    iteration: usize,
    /// Position of the next record in the order.
    next: u32,
    finished: u32,
    in_flight_max: usize,
    done: Vec<Done>,
}

impl<'a> AioRun<'a> {
    fn new(engine: &'a mut dyn Engine, job: &'a AioJob<'a>) -> Result<AioRun<'a>> {
        let AioSettings { depth, per_iteration, record_bytes, seed, .. } = job.settings;
        let depth = depth.min(engine.caps().depth).min(job.order.count() as usize).max(1);
        let slot = |_| {
            let mut buffer = Buffer::new(record_bytes);
            Noise::new(seed, u64::MAX).fill(&mut buffer.bytes_mut()[..record_bytes]);
            RecordSlot { record: 0, moved: 0, buffer: Some(buffer) }
        };
        Ok(AioRun {
            engine,
            job,
            descriptor: job.file.open(job.transfer)?,
            slots: (0..depth).map(slot).collect(),
            free: (0..depth).rev().collect(),
            iteration: per_iteration.min(depth),
            next: 0,
            finished: 0,
            in_flight_max: 0,
            done: Vec::with_capacity(depth),
        })
    }

    /// True if a whole iteration, or all remaining records, can be issued.
    fn has_room(&self) -> bool {
        self.next < self.job.order.count() && self.free.len() >= self.iteration
    }

    fn issue(&mut self) -> Result<()> {
        let mut waiting = 0;
        for _ in 0..self.iteration {
            let Some(record) = self.job.order.record(self.next) else { break };
            let Some(slot) = self.free.pop() else { break };
            self.next += 1;
            self.begin(slot, record);
            self.submit(slot)?;
            waiting += 1;
            if waiting == self.job.settings.max_submit {
                self.flush()?;
                waiting = 0;
            }
        }
        if waiting > 0 { self.flush() } else { Ok(()) }
    }

    fn begin(&mut self, slot: usize, record: u32) {
        let slot = &mut self.slots[slot];
        (slot.record, slot.moved) = (record, 0);
        if let (TransferKind::Write | TransferKind::SyncWrite, Some(buffer)) =
            (self.job.transfer, &mut slot.buffer)
        {
            self.job.file.stamp(record).put(buffer.bytes_mut());
        }
    }

    /// Submits the rest of a slot's record.
    fn submit(&mut self, number: usize) -> Result<()> {
        let (record_bytes, slot) = (self.job.settings.record_bytes, &mut self.slots[number]);
        let Some(buffer) = slot.buffer.take() else {
            return Err(unreliable(format!("record {} was completed twice", slot.record)));
        };
        let (file, cache) = (Arc::clone(&self.descriptor), CacheMode::Keep);
        let offset = self.job.settings.offset(slot.record) + slot.moved as u64;
        let call = match self.job.transfer {
            TransferKind::Read => Call::Read {
                file,
                offset,
                buffer,
                length: record_bytes - slot.moved,
                wait: Wait::Allowed,
                cache,
            },
            TransferKind::Write | TransferKind::SyncWrite => {
                Call::Write { file, offset, buffer, range: slot.moved..record_bytes, cache }
            }
        };
        match self.engine.submit(Op { token: number as u64, call }) {
            Ok(()) => {
                self.in_flight_max = self.in_flight_max.max(self.engine.in_flight());
                Ok(())
            }
            Err(_) => Err(unreliable("it took fewer records than its depth".to_owned())),
        }
    }

    fn flush(&mut self) -> Result<()> {
        self.engine.flush().map_err(|error| self.job.file.failed("use the engine on", error.errno().into()))
    }

    /// Waits for an iteration's worth of completions and resubmits the rest of short transfers.
    fn wait(&mut self) -> Result<()> {
        let wanted = self.iteration.min(self.engine.in_flight());
        if wanted == 0 {
            return Err(unreliable("records were lost".to_owned()));
        }
        let mut done = std::mem::take(&mut self.done);
        let reaped = self.engine.reap(wanted, &mut done);
        reaped.map_err(|error| self.job.file.failed("use the engine on", error.errno().into()))?;
        let mut short = false;
        for done in done.drain(..) {
            short |= self.complete(done)?;
        }
        self.done = done;
        if short { self.flush() } else { Ok(()) }
    }

    /// Processes a completion. Returns true if the rest of its record was resubmitted.
    fn complete(&mut self, done: Done) -> Result<bool> {
        let number = usize::try_from(done.token).unwrap_or(usize::MAX);
        let Some(slot) = self.slots.get_mut(number) else {
            return Err(unreliable("a record came back that was not issued".to_owned()));
        };
        let (verb, buffer, result) = match done.outcome {
            Outcome::Read { buffer, result } => ("read", buffer, result.map(Option::unwrap_or_default)),
            Outcome::Wrote { buffer, result } => ("write", buffer, result),
            _ => return Err(unreliable("the completion is of another operation".to_owned())),
        };
        let moved = result.map_err(|error| self.job.file.failed(verb, error.errno().into()))?;
        if moved == 0 {
            return Err(unreliable(format!("nothing was moved of record {}", slot.record)));
        }
        if self.job.transfer == TransferKind::Read && slot.moved == 0 {
            self.job.file.stamp(slot.record).check(&buffer.bytes()[..moved])?;
        }
        slot.moved += moved;
        slot.buffer = Some(buffer);
        if slot.moved < self.job.settings.record_bytes {
            return self.submit(number).map(|()| true);
        }
        self.free.push(number);
        self.finished += 1;
        Ok(false)
    }
}

/// Makes the error for an engine that breaks its contract.
fn unreliable(why: String) -> Error {
    Error::Io { doing: "measure this engine".to_owned(), source: io::Error::other(why) }
}
