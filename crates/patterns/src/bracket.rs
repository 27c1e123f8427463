//! Bracket expressions of regular expressions and globs (`[a-z[:digit:]]`), as character sets.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, HirKind};

use super::case;
use crate::InvalidPattern;

/// The definition of a character, and the treatment of case and line ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Alphabet {
    /// True if text is UTF-8; otherwise every byte is a character.
    pub utf8: bool,
    /// True if upper and lower case are equal.
    pub ignore_case: bool,
    /// The line terminator, which no set contains.
    pub terminator: u8,
}

impl Alphabet {
    /// Returns the set of one character.
    pub fn one(self, character: char) -> Class {
        self.set(&[(character, character)], false)
    }

    /// Returns the set of all characters except the line terminator.
    pub fn any(self) -> Class {
        self.set(&[], true)
    }

    /// Returns the set of these ranges, or its complement.
    pub(crate) fn set(self, ranges: &[(char, char)], negated: bool) -> Class {
        let class = if self.utf8 {
            let ranges = ranges.iter().map(|(start, end)| ClassUnicodeRange::new(*start, *end));
            Class::Unicode(ClassUnicode::new(ranges))
        } else {
            let byte = |character: char| u8::try_from(u32::from(character)).unwrap_or(u8::MAX);
            let ranges = ranges.iter().map(|(start, end)| ClassBytesRange::new(byte(*start), byte(*end)));
            Class::Bytes(ClassBytes::new(ranges))
        };
        self.finished(class, negated)
    }

    /// Folds case, complements, and removes the line terminator, in that order.
    fn finished(self, mut class: Class, negated: bool) -> Class {
        match &mut class {
            Class::Unicode(set) => {
                if self.ignore_case {
                    case::fold(set);
                }
                if negated {
                    set.negate();
                }
                let end = char::from(self.terminator);
                set.difference(&ClassUnicode::new([ClassUnicodeRange::new(end, end)]));
            }
            Class::Bytes(set) => {
                if self.ignore_case {
                    set.case_fold_simple();
                }
                if negated {
                    set.negate();
                }
                set.difference(&ClassBytes::new([ClassBytesRange::new(self.terminator, self.terminator)]));
            }
        }
        class
    }

    /// Returns a named class with the C library's members.
    fn named(self, name: &[u8]) -> Option<Vec<(char, char)>> {
        let (unicode, ascii) = match name {
            b"alpha" => (r"[\p{Alphabetic}\p{Nd}--0-9]", r"[A-Za-z]"),
            b"digit" => (r"[0-9]", r"[0-9]"),
            b"alnum" => (r"[\p{Alphabetic}\p{Nd}]", r"[0-9A-Za-z]"),
            b"upper" => (r"[\p{Uppercase}\p{Lt}]", r"[A-Z]"),
            // The C library counts as lower case the titlecase letters that have both an upper and
            // a lower form.
            b"lower" => (r"[\p{Lowercase}\x{1c5}\x{1c8}\x{1cb}\x{1f2}]", r"[a-z]"),
            b"space" => (r"[\p{White_Space}--\x{85}\x{a0}\x{2007}\x{202f}]", r"[\t-\r ]"),
            b"blank" => (r"[\t\p{Zs}--\x{a0}\x{2007}\x{202f}]", r"[\t ]"),
            // To the C library, no-break spaces are punctuation.
            b"punct" => {
                (r"[[^\p{Cc}\p{Cn}\p{Z}\p{Alphabetic}\p{Nd}]\x{a0}\x{2007}\x{202f}]", r"[!-/:-@\[-`{-~]")
            }
            b"graph" => (r"[[^\p{Cc}\p{Cn}\p{Z}]\x{a0}\x{2007}\x{202f}]", r"[!-~]"),
            b"print" => (r"[^\p{Cc}\p{Cn}\p{Zl}\p{Zp}]", r"[ -~]"),
            b"cntrl" => (r"[\p{Cc}\p{Zl}\p{Zp}]", r"[\x00-\x1f\x7f]"),
            b"xdigit" => (r"[0-9A-Fa-f]", r"[0-9A-Fa-f]"),
            b"word" => (r"[\p{Alphabetic}\p{Nd}_]", r"[0-9A-Za-z_]"),
            _ => return None,
        };
        let parsed = regex_syntax::parse(if self.utf8 { unicode } else { ascii }).ok()?;
        match parsed.into_kind() {
            HirKind::Class(Class::Unicode(set)) => {
                Some(set.iter().map(|range| (range.start(), range.end())).collect())
            }
            _ => None,
        }
    }

