//! Patterns made ready: which lines they select, and where in a line they match.
//!
//! Two questions, two ways. *Which line is selected next* is asked of the whole text at once, by the regex engine's fastest
//! way to learn that there is a match at all. *Where* is asked only of lines that are shown in part or in colour: POSIX wants
//! the longest of the leftmost matches where the engine prefers the first alternative; so it finds where the leftmost begins,
//! which is the same for both, and an automaton that knows of all alternatives goes on from there to the last place that can
//! be an end (`longest.rs`).
//!
//! Whole words (`words.rs`), patterns that ask for a group's text again, and Perl's that know of newlines in lines that end
//! with NUL, are looked for as if they were not, and then checked line by line.

use std::ops::Range;

use regex_automata::nfa::thompson::WhichCaptures;
use regex_automata::util::look::LookMatcher;
use regex_automata::{Input, meta};
use regex_syntax::hir::{Hir, Look};

use super::backtrack::{Backtracker, Exhausted, Places};
use super::bracket::Alphabet;
use super::longest::{self, Longest};
use super::pattern::{self, Node, Refused, Syntax};
use super::perl;
use super::words::{self, Letters, Words};

/// How large a compiled pattern may be, in bytes.
pub(super) const SIZE_MAX: usize = 256 << 20;

/// What an automaton that is made while it runs may keep, in bytes.
pub(super) const CACHE_BYTES: usize = 8 << 20;

/// What of a line has to match.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Extent {
    /// Any part.
    Part,
    /// A part with no letter, digit or underscore beside it (`-w`).
    Words,
    /// All of it (`-x`).
    Line,
}

/// What is looked for.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Wanted {
    /// The patterns, any of which may match.
    pub patterns: Vec<Vec<u8>>,
    /// How they are written.
    pub syntax: Syntax,
    /// Whether case is ignored.
    pub ignore_case: bool,
    /// What of a line has to match.
    pub extent: Extent,
    /// Whether text is UTF-8; else every byte is a character.
    pub utf8: bool,
    /// Whether lines end with NUL rather than newline.
    pub null_data: bool,
}

impl Wanted {
    pub(super) fn alphabet(&self) -> Alphabet {
        let terminator = if self.null_data { 0 } else { b'\n' };
        Alphabet { utf8: self.utf8, ignore_case: self.ignore_case, terminator }
    }
}

/// How a line that may match is known to do.
enum Exact {
    /// It does.
    Sure,
    /// By the words in it.
    Words(Box<Words>),
    /// By looking at it alone, where the pattern knows of newlines in it.
    Alone(Box<meta::Regex>),
    /// By trying every way; for words or not.
    Back(Vec<Node>, Letters),
}

/// Patterns made ready.
pub(super) struct Matcher {
    filter: meta::Regex,
    exact: Exact,
    longest: Option<Longest>,
    looks: LookMatcher,
    alphabet: Alphabet,
    extent: Extent,
}

/// What a worker needs beside the patterns.
pub(super) struct Scratch {
    filter: meta::Cache,
    words: Option<words::Cache>,
    alone: Option<meta::Cache>,
    longest: longest::Cache,
    /// Text of which the NULs are taken for ends of lines.
    pub(super) lines: Vec<u8>,
}

impl Matcher {
    /// Makes patterns ready; what the user should know of them is added to `warnings`.
    ///
    /// # Errors
    /// Why one is none.
    pub(super) fn new(wanted: &Wanted, warnings: &mut Vec<&'static str>) -> Result<Self, Refused> {
        let alphabet = wanted.alphabet();
        let mut looks = LookMatcher::new();
        looks.set_line_terminator(alphabet.terminator);
        let (mut hirs, nodes) = expressions(wanted, alphabet, warnings)?;
        let alone = alone(&hirs, wanted)?;
        if wanted.syntax == Syntax::Perl {
            hirs = hirs.into_iter().map(|hir| perl::among_lines(hir, alphabet.terminator)).collect();
        }
        let plain = Hir::alternation(hirs);
        let whole = around(plain.clone(), places(wanted));
        let sought = if wanted.extent == Extent::Line { &whole } else { &plain };
        let filter = regex(sought, alphabet, wanted.syntax)?;
        let exact = if let Some(alone) = alone {
            Exact::Alone(Box::new(alone))
        } else if nodes.iter().any(Node::refers_back) {
            Exact::Back(to_be_tried(nodes, wanted.extent), Letters::new(alphabet))
        } else if wanted.extent == Extent::Words {
            Exact::Words(Box::new(Words::new((&plain, &whole), &looks, alphabet, wanted.syntax)?))
        } else {
            Exact::Sure
        };
        let is_posix = wanted.syntax != Syntax::Perl && !matches!(exact, Exact::Back(..));
        let longest = if is_posix { Some(Longest::new(&whole, &looks)?) } else { None };
        Ok(Self { filter, exact, longest, looks, alphabet, extent: wanted.extent })
    }

