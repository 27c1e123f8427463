//! Words: what they are made of, and how whole ones are found (`-w`).
//!
//! A part of a line is a word if no letter, digit or underscore is beside it. The regex engine finds such parts by itself, but
//! what words are made of is Unicode's choice there (marks are a part, for one) and the C library's here; and where text is
//! UTF-8, GNU grep takes nothing for a word only where the pattern finds nothing else: in `ab`, `-w 'a*'` looks at the `a` and
//! not at what is empty before. Lines where this may matter are searched in GNU's way: from the leftmost match through those
//! that begin where it does, the longest first, to the next. GNU grep goes on byte by byte and finds nothing inside of a
//! character, too, where we do not.

use std::ops::Range;

use regex_automata::util::look::LookMatcher;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Class, Hir, Look};

use super::bracket::Alphabet;
use super::expression::regex;
use super::longest::{self, Longest};
use super::pattern::Refused;

/// The characters that words are made of.
pub(super) struct Letters {
    alphabet: Alphabet,
    set: Class,
}

impl Letters {
    pub(super) fn new(alphabet: Alphabet) -> Self {
        // The case of a letter does not make it one.
        let alphabet = Alphabet { ignore_case: false, ..alphabet };
        Self { alphabet, set: alphabet.class(b"word", false) }
    }

    /// Tells whether a part of a word ends at a place.
    pub(super) fn are_before(&self, text: &[u8], at: usize) -> bool {
        let most = if self.alphabet.utf8 { at.min(4) } else { at.min(1) };
        // The character that ends here is the longest that does; what is none is no letter.
        (1..=most).rev().any(|length| {
            let whole = self.alphabet.first(&text[at - length..at]);
            whole.is_some_and(|(first, taken)| taken == length && self.has(first))
        })
    }

    /// Tells whether a part of a word begins at a place.
    pub(super) fn are_after(&self, text: &[u8], at: usize) -> bool {
        self.alphabet.first(&text[at..]).is_some_and(|(first, _)| self.has(first))
    }

    fn has(&self, first: Result<char, u8>) -> bool {
        match (&self.set, first) {
            (Class::Unicode(set), Ok(character)) => {
                let after = set.ranges().partition_point(|range| range.end() < character);
                set.ranges().get(after).is_some_and(|range| range.start() <= character)
            }
            (Class::Bytes(set), Ok(character)) => {
                let ranges =
                    set.ranges().iter().map(|range| char::from(range.start())..=char::from(range.end()));
                ranges.into_iter().any(|range| range.contains(&character))
            }
            // What is no character is no letter.
            (_, Err(_)) => false,
        }
    }

    /// Tells whether a place is one that depends on words, and `None` if it depends on something else.
    pub(super) fn are_at(&self, look: Look, text: &[u8], at: usize) -> Option<bool> {
        let holds: fn(bool, bool) -> bool = match look {
            Look::WordAscii | Look::WordUnicode => |before, after| before != after,
            Look::WordAsciiNegate | Look::WordUnicodeNegate => |before, after| before == after,
            Look::WordStartAscii | Look::WordStartUnicode => |before, after| !before && after,
            Look::WordEndAscii | Look::WordEndUnicode => |before, after| before && !after,
            _ => return None,
        };
        Some(holds(self.are_before(text, at), self.are_after(text, at)))
    }

    fn length(&self, text: &[u8]) -> usize {
        self.alphabet.first(text).map_or(1, |(_, length)| length)
    }
}

/// Patterns whose matches have to be words.
pub(super) struct Words {
    whole: meta::Regex,
    closely: Option<Closely>,
}

/// How lines are searched that the engine cannot be asked about.
struct Closely {
    /// Whether all lines are, as the pattern may find nothing; else those that are not ASCII.
    always: bool,
    plain: Longest,
    letters: Letters,
}

/// What a worker needs beside.
pub(super) struct Cache {
    whole: meta::Cache,
    plain: longest::Cache,
}

/// The engine that finds patterns whether they are words or not, and what it needs beside.
pub(super) type Plain<'a> = (&'a meta::Regex, &'a mut meta::Cache);

impl Words {
    /// Makes patterns ready that were read as `plain`, and as `whole` with what the engine knows of words around.
    pub(super) fn new(
        (plain, whole): (&Hir, &Hir),
        looks: &LookMatcher,
        alphabet: Alphabet,
    ) -> Result<Self, Refused> {
        let closely = if alphabet.utf8 {
            let always = plain.properties().minimum_len() == Some(0);
            Some(Closely { always, plain: Longest::new(plain, looks)?, letters: Letters::new(alphabet) })
        } else {
            None
        };
        Ok(Self { whole: regex(whole, alphabet)?, closely })
    }

    /// Makes what a worker needs beside.
    pub(super) fn cache(&self) -> Cache {
        Cache { whole: self.whole.create_cache(), plain: longest::Cache::default() }
    }

    /// Returns how a part of a line is to be searched, if the engine cannot be asked.
    fn closely(&self, text: &[u8], within: &Range<usize>) -> Option<&Closely> {
        // The last character before counts too.
        let seen = &text[within.start.saturating_sub(1)..within.end];
        self.closely.as_ref().filter(|closely| closely.always || !seen.is_ascii())
    }

    /// Tells whether there is a word in a line.
    pub(super) fn are_in(
        &self,
        plain: Plain<'_>,
        cache: &mut Cache,
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

    /// Finds the first word in a part of a line, and tells whether it is the longest that begins there.
    pub(super) fn first(
        &self,
        plain: Plain<'_>,
        cache: &mut Cache,
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
        cache: &mut longest::Cache,
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
                    // What is empty is not looked at where something else was.
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
