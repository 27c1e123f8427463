//! Sequential inputs: standard input, FIFOs, devices, and files whose size is meaningless.

use std::os::fd::AsFd;

use haul_flow::{Context, Entry, Handled, Tally, Tool};
use haul_sys::{
    Error, FileType, Open, Stat, open, position, read_stream, seek_to, seek_to_end, standard_input, stat,
};

use super::Grep;
use super::content::{ContentStream, Until};
use super::page::JUDGED_BYTES;

// GNU grep's, since binary content is judged per read.
const READ_BYTES: usize = JUDGED_BYTES;

#[derive(Clone, Copy)]
pub(super) struct Stopped {
    /// Offset of the end of the last requested line, if it was found and matters.
    line_end: Option<u64>,
    /// True if the search ended before EOF.
    is_early: bool,
    /// True if an error was reported, or is held back.
    pub(super) has_failed: bool,
}

impl Grep {
    /// Searches a stream. A regular file is searched up to its size at the time of `stat`;
    /// otherwise a program that appends as fast as we read could keep us busy forever.
    pub(super) fn search_stream(
        &self,
        cx: &Context<'_, Self>,
        entry: &Entry<Self>,
        source: impl AsFd,
        status: &Stat,
    ) -> Stopped {
        let (mut is_ended, mut has_failed) = (false, false);
        let mut page = self.page(entry, Some(status));
        if let Ok(begin) = position(&source) {
            self.mark_holes(&mut page, &source, (status, begin));
            if let Err(cause) = seek_to(&source, begin) {
                self.cannot_read(cx, entry, cause);
                (is_ended, has_failed) = (true, true);
            }
        }
        let mut stream = ContentStream::new(page);
        let mut buffer = vec![0; READ_BYTES];
        let (mut room, mut left) = (READ_BYTES, bytes_left(&source, status));
        let mut seems_empty = status.kind == FileType::Regular && status.size == 0;
        while !stream.page.done && !self.is_over() && !is_ended && left != Some(0) {
            let most = left.map_or(room, |left| usize::try_from(left).unwrap_or(room).min(room));
            match read_stream(&source, &mut buffer[..most]) {
                Ok(0) => is_ended = true,
                Ok(length) => {
                    // GNU grep's next read: after a short read, the rest of its buffer.
                    room = if length < room { room - length } else { READ_BYTES };
                    let bytes = (&buffer[..length], Until::LineEnd);
                    self.with_scratch(|scratch| {
                        stream.feed(&self.search, scratch, bytes, || self.path(entry));
                    });
                    cx.count(Tally { bytes: length as u64, ..Tally::default() });
                    left = left.map(|left| left - length as u64);
                    if std::mem::take(&mut seems_empty) {
                        // It is not empty after all: it has grown, or its size is meaningless.
                        left = stat(&source).ok().and_then(|status| bytes_left(&source, &status));
                    }
                }
                Err(cause) => {
                    self.cannot_read(cx, entry, cause);
                    (is_ended, has_failed) = (true, true);
                }
            }
            if !stream.page.out.is_empty() {
                self.emit_part(cx, entry, &mut stream.page);
            }
        }
        self.with_scratch(|scratch| {
            stream.feed(&self.search, scratch, (&[], Until::End), || self.path(entry))
        });
        let (line_end, is_early) = (stream.page.end, !is_ended && left != Some(0));
        has_failed |= stream.page.given_up.is_some();
        self.emit_page(cx, entry, stream.page);
        Stopped { line_end, is_early, has_failed }
    }

    /// Searches standard input, leaving its offset where GNU grep would for the next reader.
    pub(super) fn search_input(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) -> Handled {
        if !self.inputs.begins(entry) {
            return Handled::Deferred;
        }
        let opened = standard_input().and_then(|input| Ok((stat(&input)?, input)));
        match opened {
            Ok((status, _)) if self.is_output(cx, entry, &status) => {}
            Ok((status, input)) => {
                let begin = position(&input).ok();
                let stopped = self.search_stream(cx, entry, &input, &status);
                if let Err(cause) = self.leave_input(&input, begin, stopped) {
                    self.cannot_read(cx, entry, cause);
                }
            }
            Err(cause) => self.cannot_read(cx, entry, cause),
        }
        if let Some(next) = self.inputs.over() {
            cx.retry(next);
        }
        Handled::Done
    }

    /// Leaves standard input where GNU grep does: after the last requested line, or, if the search
    /// ended early without it, at the end. Draining a pipe lets its writer finish. `begin` is the
    /// initial offset, if the input is seekable.
    fn leave_input(&self, input: impl AsFd, begin: Option<u64>, stopped: Stopped) -> Result<(), Error> {
        match (begin, stopped.line_end) {
            (Some(begin), Some(end)) => seek_to(&input, begin + end),
            (None, Some(_)) => Ok(()),
            (_, None) if !stopped.is_early || !self.options().drains() => Ok(()),
            (Some(_), None) if seek_to_end(&input).is_ok() => Ok(()),
            (_, None) => {
                let mut buffer = vec![0; READ_BYTES];
                while !self.is_over() && read_stream(&input, &mut buffer)? > 0 {}
                Ok(())
            }
        }
    }

    /// Opens a device, a FIFO or any other file that is read sequentially, and searches it.
    pub(super) fn search_as_it_comes(&self, cx: &Context<'_, Self>, entry: &Entry<Self>) {
        // An earlier operand may have ended the search since `plan`, and opening a FIFO may block.
        if self.is_over() {
            return;
        }
        // A FIFO may have no writer yet.
        let how = Open::READ.blocking();
        let how = if self.follow(entry) { how.following() } else { how };
        let opened = cx.cache().open(&entry.node.source).and_then(|place| open(&*place, entry.name(), how));
        let searched = opened.and_then(|source| {
            let status = stat(&source)?;
            if !self.is_output(cx, entry, &status) {
                self.search_stream(cx, entry, &source, &status);
            }
            Ok(())
        });
        if let Err(cause) = searched {
            self.cannot_read(cx, entry, cause);
        }
    }
}

/// Returns the bytes left in a regular file after the descriptor's offset; `None` if unknown.
fn bytes_left(source: impl AsFd, status: &Stat) -> Option<u64> {
    if status.kind != FileType::Regular || status.size == 0 {
        return None;
    }
    position(source).ok().map(|position| status.size.saturating_sub(position))
}