    /// Makes what a worker needs beside.
    pub(super) fn scratch(&self) -> Scratch {
        let words = match &self.exact {
            Exact::Words(words) => Some(words.cache()),
            _ => None,
        };
        let alone = match &self.exact {
            Exact::Alone(alone) => Some(alone.create_cache()),
            _ => None,
        };
        Scratch {
            filter: self.filter.create_cache(),
            words,
            alone,
            longest: longest::Cache::default(),
            lines: Vec::new(),
        }
    }

    /// Finds the first selected line at or after `from`, where a line begins. It has the byte that ends it, if one does.
    pub(super) fn line(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        mut from: usize,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        while from < text.len() {
            let input = Input::new(text).range(from..).earliest(true);
            let Some(found) = self.filter.search_half_with(&mut scratch.filter, &input) else { break };
            let end = found.offset();
            let start = memchr::memrchr(self.alphabet.terminator, &text[from..end])
                .map_or(from, |before| from + before + 1);
            if start == text.len() {
                break;
            }
            let content = memchr::memchr(self.alphabet.terminator, &text[end..])
                .map_or(text.len(), |after| end + after);
            let line = start..text.len().min(content + 1);
            if self.selects(scratch, text, start..content)? {
                return Ok(Some(line));
            }
            from = line.end;
        }
        Ok(None)
    }

    /// Returns how long the first character of a text is.
    pub(super) fn character(&self, text: &[u8]) -> usize {
        self.alphabet.first(text).map_or(1, |(_, length)| length)
    }

    /// Tells whether a line that may match does.
    fn selects(&self, scratch: &mut Scratch, text: &[u8], line: Range<usize>) -> Result<bool, Exhausted> {
        match &self.exact {
            Exact::Words(words) => Ok(scratch
                .words
                .as_mut()
                .is_none_or(|cache| words.are_in((&self.filter, &mut scratch.filter), cache, text, line))),
            Exact::Back(nodes, letters) => {
                let found = self.backtracker(text, line.end, letters).find(nodes, line.start, false)?;
                Ok(found.is_some())
            }
            Exact::Alone(alone) => Ok(scratch.alone.as_mut().is_none_or(|cache| {
                alone.search_half_with(cache, &Input::new(&text[line]).earliest(true)).is_some()
            })),
            Exact::Sure => Ok(true),
        }
    }

    fn backtracker<'a>(&'a self, text: &'a [u8], end: usize, letters: &'a Letters) -> Backtracker<'a> {
        let by_words = self.extent == Extent::Words;
        Backtracker::new(text, end, Places { looks: &self.looks, letters, by_words }, self.alphabet)
    }

    /// Finds the leftmost match in a part of a text that ends where a line does; of several the longest, unless Perl's rules
    /// are asked for.
    pub(super) fn part(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        within: Range<usize>,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        let (start, end) = (within.start, within.end);
        let found = match (&self.exact, &mut scratch.words) {
            (Exact::Alone(alone), _) => {
                let begin = memchr::memrchr(self.alphabet.terminator, &text[..start]).map_or(0, |at| at + 1);
                let input = Input::new(&text[begin..end]).range(start - begin..);
                let found = scratch.alone.as_mut().and_then(|cache| alone.search_with(cache, &input));
                return Ok(found.map(|found| begin + found.start()..begin + found.end()));
            }
            (Exact::Back(nodes, letters), _) => {
                return self.backtracker(text, end, letters).find(nodes, start, true);
            }
            (Exact::Words(words), Some(cache)) => {
                words.first((&self.filter, &mut scratch.filter), cache, text, within)
            }
            _ => {
                let found = self.filter.search_with(&mut scratch.filter, &Input::new(text).range(within));
                found.map(|found| (found.range(), false))
            }
        };
        Ok(found.map(|(found, is_longest)| match &self.longest {
            Some(longest) if !is_longest => {
                let last = longest.end(&mut scratch.longest, text, found.start..end);
                found.start..last.unwrap_or(found.end)
            }
            _ => found,
        }))
    }
}

pub(super) fn too_big<E>(_: E) -> Refused {
    Refused("Regular expression too big")
}

/// Reads the patterns: as expressions for the engine, and as trees if they were not Perl's.
fn expressions(
    wanted: &Wanted,
    alphabet: Alphabet,
    warnings: &mut Vec<&'static str>,
) -> Result<(Vec<Hir>, Vec<Node>), Refused> {
    if wanted.syntax == Syntax::Perl {
        let hirs = wanted.patterns.iter().map(|text| perl::read(text, alphabet));
        return Ok((hirs.collect::<Result<_, _>>()?, Vec::new()));
    }
    let nodes = wanted.patterns.iter().map(|text| pattern::read(text, wanted.syntax, alphabet, warnings));
    let nodes: Vec<Node> = nodes.collect::<Result<_, _>>()?;
    Ok((nodes.iter().map(Node::hir).collect(), nodes))
}

/// Makes an expression ready for lines that are looked at alone, if Perl's patterns ask for newlines in them.
fn alone(hirs: &[Hir], wanted: &Wanted) -> Result<Option<meta::Regex>, Refused> {
    if wanted.syntax != Syntax::Perl || !wanted.null_data || !hirs.iter().any(perl::knows_newlines) {
        return Ok(None);
    }
    let places = match wanted.extent {
        Extent::Line => Some(([Look::Start; 2], [Look::End; 2])),
        _ => places(wanted),
    };
    let whole = around(Hir::alternation(hirs.to_vec()), places);
    let alphabet = Alphabet { terminator: b'\n', ..wanted.alphabet() };
    regex(&whole, alphabet, wanted.syntax).map(Some)
}

