//! Patterns that are plain strings: `-F`, and expressions without special characters.
//!
//! These bypass the regex engine, whose automata grow with the patterns times the character
//! classes. One string is found by memmem, several by Aho-Corasick, whole lines (`-x`) by a hash
//! table. Each reads the text once and uses memory in proportion to the patterns.
//!
//! Ignoring case in UTF-8, a few strings go to the regex engine after all, since it needs no copy
//! of text beyond ASCII. For many strings, ASCII lines are searched as they are by an automaton
//! that knows both cases. In other lines each character is first replaced by its case
//! representative ([`case::representative`]).
//!
//! Whole words (`-w`) are tried from each position where a word can begin, along the trie of the
//! patterns, in lines that contain one of the strings.

use std::collections::HashSet;
use std::ops::Range;

use aho_corasick::automaton::Automaton;
use aho_corasick::nfa::contiguous::NFA;
use aho_corasick::{Anchored, Input, MatchKind};
use memchr::memmem::Finder;

use super::pattern::Syntax;
use super::query::{Extent, Query};
use super::word_chars::WordChars;
use haul_patterns::bracket::Alphabet;
use haul_patterns::case;

/// Sizes of the chunks in which text is tested for non-ASCII characters, smallest to largest,
/// in bytes.
const PARTS: Range<usize> = 256..65_536;

/// Maximum length of all patterns together that the regex engine searches for, ignoring case, in
/// bytes.
const EXPRESSION_BYTES_MAX: usize = 1 << 10;

enum LiteralMethod {
    /// There are no non-empty strings.
    Nothing,
    One(Box<Finder<'static>>),
    Several(Box<NFA>),
    Lines(HashSet<Vec<u8>>),
}

pub(super) struct Literals {
    method: LiteralMethod,
    has_empty: bool,
    extent: Extent,
    alphabet: Alphabet,
    letters: WordChars,
}

/// A line with each character replaced by its case representative.
#[derive(Default)]
pub(super) struct Folded {
    bytes: Vec<u8>,
    /// Position in the line of each byte, and of the end.
    origins: Vec<usize>,
}

/// A line as searched: folded or not.
#[derive(Clone, Copy)]
struct LineView<'a> {
    bytes: &'a [u8],
    origins: Option<&'a [usize]>,
}

impl LineView<'_> {
    /// Maps a position in the view to one in the line.
    fn origin(&self, at: usize) -> usize {
        self.origins.map_or(at, |origins| origins[at])
    }

    /// Maps a position in the line to one in the view.
    fn place(&self, origin: usize) -> usize {
        self.origins.map_or(origin, |origins| origins.partition_point(|at| *at < origin))
    }
}

impl Literals {
    /// Compiles the patterns, or returns `None` if any of them is not plain, or they are better
    /// searched for as expressions.
    pub(super) fn new(query: &Query) -> Option<Self> {
        let alphabet = query.alphabet();
        if query.patterns.is_empty() || !query.patterns.iter().all(|text| is_plain(text, query)) {
            return None;
        }
        if alphabet.ignore_case && alphabet.utf8 && are_few(query, alphabet) {
            return None;
        }
        // A string that contains the terminator can never match.
        let texts = query.patterns.iter().filter(|text| !text.contains(&alphabet.terminator));
        let mut texts: Vec<Vec<u8>> = texts.map(|text| folded_text(text, alphabet)).collect();
        texts.sort_unstable();
        texts.dedup();
        let has_empty = texts.first().is_some_and(Vec::is_empty);
        let method = match (query.extent, texts.as_slice()) {
            (Extent::Line, _) => LiteralMethod::Lines(texts.into_iter().collect()),
            (_, []) => LiteralMethod::Nothing,
            (_, [only]) if only.is_empty() => LiteralMethod::Nothing,
            // Valid UTF-8 is found only where its characters begin, so a byte search is enough.
            (Extent::Part, [only]) if !alphabet.ignore_case => {
                LiteralMethod::One(Box::new(Finder::new(only).into_owned()))
            }
            _ => {
                let built = NFA::builder()
                    .match_kind(MatchKind::LeftmostLongest)
                    .ascii_case_insensitive(alphabet.ignore_case)
                    .build(texts.iter().filter(|text| !text.is_empty()));
                // Fails if there are more patterns than the automaton can number.
                LiteralMethod::Several(Box::new(built.ok()?))
            }
        };
        Some(Self { method, has_empty, extent: query.extent, alphabet, letters: WordChars::new(alphabet) })
    }

