//! Bracket expressions of regular expressions and of globs, `[a-z[:digit:]]`, as sets of characters.

use regex_syntax::hir::{Class, ClassBytes, ClassBytesRange, ClassUnicode, ClassUnicodeRange, HirKind};

use super::pattern::Refused;

/// What a character is, and which case is ignored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Alphabet {
    /// Whether text is UTF-8; else every byte is a character.
    pub(super) utf8: bool,
    /// Whether upper and lower case are the same.
    pub(super) ignore_case: bool,
    /// The byte that ends a line, which no set has.
    pub(super) terminator: u8,
}

/// Characters that Unicode folds to letters and the C library does not.
const NOT_FOLDED: [char; 3] = ['\u{2126}', '\u{212a}', '\u{212b}'];

impl Alphabet {
    /// Returns the set of one character.
    pub(super) fn one(self, character: char) -> Class {
        self.set(&[(character, character)], false)
    }

    /// Returns the set of all characters but the end of a line.
    pub(super) fn any(self) -> Class {
        self.set(&[], true)
    }

    /// Returns the set of these ranges, or of all others.
    pub(super) fn set(self, ranges: &[(char, char)], negated: bool) -> Class {
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

    /// Ignores case, turns round and leaves out the end of a line, in this order.
    fn finished(self, mut class: Class, negated: bool) -> Class {
        match &mut class {
            Class::Unicode(set) => {
                if self.ignore_case {
                    let kept = set.clone();
                    // The tables are compiled in; without them case would not be ignored.
                    set.try_case_fold_simple().unwrap_or_default();
                    let mut foreign =
                        ClassUnicode::new(NOT_FOLDED.map(|folded| ClassUnicodeRange::new(folded, folded)));
                    foreign.difference(&kept);
                    set.difference(&foreign);
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

    /// Returns a class of characters by its name, as the C library has it.
    fn named(self, name: &[u8]) -> Option<Vec<(char, char)>> {
        let (unicode, ascii) = match name {
            b"alpha" => (r"[\p{Alphabetic}\p{Nd}--0-9]", r"[A-Za-z]"),
            b"digit" => (r"[0-9]", r"[0-9]"),
            b"alnum" => (r"[\p{Alphabetic}\p{Nd}]", r"[0-9A-Za-z]"),
            b"upper" => (r"[\p{Uppercase}\p{Lt}]", r"[A-Z]"),
            // Of the letters in titlecase the C library has those for both that have both.
            b"lower" => (r"[\p{Lowercase}\x{1c5}\x{1c8}\x{1cb}\x{1f2}]", r"[a-z]"),
            b"space" => (r"[\p{White_Space}--\x{85}\x{a0}\x{2007}\x{202f}]", r"[\t-\r ]"),
            b"blank" => (r"[\t\p{Zs}--\x{a0}\x{2007}\x{202f}]", r"[\t ]"),
            // A space that does not break a line is none, and is a mark.
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

    /// Returns a class of characters by its name, or all others.
    pub(super) fn class(self, name: &[u8], negated: bool) -> Class {
        self.set(&self.named(name).unwrap_or_default(), negated)
    }

    /// Takes the first character of a text; of bytes that are none, or where every byte is one, a byte.
    pub(super) fn first(self, text: &[u8]) -> Option<(Result<char, u8>, usize)> {
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

/// Reads a bracket expression whose `[` was read; returns the set and how long the rest of it is.
///
/// # Errors
/// Why it is none.
pub(super) fn read(text: &[u8], alphabet: Alphabet, negators: &[u8]) -> Result<(Class, usize), Refused> {
    let mut reader = Reader { text, at: 0, alphabet, ranges: Vec::new() };
    let negated = text.first().is_some_and(|byte| negators.contains(byte));
    reader.at = usize::from(negated);
    let begin = reader.at;
    loop {
        let rest = &text[reader.at..];
        match rest {
            [] => return Err(Refused("Unmatched [, [^, [:, [., or [=")),
            [b']', ..] if reader.at > begin => break,
            _ => reader.item()?,
        }
    }
    let colons = reader.at - begin > 1 && text[begin] == b':' && text[reader.at - 1] == b':';
    if colons && !negated {
        return Err(Refused("character class syntax is [[:space:]], not [:space:]"));
    }
    Ok((alphabet.set(&reader.ranges, negated), reader.at + 1))
}

struct Reader<'a> {
    text: &'a [u8],
    at: usize,
    alphabet: Alphabet,
    ranges: Vec<(char, char)>,
}

impl Reader<'_> {
    /// Reads what stands between brackets of their own, as in `[:alpha:]`, if something does.
    fn quoted(&mut self, kind: u8) -> Result<Option<Vec<u8>>, Refused> {
        let rest = &self.text[self.at..];
        if !rest.starts_with(&[b'[', kind]) {
            return Ok(None);
        }
        let inner = &rest[2..];
        let end = inner.windows(2).position(|pair| pair == [kind, b']']);
        let end = end.ok_or(Refused("Unmatched [, [^, [:, [., or [="))?;
        self.at += end + 4;
        Ok(Some(inner[..end].to_vec()))
    }

    fn item(&mut self) -> Result<(), Refused> {
        if let Some(name) = self.quoted(b':')? {
            // Where case is ignored, letters of one case are letters of any, and of none.
            let is_cased = matches!(name.as_slice(), b"upper" | b"lower");
            let name = if is_cased && self.alphabet.ignore_case { b"alpha" } else { name.as_slice() };
            let class = self.alphabet.named(name).ok_or(Refused("Invalid character class name"))?;
            self.ranges.extend(class);
            return self.no_range();
        }
        if let Some(same) = self.quoted(b'=')? {
            let character = self.only(&same)?;
            self.ranges.push((character, character));
            return self.no_range();
        }
        let start = self.end_of_range()?;
        let is_range = matches!(&self.text[self.at..], [b'-', after, ..] if *after != b']');
        let end = if is_range {
            self.at += 1;
            if self.text[self.at..].starts_with(b"[:") || self.text[self.at..].starts_with(b"[=") {
                return Err(Refused("Invalid range end"));
            }
            self.end_of_range()?
        } else {
            start
        };
        if start > end {
            return Err(Refused("Invalid range end"));
        }
        self.ranges.push((start, end));
        Ok(())
    }

    /// Checks that what was read is not taken for the beginning of a range.
    fn no_range(&self) -> Result<(), Refused> {
        match &self.text[self.at..] {
            [b'-', after, ..] if *after != b']' => Err(Refused("Invalid range end")),
            _ => Ok(()),
        }
    }

    fn end_of_range(&mut self) -> Result<char, Refused> {
        if let Some(symbol) = self.quoted(b'.')? {
            return self.only(&symbol);
        }
        match self.alphabet.first(&self.text[self.at..]) {
            Some((Ok(character), length)) => {
                self.at += length;
                Ok(character)
            }
            _ => Err(Refused("Unmatched [, [^, [:, [., or [=")),
        }
    }

    fn only(&self, text: &[u8]) -> Result<char, Refused> {
        match self.alphabet.first(text) {
            Some((Ok(character), length)) if length == text.len() => Ok(character),
            _ => Err(Refused("Invalid collation character")),
        }
    }
}
