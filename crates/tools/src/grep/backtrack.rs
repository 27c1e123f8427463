//! Patterns that ask for the text of a group again, which no automaton finds: every way is tried.
//!
//! That can take for ever, so both how much is tried for a line and how deep are bounded; what goes beyond is told as an
//! error, never taken for a line without a match. The lines were chosen by the regex engine before, by a pattern in which a
//! reference is whatever its group could be.

use std::ops::Range;

use regex_automata::util::look::{Look, LookMatcher};
use regex_syntax::hir::Class;

use super::bracket::Alphabet;
use super::case;
use super::pattern::Node;
use super::words::Letters;

/// Steps that one line may take: some seconds.
const STEPS_MAX: u64 = 100_000_000;

/// How deep the search may go, which bounds its stack: about a mebibyte.
const DEPTH_MAX: usize = 2_000;

/// Groups that can be asked for.
const GROUPS: usize = 10;

/// A search was given up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exhausted;

/// How often something is repeated.
#[derive(Clone, Copy)]
struct Often {
    least: u32,
    most: u32,
    /// Whether any number will do, and none.
    is_star: bool,
}

/// What is known of places in a text.
#[derive(Clone, Copy)]
pub(super) struct Places<'a> {
    /// Of those where lines begin and end.
    pub(super) looks: &'a LookMatcher,
    /// Of those where words do.
    pub(super) letters: &'a Letters,
    /// Whether a match has to be a word.
    pub(super) by_words: bool,
}

impl Places<'_> {
    fn matches(&self, look: regex_syntax::hir::Look, text: &[u8], at: usize) -> bool {
        // The two crates number the places alike.
        let other = || Look::from_repr(look.as_repr()).is_some_and(|look| self.looks.matches(look, text, at));
        self.letters.are_at(look, text, at).unwrap_or_else(other)
    }
}

/// Finds patterns in one line.
pub(super) struct Backtracker<'a> {
    text: &'a [u8],
    end: usize,
    alphabet: Alphabet,
    places: Places<'a>,
    groups: [Option<(usize, usize)>; GROUPS],
    steps: u64,
    depth: usize,
}

/// What is to be found after a node; returns whether the search is over.
type Next<'n, 'a> = &'n mut dyn FnMut(&mut Backtracker<'a>, usize) -> Result<bool, Exhausted>;

impl<'a> Backtracker<'a> {
    /// Searches the text from the beginning to `end`, where a line ends.
    pub(super) fn new(text: &'a [u8], end: usize, places: Places<'a>, alphabet: Alphabet) -> Self {
        Self { text, end, alphabet, places, groups: [None; GROUPS], steps: 0, depth: 0 }
    }

    /// Finds the leftmost match at or after `from`, and of those the longest, or any if it is enough to know of one.
    pub(super) fn find(
        &mut self,
        patterns: &[Node],
        from: usize,
        longest: bool,
    ) -> Result<Option<Range<usize>>, Exhausted> {
        let mut start = from;
        loop {
            let mut found = None;
            for pattern in patterns {
                found = found.max(self.last_end(pattern, start, longest)?);
            }
            if let Some(end) = found {
                return Ok(Some(start..end));
            }
            if start >= self.end {
                return Ok(None);
            }
            start += self.alphabet.first(&self.text[start..self.end]).map_or(1, |(_, length)| length);
        }
    }

    /// Returns where the longest match of a pattern ends that begins at a place, or any if it is enough to know of one.
    fn last_end(&mut self, pattern: &Node, start: usize, longest: bool) -> Result<Option<usize>, Exhausted> {
        let Places { letters, by_words, .. } = self.places;
        if by_words && letters.are_before(self.text, start) {
            return Ok(None);
        }
        let (mut found, mut is_only) = (None, true);
        self.run(pattern, start, &mut |this, at| {
            is_only &= at == start;
            if by_words && letters.are_after(this.text, at) {
                return Ok(false);
            }
            found = found.max(Some(at));
            Ok(at == this.end || (!longest && (at > start || !by_words)))
        })?;
        // As everywhere, an empty word is one only where nothing else is found.
        Ok(found.filter(|end| *end > start || !by_words || is_only))
    }

    fn run(&mut self, node: &Node, at: usize, next: Next<'_, 'a>) -> Result<bool, Exhausted> {
        self.steps += 1;
        if self.steps > STEPS_MAX || self.depth >= DEPTH_MAX {
            return Err(Exhausted);
        }
        self.depth += 1;
        let over = self.run_node(node, at, next)?;
        self.depth -= 1;
        Ok(over)
    }