    /// Finds the first selected line at or after `from`, with its terminator.
    pub(super) fn line(&self, folded: &mut Folded, text: &[u8], mut from: usize) -> Option<Range<usize>> {
        let is_each_looked_at = self.has_empty || matches!(self.method, LiteralMethod::Lines(_));
        // Small at first: the next line may be close, and each call tests its text anew.
        let mut part = PARTS.start;
        while from < text.len() {
            let end = if is_each_looked_at { from } else { text.len().min(from.saturating_add(part)) };
            part = (part * 2).min(PARTS.end);
            let end = self.line_end(text, end);
            if is_each_looked_at || self.is_folded(&text[from..end]) {
                if let Some(line) = self.line_by_line(folded, text, from..end) {
                    return Some(line);
                }
                from = end;
            } else {
                // Text that never needs folding can be searched to its end at once.
                let end = if self.alphabet.ignore_case { end } else { text.len() };
                match self.candidate(text, from..end) {
                    Some(line) if self.extent == Extent::Part => return Some(line),
                    Some(line) => match self.line_by_line(folded, text, line.clone()) {
                        Some(line) => return Some(line),
                        None => from = line.end,
                    },
                    None => from = end,
                }
            }
        }
        None
    }

    /// Returns the end of the line that contains a position, after its terminator.
    fn line_end(&self, text: &[u8], at: usize) -> usize {
        memchr::memchr(self.alphabet.terminator, &text[at..]).map_or(text.len(), |end| at + end + 1)
    }

    /// Finds the first line in a range that contains one of the strings.
    fn candidate(&self, text: &[u8], within: Range<usize>) -> Option<Range<usize>> {
        let found = match &self.method {
            LiteralMethod::One(finder) => within.start + finder.find(&text[within.clone()])?,
            LiteralMethod::Several(automaton) => {
                let input = Input::new(text).range(within.clone()).earliest(true);
                automaton.try_find(&input).ok()??.start()
            }
            LiteralMethod::Nothing | LiteralMethod::Lines(_) => return None,
        };
        let start = memchr::memrchr(self.alphabet.terminator, &text[within.start..found]);
        Some(start.map_or(within.start, |end| within.start + end + 1)..self.line_end(text, found))
    }

    fn line_by_line(&self, folded: &mut Folded, text: &[u8], within: Range<usize>) -> Option<Range<usize>> {
        let mut from = within.start;
        while from < within.end {
            let end = self.line_end(text, from);
            let has_end = text[end - 1] == self.alphabet.terminator;
            if self.selects(folded, &text[from..end - usize::from(has_end)]) {
                return Some(from..end);
            }
            from = end;
        }
        None
    }

    fn selects(&self, folded: &mut Folded, line: &[u8]) -> bool {
        match (&self.method, self.extent) {
            (_, Extent::Part) if self.has_empty => true,
            (LiteralMethod::Lines(lines), _) => {
                self.fold(folded, line);
                lines.contains(self.view(folded, line).bytes)
            }
            _ => {
                self.fold(folded, line);
                self.first(self.view(folded, line), line, 0).is_some()
            }
        }
    }

    /// Finds the leftmost-longest match in a line at or after `from`. The first call for a line
    /// must be for its start, which folds the line.
    pub(super) fn part(&self, folded: &mut Folded, line: &[u8], from: usize) -> Option<Range<usize>> {
        if from == 0 {
            self.fold(folded, line);
        }
        let view = self.view(folded, line);
        match &self.method {
            LiteralMethod::Lines(lines) => (from == 0 && lines.contains(view.bytes)).then_some(0..line.len()),
            _ => self.first(view, line, from),
        }
    }

    fn first(&self, view: LineView<'_>, line: &[u8], from: usize) -> Option<Range<usize>> {
        let at = view.place(from);
        let found = match (&self.method, self.extent) {
            (_, Extent::Words) => return self.word(view, line, at),
            (LiteralMethod::One(finder), _) => {
                let start = at + finder.find(&view.bytes[at..])?;
                start..start + finder.needle().len()
            }
            (LiteralMethod::Several(automaton), _) => {
                automaton.try_find(&Input::new(view.bytes).range(at..)).ok()??.range()
            }
            (LiteralMethod::Nothing | LiteralMethod::Lines(_), _) => return None,
        };
        Some(view.origin(found.start)..view.origin(found.end))
    }

    /// Finds the leftmost-longest word at or after a position.
    fn word(&self, view: LineView<'_>, line: &[u8], mut at: usize) -> Option<Range<usize>> {
        loop {
            let start = view.origin(at);
            if !self.letters.are_before(line, start) {
                let (end, is_other) = self.word_end(view, line, at);
                // In UTF-8 locales an empty word matches only where nothing else does.
                let is_empty = self.has_empty
                    && !(is_other && self.alphabet.utf8)
                    && !self.letters.are_after(line, start);
                if let Some(end) = end.or(is_empty.then_some(start)) {
                    return Some(start..end);
                }
            }
            if start >= line.len() {
                return None;
            }
            at = view.place(start + self.alphabet.first(&line[start..]).map_or(1, |(_, length)| length));
        }
    }

