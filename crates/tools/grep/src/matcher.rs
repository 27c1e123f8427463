//! Compiled patterns: which lines they select, and where in a line they match.
//!
//! The method is chosen once: plain strings are searched for directly (`literals.rs`), POSIX
//! patterns become automata (`expression.rs`), and Perl patterns go to PCRE2 (`perl.rs`).

use std::ops::Range;

use haul_sys::pcre2::{MatchFailure, Matching};

use super::backtrack::Exhausted;
use super::expression::{self, Expression};
use super::literals::{Folded, Literals};
use super::pattern::Syntax;
use super::perl::Perl;
use super::query::Query;
use super::{GrepKind, PatternError, PatternWarning};
use haul_patterns::bracket::Alphabet;

/// Why a search was abandoned: a line could not be decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GivenUp {
    /// A pattern with a back-reference took too long.
    BackReference,
    /// PCRE2 hit a limit.
    Perl(MatchFailure),
}

impl From<Exhausted> for GivenUp {
    fn from(_: Exhausted) -> Self {
        Self::BackReference
    }
}

impl From<MatchFailure> for GivenUp {
    fn from(failure: MatchFailure) -> Self {
        Self::Perl(failure)
    }
}

impl GivenUp {
    /// Returns the message for the user.
    pub(super) fn kind(self) -> GrepKind {
        match self {
            Self::BackReference => GrepKind::Exhausted,
            Self::Perl(MatchFailure::MatchLimit) => GrepKind::PerlMatchLimit,
            Self::Perl(MatchFailure::DepthLimit) => GrepKind::PerlDepthLimit,
            Self::Perl(MatchFailure::HeapLimit) => GrepKind::PerlHeapLimit,
            Self::Perl(MatchFailure::StackLimit) => GrepKind::PerlStackLimit,
            Self::Perl(MatchFailure::Memory) => GrepKind::PerlMemory,
            Self::Perl(MatchFailure::RecurseLoop) => GrepKind::PerlLoop,
            Self::Perl(MatchFailure::Other(_)) => GrepKind::PerlInternal,
        }
    }
}

pub(super) struct Matcher {
    method: MatchMethod,
    alphabet: Alphabet,
}

enum MatchMethod {
    Literals(Literals),
    Expression(Box<Expression>),
    Perl(Perl),
}

/// A worker's scratch space for a [`Matcher`].
pub(super) struct Scratch {
    cache: MatchCache,
    /// Copy of binary text with NULs replaced by newlines.
    pub(super) lines: Vec<u8>,
}

enum MatchCache {
    Literals(Folded),
    Expression(Box<expression::ExpressionCache>),
    /// `None` if allocation failed.
    Perl(Option<Matching>),
}

impl Matcher {
    /// Compiles the patterns. Appends warnings to `warnings`.
    ///
    /// # Errors
    /// If a pattern is invalid.
    pub(super) fn new(query: &Query, warnings: &mut Vec<PatternWarning>) -> Result<Self, PatternError> {
        let method = match (query.syntax, Literals::new(query)) {
            (_, Some(literals)) => MatchMethod::Literals(literals),
            (Syntax::Perl, None) => MatchMethod::Perl(Perl::new(query)?),
            (_, None) => MatchMethod::Expression(Box::new(Expression::new(query, warnings)?)),
        };
        Ok(Self { method, alphabet: query.alphabet() })
    }

    pub(super) fn scratch(&self) -> Scratch {
        let cache = match &self.method {
            MatchMethod::Literals(_) => MatchCache::Literals(Folded::default()),
            MatchMethod::Expression(expression) => MatchCache::Expression(Box::new(expression.cache())),
            MatchMethod::Perl(perl) => MatchCache::Perl(perl.matching()),
        };
        Scratch { cache, lines: Vec::new() }
    }

    /// Finds the first selected line at or after `from`, which is the start of a line. The range
    /// includes the terminator, if there is one.
    pub(super) fn line(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        from: usize,
    ) -> Result<Option<Range<usize>>, GivenUp> {
        match (&self.method, &mut scratch.cache) {
            (MatchMethod::Literals(literals), MatchCache::Literals(folded)) => {
                Ok(literals.line(folded, text, from))
            }
            (MatchMethod::Expression(expression), MatchCache::Expression(cache)) => {
                Ok(expression.line(cache, text, from)?)
            }
            (MatchMethod::Perl(perl), MatchCache::Perl(Some(matching))) => {
                Ok(perl.line(matching, text, from)?)
            }
            _ => Err(GivenUp::Perl(MatchFailure::Memory)),
        }
    }

    /// Returns the length of a text's first character.
    pub(super) fn character(&self, text: &[u8]) -> usize {
        self.alphabet.first(text).map_or(1, |(_, length)| length)
    }