    fn run_node(&mut self, node: &Node, at: usize, next: Next<'_, 'a>) -> Result<bool, Exhausted> {
        match node {
            Node::Set(_) | Node::Byte(_) => match self.one(node, at) {
                Some(after) => next(self, after),
                None => Ok(false),
            },
            Node::Look(look) => {
                if self.places.matches(*look, self.text, at) {
                    next(self, at)
                } else {
                    Ok(false)
                }
            }
            Node::Concat(nodes) => self.run_all(nodes, at, next),
            Node::Alternate(nodes) => {
                for node in nodes {
                    if self.run(node, at, next)? {
                        return Ok(true);
                    }
                }
                Ok(false)
            }
            Node::Repeat(inner, least, most) => {
                let is_star = *least == 0 && most.is_none();
                let most = most.unwrap_or(u32::MAX);
                match **inner {
                    Node::Set(_) | Node::Byte(_) => self.run_ones(inner, (*least, most), at, next),
                    _ => self.run_again(inner, Often { least: *least, most, is_star }, at, next),
                }
            }
            Node::Group(number, inner) => {
                let before = self.groups.get(*number).copied().flatten();
                let over = self.run(inner, at, &mut |this, after| {
                    let inside = this.set_group(*number, Some((at, after)));
                    let over = next(this, after)?;
                    this.set_group(*number, inside);
                    Ok(over)
                })?;
                self.set_group(*number, before);
                Ok(over)
            }
            Node::Back(number) => match self.groups.get(*number).copied().flatten() {
                Some((start, end)) => match self.again(start..end, at) {
                    Some(after) => next(self, after),
                    None => Ok(false),
                },
                None => Ok(false),
            },
        }
    }

    fn set_group(&mut self, number: usize, to: Option<(usize, usize)>) -> Option<(usize, usize)> {
        let group = self.groups.get_mut(number)?;
        std::mem::replace(group, to)
    }

    fn run_all(&mut self, nodes: &[Node], at: usize, next: Next<'_, 'a>) -> Result<bool, Exhausted> {
        match nodes {
            [] => next(self, at),
            [only] => self.run(only, at, next),
            [first, rest @ ..] => self.run(first, at, &mut |this, at| this.run_all(rest, at, next)),
        }
    }

    /// Repeats a single character: without going deeper for each.
    fn run_ones(
        &mut self,
        node: &Node,
        (least, most): (u32, u32),
        at: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool, Exhausted> {
        let mut ends = vec![at];
        let mut here = at;
        while ends.len() <= most as usize
            && let Some(after) = self.one(node, here)
        {
            ends.push(after);
            here = after;
        }
        for end in ends.into_iter().skip(least as usize).rev() {
            self.steps += 1;
            if next(self, end)? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn run_again(
        &mut self,
        node: &Node,
        often: Often,
        at: usize,
        next: Next<'_, 'a>,
    ) -> Result<bool, Exhausted> {
        let Often { least, most, is_star } = often;
        if most > 0 {
            let left = Often { least: least.saturating_sub(1), most: most.saturating_sub(1), is_star };
            let over = self.run(node, at, &mut |this, after| match (after == at && least == 0, is_star) {
                (false, _) => this.run_again(node, left, after, next),
                // What is empty can be repeated as often as is asked for, and not for ever. Yet the groups in it are empty
                // then and can be asked for, as in GNU grep, which knows that of `*` only.
                (true, true) => next(this, after),
                (true, false) => Ok(false),
            })?;
            if over {
                return Ok(true);
            }
        }
        if least == 0 { next(self, at) } else { Ok(false) }
    }

    /// Takes one character, and returns where it ends.
    fn one(&self, node: &Node, at: usize) -> Option<usize> {
        let (first, length) = self.alphabet.first(&self.text[at..self.end])?;
        let is_in = match (node, first) {
            (Node::Set(Class::Unicode(set)), Ok(character)) => {
                set.iter().any(|range| (range.start()..=range.end()).contains(&character))
            }
            (Node::Set(Class::Bytes(set)), _) => {
                set.iter().any(|range| (range.start()..=range.end()).contains(&self.text[at]))
            }
            (Node::Byte(byte), _) if self.text[at] == *byte => return Some(at + 1),
            _ => false,
        };
        is_in.then_some(at + length)
    }

    /// Takes the text of a group again, and returns where it ends.
    fn again(&self, group: Range<usize>, at: usize) -> Option<usize> {
        let (text, rest) = (&self.text[group], &self.text[at..self.end]);
        if rest.starts_with(text) {
            return Some(at + text.len());
        }
        if !self.alphabet.ignore_case {
            return None;
        }
        let (mut left, mut after) = (text, at);
        while let Some((first, length)) = self.alphabet.first(left) {
            let (other, other_length) = self.alphabet.first(&self.text[after..self.end])?;
            let same = match (first, other) {
                (Ok(first), Ok(other)) if self.alphabet.utf8 => case::capital(first) == case::capital(other),
                (Ok(first), Ok(other)) => first.eq_ignore_ascii_case(&other),
                (first, other) => first == other,
            };
            if !same {
                return None;
            }
            left = &left[length..];
            after += other_length;
        }
        Some(after)
    }
}
