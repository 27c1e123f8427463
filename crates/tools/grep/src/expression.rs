//! POSIX patterns compiled to automata: which lines they select, and where in a line they match.
//!
//! There are two questions. *Which line is selected next* is asked of the whole text at once, with
//! the regex engine's fastest existence check. *Where* is asked only of lines that are shown in
//! part or in colour. POSIX wants the leftmost-longest match, but the engine prefers the first
//! alternative. Both start at the same place, so the engine finds the start, and an automaton that
//! tracks all alternatives runs on from there to the last possible end (`longest.rs`).
//!
//! Word matches (`words.rs`) and back-references (`backtrack.rs`) first select candidate lines with
//! a looser pattern, then check each line.

use std::ops::Range;

use regex_automata::util::look::LookMatcher;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Hir, Look};

use super::automaton::regex;
use super::backtrack::{Backtracker, Exhausted, Places};
use super::longest::{self, Longest};
use super::pattern::{self, PatternNode};
use super::program::PatternProgram;
use super::query::{Extent, Query};
use super::word_chars::WordChars;
use super::words::{self, Words};
use super::{PatternError, PatternWarning};
use haul_patterns::InvalidPattern;
use haul_patterns::bracket::Alphabet;

/// The check that confirms a candidate line.
enum Exact {
    /// No check needed: the filter is exact.
    Sure,
    Words(Box<Words>),
    /// Run the backtracker; `WordChars` serves its word checks.
    Back(Vec<PatternProgram>, WordChars),
}

pub(super) struct Expression {
    filter: meta::Regex,
    exact: Exact,
    /// Finds the end of the longest match; `None` for backtracked patterns.
    longest: Option<Longest>,
    looks: LookMatcher,
    alphabet: Alphabet,
    extent: Extent,
}

/// A worker's scratch space for an [`Expression`].
pub(super) struct ExpressionCache {
    filter: meta::Cache,
    words: Option<words::WordsCache>,
    longest: longest::LongestCache,
}

impl Expression {
    /// Compiles the patterns. Appends warnings to `warnings`.
    ///
    /// # Errors
    /// If a pattern is invalid or too big.
    pub(super) fn new(query: &Query, warnings: &mut Vec<PatternWarning>) -> Result<Self, PatternError> {
        let alphabet = query.alphabet();
        let mut looks = LookMatcher::new();
        looks.set_line_terminator(alphabet.terminator);
        let nodes = trees(query, warnings)?;
        let plain = Hir::alternation(nodes.iter().map(PatternNode::hir).collect());
        let whole = around(plain.clone(), places(query));
        // No word assertions in the filter: with them, the lazy DFA gives up at bytes beyond ASCII.
        let sought = if query.extent == Extent::Line { &whole } else { &plain };
        let filter = regex(sought, alphabet)?;
        let exact = if nodes.iter().any(PatternNode::refers_back) {
            Exact::Back(to_be_tried(nodes, query.extent), WordChars::new(alphabet))
        } else if query.extent == Extent::Words {
            Exact::Words(Box::new(Words::new((&plain, &whole), &looks, alphabet)?))
        } else {
            Exact::Sure
        };
        let is_tried = matches!(exact, Exact::Back(..));
        let longest = if !is_tried { Some(Longest::new(&whole, &looks)?) } else { None };
        Ok(Self { filter, exact, longest, looks, alphabet, extent: query.extent })
    }

    pub(super) fn cache(&self) -> ExpressionCache {
        let words = match &self.exact {
            Exact::Words(words) => Some(words.cache()),
            _ => None,
        };
        ExpressionCache {
            filter: self.filter.create_cache(),
            words,
            longest: longest::LongestCache::default(),
        }
    }

    /// Finds the first selected line at or after `from`, which is the start of a line. The range
    /// includes the terminator, if there is one.
    pub(super) fn line(
        &self,
        cache: &mut ExpressionCache,
        text: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        while from < text.len() {
            // Only the line is wanted, for which any end of the match will do.
            let input = Input::new(text).range(from..).earliest(true);
            let Some(found) = self.filter.search_half_with(&mut cache.filter, &input) else { break };
            let end = found.offset();
            let start = memchr::memrchr(self.alphabet.terminator, &text[from..end])
                .map_or(from, |before| from + before + 1);
            // An empty match after the last line end is in no line.
            if start == text.len() {
                break;
            }
            let content = memchr::memchr(self.alphabet.terminator, &text[end..])
                .map_or(text.len(), |after| end + after);
            let line = start..text.len().min(content + 1);
            if self.selects(cache, text, start..content)? {
                return Ok(Some(line));
            }
            from = line.end;
        }
        Ok(None)
    }

