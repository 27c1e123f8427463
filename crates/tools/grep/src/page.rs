//! Output of one file: the serial half of a search, which consumes the selections of its pieces
//! in order.
//!
//! It numbers lines, adds context, extracts and colours matches, and stops when there is enough.
//! The output matches GNU grep's byte for byte.

use std::ops::Range;

use super::find::{LineRun, SelectedLines};
use super::matcher::{GivenUp, Matcher, Scratch};
use super::options::{Binary, Colors, GrepOptions, NamePrefix, Show};

/// Size of the buffers whose NULs decide if a file is binary, in bytes.
pub(super) const JUDGED_BYTES: usize = 96 << 10;

/// Output state of a file, carried from piece to piece.
#[derive(Debug, Default)]
pub(super) struct Page {
    pub(super) out: Vec<u8>,
    /// True if a part of the output was emitted.
    pub(super) is_begun: bool,
    /// Number of selected lines so far.
    pub(super) count: u64,
    /// True if nothing more of the file is needed.
    pub(super) done: bool,
    /// True if selected lines were suppressed because they are binary.
    pub(super) hidden: bool,
    /// True if the file turned out to be binary.
    pub(super) binary: bool,
    /// Why the search was abandoned, if it was.
    pub(super) given_up: Option<GivenUp>,
    /// True if lines are prefixed with the file's name.
    pub(super) named: bool,
    /// The file's name; filled in once a line is selected.
    pub(super) name: Vec<u8>,
    width: usize,
    /// Number of lines before the piece.
    lines: u64,
    shown: Option<Shown>,
    /// True if any line was selected for output.
    used: bool,
    /// True if a separator may be needed before this output, because it starts a group of lines
    /// with context.
    pub(super) apart: bool,
    /// Lines of trailing context still to show.
    pending: u64,
    /// File offset of the end of the last requested line, once it is found and if it matters.
    pub(super) end: Option<u64>,
    /// True if enough lines were selected.
    full: bool,
    /// The last lines before the piece: as many as leading context needs, up to twice that.
    tail: Vec<u8>,
    tail_lines: u64,
}

#[derive(Clone, Copy, Debug)]
struct Shown {
    /// File offset of its end.
    to: u64,
    number: u64,
}

#[derive(Clone, Copy)]
pub(super) struct TextPiece<'a> {
    pub(super) text: &'a [u8],
    /// File offset of `text`.
    pub(super) offset: u64,
}

pub(super) struct Printer<'a> {
    pub(super) options: &'a GrepOptions,
    pub(super) matcher: &'a Matcher,
    pub(super) scratch: &'a mut Scratch,
}

struct PageLine<'a> {
    text: &'a [u8],
    /// Its range in the text, including the terminator, if there is one.
    range: Range<usize>,
    number: u64,
    /// File offset of its start.
    offset: u64,
    selected: bool,
}

impl Page {
    /// True if trailing context is still due.
    pub(super) fn has_context_left(&self) -> bool {
        self.pending > 0
    }

    /// Returns how far a piece has already been shown, as an offset into it.
    fn shown_in(&self, offset: u64) -> usize {
        let to = self.shown.map_or(0, |shown| shown.to);
        usize::try_from(to.saturating_sub(offset)).unwrap_or(usize::MAX)
    }

    /// Starts a file. `size` is its size, if known, which sets the width of numbers under `-T`.
    pub(super) fn new(options: &GrepOptions, in_directory: bool, size: Option<u64>) -> Self {
        let named = match options.names {
            NamePrefix::Always => true,
            NamePrefix::InDirectories => in_directory,
            NamePrefix::Never => false,
        };
        let width = match (options.initial_tab, size) {
            (false, _) => 0,
            // Like GNU grep: with line numbers, one digit more for a file of 9, 99, 999, ... bytes.
            (true, Some(size)) => {
                size.saturating_add(u64::from(options.numbers)).checked_ilog10().unwrap_or(0) as usize + 1
            }
            // The largest file offset has 19 digits.
            (true, None) => 19,
        };
        let full = options.max == Some(0);
        Self { named, width, full, done: full, ..Self::default() }
    }
}

