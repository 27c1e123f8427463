//! Finds the selected lines of a text: the parallel half of a search, which depends on nothing but
//! the text.

use std::ops::Range;

use super::matcher::{GivenUp, Matcher, Scratch};

/// A run of consecutive selected lines.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineRun {
    pub(super) lines: Range<usize>,
    /// Number of lines before the run; counted only if line numbers are wanted.
    pub(super) before: u64,
}

/// The selected lines of a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct SelectedLines {
    /// Runs of selected lines; empty if places are not wanted.
    pub(super) runs: Vec<LineRun>,
    pub(super) count: u64,
    /// Number of lines in the text; counted only if line numbers are wanted.
    pub(super) lines: u64,
    /// Why the search was abandoned, if it was.
    pub(super) given_up: Option<GivenUp>,
}

/// A query about the lines of a text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    pub(super) terminator: u8,
    /// True if lines without a match are selected.
    pub(super) invert: bool,
    /// True if the places of selected lines are wanted, not only their number.
    pub(super) places: bool,
    /// True if line numbers are wanted.
    pub(super) numbers: bool,
    pub(super) limit: u64,
}

impl Question {
    /// Finds the selected lines of a text of whole lines. The last line may lack its terminator.
    pub(super) fn answer(&self, matcher: &Matcher, scratch: &mut Scratch, text: &[u8]) -> SelectedLines {
        let mut selection = SelectedLines::default();
        selection.given_up = self.ask(matcher, scratch, text, &mut selection).err();
        if self.numbers {
            self.number(text, &mut selection);
        }
        selection
    }

    fn ask(
        &self,
        matcher: &Matcher,
        scratch: &mut Scratch,
        text: &[u8],
        selection: &mut SelectedLines,
    ) -> Result<(), GivenUp> {
        let mut at = 0;
        while at < text.len() && selection.count < self.limit {
            let matched = matcher.line(scratch, text, at)?.unwrap_or(text.len()..text.len());
            let selected = if self.invert { at..matched.start } else { matched.clone() };
            if !selected.is_empty() {
                selection.count += if self.invert { self.lines_in(&text[selected.clone()]) } else { 1 };
                self.note(selected, selection);
            }
            at = matched.end;
        }
        Ok(())
    }

    fn note(&self, lines: Range<usize>, selection: &mut SelectedLines) {
        match selection.runs.last_mut() {
            _ if !self.places => {}
            Some(last) if last.lines.end == lines.start => last.lines.end = lines.end,
            _ => selection.runs.push(LineRun { lines, before: 0 }),
        }
    }

    /// Counts lines, including an unterminated last one.
    fn lines_in(&self, text: &[u8]) -> u64 {
        let ended = memchr::memchr_iter(self.terminator, text).count() as u64;
        ended + u64::from(text.last().is_some_and(|last| *last != self.terminator))
    }

    fn number(&self, text: &[u8], selection: &mut SelectedLines) {
        let (mut at, mut lines) = (0, 0);
        for run in &mut selection.runs {
            lines += self.lines_in(&text[at..run.lines.start]);
            (run.before, at) = (lines, run.lines.start);
        }
        selection.lines = lines + self.lines_in(&text[at..]);
    }
}