    /// Returns a named class.
    pub fn class(self, name: &[u8]) -> Class {
        self.set(&self.named(name).unwrap_or_default(), false)
    }

    /// Returns the complement of a named class.
    pub fn class_complement(self, name: &[u8]) -> Class {
        self.set(&self.named(name).unwrap_or_default(), true)
    }

    /// Decodes the first character of a text and its length: an invalid byte as `Err`, and in a
    /// single-byte locale any byte as a `char`.
    pub fn first(self, text: &[u8]) -> Option<(Result<char, u8>, usize)> {
        let byte = *text.first()?;
        if !self.utf8 || byte < 0x80 {
            return Some((Ok(char::from(byte)), 1));
        }
        let most = text.len().min(4);
        let whole = (2..=most).find_map(|length| std::str::from_utf8(&text[..length]).ok());
        match whole.and_then(|text| text.chars().next()) {
            Some(character) => Some((Ok(character), character.len_utf8())),
            None => Some((Err(byte), 1)),
        }
    }
}

/// Where a bracket expression appears.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BracketContext {
    /// In a regular expression.
    Expression,
    /// In a shell pattern.
    Glob,
}

/// Parses a bracket expression after its `[`. Returns the set and the length consumed.
///
/// # Errors
/// If the expression is invalid.
pub fn read(
    text: &[u8],
    alphabet: Alphabet,
    place: BracketContext,
) -> Result<(Class, usize), InvalidPattern> {
    let mut reader = BracketReader { text, at: 0, alphabet, place, ranges: Vec::new() };
    let negated = matches!((text.first(), place), (Some(b'^'), _) | (Some(b'!'), BracketContext::Glob));
    reader.at = usize::from(negated);
    let begin = reader.at;
    loop {
        let rest = &text[reader.at..];
        match rest {
            [] => return Err(InvalidPattern::UnmatchedBracket),
            [b']', ..] if reader.at > begin => break,
            // `-` is literal only as the first or last item or as the end of a range.
            [b'-', after @ ..]
                if place == BracketContext::Expression
                    && reader.at > begin
                    && after.first() != Some(&b']') =>
            {
                return Err(InvalidPattern::InvalidRangeEnd);
            }
            _ => reader.item()?,
        }
    }
    Ok((alphabet.set(&reader.ranges, negated), reader.at + 1))
}

struct BracketReader<'a> {
    text: &'a [u8],
    at: usize,
    alphabet: Alphabet,
    place: BracketContext,
    ranges: Vec<(char, char)>,
}