impl Printer<'_> {
    fn terminator(&self) -> u8 {
        if self.options.query.null_data { 0 } else { b'\n' }
    }

    /// Consumes a piece of text and its selection.
    pub(super) fn take(&mut self, page: &mut Page, piece: TextPiece<'_>, selection: &SelectedLines) {
        page.given_up = page.given_up.or(selection.given_up);
        if page.done {
            return;
        }
        let left = self.options.limit().saturating_sub(page.count);
        self.note_end(page, piece, (selection, left));
        if self.options.show != Show::Lines {
            page.count += selection.count.min(left);
            page.done = page.count >= self.options.limit();
            return;
        }
        for run in &selection.runs {
            if page.full {
                break;
            }
            self.run(page, piece, run, selection.count <= left);
        }
        self.trail(page, piece, piece.text.len());
        self.keep_tail(page, piece);
        page.lines += selection.lines;
        page.done = page.full && page.pending == 0;
    }

    /// Consumes a binary piece and its selection; NULs end lines in it. GNU grep still shows
    /// trailing context here, up to the buffer that holds a selected line.
    pub(super) fn take_binary(&mut self, page: &mut Page, piece: TextPiece<'_>, selection: &SelectedLines) {
        page.given_up = page.given_up.or(selection.given_up);
        if page.done {
            return;
        }
        page.binary = true;
        if self.options.binary == Binary::WithoutMatch {
            (page.count, page.done) = (0, true);
            return;
        }
        let left = self.options.limit().saturating_sub(page.count);
        self.note_end(page, piece, (selection, left));
        page.count += selection.count.min(left);
        let counts = self.options.show == Show::Count;
        let selects = selection.count > 0 && left > 0;
        if page.pending > 0 {
            let first = selection.runs.first().filter(|_| selects);
            let to = first.map_or(piece.text.len(), |run| self.judged_with(piece, run.lines.start));
            self.trail(page, piece, to);
        }
        if !counts && selects {
            (page.hidden, page.pending) = (true, 0);
        }
        page.done = page.hidden || (page.count >= self.options.limit() && page.pending == 0);
    }

    /// Records the end of the last requested line if it is in this selection; `left` are
    /// still wanted.
    fn note_end(&self, page: &mut Page, piece: TextPiece<'_>, (selection, left): (&SelectedLines, u64)) {
        if !self.options.notes_end() || page.end.is_some() || selection.count < left {
            return;
        }
        let mut left = left;
        // With output to the null device, GNU grep stops at the first selected run and counts the
        // lines in it.
        let runs =
            if self.options.goes_nowhere { usize::from(page.count == 0) } else { selection.runs.len() };
        for run in selection.runs.iter().take(runs) {
            let mut at = run.lines.start;
            while at < run.lines.end && left > 0 {
                at = self.line_end(piece.text, at);
                left -= 1;
                page.end = Some(piece.offset + at as u64);
            }
        }
        page.end = page.end.filter(|_| left == 0);
    }

    /// True if leading context applies to a line of a run. Under `-v`, GNU grep looks back only
    /// from the first line of a run or of a buffer.
    fn is_looked_before(&self, piece: TextPiece<'_>, run: &LineRun, start: usize) -> bool {
        self.options.shows_context()
            && (!self.options.invert || start == run.lines.start || start == self.judged_with(piece, start))
    }

    /// Returns where the lines begin that share a GNU buffer with the line at `start`. An
    /// unterminated last line is a buffer of its own.
    fn judged_with(&self, piece: TextPiece<'_>, start: usize) -> usize {
        if self.last_end(&piece.text[start..]) == 0 {
            return start;
        }
        let end = piece.offset + self.line_end(piece.text, start) as u64;
        let judged = end.saturating_sub(1) / JUDGED_BYTES as u64 * JUDGED_BYTES as u64;
        let before = usize::try_from(judged.saturating_sub(piece.offset)).unwrap_or(0);
        self.last_end(&piece.text[..before.min(piece.text.len())])
    }

    fn run(&mut self, page: &mut Page, piece: TextPiece<'_>, run: &LineRun, all: bool) {
        // Consecutive lines without prefixes are copied at once.
        if all && self.is_plain(page) && self.is_text(&piece.text[run.lines.clone()]) {
            let lines = &piece.text[run.lines.clone()];
            page.count += memchr::memchr_iter(self.terminator(), lines).count() as u64;
            page.out.extend_from_slice(lines);
            if lines.last() != Some(&self.terminator()) {
                page.count += 1;
                page.out.push(self.terminator());
            }
            page.full = page.count >= self.options.limit();
            return;
        }
        let after = self.options.after.unwrap_or(0);
        let mut number = page.lines + run.before;
        let mut at = run.lines.start;
        while at < run.lines.end && !page.full {
            let line = at..self.line_end(piece.text, at);
            number += 1;
            if self.is_looked_before(piece, run, line.start) {
                self.before(page, piece, line.start, number);
            }
            at = line.end;
            page.pending = after;
            if !self.show(page, piece, line.clone(), number, true) && after > 0 {
                self.look_back(page, piece, line.start, number);
            }
            page.used = true;
            page.count += 1;
            page.full = page.count >= self.options.limit();
        }
    }

    /// True if output is just the selected lines, unadorned.
    fn is_plain(&self, page: &Page) -> bool {
        let options = self.options;
        let has_head = page.named || options.numbers || options.offsets;
        !(has_head || options.only_matching || options.colors.is_some() || options.shows_context())
    }

    fn is_text(&self, bytes: &[u8]) -> bool {
        self.options.binary == Binary::Text || !self.options.query.utf8 || std::str::from_utf8(bytes).is_ok()
    }

    /// Records where trailing context resumes after a line that could not be shown. In GNU grep,
    /// that is after the last line shown, or at the first line in the same buffer.
    fn look_back(&self, page: &mut Page, piece: TextPiece<'_>, start: usize, number: u64) {
        let mut from = self.judged_with(piece, start);
        for _ in 0..self.options.before.unwrap_or(0) {
            from = self.line_start(piece.text, from);
        }
        let to = piece.offset + from as u64;
        if page.shown.is_none_or(|shown| shown.to < to) {
            let lines = memchr::memchr_iter(self.terminator(), &piece.text[from..start]).count() as u64;
            page.shown = Some(Shown { to, number: number.saturating_sub(lines + 1) });
        }
    }

    fn line_end(&self, text: &[u8], at: usize) -> usize {
        memchr::memchr(self.terminator(), &text[at..]).map_or(text.len(), |end| at + end + 1)
    }

    /// Prints leading context and, if the group is not adjacent to the last, a separator.
    fn before(&mut self, page: &mut Page, piece: TextPiece<'_>, start: usize, number: u64) {
        self.trail(page, piece, start);
        let wanted = self.options.before.unwrap_or(0);
        let shown_to = page.shown_in(piece.offset);
        let (mut from, mut lines) = (start, 0);
        while lines < wanted && from > shown_to {
            from = self.line_start(piece.text, from);
            lines += 1;
        }
        let tail = std::mem::take(&mut page.tail);
        let tail_offset = piece.offset - tail.len() as u64;
        let (mut tail_from, mut tail_lines) = (tail.len(), 0);
        let tail_shown_to = page.shown_in(tail_offset);
        while from == 0 && lines + tail_lines < wanted && tail_from > tail_shown_to {
            tail_from = self.line_start(&tail, tail_from);
            tail_lines += 1;
        }
        let first = if tail_lines > 0 { tail_offset + tail_from as u64 } else { piece.offset + from as u64 };
        if !page.used {
            page.apart = true;
        } else if page.shown.is_none_or(|shown| shown.to != first) {
            self.separate(page);
        }
        // If numbers are off, lines are not counted and `number` is meaningless.
        let mut number = number.saturating_sub(lines + tail_lines);
        for (context, mut at, end) in
            [(TextPiece { text: &tail, offset: tail_offset }, tail_from, tail.len()), (piece, from, start)]
        {
            while at < end {
                let line = at..self.line_end(context.text, at);
                at = line.end;
                self.show(page, context, line, number, false);
                number += 1;
            }
        }
        page.tail = tail;
    }

    fn line_start(&self, text: &[u8], end: usize) -> usize {
        let before = &text[..end.saturating_sub(1)];
        self.last_end(before)
    }

    /// Returns the position after the last line end in a text.
    fn last_end(&self, text: &[u8]) -> usize {
        memchr::memrchr(self.terminator(), text).map_or(0, |end| end + 1)
    }

    /// Prints trailing context, up to a position in the piece.
    fn trail(&mut self, page: &mut Page, piece: TextPiece<'_>, to: usize) {
        let mut at = page.shown_in(piece.offset);
        if page.pending == 0 || at >= to {
            return;
        }
        let mut number = page.shown.map_or(0, |shown| shown.number);
        while page.pending > 0 && at < to {
            let line = at..self.line_end(piece.text, at);
            at = line.end;
            number += 1;
            // In GNU grep, a line that can't be shown ends the context.
            page.pending = if self.show(page, piece, line, number, false) { page.pending - 1 } else { 0 };
        }
    }

    /// Keeps the last lines of a piece as leading context for the next.
    fn keep_tail(&self, page: &mut Page, piece: TextPiece<'_>) {
        let wanted = if self.options.shows_context() { self.options.before.unwrap_or(0) } else { 0 };
        let (mut from, mut lines) = (piece.text.len(), 0);
        while lines < wanted && from > 0 {
            from = self.line_start(piece.text, from);
            lines += 1;
        }
        if from > 0 {
            page.tail.clear();
            page.tail_lines = 0;
        }
        page.tail.extend_from_slice(&piece.text[from..]);
        page.tail_lines += lines;
        // Trim only once half the tail is stale: then each line moves at most once, however small
        // the pieces are.
        if page.tail_lines > wanted.saturating_mul(2) {
            let from = (0..wanted).fold(page.tail.len(), |from, _| self.line_start(&page.tail, from));
            page.tail.drain(..from);
            page.tail_lines = wanted;
        }
    }

    pub(super) fn separate(&mut self, page: &mut Page) {
        if let Some(separator) = &self.options.separator {
            let begun = self.begin(page, |colors| &colors.separator);
            page.out.extend_from_slice(separator);
            self.end(page, begun);
            page.out.push(b'\n');
        }
    }

    /// Prints a line and records it as the last one shown. Returns false if it is binary.
    fn show(
        &mut self,
        page: &mut Page,
        piece: TextPiece<'_>,
        range: Range<usize>,
        number: u64,
        selected: bool,
    ) -> bool {
        let (offset, end) = (piece.offset + range.start as u64, piece.offset + range.end as u64);
        let is_shown = self.line(page, &PageLine { text: piece.text, range, number, offset, selected });
        if is_shown {
            page.shown = Some(Shown { to: end, number });
        }
        is_shown
    }

    /// Prints a line. Returns false if it is binary.
    fn line(&mut self, page: &mut Page, line: &PageLine<'_>) -> bool {
        let options = self.options;
        let end = line.range.end;
        let has_end = line.text[line.range.clone()].last() == Some(&self.terminator());
        let content = line.range.start..if has_end { end - 1 } else { end };
        if !options.only_matching && !self.head(page, line, content.clone()) {
            return false;
        }
        let mut rest = content.start;
        let (of_line, of_match) = match &options.colors {
            Some(colors) => {
                let swapped = options.invert && colors.reversed;
                let of_line =
                    if line.selected != swapped { &colors.selected_line } else { &colors.context_line };
                let of_match = if line.selected { &colors.selected_match } else { &colors.context_match };
                (of_line.as_str(), of_match.as_str())
            }
            None => ("", ""),
        };
        // Under `-v`, the matches are in the context lines.
        let has_matches = line.selected != options.invert;
        if has_matches && (options.only_matching || !of_match.is_empty()) {
            let Some(after) = self.matches(page, line, content.clone(), (of_line, of_match)) else {
                return false;
            };
            rest = after;
        }
        if options.only_matching {
            return true;
        }
        if !of_line.is_empty() {
            // Behind a carriage return, the end of a colour would clear the line.
            let carriage = usize::from(line.text[rest..content.end].last() == Some(&b'\r'));
            let tail = rest..content.end - carriage;
            if !tail.is_empty() {
                self.colored(page, of_line, &line.text[tail.clone()]);
                rest = tail.end;
            }
        }
        page.out.extend_from_slice(&line.text[rest..content.end]);
        page.out.push(self.terminator());
        true
    }

    /// Prints a line up to its last match, or only its matches. Returns where the rest begins, or
    /// `None` if a part is binary.
    fn matches(
        &mut self,
        page: &mut Page,
        line: &PageLine<'_>,
        content: Range<usize>,
        (of_line, of_match): (&str, &str),
    ) -> Option<usize> {
        let (mut at, mut rest) = (content.start, content.start);
        while at < content.end {
            let found = match self.matcher.part(self.scratch, line.text, (content.clone(), at)) {
                Ok(found) => found,
                Err(given_up) => {
                    page.given_up = Some(given_up);
                    None
                }
            };
            let Some(found) = found.filter(|found| found.start < content.end) else { break };
            // In Perl patterns, `\K` in a look-behind can start a match before `at`.
            let found = found.start.max(at)..found.end;
            if found.is_empty() {
                at = found.start + self.matcher.character(&line.text[found.start..content.end]);
                continue;
            }
            if self.options.only_matching {
                if !self.head(page, line, found.clone()) {
                    return None;
                }
            } else {
                // In GNU grep, the colour of a match replaces that of the line.
                if let Some(colors) = &self.options.colors {
                    begin(&mut page.out, of_line, colors);
                }
                page.out.extend_from_slice(&line.text[rest..found.start]);
            }
            self.colored(page, of_match, &line.text[found.clone()]);
            if self.options.only_matching {
                page.out.push(self.terminator());
            }
            (at, rest) = (found.end, found.end);
        }
        Some(rest)
    }

    /// Prints the prefix of a line or of a match. Returns false, and marks the page, if the text
    /// is binary.
    fn head(&mut self, page: &mut Page, line: &PageLine<'_>, part: Range<usize>) -> bool {
        if !self.is_text(&line.text[part.clone()]) {
            page.hidden = true;
            return false;
        }
        let options = self.options;
        let separator = if line.selected { b':' } else { b'-' };
        if page.named {
            let name = std::mem::take(&mut page.name);
            self.name(page, &name, separator);
            page.name = name;
        }
        if options.numbers {
            self.number(page, line.number, |colors| &colors.number);
            self.mark(page, separator);
        }
        if options.offsets {
            let offset = line.offset + (part.start - line.range.start) as u64;
            self.number(page, offset, |colors| &colors.offset);
            self.mark(page, separator);
        }
        let has_head = page.named || options.numbers || options.offsets;
        if options.initial_tab && has_head && !part.is_empty() {
            page.out.push(b'\t');
        }
        true
    }

    fn name(&self, page: &mut Page, name: &[u8], separator: u8) {
        let begun = self.begin(page, |colors| &colors.name);
        page.out.extend_from_slice(name);
        self.end(page, begun);
        if self.options.null_names { page.out.push(0) } else { self.mark(page, separator) }
    }

    fn number(&self, page: &mut Page, number: u64, color: fn(&Colors) -> &String) {
        let begun = self.begin(page, color);
        let mut digits = [b' '; 20];
        let (mut at, mut rest) = (digits.len(), number);
        while at == digits.len() || rest > 0 {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        page.out.extend_from_slice(&digits[at.min(digits.len() - page.width)..]);
        self.end(page, begun);
    }

    fn mark(&self, page: &mut Page, separator: u8) {
        let begun = self.begin(page, |colors| &colors.separator);
        page.out.push(separator);
        self.end(page, begun);
    }

    fn begin(&self, page: &mut Page, color: fn(&Colors) -> &String) -> bool {
        self.options.colors.as_ref().is_some_and(|colors| begin(&mut page.out, color(colors), colors))
    }

    fn end(&self, page: &mut Page, begun: bool) {
        if let (true, Some(colors)) = (begun, &self.options.colors) {
            // When the terminal scrolls, it fills the new line with the background colour.
            let clear = if colors.no_clear { "" } else { "\x1b[K" };
            page.out.extend_from_slice(format!("\x1b[m{clear}").as_bytes());
        }
    }

    fn colored(&self, page: &mut Page, color: &str, text: &[u8]) {
        let begun = self.options.colors.as_ref().is_some_and(|colors| begin(&mut page.out, color, colors));
        page.out.extend_from_slice(text);
        self.end(page, begun);
    }

    pub(super) fn finish(&self, page: &mut Page, name: &[u8]) {
        let matched = page.count > 0;
        match self.options.show {
            Show::Count => {
                if page.named {
                    self.name(page, name, b':');
                }
                page.out.extend_from_slice(format!("{}\n", page.count).as_bytes());
            }
            Show::FilesWith if matched => self.list(page, name),
            Show::FilesWithout if !matched => self.list(page, name),
            _ => {}
        }
    }

    fn list(&self, page: &mut Page, name: &[u8]) {
        let begun = self.begin(page, |colors| &colors.name);
        page.out.extend_from_slice(name);
        self.end(page, begun);
        page.out.push(if self.options.null_names { 0 } else { b'\n' });
    }
}

/// Starts a colour. Returns true if it needs an end.
fn begin(out: &mut Vec<u8>, color: &str, colors: &Colors) -> bool {
    if color.is_empty() {
        return false;
    }
    let clear = if colors.no_clear { "" } else { "\x1b[K" };
    out.extend_from_slice(format!("\x1b[{color}m{clear}").as_bytes());
    true
}
