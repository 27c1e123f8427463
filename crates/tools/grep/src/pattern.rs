//! Parses POSIX and GNU patterns into a tree.
//!
//! Covers basic and extended regular expressions with GNU's extensions (`\<`, `\>`, `\b`, `\w`,
//! ...; `\+`, `\?`, `\|` in basic ones), and GNU's answers to what POSIX leaves open: where `*` is
//! literal, what an empty alternative matches, which `{` opens an interval. No set contains the
//! line terminator, so no match spans lines.

use haul_patterns::InvalidPattern;
use regex_syntax::hir::{Class, Hir, Look, Repetition};

use haul_patterns::bracket::{self, Alphabet, BracketContext};

use super::PatternWarning;

/// Maximum repetition count in an interval.
const REPETITIONS_MAX: u32 = 32_767;

/// Maximum nesting of groups and repetitions. Bounded because the tree is walked recursively.
const DEPTH_MAX: usize = 250;

/// The syntax of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Syntax {
    /// A basic regular expression (`-G`).
    Basic,
    /// An extended regular expression (`-E`).
    Extended,
    /// A literal string (`-F`).
    Fixed,
    /// A Perl-compatible regular expression (`-P`).
    Perl,
}

#[derive(Clone, Debug)]
pub(super) enum PatternNode {
    /// One character of a set.
    Set(Class),
    /// One byte that is not part of a character.
    Byte(u8),
    Look(Look),
    /// A sequence; if empty, the empty string.
    Concat(Vec<PatternNode>),
    Alternate(Vec<PatternNode>),
    /// A repetition with its minimum and maximum.
    Repeat(Box<PatternNode>, u32, Option<u32>),
    /// A capturing group with its number.
    Group(usize, Box<PatternNode>),
    /// A back-reference to a group.
    Back(usize),
}

impl PatternNode {
    /// Lowers the tree for the regex engine. A back-reference becomes anything its group could
    /// match, so the result matches wherever the pattern does, and maybe elsewhere.
    pub(super) fn hir(&self) -> Hir {
        let mut groups = Vec::new();
        self.lower(&mut groups)
    }

    fn lower(&self, groups: &mut Vec<(usize, Hir)>) -> Hir {
        match self {
            PatternNode::Set(class) => Hir::class(class.clone()),
            PatternNode::Byte(byte) => Hir::literal([*byte]),
            PatternNode::Look(look) => Hir::look(*look),
            PatternNode::Concat(nodes) => Hir::concat(nodes.iter().map(|node| node.lower(groups)).collect()),
            PatternNode::Alternate(nodes) => {
                Hir::alternation(nodes.iter().map(|node| node.lower(groups)).collect())
            }
            PatternNode::Repeat(node, min, max) => Hir::repetition(Repetition {
                min: *min,
                max: *max,
                greedy: true,
                sub: Box::new(node.lower(groups)),
            }),
            PatternNode::Group(number, node) => {
                let group = node.lower(groups);
                let anywhere = node.without_places().lower(groups);
                groups.push((*number, anywhere));
                group
            }
            PatternNode::Back(number) => {
                let group = groups.iter().rev().find(|(of, _)| of == number);
                group.map_or_else(Hir::empty, |(_, group)| group.clone())
            }
        }
    }

    /// Drops assertions: a group's text may recur where its assertions don't hold.
    fn without_places(&self) -> PatternNode {
        let each = |nodes: &[PatternNode]| nodes.iter().map(PatternNode::without_places).collect();
        match self {
            PatternNode::Look(_) => PatternNode::Concat(Vec::new()),
            PatternNode::Concat(nodes) => PatternNode::Concat(each(nodes)),
            PatternNode::Alternate(nodes) => PatternNode::Alternate(each(nodes)),
            PatternNode::Repeat(node, min, max) => {
                PatternNode::Repeat(Box::new(node.without_places()), *min, *max)
            }
            PatternNode::Group(_, node) => node.without_places(),
            other => other.clone(),
        }
    }

    /// True if the pattern contains a back-reference.
    pub(super) fn refers_back(&self) -> bool {
        match self {
            PatternNode::Back(_) => true,
            PatternNode::Concat(nodes) | PatternNode::Alternate(nodes) => {
                nodes.iter().any(PatternNode::refers_back)
            }
            PatternNode::Repeat(node, ..) | PatternNode::Group(_, node) => node.refers_back(),
            PatternNode::Set(_) | PatternNode::Byte(_) | PatternNode::Look(_) => false,
        }
    }
}

