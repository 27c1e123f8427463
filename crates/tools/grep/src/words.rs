//! Search for whole words (`-w`).
//!
//! A part of a line is a word if no letter, digit or underscore is next to it. The regex engine can
//! find such parts, with two differences. Its word characters are Unicode's, which include marks,
//! and ours are the C library's. And in UTF-8 locales, GNU grep accepts an empty word only where
//! the pattern matches nothing else: in `ab`, `-w 'a*'` looks at the `a`, not at the empty string
//! before it. Lines where this may matter are searched GNU's way: all matches that share the
//! leftmost start, longest first, then on to the next start. GNU grep advances by bytes and so also
//! finds the empty string inside a character; we don't.

use std::ops::Range;

use regex_automata::util::look::LookMatcher;
use regex_automata::{Input, meta};
use regex_syntax::hir::Hir;

use super::automaton::regex;
use super::longest::{self, Longest};
use super::word_chars::WordChars;
use haul_patterns::InvalidPattern;
use haul_patterns::bracket::Alphabet;

/// Patterns that must match whole words.
pub(super) struct Words {
    whole: meta::Regex,
    closely: Option<Closely>,
}

/// GNU's way of searching, for lines on which the engine's answer may differ.
struct Closely {
    /// True if all lines are searched this way, because the pattern may match the empty string. If
    /// not, only non-ASCII lines are.
    always: bool,
    plain: Longest,
    letters: WordChars,
}

/// A worker's scratch space for a [`Words`].
pub(super) struct WordsCache {
    whole: meta::Cache,
    plain: longest::LongestCache,
}

/// The engine that matches regardless of word boundaries, and its scratch space.
pub(super) type Plain<'a> = (&'a meta::Regex, &'a mut meta::Cache);

impl Words {
    /// Compiles the patterns: `plain` as written, `whole` with the engine's word assertions
    /// around it.
    pub(super) fn new(
        (plain, whole): (&Hir, &Hir),
        looks: &LookMatcher,
        alphabet: Alphabet,
    ) -> Result<Self, InvalidPattern> {
        let closely = if alphabet.utf8 {
            let always = plain.properties().minimum_len() == Some(0);
            Some(Closely { always, plain: Longest::new(plain, looks)?, letters: WordChars::new(alphabet) })
        } else {
            None
        };
        Ok(Self { whole: regex(whole, alphabet)?, closely })
    }

    pub(super) fn cache(&self) -> WordsCache {
        WordsCache { whole: self.whole.create_cache(), plain: longest::LongestCache::default() }
    }

    /// Returns the exact method if the engine's answer may differ on this range.
    fn closely(&self, text: &[u8], within: &Range<usize>) -> Option<&Closely> {
        // The character before the range matters too.
        let seen = &text[within.start.saturating_sub(1)..within.end];
        self.closely.as_ref().filter(|closely| closely.always || !seen.is_ascii())
    }

    /// True if a line contains a word.
    pub(super) fn are_in(
        &self,
        plain: Plain<'_>,
        cache: &mut WordsCache,
        text: &[u8],
        line: Range<usize>,
    ) -> bool {
        match self.closely(text, &line) {
            Some(closely) => closely.first(plain, &mut cache.plain, text, line).is_some(),
            None => {
                let input = Input::new(text).range(line).earliest(true);
                self.whole.search_half_with(&mut cache.whole, &input).is_some()
            }
        }
    }

    /// Finds the first word in a range; the flag is true if it is known to be the longest from
    /// its start.
    pub(super) fn first(
        &self,
        plain: Plain<'_>,
        cache: &mut WordsCache,
        text: &[u8],
        within: Range<usize>,
    ) -> Option<(Range<usize>, bool)> {
        match self.closely(text, &within) {
            Some(closely) => closely.first(plain, &mut cache.plain, text, within).map(|found| (found, true)),
            None => {
                let input = Input::new(text).range(within);
                self.whole.search_with(&mut cache.whole, &input).map(|found| (found.range(), false))
            }
        }
    }
}

impl Closely {
    fn first(
        &self,
        (plain, plain_cache): Plain<'_>,
        cache: &mut longest::LongestCache,
        text: &[u8],
        within: Range<usize>,
    ) -> Option<Range<usize>> {
        let mut at = within.start;
        while at <= within.end {
            let input = Input::new(text).range(at..within.end);
            let start = plain.search_with(plain_cache, &input)?.start();
            if !self.letters.are_before(text, start) {
                let mut end = self.plain.end(cache, text, start..within.end)?;
                while self.letters.are_after(text, end) {
                    // An empty match is not considered where a longer one exists.
                    let shorter =
                        if end > start { self.plain.end(cache, text, start..end - 1) } else { None };
                    match shorter.filter(|shorter| *shorter > start) {
                        Some(shorter) => end = shorter,
                        None => break,
                    }
                }
                if !self.letters.are_after(text, end) {
                    return Some(start..end);
                }
            }
            at = start + self.letters.length(&text[start..within.end]);
        }
        None
    }
}
