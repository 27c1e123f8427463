//! Patterns as POSIX and GNU write them, read into a tree.
//!
//! Basic and extended regular expressions, with GNU's additions (`\<`, `\>`, `\b`, `\w`, ...; `\+`, `\?`, `\|` in basic ones), and
//! with GNU's answers to what POSIX leaves open: where a `*` is itself, what an empty alternative is, which `{` begins an
//! interval. Sets never have the byte that ends a line, so no match goes over one.

use std::fmt;

use regex_syntax::hir::{Class, Hir, Look, Repetition};

use super::bracket::{self, Alphabet, Place};

/// The most often that something can be repeated.
const REPETITIONS_MAX: u32 = 32_767;

/// Groups and repetitions may be in each other so deep: the tree is walked by recursion.
const DEPTH_MAX: usize = 250;

/// Why a pattern is none, in GNU's words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Refused(pub(super) &'static str);

impl fmt::Display for Refused {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.0)
    }
}

impl std::error::Error for Refused {}

/// How a pattern is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub enum Syntax {
    /// A basic regular expression (`-G`).
    Basic,
    /// An extended regular expression (`-E`).
    Extended,
    /// A text to be found as it is (`-F`).
    Fixed,
    /// A Perl-compatible regular expression (`-P`).
    Perl,
}

/// A part of a pattern.
#[derive(Clone, Debug)]
pub(super) enum Node {
    /// A character of a set.
    Set(Class),
    /// A byte that is no character.
    Byte(u8),
    /// A place.
    Look(Look),
    /// One after the other; of none, nothing.
    Concat(Vec<Node>),
    /// One of them.
    Alternate(Vec<Node>),
    /// The same so often.
    Repeat(Box<Node>, u32, Option<u32>),
    /// What later can be asked for again, by this number.
    Group(usize, Box<Node>),
    /// The text of a group, again.
    Back(usize),
}

impl Node {
    /// Makes an expression for the regex engine, in which a reference is whatever the group could be, so that it matches
    /// wherever this does.
    pub(super) fn hir(&self) -> Hir {
        let mut groups = Vec::new();
        self.lower(&mut groups)
    }

    fn lower(&self, groups: &mut Vec<(usize, Hir)>) -> Hir {
        match self {
            Node::Set(class) => Hir::class(class.clone()),
            Node::Byte(byte) => Hir::literal([*byte]),
            Node::Look(look) => Hir::look(*look),
            Node::Concat(nodes) => Hir::concat(nodes.iter().map(|node| node.lower(groups)).collect()),
            Node::Alternate(nodes) => Hir::alternation(nodes.iter().map(|node| node.lower(groups)).collect()),
            Node::Repeat(node, min, max) => Hir::repetition(Repetition {
                min: *min,
                max: *max,
                greedy: true,
                sub: Box::new(node.lower(groups)),
            }),
            Node::Group(number, node) => {
                let group = node.lower(groups);
                let anywhere = node.without_places().lower(groups);
                groups.push((*number, anywhere));
                group
            }
            Node::Back(number) => {
                let group = groups.iter().rev().find(|(of, _)| of == number);
                group.map_or_else(Hir::empty, |(_, group)| group.clone())
            }
        }
    }

    /// Returns the same without what depends on where it stands: the text of a group can stand anywhere.
    fn without_places(&self) -> Node {
        let each = |nodes: &[Node]| nodes.iter().map(Node::without_places).collect();
        match self {
            Node::Look(_) => Node::Concat(Vec::new()),
            Node::Concat(nodes) => Node::Concat(each(nodes)),
            Node::Alternate(nodes) => Node::Alternate(each(nodes)),
            Node::Repeat(node, min, max) => Node::Repeat(Box::new(node.without_places()), *min, *max),
            Node::Group(_, node) => node.without_places(),
            other => other.clone(),
        }
    }

    /// Tells whether the text of a group is asked for.
    pub(super) fn refers_back(&self) -> bool {
        match self {
            Node::Back(_) => true,
            Node::Concat(nodes) | Node::Alternate(nodes) => nodes.iter().any(Node::refers_back),
            Node::Repeat(node, ..) | Node::Group(_, node) => node.refers_back(),
            Node::Set(_) | Node::Byte(_) | Node::Look(_) => false,
        }
    }
}

/// Reads a pattern; what the user should know of it is added to `warnings`.
///
/// # Errors
/// Why it is none.
pub(super) fn read(
    text: &[u8],
    syntax: Syntax,
    alphabet: Alphabet,
    warnings: &mut Vec<&'static str>,
) -> Result<Node, Refused> {
    let extended = syntax == Syntax::Extended;
    let mut parser =
        Parser { text, at: 0, extended, alphabet, groups: 0, open: 0, closed: Vec::new(), warnings };
    if syntax == Syntax::Fixed {
        return Ok(parser.literal());
    }
    let node = parser.alternation()?;
    if parser.at < text.len() {
        return Err(Refused("Unmatched ) or \\)"));
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
    warnings: &'a mut Vec<&'static str>,
}

/// What stands at a place of a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Token {
    Open,
    Close,
    Bar,
    Star,
    Plus,
    Question,
    Brace,
    /// Anything else, where one character stands for itself or begins something.
    Other,
}