/// Parses a pattern. Appends warnings to `warnings`.
///
/// # Errors
/// If the pattern is invalid.
pub(super) fn read(
    text: &[u8],
    syntax: Syntax,
    alphabet: Alphabet,
    warnings: &mut Vec<PatternWarning>,
) -> Result<PatternNode, InvalidPattern> {
    let extended = syntax == Syntax::Extended;
    let closed = Vec::new();
    let mut parser = Parser {
        text,
        at: 0,
        extended,
        alphabet,
        groups: 0,
        open: 0,
        closed,
        has_bare_class: false,
        warnings,
    };
    if syntax == Syntax::Fixed {
        return Ok(parser.literal());
    }
    let node = parser.alternation()?;
    if parser.at < text.len() {
        return Err(InvalidPattern::UnmatchedClose);
    }
    // GNU grep notices this last, in a pattern that is otherwise valid.
    if parser.has_bare_class {
        return Err(InvalidPattern::ClassOutsideBrackets);
    }
    Ok(node)
}

struct Parser<'a> {
    text: &'a [u8],
    at: usize,
    extended: bool,
    alphabet: Alphabet,
    groups: usize,
    open: usize,
    closed: Vec<usize>,
    /// True after a `[:alpha:]` that is not in brackets.
    has_bare_class: bool,
    warnings: &'a mut Vec<PatternWarning>,
}

/// A lexical token; `Other` covers everything without a meaning in repetition or grouping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PatternToken {
    Open,
    Close,
    Bar,
    Star,
    Plus,
    Question,
    Brace,
    /// Any other character, literal or not.
    Other,
}

