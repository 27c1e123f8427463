//! Which lines of a text are selected: the parallel half of a search, which needs nothing but the text.

use std::ops::Range;

use super::matcher::{GivenUp, Matcher, Scratch};

/// Lines in a row that are selected.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Run {
    /// Where they begin and end in the text.
    pub(super) lines: Range<usize>,
    /// How many lines come before them in the text; counted only if numbers are wanted.
    pub(super) before: u64,
}

/// What was found in a text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Selection {
    /// The selected lines.
    pub(super) runs: Vec<Run>,
    /// How many they are.
    pub(super) count: u64,
    /// Lines of the text, if numbers are wanted.
    pub(super) lines: u64,
    /// Why the search was given up, if it was.
    pub(super) given_up: Option<GivenUp>,
}

/// What of a text is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Question {
    /// The byte that ends a line.
    pub(super) terminator: u8,
    /// Lines without a match are selected.
    pub(super) invert: bool,
    /// Where selected lines are is wanted, and not only how many there are.
    pub(super) places: bool,
    /// Their numbers are wanted.
    pub(super) numbers: bool,
    /// So many are enough.
    pub(super) limit: u64,
}

impl Question {
    /// Finds the selected lines of a text of whole lines; of the last, the end may be missing.
    pub(super) fn answer(&self, matcher: &Matcher, scratch: &mut Scratch, text: &[u8]) -> Selection {
        let mut selection = Selection::default();
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
        selection: &mut Selection,
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

    fn note(&self, lines: Range<usize>, selection: &mut Selection) {
        match selection.runs.last_mut() {
            _ if !self.places => {}
            Some(last) if last.lines.end == lines.start => last.lines.end = lines.end,
            _ => selection.runs.push(Run { lines, before: 0 }),
        }
    }

    /// Counts the lines of a text.
    fn lines_in(&self, text: &[u8]) -> u64 {
        let ended = memchr::memchr_iter(self.terminator, text).count() as u64;
        ended + u64::from(text.last().is_some_and(|last| *last != self.terminator))
    }

    fn number(&self, text: &[u8], selection: &mut Selection) {
        let (mut at, mut lines) = (0, 0);
        for run in &mut selection.runs {
            lines += self.lines_in(&text[at..run.lines.start]);
            (run.before, at) = (lines, run.lines.start);
        }
        selection.lines = lines + self.lines_in(&text[at..]);
    }
}
