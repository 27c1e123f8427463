//! The content of a file: what of it is text, and which lines of it are selected.
//!
//! GNU grep reads 96 KiB at a time and takes a file for binary from the first of these on that has a NUL in it; lines that
//! end before were shown. So do we, whatever we read at a time. From there on a NUL ends a line, and only whether lines are
//! selected is of interest.

use super::find::{Question, Selection};
use super::matcher::{Matcher, Scratch};
use super::options::{Binary, GrepOptions, Show};
use super::page::{Page, Piece, Printer};

/// Bytes that are judged at a time.
pub(super) const JUDGED_BYTES: usize = 96 << 10;

/// A search: what is asked for, made ready.
pub(super) struct Search {
    pub(super) options: GrepOptions,
    pub(super) matcher: Matcher,
}

/// A piece of a file.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) bytes: &'a [u8],
    /// Where the piece itself begins: before is the beginning of its first line.
    pub(super) own: usize,
    /// Where its last line ends: behind is the beginning of a line of the next piece.
    pub(super) lines_end: usize,
    /// Where its bytes begin in the file.
    pub(super) offset: u64,
    /// Whether it is judged as a whole, as what comes at a time from a pipe.
    pub(super) whole: bool,
}

/// What was found in a piece of a file.
#[derive(Debug, Default)]
pub(super) struct Examined {
    /// Where the text in it ends.
    text_end: usize,
    text: Selection,
    /// What was found behind, if that is not text.
    binary: Option<Selection>,
}

impl Examined {
    fn selects(&self) -> bool {
        self.text.count > 0 || self.binary.as_ref().is_some_and(|binary| binary.count > 0)
    }
}

impl Search {
    pub(super) fn terminator(&self) -> u8 {
        if self.options.wanted.null_data { 0 } else { b'\n' }
    }

    /// Returns the bytes that end a line, whether a file is text or not.
    pub(super) fn line_ends(&self) -> [u8; 2] {
        let terminator = self.terminator();
        [terminator, if self.options.binary == Binary::Text { terminator } else { 0 }]
    }

    /// Tells whether an empty line is selected.
    pub(super) fn selects_empty(&self, scratch: &mut Scratch) -> bool {
        let question = Question { limit: 1, ..self.question() };
        question.answer(&self.matcher, scratch, &[self.terminator()]).count > 0
    }

    fn question(&self) -> Question {
        let options = &self.options;
        let lines = options.show == Show::Lines;
        Question {
            terminator: self.terminator(),
            invert: options.invert,
            places: lines || options.notes_end(),
            numbers: lines && options.numbers,
            limit: options.limit(),
        }
    }

    /// Examines a piece of a file.
    pub(super) fn examine(&self, scratch: &mut Scratch, window: Window<'_>) -> Examined {
        let question = self.question();
        let text = &window.bytes[..window.lines_end];
        let not_text = self.text_end(window);
        let text_end = not_text.unwrap_or(text.len());
        let found = question.answer(&self.matcher, scratch, &text[..text_end]);
        if not_text.is_none() {
            return Examined { text_end, text: found, binary: None };
        }
        let counts = self.options.show == Show::Count;
        let limit = if counts || self.options.goes_nowhere { question.limit } else { 1 };
        let binary = if self.options.binary == Binary::WithoutMatch {
            Selection::default()
        } else {
            let places = self.options.shows_context() || self.options.notes_end();
            let question = Question { places, numbers: false, limit, ..question };
            let mut lines = std::mem::take(&mut scratch.lines);
            zap(&text[text_end..], &mut lines);
            let selection = question.answer(&self.matcher, scratch, &lines);
            scratch.lines = lines;
            selection
        };
        Examined { text_end, text: found, binary: Some(binary) }
    }

    /// Returns where the lines of a piece end that are text, and `None` if all are.
    fn text_end(&self, window: Window<'_>) -> Option<usize> {
        let Window { bytes, own, lines_end, offset, whole } = window;
        if self.options.binary == Binary::Text || self.options.wanted.null_data {
            return None;
        }
        if memchr::memchr(0, &bytes[..own]).is_some() {
            return Some(0);
        }
        let nul = memchr::memchr(0, &bytes[own..])?;
        if whole {
            return Some(0);
        }
        let judged = JUDGED_BYTES as u64;
        let from = (offset + (own + nul) as u64) / judged * judged;
        let from = usize::try_from(from.saturating_sub(offset)).unwrap_or(0).min(lines_end);
        Some(memchr::memrchr(b'\n', &bytes[..from]).map_or(0, |end| end + 1))
    }

