//! Perl patterns (`-P`), matched by PCRE2.
//!
//! Each line is its own subject, as in GNU grep: no match spans lines, and `^` and `$` refer to the
//! line. In UTF-8 text, an invalid byte matches nothing and separates what is before it from what
//! is after. As in GNU grep with the PCRE2 of its time, `\d`, `\w`, `\s` and `\b` are ASCII-only
//! unless the pattern begins with `(*UCP)`.

use std::ops::Range;

use haul_sys::pcre2::{CompiledPattern, MatchFailure, Matching, PatternOptions};

use super::PatternError;
use super::query::{Extent, Query};

pub(super) struct Perl {
    pattern: CompiledPattern,
    utf8: bool,
    terminator: u8,
}

impl Perl {
    /// Compiles the pattern.
    ///
    /// # Errors
    /// If the pattern is invalid, or there are several.
    pub(super) fn new(query: &Query) -> Result<Self, PatternError> {
        let text = match query.patterns.as_slice() {
            // Nothing matches, as with `-f /dev/null`.
            [] => b"(*F)",
            [only, others @ ..] if others.iter().all(|other| other == only) => only.as_slice(),
            _ => return Err(PatternError::SeveralPerlPatterns),
        };
        let text = match query.extent {
            // PCRE2's own word option differs from `-w` if the pattern begins or ends with
            // a non-letter.
            Extent::Words => [b"(?<!\\w)(?:", text, b")(?!\\w)"].concat(),
            Extent::Part | Extent::Line => text.to_vec(),
        };
        let whole = query.extent == Extent::Line;
        let options = PatternOptions { utf8: query.utf8, ignore_case: query.ignore_case, whole };
        let pattern = CompiledPattern::new(&text, options)?;
        Ok(Self { pattern, utf8: query.utf8, terminator: query.alphabet().terminator })
    }

    /// Allocates a worker's scratch space. Returns `None` if out of memory.
    pub(super) fn matching(&self) -> Option<Matching> {
        Matching::new(&self.pattern)
    }

    /// Finds the first selected line at or after `from`, with its terminator.
    pub(super) fn line(
        &self,
        matching: &mut Matching,
        text: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, MatchFailure> {
        while from < text.len() {
            let content = memchr::memchr(self.terminator, &text[from..]).map_or(text.len(), |end| from + end);
            let next = text.len().min(content + 1);
            if self.part(matching, &text[from..content], 0)?.is_some() {
                return Ok(Some(from..next));
            }
            from = next;
        }
        Ok(None)
    }

    /// Finds the first match in a line at or after `from`.
    pub(super) fn part(
        &self,
        matching: &mut Matching,
        line: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, MatchFailure> {
        // PCRE2 refuses to start inside a character. GNU grep skips stray bytes and hides what is
        // before them from look-behind.
        let strays = line[from..].iter().take_while(|byte| self.utf8 && begins_no_character(**byte)).count();
        let at = from + strays;
        let begin = if strays > 0 { at } else { 0 };
        // In GNU grep, look-behind from the end of the line sees nothing.
        let begin = if at == line.len() { at } else { begin };
        let found = self.pattern.find(matching, &line[begin..], at - begin, at > 0)?;
        Ok(found.map(|found| begin + found.start..begin + found.end))
    }
}

/// True if no UTF-8 character starts with this byte.
fn begins_no_character(byte: u8) -> bool {
    matches!(byte, 0x80..=0xc1 | 0xf5..)
}