    /// True if a candidate line really matches.
    fn selects(
        &self,
        cache: &mut ExpressionCache,
        text: &[u8],
        line: Range<usize>,
    ) -> Result<bool, Exhausted> {
        match &self.exact {
            Exact::Words(words) => Ok(cache.words.as_mut().is_none_or(|words_cache| {
                words.are_in((&self.filter, &mut cache.filter), words_cache, text, line)
            })),
            Exact::Back(programs, letters) => {
                let found = self.backtracker(text, line.end, letters).find(programs, line.start, false)?;
                Ok(found.is_some())
            }
            Exact::Sure => Ok(true),
        }
    }

    fn backtracker<'a>(&'a self, text: &'a [u8], end: usize, letters: &'a WordChars) -> Backtracker<'a> {
        let by_words = self.extent == Extent::Words;
        Backtracker::new(text, end, Places { looks: &self.looks, letters, by_words }, self.alphabet)
    }

    /// Finds the leftmost-longest match in a range that ends where a line does.
    pub(super) fn part(
        &self,
        cache: &mut ExpressionCache,
        text: &[u8],
        within: Range<usize>,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        let (start, end) = (within.start, within.end);
        let found = match (&self.exact, &mut cache.words) {
            (Exact::Back(programs, letters), _) => {
                return self.backtracker(text, end, letters).find(programs, start, true);
            }
            (Exact::Words(words), Some(words_cache)) => {
                words.first((&self.filter, &mut cache.filter), words_cache, text, within)
            }
            _ => {
                let found = self.filter.search_with(&mut cache.filter, &Input::new(text).range(within));
                found.map(|found| (found.range(), false))
            }
        };
        Ok(found.map(|(found, is_longest)| match &self.longest {
            Some(longest) if !is_longest => {
                let last = longest.end(&mut cache.longest, text, found.start..end);
                found.start..last.unwrap_or(found.end)
            }
            _ => found,
        }))
    }
}

/// Parses the patterns.
///
/// # Errors
/// All invalid patterns, each with its error.
fn trees(query: &Query, warnings: &mut Vec<PatternWarning>) -> Result<Vec<PatternNode>, PatternError> {
    let (mut nodes, mut invalid) = (Vec::new(), Vec::new());
    for (index, text) in query.patterns.iter().enumerate() {
        match pattern::read(text, query.syntax, query.alphabet(), warnings) {
            Ok(node) => nodes.push(node),
            Err(refused) => invalid.push((index, refused)),
        }
    }
    // GNU grep notices these only where nothing else is wrong, and stops at the first.
    let is_late = |refused| refused == InvalidPattern::ClassOutsideBrackets;
    match invalid.iter().position(|(_, refused)| !is_late(*refused)) {
        Some(_) => invalid.retain(|(_, refused)| !is_late(*refused)),
        None => invalid.truncate(1),
    }
    if invalid.is_empty() { Ok(nodes) } else { Err(PatternError::Invalid(invalid)) }
}

/// Returns the assertions required before and after a match, as alternatives.
fn places(query: &Query) -> Option<([Look; 2], [Look; 2])> {
    match query.extent {
        Extent::Part => None,
        Extent::Line => Some(([Look::StartLF; 2], [Look::EndLF; 2])),
        // The half assertions never hold next to invalid bytes; the full ones treat such a byte as
        // not part of a word.
        Extent::Words if query.utf8 => Some((
            [Look::WordStartHalfUnicode, Look::WordStartUnicode],
            [Look::WordEndHalfUnicode, Look::WordEndUnicode],
        )),
        Extent::Words => Some(([Look::WordStartHalfAscii; 2], [Look::WordEndHalfAscii; 2])),
    }
}

fn around(hir: Hir, places: Option<([Look; 2], [Look; 2])>) -> Hir {
    let either = |looks: [Look; 2]| Hir::alternation(looks.map(Hir::look).to_vec());
    match places {
        Some((before, after)) => Hir::concat(vec![either(before), hir, either(after)]),
        None => hir,
    }
}

/// Compiles trees for the backtracker. Patterns without back-references become one program, as in
/// GNU grep.
fn to_be_tried(nodes: Vec<PatternNode>, extent: Extent) -> Vec<PatternProgram> {
    let (mut tried, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(PatternNode::refers_back);
    tried.extend((!others.is_empty()).then_some(PatternNode::Alternate(others)));
    if extent == Extent::Line {
        let line = |node| {
            PatternNode::Concat(vec![PatternNode::Look(Look::StartLF), node, PatternNode::Look(Look::EndLF)])
        };
        tried = tried.into_iter().map(line).collect();
    }
    tried.iter().map(PatternProgram::new).collect()
}