    /// Returns the end of the longest string that begins here and ends at a word boundary, and true
    /// if any string begins here.
    fn word_end(&self, view: LineView<'_>, line: &[u8], at: usize) -> (Option<usize>, bool) {
        let (mut longest, mut is_any) = (None, false);
        let LiteralMethod::Several(automaton) = &self.method else { return (None, false) };
        let Ok(mut state) = automaton.start_state(Anchored::Yes) else { return (None, false) };
        for (length, byte) in (1..).zip(&view.bytes[at..]) {
            state = automaton.next_state(Anchored::Yes, state, *byte);
            if automaton.is_dead(state) {
                break;
            }
            // A state may also list suffix matches that begin later. A match that began here is
            // listed first.
            let is_text = automaton.is_match(state)
                && automaton.pattern_len(automaton.match_pattern(state, 0)) == length;
            if is_text {
                is_any = true;
                let end = view.origin(at + length);
                if !self.letters.are_after(line, end) {
                    longest = Some(end);
                }
            }
        }
        (longest, is_any)
    }

    /// True if characters of a text must be replaced.
    fn is_folded(&self, text: &[u8]) -> bool {
        self.alphabet.ignore_case && self.alphabet.utf8 && !text.is_ascii()
    }

    fn view<'a>(&self, folded: &'a Folded, line: &'a [u8]) -> LineView<'a> {
        match folded.origins.is_empty() {
            true => LineView { bytes: line, origins: None },
            false => LineView { bytes: &folded.bytes, origins: Some(&folded.origins) },
        }
    }

    /// Folds a line, if it needs it.
    fn fold(&self, folded: &mut Folded, line: &[u8]) {
        let Folded { bytes, origins } = folded;
        bytes.clear();
        origins.clear();
        // The hash table holds one case only.
        let is_table = self.alphabet.ignore_case && matches!(self.method, LiteralMethod::Lines(_));
        if !is_table && !self.is_folded(line) {
            return;
        }
        let mut at = 0;
        while let Some((first, length)) = self.alphabet.first(&line[at..]) {
            let before = bytes.len();
            fold_character(first, self.alphabet, bytes);
            origins.extend(std::iter::repeat_n(at, bytes.len() - before));
            at += length;
        }
        origins.push(at);
    }
}

/// True if a pattern can be searched for literally.
fn is_plain(text: &[u8], query: &Query) -> bool {
    let special: &[u8] = match query.syntax {
        Syntax::Fixed => b"",
        Syntax::Basic => b"\\[*.^$",
        Syntax::Extended => b"\\[*.^$+?{}()|",
        Syntax::Perl => return false,
    };
    let is_known = || match str::from_utf8(text) {
        Ok(text) => !query.ignore_case || text.chars().all(|one| case::representative(one).is_some()),
        // A string search would also find a stray byte inside characters.
        Err(_) => false,
    };
    !text.iter().any(|byte| special.contains(byte)) && (!query.utf8 || is_known())
}

/// True if plain patterns are few enough for the regex engine, and mean the same to it.
fn are_few(query: &Query, alphabet: Alphabet) -> bool {
    let is_simple = |text: &Vec<u8>| !text.is_empty() && !text.contains(&alphabet.terminator);
    query.patterns.iter().all(is_simple)
        && query.patterns.iter().map(Vec::len).sum::<usize>() <= EXPRESSION_BYTES_MAX
}

fn folded_text(text: &[u8], alphabet: Alphabet) -> Vec<u8> {
    if !alphabet.ignore_case {
        return text.to_vec();
    }
    let (mut folded, mut at) = (Vec::with_capacity(text.len()), 0);
    while let Some((first, length)) = alphabet.first(&text[at..]) {
        fold_character(first, alphabet, &mut folded);
        at += length;
    }
    folded
}

fn fold_character(first: Result<char, u8>, alphabet: Alphabet, folded: &mut Vec<u8>) {
    match first {
        Ok(character) if alphabet.utf8 && !character.is_ascii() => {
            let folded_one = case::representative(character).unwrap_or(character);
            folded.extend_from_slice(folded_one.encode_utf8(&mut [0; 4]).as_bytes());
        }
        // ASCII, or a single-byte locale.
        Ok(character) => folded.push(u8::try_from(character).unwrap_or(u8::MAX).to_ascii_uppercase()),
        Err(byte) => folded.push(byte),
    }
}