    /// Finds the leftmost match at or after a position in a line: the longest under POSIX rules,
    /// the preferred one under Perl's. The first call for a line must be for its start, as it folds
    /// the line.
    pub(super) fn part(
        &self,
        scratch: &mut Scratch,
        text: &[u8],
        (line, from): (Range<usize>, usize),
    ) -> Result<Option<Range<usize>>, GivenUp> {
        let within = |found: Range<usize>| line.start + found.start..line.start + found.end;
        match (&self.method, &mut scratch.cache) {
            (MatchMethod::Literals(literals), MatchCache::Literals(folded)) => {
                Ok(literals.part(folded, &text[line.clone()], from - line.start).map(within))
            }
            (MatchMethod::Expression(expression), MatchCache::Expression(cache)) => {
                Ok(expression.part(cache, text, from..line.end)?)
            }
            (MatchMethod::Perl(perl), MatchCache::Perl(Some(matching))) => {
                let found = perl.part(matching, &text[line.clone()], from - line.start)?;
                Ok(found.map(within))
            }
            _ => Err(GivenUp::Perl(MatchFailure::Memory)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::Extent;

    fn matcher(pattern: &str, syntax: Syntax, extent: Extent) -> Matcher {
        let patterns = vec![pattern.into()];
        let query = Query { patterns, syntax, ignore_case: false, extent, utf8: true, null_data: false };
        Matcher::new(&query, &mut Vec::new()).unwrap()
    }

    fn parts(pattern: &str, extent: Extent, line: &[u8]) -> Vec<Vec<u8>> {
        let matcher = matcher(pattern, Syntax::Extended, extent);
        let mut scratch = matcher.scratch();
        let (mut at, mut parts) = (0, Vec::new());
        while at < line.len() {
            let Some(part) = matcher.part(&mut scratch, line, (0..line.len(), at)).unwrap() else { break };
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
        // GNU grep misses this one; see `backtrack.rs`.
        assert_eq!(parts("(b*)+a\\1", Extent::Line, b"ba"), [b"ba"]);
        assert_eq!(parts("(a|b?)+\\1", Extent::Line, b"ab"), [b"ab"]);
        assert_eq!(parts("(a){0,2}\\1", Extent::Line, b"aa"), [b"aa"]);
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

    #[test]
    fn plain_texts_are_not_made_automata_of() {
        let is_literal = |pattern: &[u8], syntax, ignore_case| {
            let patterns = vec![pattern.to_vec(), b"other".to_vec()];
            let (extent, utf8, null_data) = (Extent::Part, true, false);
            let query = Query { patterns, syntax, ignore_case, extent, utf8, null_data };
            matches!(Matcher::new(&query, &mut Vec::new()).unwrap().method, MatchMethod::Literals(_))
        };
        assert!(is_literal(&b"a".repeat(10_000), Syntax::Fixed, true));
        for (text, syntax) in [("a.(é|b", Syntax::Fixed), ("a+é", Syntax::Basic)] {
            assert!(is_literal(text.as_bytes(), syntax, false));
            assert!(!is_literal(text.as_bytes(), syntax, true), "there are few");
            assert!(is_literal(text.repeat(1000).as_bytes(), syntax, true));
        }
        assert!(is_literal(b"a b", Syntax::Extended, false));
        assert!(!is_literal(b"a+", Syntax::Extended, false));
        assert!(!is_literal(b"a.", Syntax::Basic, false));
        assert!(!is_literal(b"\xff", Syntax::Fixed, false), "it is in no character");
    }

    #[test]
    fn literals_find_what_automata_do() {
        let texts = ["", "a", "ab", "b a", "AB", "ſ", "k", "éß", "i", "İı", "аЯ", "ǆ"];
        let lines = "ab\nxabx\nb a\nAb ab\n\nſS s\n\u{212a}k\nÉßé éß\nIı iİ\nАя\nǅ Ǆ\n\u{301}a\nab\u{301}\n";
        let lines = [lines.as_bytes(), b"a\xff b a"].concat();
        for (set, extent, ignore_case, utf8) in (0..1_u32 << texts.len()).step_by(29).flat_map(|set| {
            [Extent::Part, Extent::Words, Extent::Line].into_iter().flat_map(move |extent| {
                [(false, true), (true, true), (true, false)].map(|(fold, utf8)| (set, extent, fold, utf8))
            })
        }) {
            let chosen = texts.iter().enumerate().filter(|(at, _)| set & (1 << at) != 0);
            let mut patterns: Vec<Vec<u8>> = chosen.map(|(_, text)| text.as_bytes().to_vec()).collect();
            if patterns.is_empty() {
                continue;
            }
            // Otherwise the few of them would become automata anyway.
            patterns.push(b"-".repeat(2000));
            let syntax = Syntax::Extended;
            let query = |patterns| Query { patterns, syntax, ignore_case, extent, utf8, null_data: false };
            let literal = Matcher::new(&query(patterns.clone()), &mut Vec::new()).unwrap();
            patterns[0] = [b"(".as_slice(), &patterns[0], b")"].concat();
            let automaton = Matcher::new(&query(patterns.clone()), &mut Vec::new()).unwrap();
            assert!(
                matches!(literal.method, MatchMethod::Literals(_))
                    && matches!(automaton.method, MatchMethod::Expression(_))
            );
            let (left, right) = (all_found(&literal, &lines), all_found(&automaton, &lines));
            assert_eq!(left, right, "{:?}", query(patterns));
        }
    }

    /// Returns the selected lines and the non-empty matches in each.
    fn all_found(matcher: &Matcher, text: &[u8]) -> Vec<(Range<usize>, Vec<Range<usize>>)> {
        let (mut scratch, mut at, mut found) = (matcher.scratch(), 0, Vec::new());
        while let Some(line) = matcher.line(&mut scratch, text, at).unwrap() {
            let content = line.start..line.end - usize::from(text[line.end - 1] == b'\n');
            let (mut parts, mut from) = (Vec::new(), content.start);
            while from < content.end {
                let part = matcher.part(&mut scratch, text, (content.clone(), from)).unwrap();
                let Some(part) = part.filter(|part| part.start < content.end) else { break };
                from = part.end
                    + if part.is_empty() { matcher.character(&text[part.end..content.end]) } else { 0 };
                parts.extend((!part.is_empty()).then_some(part));
            }
            at = line.end;
            found.push((line, parts));
        }
        found
    }
}