impl Parser<'_> {
    /// Reads the rest of the text literally.
    fn literal(&mut self) -> PatternNode {
        let mut nodes = Vec::new();
        while let Some(node) = self.character() {
            nodes.push(node);
        }
        PatternNode::Concat(nodes)
    }

    fn character(&mut self) -> Option<PatternNode> {
        let (first, length) = self.alphabet.first(&self.text[self.at..])?;
        self.at += length;
        Some(first.map_or_else(PatternNode::Byte, |character| PatternNode::Set(self.alphabet.one(character))))
    }

    /// Returns the token at the current position and its length.
    fn token(&self) -> (PatternToken, usize) {
        let rest = &self.text[self.at..];
        let (byte, escaped, length) = match rest {
            [b'\\', byte, ..] => (*byte, true, 2),
            [byte, ..] => (*byte, false, 1),
            [] => return (PatternToken::Other, 0),
        };
        let token = match byte {
            b'*' if !escaped => PatternToken::Star,
            b'(' if escaped != self.extended => PatternToken::Open,
            // In extended syntax, a `)` without a group is literal.
            b')' if escaped != self.extended && (self.open > 0 || !self.extended) => PatternToken::Close,
            b'|' if escaped != self.extended => PatternToken::Bar,
            b'+' if escaped != self.extended => PatternToken::Plus,
            b'?' if escaped != self.extended => PatternToken::Question,
            b'{' if escaped != self.extended => PatternToken::Brace,
            _ => PatternToken::Other,
        };
        (token, length)
    }

    fn alternation(&mut self) -> Result<PatternNode, InvalidPattern> {
        let before = self.closed.clone();
        let mut branches = vec![self.branch()?];
        while let (PatternToken::Bar, length) = self.token() {
            self.at += length;
            // Groups closed in one branch can be referenced within it and after the alternation,
            // but not in sibling branches.
            let others = std::mem::replace(&mut self.closed, before.clone());
            branches.push(self.branch()?);
            self.closed.extend(others);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { PatternNode::Alternate(branches) })
    }

    fn branch(&mut self) -> Result<PatternNode, InvalidPattern> {
        let mut nodes = Vec::new();
        let begin = self.at;
        while self.at < self.text.len() {
            match self.token().0 {
                PatternToken::Bar | PatternToken::Close => break,
                _ => {
                    let first = self.at == begin;
                    // Assertions don't end the start-of-branch context.
                    let begins = nodes.iter().all(|node| matches!(node, PatternNode::Look(_)));
                    let node = self.piece(first, begins)?;
                    nodes.push(node);
                }
            }
        }
        Ok(PatternNode::Concat(nodes))
    }

    /// Parses an atom and its repetitions. `first` is true for the first atom of a branch, `begins`
    /// if nothing before it can be repeated.
    fn piece(&mut self, first: bool, begins: bool) -> Result<PatternNode, InvalidPattern> {
        let mut node = if begins { self.beginning(first)? } else { self.atom(first)? };
        let is_nothing = match &node {
            PatternNode::Look(_) => begins,
            PatternNode::Concat(nodes) => nodes.is_empty(),
            _ => false,
        };
        if matches!(node, PatternNode::Look(_)) {
            self.check_close()?;
        }
        // In GNU grep, what follows an interval is no longer at the start.
        let (mut depth, mut starts) = (0, is_nothing);
        while (self.extended || !is_nothing) && self.at < self.text.len() {
            let token = self.token().0;
            let Some((least, most)) = self.repetition(starts)? else { break };
            if starts {
                self.warn_of(token);
            }
            starts &= token != PatternToken::Brace;
            depth += 1;
            if depth > DEPTH_MAX {
                return Err(InvalidPattern::TooBig);
            }
            node = PatternNode::Repeat(Box::new(node), least, most);
        }
        Ok(node)
    }

    /// Parses an atom where nothing before it can be repeated.
    fn beginning(&mut self, first: bool) -> Result<PatternNode, InvalidPattern> {
        self.check_close()?;
        let (token, length) = self.token();
        if !matches!(
            token,
            PatternToken::Star | PatternToken::Plus | PatternToken::Question | PatternToken::Brace
        ) {
            return self.atom(first);
        }
        if !self.extended {
            // In basic syntax, an operator with nothing to repeat is literal.
            self.at += length - 1;
            return Ok(self.character().unwrap_or(PatternNode::Concat(Vec::new())));
        }
        let here = self.at;
        let is_one = self.repetition(true)?.is_some();
        self.at = here;
        if !is_one {
            return self.atom(first);
        }
        Ok(PatternNode::Concat(Vec::new()))
    }

    /// Rejects a group that ends right after dangling repetitions: the C library consumes that `)`
    /// as a literal and then reports a missing one.
    fn check_close(&self) -> Result<(), InvalidPattern> {
        let rest = &self.text[self.at..];
        let often = rest.iter().take_while(|byte| b"*+?{".contains(byte)).count();
        if self.extended && self.open > 0 && often > 0 && rest.get(often) == Some(&b')') {
            return Err(InvalidPattern::UnmatchedOpen);
        }
        Ok(())
    }

    /// Warns about a dangling repetition operator.
    fn warn_of(&mut self, token: PatternToken) {
        self.warnings.extend(match token {
            PatternToken::Star => Some(PatternWarning::Star),
            PatternToken::Plus => Some(PatternWarning::Plus),
            PatternToken::Question => Some(PatternWarning::Question),
            PatternToken::Brace => Some(PatternWarning::Brace),
            _ => None,
        });
    }

    /// Parses a repetition operator, if there is one. `starts` is true if it has nothing to repeat.
    fn repetition(&mut self, starts: bool) -> Result<Option<(u32, Option<u32>)>, InvalidPattern> {
        let (token, length) = self.token();
        let often = match token {
            PatternToken::Star => (0, None),
            PatternToken::Plus => (1, None),
            PatternToken::Question => (0, Some(1)),
            PatternToken::Brace => return self.interval(length, starts),
            _ => return Ok(None),
        };
        self.at += length;
        Ok(Some(often))
    }

    /// Parses an interval. An invalid one is literal text in extended syntax, an error in basic.
    /// A reversed one is literal only if it has nothing to repeat.
    fn interval(
        &mut self,
        opening: usize,
        starts: bool,
    ) -> Result<Option<(u32, Option<u32>)>, InvalidPattern> {
        let mut at = self.at + opening;
        let mut number = || {
            let begin = at;
            while self.text.get(at).is_some_and(u8::is_ascii_digit) {
                at += 1;
            }
            let digits = std::str::from_utf8(&self.text[begin..at]).unwrap_or_default();
            let value = digits.parse::<u32>().unwrap_or(u32::MAX);
            let comma = self.text.get(at) == Some(&b',');
            if comma {
                at += 1;
            }
            ((!digits.is_empty()).then_some(value), comma)
        };
        let (least, comma) = number();
        let (most, second_comma) = if comma { number() } else { (least, false) };
        let closing: &[u8] = if self.extended { b"}" } else { b"\\}" };
        let is_closed = self.text[at..].starts_with(closing);
        if !is_closed || second_comma || (least.is_none() && !comma) {
            // The C library reads up to the next comma or the end of an interval.
            let rest = &self.text[at..];
            let is_ended = second_comma || rest.contains(&b',') || rest.windows(2).any(|two| two == closing);
            return match (self.extended, is_ended) {
                (true, _) => Ok(None),
                (false, false) => Err(InvalidPattern::UnmatchedBrace),
                (false, true) => Err(InvalidPattern::InvalidInterval),
            };
        }
        let least = least.unwrap_or(0);
        if most.is_some_and(|most| least > most) {
            return if self.extended && starts { Ok(None) } else { Err(InvalidPattern::InvalidInterval) };
        }
        if least.max(most.unwrap_or(0)) > REPETITIONS_MAX {
            return Err(InvalidPattern::TooBig);
        }
        self.at = at + closing.len();
        Ok(Some((least, most)))
    }

    fn atom(&mut self, first: bool) -> Result<PatternNode, InvalidPattern> {
        if let (PatternToken::Open, length) = self.token() {
            self.at += length;
            return self.group();
        }
        match &self.text[self.at..] {
            [b'[', rest @ ..] => {
                if rest.is_empty() {
                    return Err(InvalidPattern::Invalid);
                }
                let (class, length) = bracket::read(rest, self.alphabet, BracketContext::Expression)?;
                self.has_bare_class |= matches!(&rest[..length - 1], [b':', .., b':']);
                self.at += 1 + length;
                Ok(PatternNode::Set(class))
            }
            [b'.', ..] => {
                self.at += 1;
                Ok(PatternNode::Set(self.alphabet.any()))
            }
            [b'^', ..] if self.extended || first => {
                self.at += 1;
                Ok(PatternNode::Look(Look::StartLF))
            }
            [b'$', ..] if self.extended || self.ends_after(1) => {
                self.at += 1;
                Ok(PatternNode::Look(Look::EndLF))
            }
            [b'\\'] => Err(InvalidPattern::TrailingBackslash),
            [b'\\', byte, ..] => {
                self.at += 1;
                match self.escape(*byte)? {
                    Some(node) => {
                        self.at += 1;
                        Ok(node)
                    }
                    None => Ok(self.character().unwrap_or(PatternNode::Concat(Vec::new()))),
                }
            }
            _ => Ok(self.character().unwrap_or(PatternNode::Concat(Vec::new()))),
        }
    }

    /// True if a branch may end after this many bytes, so that `$` is an anchor there.
    fn ends_after(&self, bytes: usize) -> bool {
        let rest = &self.text[self.at + bytes..];
        rest.is_empty() || rest.starts_with(b"\\)") || rest.starts_with(b"\\|")
    }

    fn escape(&self, byte: u8) -> Result<Option<PatternNode>, InvalidPattern> {
        let words =
            |look: Look, ascii: Look| PatternNode::Look(if self.alphabet.utf8 { look } else { ascii });
        Ok(Some(match byte {
            b'<' => words(Look::WordStartUnicode, Look::WordStartAscii),
            b'>' => words(Look::WordEndUnicode, Look::WordEndAscii),
            b'b' => words(Look::WordUnicode, Look::WordAscii),
            b'B' => words(Look::WordUnicodeNegate, Look::WordAsciiNegate),
            // In GNU grep, each line is a buffer of its own.
            b'`' => PatternNode::Look(Look::StartLF),
            b'\'' => PatternNode::Look(Look::EndLF),
            b'w' => PatternNode::Set(self.alphabet.class(b"word")),
            b'W' => PatternNode::Set(self.alphabet.class_complement(b"word")),
            b's' => PatternNode::Set(self.alphabet.class(b"space")),
            b'S' => PatternNode::Set(self.alphabet.class_complement(b"space")),
            b'1'..=b'9' => {
                let number = usize::from(byte - b'0');
                if !self.closed.contains(&number) {
                    return Err(InvalidPattern::InvalidBackReference);
                }
                PatternNode::Back(number)
            }
            _ => return Ok(None),
        }))
    }

    fn group(&mut self) -> Result<PatternNode, InvalidPattern> {
        self.groups += 1;
        self.open += 1;
        if self.open > DEPTH_MAX {
            return Err(InvalidPattern::TooBig);
        }
        let number = self.groups;
        let node = self.alternation()?;
        let (PatternToken::Close, length) = self.token() else { return Err(InvalidPattern::UnmatchedOpen) };
        self.at += length;
        self.open -= 1;
        self.closed.push(number);
        Ok(PatternNode::Group(number, Box::new(node)))
    }
}
