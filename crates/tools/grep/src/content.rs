//! A file's content: how much of it is text, and which lines are selected.
//!
//! GNU grep reads 96 KiB at a time. From the first such buffer that holds a NUL, it treats the
//! file as binary; complete lines before it have been shown already. We keep these boundaries
//! whatever our read size. From there on NULs also end lines, and only the existence of selected
//! lines matters.

use super::find::{Question, SelectedLines};
use super::matcher::{Matcher, Scratch};
use super::options::{Binary, GrepOptions, Show};
use super::page::{JUDGED_BYTES, Page, Printer, TextPiece};

pub(super) struct GrepSearch {
    pub(super) options: GrepOptions,
    pub(super) matcher: Matcher,
}

/// A piece of a file, with the start of its first line.
#[derive(Clone, Copy)]
pub(super) struct Window<'a> {
    pub(super) bytes: &'a [u8],
    /// Offset in `bytes` of the piece itself; the start of its first line precedes it.
    pub(super) own: usize,
    /// End of its last line; a line of the next piece follows.
    pub(super) lines_end: usize,
    /// File offset of `bytes`.
    pub(super) offset: u64,
    /// True if it is judged as one buffer, like a read from a pipe.
    pub(super) whole: bool,
}

/// Selections in a piece of a file.
#[derive(Debug, Default)]
pub(super) struct Examined {
    text_end: usize,
    text: SelectedLines,
    /// Selection in the binary part, if there is one.
    binary: Option<SelectedLines>,
}

impl Examined {
    fn selects(&self) -> bool {
        self.text.count > 0 || self.binary.as_ref().is_some_and(|binary| binary.count > 0)
    }
}

impl GrepSearch {
    pub(super) fn terminator(&self) -> u8 {
        if self.options.query.null_data { 0 } else { b'\n' }
    }

    /// Returns the bytes that may end a line, whether the file is text or binary.
    pub(super) fn line_ends(&self) -> [u8; 2] {
        let terminator = self.terminator();
        [terminator, if self.options.binary == Binary::Text { terminator } else { 0 }]
    }

    /// True if an empty line would be selected.
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

    /// Finds the selected lines of a piece.
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
            SelectedLines::default()
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

    /// Returns where the text part of a piece ends, or `None` if all of it is text.
    fn text_end(&self, window: Window<'_>) -> Option<usize> {
        let Window { bytes, own, lines_end, offset, whole } = window;
        if self.options.binary == Binary::Text || self.options.query.null_data {
            return None;
        }
        // The NUL is in an earlier buffer, so all of these lines are in the binary part.
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

    /// Prints the selections of a piece. Calls `name` only if the file's name is needed.
    pub(super) fn show(
        &self,
        scratch: &mut Scratch,
        page: &mut Page,
        (piece, found): (TextPiece<'_>, &Examined),
        name: impl FnOnce() -> Vec<u8>,
    ) {
        // Most files select nothing, and building a path takes time.
        if page.named && page.name.is_empty() && found.selects() {
            page.name = name();
        }
        let mut printer = Printer { options: &self.options, matcher: &self.matcher, scratch };
        let (text, rest) = piece.text.split_at(found.text_end);
        let text = TextPiece { text, offset: piece.offset };
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
                TextPiece { text: &lines, offset: piece.offset + text.text.len() as u64 },
                binary,
            );
        }
    }

    /// Completes a page with its per-file output.
    pub(super) fn finish(&self, scratch: &mut Scratch, page: &mut Page, name: &[u8]) {
        Printer { options: &self.options, matcher: &self.matcher, scratch }.finish(page, name);
    }

    /// Marks a file as binary before its content shows it.
    pub(super) fn taken_for_binary(&self, page: &mut Page) {
        page.binary = true;
        page.done |= self.options.binary == Binary::WithoutMatch;
    }
}

/// Copies a text, replacing NULs with newlines.
fn zap(text: &[u8], lines: &mut Vec<u8>) {
    lines.clear();
    lines.extend_from_slice(text);
    // Written so that the compiler vectorises it.
    lines.iter_mut().for_each(|byte| *byte = if *byte == 0 { b'\n' } else { *byte });
}

/// A file's content, arriving block by block.
#[derive(Debug, Default)]
pub(super) struct ContentStream {
    pub(super) page: Page,
    /// Bytes read but not yet searched.
    rest: Vec<u8>,
    /// Length of the beginning of `rest` in which no line ends. Scanning it again on every read
    /// would be quadratic in the length of a line.
    unended: usize,
    /// File offset of `rest`.
    offset: u64,
}

/// End of the received bytes that can be searched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Until {
    /// Complete lines within whole GNU buffers.
    Judged,
    /// Up to the last line end.
    LineEnd,
    /// Everything: the file ends here.
    End,
}

impl ContentStream {
    pub(super) fn new(page: Page) -> Self {
        Self { page, ..Self::default() }
    }

    /// True if everything that arrived has been searched.
    pub(super) fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// Adds the next bytes of a file. Calls `name` only if the file's name is needed.
    pub(super) fn feed(
        &mut self,
        search: &GrepSearch,
        scratch: &mut Scratch,
        (bytes, until): (&[u8], Until),
        name: impl FnOnce() -> Vec<u8>,
    ) {
        if self.page.done {
            return;
        }
        if self.rest.is_empty() {
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

    /// Searches as much of a text as `until` allows. Returns the number of bytes searched.
    fn search(
        &mut self,
        search: &GrepSearch,
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
                // From a NUL on the text is binary, and NULs end lines: a stream of NULs without a
                // newline is not one line, which would fill the memory.
                let [one, other] = search.line_ends();
                match memchr::memrchr2(one, other, &bytes[self.unended..]) {
                    Some(end) => self.unended + end + 1,
                    None => {
                        self.unended = judged;
                        return 0;
                    }
                }
            }
        };
        self.unended = judged - lines_end;
        let whole = until == Until::LineEnd;
        let found = search.examine(scratch, Window { bytes, own: 0, lines_end, offset: self.offset, whole });
        let piece = TextPiece { text: &bytes[..lines_end], offset: self.offset };
        search.show(scratch, &mut self.page, (piece, &found), name);
        self.offset += lines_end as u64;
        lines_end
    }
}
