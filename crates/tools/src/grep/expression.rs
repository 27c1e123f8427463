//! POSIX's patterns as automata: which lines they select, and where in a line they match.
//!
//! Two questions, two ways. *Which line is selected next* is asked of the whole text at once, by the regex engine's fastest
//! way to learn that there is a match at all. *Where* is asked only of lines that are shown in part or in colour: POSIX wants
//! the longest of the leftmost matches where the engine prefers the first alternative; so it finds where the leftmost begins,
//! which is the same for both, and an automaton that knows of all alternatives goes on from there to the last place that can
//! be an end (`longest.rs`).
//!
//! Whole words (`words.rs`) and patterns that ask for a group's text again (`backtrack.rs`) are looked for as if they were
//! not, and then checked line by line.

use std::ops::Range;

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::look::LookMatcher;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Hir, Look};

use super::backtrack::{Backtracker, Exhausted, Places};
use super::bracket::Alphabet;
use super::longest::{self, Longest};
use super::matcher::{Extent, Wanted};
use super::pattern::{self, Node, Refused};
use super::program::Program;
use super::words::{self, Letters, Words};

/// How large a compiled pattern may be, in bytes.
pub(super) const SIZE_MAX: usize = 256 << 20;

/// What an automaton that is made while it runs may keep, in bytes.
pub(super) const CACHE_BYTES: usize = 8 << 20;

/// How a line that may match is known to do.
enum Exact {
    /// It does.
    Sure,
    /// By the words in it.
    Words(Box<Words>),
    /// By trying every way; for words or not.
    Back(Vec<Program>, Letters),
}

/// Patterns made ready.
pub(super) struct Expression {
    filter: meta::Regex,
    exact: Exact,
    /// Where the longest match ends; not known of patterns that are tried.
    longest: Option<Longest>,
    looks: LookMatcher,
    alphabet: Alphabet,
    extent: Extent,
}

/// What a worker needs beside the patterns.
pub(super) struct Cache {
    filter: meta::Cache,
    words: Option<words::Cache>,
    longest: longest::Cache,
}

impl Expression {
    /// Makes patterns ready; what the user should know of them is added to `warnings`.
    ///
    /// # Errors
    /// Why one is none.
    pub(super) fn new(wanted: &Wanted, warnings: &mut Vec<&'static str>) -> Result<Self, Refused> {
        let alphabet = wanted.alphabet();
        let mut looks = LookMatcher::new();
        looks.set_line_terminator(alphabet.terminator);
        let nodes = wanted.patterns.iter().map(|text| pattern::read(text, wanted.syntax, alphabet, warnings));
        let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
        let plain = Hir::alternation(nodes.iter().map(Node::hir).collect());
        let whole = around(plain.clone(), places(wanted));
        let sought = if wanted.extent == Extent::Line { &whole } else { &plain };
        let filter = regex(sought, alphabet)?;
        let exact = if nodes.iter().any(Node::refers_back) {
            Exact::Back(to_be_tried(nodes, wanted.extent), Letters::new(alphabet))
        } else if wanted.extent == Extent::Words {
            Exact::Words(Box::new(Words::new((&plain, &whole), &looks, alphabet)?))
        } else {
            Exact::Sure
        };
        let is_tried = matches!(exact, Exact::Back(..));
        let longest = if !is_tried { Some(Longest::new(&whole, &looks)?) } else { None };
        Ok(Self { filter, exact, longest, looks, alphabet, extent: wanted.extent })
    }

    /// Makes what a worker needs beside.
    pub(super) fn cache(&self) -> Cache {
        let words = match &self.exact {
            Exact::Words(words) => Some(words.cache()),
            _ => None,
        };
        Cache { filter: self.filter.create_cache(), words, longest: longest::Cache::default() }
    }

    /// Finds the first selected line at or after `from`, where a line begins. It has the byte that ends it, if one does.
    pub(super) fn line(
        &self,
        cache: &mut Cache,
        text: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        while from < text.len() {
            let input = Input::new(text).range(from..).earliest(true);
            let Some(found) = self.filter.search_half_with(&mut cache.filter, &input) else { break };
            let end = found.offset();
            let start = memchr::memrchr(self.alphabet.terminator, &text[from..end])
                .map_or(from, |before| from + before + 1);
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

    /// True if a line that may match does.
    fn selects(&self, cache: &mut Cache, text: &[u8], line: Range<usize>) -> Result<bool, Exhausted> {
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

    fn backtracker<'a>(&'a self, text: &'a [u8], end: usize, letters: &'a Letters) -> Backtracker<'a> {
        let by_words = self.extent == Extent::Words;
        Backtracker::new(text, end, Places { looks: &self.looks, letters, by_words }, self.alphabet)
    }

    /// Finds the leftmost match in a part of a text that ends where a line does; of several the longest.
    pub(super) fn part(
        &self,
        cache: &mut Cache,
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

pub(super) fn too_big<E>(_: E) -> Refused {
    Refused("Regular expression too big")
}

/// Says what may be before a match and what after it, of which one has to be.
fn places(wanted: &Wanted) -> Option<([Look; 2], [Look; 2])> {
    match wanted.extent {
        Extent::Part => None,
        Extent::Line => Some(([Look::StartLF; 2], [Look::EndLF; 2])),
        // The halves say nothing beside bytes that are no characters; the wholes know those for no part of a word.
        Extent::Words if wanted.utf8 => Some((
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

/// Makes trees of patterns ready to be tried, those that do not refer back as one, as in GNU grep.
fn to_be_tried(nodes: Vec<Node>, extent: Extent) -> Vec<Program> {
    let (mut tried, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(Node::refers_back);
    tried.extend((!others.is_empty()).then_some(Node::Alternate(others)));
    if extent == Extent::Line {
        let line = |node| Node::Concat(vec![Node::Look(Look::StartLF), node, Node::Look(Look::EndLF)]);
        tried = tried.into_iter().map(line).collect();
    }
    tried.iter().map(Program::new).collect()
}

pub(super) fn regex(hir: &Hir, alphabet: Alphabet) -> Result<meta::Regex, Refused> {
    let config = meta::Config::new()
        .utf8_empty(false)
        .line_terminator(alphabet.terminator)
        .nfa_size_limit(Some(SIZE_MAX))
        .hybrid_cache_capacity(CACHE_BYTES)
        .which_captures(WhichCaptures::Implicit);
    meta::Builder::new().configure(config).build_from_hir(hir).map_err(too_big)
}