/// Says what may be before a match and what after it, of which one has to be.
fn places(wanted: &Wanted) -> Option<([Look; 2], [Look; 2])> {
    match wanted.extent {
        Extent::Part => None,
        Extent::Line => Some(([Look::StartLF; 2], [Look::EndLF; 2])),
        // The halves say nothing beside bytes that are no characters; the wholes know those for no part of a word.
        Extent::Words if wanted.utf8 && wanted.syntax != Syntax::Perl => Some((
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
fn to_be_tried(nodes: Vec<Node>, extent: Extent) -> Vec<Node> {
    let (mut tried, others): (Vec<_>, Vec<_>) = nodes.into_iter().partition(Node::refers_back);
    tried.extend((!others.is_empty()).then_some(Node::Alternate(others)));
    if extent == Extent::Line {
        let line = |node| Node::Concat(vec![Node::Look(Look::StartLF), node, Node::Look(Look::EndLF)]);
        tried = tried.into_iter().map(line).collect();
    }
    tried
}

pub(super) fn regex(hir: &Hir, alphabet: Alphabet, syntax: Syntax) -> Result<meta::Regex, Refused> {
    let config = meta::Config::new()
        // Perl's find nothing inside of a character, not even what is empty.
        .utf8_empty(alphabet.utf8 && syntax == Syntax::Perl)
        .line_terminator(alphabet.terminator)
        .nfa_size_limit(Some(SIZE_MAX))
        .hybrid_cache_capacity(CACHE_BYTES)
        .which_captures(WhichCaptures::Implicit);
    meta::Builder::new().configure(config).build_from_hir(hir).map_err(too_big)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matcher(pattern: &str, syntax: Syntax, extent: Extent) -> Matcher {
        let patterns = vec![pattern.into()];
        let wanted = Wanted { patterns, syntax, ignore_case: false, extent, utf8: true, null_data: false };
        Matcher::new(&wanted, &mut Vec::new()).unwrap()
    }

    fn parts(pattern: &str, extent: Extent, line: &[u8]) -> Vec<Vec<u8>> {
        let matcher = matcher(pattern, Syntax::Extended, extent);
        let mut scratch = matcher.scratch();
        let (mut at, mut parts) = (0, Vec::new());
        while at < line.len() {
            let Some(part) = matcher.part(&mut scratch, line, at..line.len()).unwrap() else { break };
            at = if part.is_empty() { part.end + 1 } else { part.end };
            parts.extend((!part.is_empty()).then(|| line[part].to_vec()));
        }
        parts
    }

    #[test]
    fn of_the_leftmost_matches_the_longest_is_taken() {
        assert_eq!(parts("a|ab|abc", Extent::Part, b"xabcab"), [b"abc".to_vec(), b"ab".to_vec()]);
        assert_eq!(parts("(a|ab)(c|bcd)*", Extent::Part, b"abcd"), [b"abcd".to_vec()]);
        assert_eq!(parts("foo|foobar", Extent::Words, b"foobar foo-foo"), [&b"foobar"[..], b"foo", b"foo"]);
        assert_eq!(parts("(.)\\1", Extent::Part, "aééb  c".as_bytes()), ["éé".as_bytes(), b"  "]);
    }

    #[test]
    fn a_group_in_a_repetition_that_found_nothing_can_be_asked_for() {
        assert_eq!(parts("(b*)*a\\1", Extent::Part, b"a ba"), [&b"a"[..], b"ba"]);
        assert_eq!(parts("(b?)*a\\1", Extent::Line, b"ba"), [b"ba"]);
        assert_eq!(parts("(b*)*\\1é", Extent::Part, "éé".as_bytes()), ["é".as_bytes(); 2]);
        assert!(parts("(b)*a\\1", Extent::Part, b"a").is_empty());
        assert!(parts("(b*)+a\\1", Extent::Line, b"ba").is_empty());
    }

    #[test]
    fn words_end_at_bytes_that_are_no_characters() {
        assert_eq!(parts("r", Extent::Words, b"b\xffr"), [b"r"]);
        assert_eq!(parts("r*|b*", Extent::Words, b"b\xferr\xff"), [&b"b"[..], b"rr"]);
        assert_eq!(parts("r", Extent::Words, "ér rй r".as_bytes()), [b"r"]);
    }

    #[test]
    fn lines_are_found_with_their_ends() {
        let matcher = matcher("b|^$", Syntax::Extended, Extent::Part);
        let (mut scratch, text) = (matcher.scratch(), b"ab\nc\n\nb");
        let mut lines = Vec::new();
        let mut at = 0;
        while let Some(line) = matcher.line(&mut scratch, text, at).unwrap() {
            at = line.end;
            lines.push(line);
        }
        assert_eq!(lines, [0..3, 5..6, 6..7]);
    }
}