    /// Shows what was found in a piece of a file, whose name is asked for if it is needed.
    pub(super) fn show(
        &self,
        scratch: &mut Scratch,
        page: &mut Page,
        (piece, found): (Piece<'_>, &Examined),
        name: impl FnOnce() -> Vec<u8>,
    ) {
        if page.named && page.name.is_empty() && found.selects() {
            page.name = name();
        }
        let mut printer = Printer { options: &self.options, matcher: &self.matcher, scratch };
        let (text, rest) = piece.text.split_at(found.text_end);
        let text = Piece { text, offset: piece.offset };
        if page.binary {
            printer.take_binary(page, text, &found.text)
        } else {
            printer.take(page, text, &found.text)
        }
        if let Some(binary) = &found.binary {
            let mut lines = Vec::new();
            if page.has_context_left() || self.options.notes_end() {
                zap(rest, &mut lines);
            }
            printer.take_binary(
                page,
                Piece { text: &lines, offset: piece.offset + text.text.len() as u64 },
                binary,
            );
        }
    }

    /// Ends the page of a file of which something is shown as a whole.
    pub(super) fn finish(&self, scratch: &mut Scratch, page: &mut Page, name: &[u8]) {
        Printer { options: &self.options, matcher: &self.matcher, scratch }.finish(page, name);
    }

    /// Makes a page on which matches are none that are only known of.
    pub(super) fn taken_for_binary(&self, page: &mut Page) {
        page.binary = true;
        page.done |= self.options.binary == Binary::WithoutMatch;
    }
}

/// Copies a text with newlines instead of NULs.
fn zap(text: &[u8], lines: &mut Vec<u8>) {
    lines.clear();
    lines.extend_from_slice(text);
    // Written so that many bytes are done at a time.
    lines.iter_mut().for_each(|byte| *byte = if *byte == 0 { b'\n' } else { *byte });
}

/// The content of a file as it comes, block by block.
#[derive(Debug, Default)]
pub(super) struct Stream {
    /// What was found.
    pub(super) page: Page,
    /// What was read and not searched yet.
    rest: Vec<u8>,
    /// Where that begins in the file.
    offset: u64,
}

/// How much of what has come is searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// What GNU grep would have read as a whole, as far as lines end.
    Judged,
    /// The last end of a line.
    LineEnd,
    /// All: it is the end of the file.
    End,
}

impl Stream {
    /// Begins a file with a page.
    pub(super) fn new(page: Page) -> Self {
        Self { page, ..Self::default() }
    }

    /// Tells whether everything that has come was searched.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Takes what comes next of a file, whose name is asked for if it is needed.
    pub(super) fn feed(
        &mut self,
        search: &Search,
        scratch: &mut Scratch,
        (bytes, until): (&[u8], Until),
        name: impl FnOnce() -> Vec<u8>,
    ) {
        if self.page.done {
            return;
        }
        let [one, other] = search.line_ends();
        let goes_on = || until == Until::LineEnd && memchr::memchr2(one, other, bytes).is_none();
        if !self.rest.is_empty() && goes_on() {
            // Nothing can be said of a line before its end; to look at it again with each read would take the square of its length.
            self.rest.extend_from_slice(bytes);
        } else if self.rest.is_empty() {
            let searched = self.search(search, scratch, (bytes, until), name);
            self.rest.extend_from_slice(&bytes[searched..]);
        } else {
            let mut rest = std::mem::take(&mut self.rest);
            rest.extend_from_slice(bytes);
            let searched = self.search(search, scratch, (&rest, until), name);
            rest.drain(..searched);
            self.rest = rest;
        }
    }

    /// Searches what can be of a text; returns how much it was.
    fn search(
        &mut self,
        search: &Search,
        scratch: &mut Scratch,
        (text, until): (&[u8], Until),
        name: impl FnOnce() -> Vec<u8>,
    ) -> usize {
        let end = self.offset + text.len() as u64;
        let judged = match until {
            Until::End | Until::LineEnd => end,
            Until::Judged => end - end % JUDGED_BYTES as u64,
        };
        let judged = usize::try_from(judged.saturating_sub(self.offset)).unwrap_or(0);
        let bytes = &text[..judged];
        let lines_end = match until {
            Until::End => judged,
            Until::LineEnd | Until::Judged => {
                memchr::memrchr(search.terminator(), bytes).map_or(0, |end| end + 1)
            }
        };
        let whole = until == Until::LineEnd;
        let found = search.examine(scratch, Window { bytes, own: 0, lines_end, offset: self.offset, whole });
        let piece = Piece { text: &bytes[..lines_end], offset: self.offset };
        search.show(scratch, &mut self.page, (piece, &found), name);
        self.offset += lines_end as u64;
        lines_end
    }
}