impl BracketReader<'_> {
    /// Reads a delimited item such as `[:alpha:]`, if there is one.
    fn quoted(&mut self, kind: u8) -> Result<Option<Vec<u8>>, InvalidPattern> {
        let rest = &self.text[self.at..];
        if !rest.starts_with(&[b'[', kind]) {
            return Ok(None);
        }
        let inner = &rest[2..];
        let end = inner.windows(2).position(|pair| pair == [kind, b']']);
        let end = end.ok_or(InvalidPattern::UnmatchedBracket)?;
        self.at += end + 4;
        Ok(Some(inner[..end].to_vec()))
    }

    fn item(&mut self) -> Result<(), InvalidPattern> {
        if let Some(name) = self.quoted(b':')? {
            // Ignoring case, `[:upper:]` and `[:lower:]` match any letter, including caseless ones.
            let is_cased = matches!(name.as_slice(), b"upper" | b"lower");
            let name = if is_cased && self.alphabet.ignore_case { b"alpha" } else { name.as_slice() };
            let class = self.alphabet.named(name).ok_or(InvalidPattern::UnknownClass)?;
            self.ranges.extend(class);
            return self.no_range();
        }
        if let Some(same) = self.quoted(b'=')? {
            let character = self.only(&same)?;
            self.ranges.extend(character.map(|character| (character, character)));
            return self.no_range();
        }
        let start = self.end_of_range()?;
        let is_range = match &self.text[self.at..] {
            [b'-'] => return Err(InvalidPattern::UnmatchedBracket),
            [b'-', after, ..] => *after != b']',
            _ => false,
        };
        let end = if is_range {
            self.at += 1;
            if self.text[self.at..].starts_with(b"[:") || self.text[self.at..].starts_with(b"[=") {
                return Err(InvalidPattern::InvalidRangeEnd);
            }
            self.end_of_range()?
        } else {
            start
        };
        match (start, end) {
            (Some(start), Some(end)) if is_range => return self.range(start, end),
            (Some(start), Some(_)) => self.ranges.push((start, start)),
            // To the C library, an invalid byte sorts after all characters.
            (Some(start), None) => self.ranges.push((start, char::MAX)),
            (None, None) if !is_range => {}
            _ => return Err(InvalidPattern::InvalidRangeEnd),
        }
        Ok(())
    }

    /// Adds a range. Ignoring case, the C library compares capitals: those of the endpoints must be
    /// in order, and in UTF-8 the range has the characters whose capital is between them. Other
    /// locales' bytes are those between the endpoints themselves, which may be none.
    fn range(&mut self, start: char, end: char) -> Result<(), InvalidPattern> {
        let Alphabet { utf8, ignore_case, .. } = self.alphabet;
        let folds = ignore_case && self.place == BracketContext::Expression;
        let key = |character: char| match (folds, utf8) {
            (false, _) => character,
            (true, true) => case::capital(character),
            (true, false) => character.to_ascii_uppercase(),
        };
        let (first, last) = (key(start), key(end));
        if first > last {
            return Err(InvalidPattern::InvalidRangeEnd);
        }
        if folds && utf8 {
            self.ranges.extend(case::by_capital(first, last));
        } else if start <= end {
            self.ranges.push((start, end));
        }
        Ok(())
    }

    /// Rejects a class used as the start of a range.
    fn no_range(&self) -> Result<(), InvalidPattern> {
        match &self.text[self.at..] {
            [b'-', after, ..] if *after != b']' => Err(InvalidPattern::InvalidRangeEnd),
            _ => Ok(()),
        }
    }

    /// Reads a range endpoint: a character, or `None` for an invalid byte in a regular expression.
    fn end_of_range(&mut self) -> Result<Option<char>, InvalidPattern> {
        if let Some(symbol) = self.quoted(b'.')? {
            return self.only(&symbol);
        }
        if self.place == BracketContext::Glob && self.text.get(self.at) == Some(&b'\\') {
            self.at += 1;
        }
        match (self.alphabet.first(&self.text[self.at..]), self.place) {
            (Some((Ok(character), length)), _) => {
                self.at += length;
                Ok(Some(character))
            }
            (Some((Err(_), length)), BracketContext::Expression) => {
                self.at += length;
                Ok(None)
            }
            _ => Err(InvalidPattern::UnmatchedBracket),
        }
    }

    fn only(&self, text: &[u8]) -> Result<Option<char>, InvalidPattern> {
        match (self.alphabet.first(text), self.place) {
            (Some((Ok(character), length)), _) if length == text.len() => Ok(Some(character)),
            (Some((Err(_), length)), BracketContext::Expression) if length == text.len() => Ok(None),
            _ => Err(InvalidPattern::InvalidCollation),
        }
    }
}