impl Parser<'_> {
    /// Takes all of the text as it is.
    fn literal(&mut self) -> Node {
        let mut nodes = Vec::new();
        while let Some(node) = self.character() {
            nodes.push(node);
        }
        Node::Concat(nodes)
    }

    fn character(&mut self) -> Option<Node> {
        let (first, length) = self.alphabet.first(&self.text[self.at..])?;
        self.at += length;
        Some(first.map_or_else(Node::Byte, |character| Node::Set(self.alphabet.one(character))))
    }

    /// Says what stands here, and how long it is.
    fn token(&self) -> (Token, usize) {
        let rest = &self.text[self.at..];
        let (byte, escaped, length) = match rest {
            [b'\\', byte, ..] => (*byte, true, 2),
            [byte, ..] => (*byte, false, 1),
            [] => return (Token::Other, 0),
        };
        let token = match byte {
            b'*' if !escaped => Token::Star,
            b'(' if escaped != self.extended => Token::Open,
            b')' if escaped != self.extended && (self.open > 0 || !self.extended) => Token::Close,
            b'|' if escaped != self.extended => Token::Bar,
            b'+' if escaped != self.extended => Token::Plus,
            b'?' if escaped != self.extended => Token::Question,
            b'{' if escaped != self.extended => Token::Brace,
            _ => Token::Other,
        };
        (token, length)
    }

    fn alternation(&mut self) -> Result<Node, Refused> {
        let before = self.closed.clone();
        let mut branches = vec![self.branch()?];
        while let (Token::Bar, length) = self.token() {
            self.at += length;
            // What a branch closes can be asked for only in it and behind all of them.
            let others = std::mem::replace(&mut self.closed, before.clone());
            branches.push(self.branch()?);
            self.closed.extend(others);
        }
        Ok(if branches.len() == 1 { branches.remove(0) } else { Node::Alternate(branches) })
    }

    fn branch(&mut self) -> Result<Node, Refused> {
        let mut nodes = Vec::new();
        let begin = self.at;
        while self.at < self.text.len() {
            match self.token().0 {
                Token::Bar | Token::Close => break,
                _ => {
                    let first = self.at == begin;
                    // What only says where does not end the beginning.
                    let begins = nodes.iter().all(|node| matches!(node, Node::Look(_)));
                    let node = self.piece(first, begins)?;
                    nodes.push(node);
                }
            }
        }
        Ok(Node::Concat(nodes))
    }

    /// Reads an atom and what says how often. `first` tells whether it is the first of its branch, and `begins` whether
    /// nothing stands before that could be repeated.
    fn piece(&mut self, first: bool, begins: bool) -> Result<Node, Refused> {
        let mut node = if begins { self.beginning(first)? } else { self.atom(first)? };
        let is_nothing = match &node {
            Node::Look(_) => begins,
            Node::Concat(nodes) => nodes.is_empty(),
            _ => false,
        };
        if matches!(node, Node::Look(_)) {
            self.check_close()?;
        }
        let mut depth = 0;
        while (self.extended || !is_nothing) && self.at < self.text.len() {
            let token = self.token().0;
            let Some((least, most)) = self.repetition()? else { break };
            if is_nothing {
                self.warn_of(token);
            }
            depth += 1;
            if depth > DEPTH_MAX {
                return Err(Refused("Regular expression too big"));
            }
            node = Node::Repeat(Box::new(node), least, most);
        }
        Ok(node)
    }

    /// Reads an atom where nothing stands before that could be repeated.
    fn beginning(&mut self, first: bool) -> Result<Node, Refused> {
        self.check_close()?;
        let (token, length) = self.token();
        if !matches!(token, Token::Star | Token::Plus | Token::Question | Token::Brace) {
            return self.atom(first);
        }
        if !self.extended {
            self.at += length - 1;
            return Ok(self.character().unwrap_or(Node::Concat(Vec::new())));
        }
        let here = self.at;
        let is_one = self.repetition()?.is_some();
        self.at = here;
        if !is_one {
            return self.atom(first);
        }
        Ok(Node::Concat(Vec::new()))
    }

    /// Checks that after repetitions of nothing no group ends: the C library takes that `)` for itself, and misses another.
    fn check_close(&self) -> Result<(), Refused> {
        let rest = &self.text[self.at..];
        let often = rest.iter().take_while(|byte| b"*+?{".contains(byte)).count();
        if self.extended && self.open > 0 && often > 0 && rest.get(often) == Some(&b')') {
            return Err(Refused("Unmatched ( or \\("));
        }
        Ok(())
    }

    /// Warns of a repetition of nothing.
    fn warn_of(&mut self, token: Token) {
        self.warnings.extend(match token {
            Token::Star => Some("warning: * at start of expression"),
            Token::Plus => Some("warning: + at start of expression"),
            Token::Question => Some("warning: ? at start of expression"),
            Token::Brace => Some("warning: {...} at start of expression"),
            _ => None,
        });
    }

    /// Reads how often something is repeated, if that stands here.
    fn repetition(&mut self) -> Result<Option<(u32, Option<u32>)>, Refused> {
        let (token, length) = self.token();
        let often = match token {
            Token::Star => (0, None),
            Token::Plus => (1, None),
            Token::Question => (0, Some(1)),
            Token::Brace => return self.interval(length),
            _ => return Ok(None),
        };
        self.at += length;
        Ok(Some(often))
    }

    /// Reads an interval. What is none is a text in an extended expression, and an error in a basic one.
    fn interval(&mut self, opening: usize) -> Result<Option<(u32, Option<u32>)>, Refused> {
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
            return match (self.extended, at == self.text.len() || self.text[at..] == *b"\\") {
                (true, _) => Ok(None),
                (false, true) => Err(Refused("Unmatched \\{")),
                (false, false) => Err(Refused("Invalid content of \\{\\}")),
            };
        }
        let least = least.unwrap_or(0);
        if most.is_some_and(|most| least > most) {
            return Err(Refused("Invalid content of \\{\\}"));
        }
        if least.max(most.unwrap_or(0)) > REPETITIONS_MAX {
            return Err(Refused("Regular expression too big"));
        }
        self.at = at + closing.len();
        Ok(Some((least, most)))
    }

    fn atom(&mut self, first: bool) -> Result<Node, Refused> {
        if let (Token::Open, length) = self.token() {
            self.at += length;
            return self.group();
        }
        match &self.text[self.at..] {
            [b'[', rest @ ..] => {
                if rest.is_empty() {
                    return Err(Refused("Invalid regular expression"));
                }
                let (class, length) = bracket::read(rest, self.alphabet, Place::Expression)?;
                self.at += 1 + length;
                Ok(Node::Set(class))
            }
            [b'.', ..] => {
                self.at += 1;
                Ok(Node::Set(self.alphabet.any()))
            }
            [b'^', ..] if self.extended || first => {
                self.at += 1;
                Ok(Node::Look(Look::StartLF))
            }
            [b'$', ..] if self.extended || self.ends_after(1) => {
                self.at += 1;
                Ok(Node::Look(Look::EndLF))
            }
            [b'\\'] => Err(Refused("Trailing backslash")),
            [b'\\', byte, ..] => {
                self.at += 1;
                match self.escape(*byte)? {
                    Some(node) => {
                        self.at += 1;
                        Ok(node)
                    }
                    None => Ok(self.character().unwrap_or(Node::Concat(Vec::new()))),
                }
            }
            _ => Ok(self.character().unwrap_or(Node::Concat(Vec::new()))),
        }
    }

    /// Tells whether nothing comes after so many bytes that a line's end could not come before.
    fn ends_after(&self, bytes: usize) -> bool {
        let rest = &self.text[self.at + bytes..];
        rest.is_empty() || rest.starts_with(b"\\)") || rest.starts_with(b"\\|")
    }

    fn escape(&self, byte: u8) -> Result<Option<Node>, Refused> {
        let words = |look: Look, ascii: Look| Node::Look(if self.alphabet.utf8 { look } else { ascii });
        Ok(Some(match byte {
            b'<' => words(Look::WordStartUnicode, Look::WordStartAscii),
            b'>' => words(Look::WordEndUnicode, Look::WordEndAscii),
            b'b' => words(Look::WordUnicode, Look::WordAscii),
            b'B' => words(Look::WordUnicodeNegate, Look::WordAsciiNegate),
            b'`' => Node::Look(Look::StartLF),
            b'\'' => Node::Look(Look::EndLF),
            b'w' => Node::Set(self.alphabet.class(b"word", false)),
            b'W' => Node::Set(self.alphabet.class(b"word", true)),
            b's' => Node::Set(self.alphabet.class(b"space", false)),
            b'S' => Node::Set(self.alphabet.class(b"space", true)),
            b'1'..=b'9' => {
                let number = usize::from(byte - b'0');
                if !self.closed.contains(&number) {
                    return Err(Refused("Invalid back reference"));
                }
                Node::Back(number)
            }
            _ => return Ok(None),
        }))
    }

    fn group(&mut self) -> Result<Node, Refused> {
        self.groups += 1;
        self.open += 1;
        if self.open > DEPTH_MAX {
            return Err(Refused("Regular expression too big"));
        }
        let number = self.groups;
        let node = self.alternation()?;
        let (Token::Close, length) = self.token() else { return Err(Refused("Unmatched ( or \\(")) };
        self.at += length;
        self.open -= 1;
        self.closed.push(number);
        Ok(Node::Group(number, Box::new(node)))
    }
}
