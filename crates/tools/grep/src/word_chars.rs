//! Word characters, and the word assertions of patterns.
//!
//! They are the letters and digits of the C library, and the underscore. The regex engine has
//! Unicode's instead, which include marks.

use haul_patterns::bracket::Alphabet;
use regex_syntax::hir::{Class, Look};

pub(super) struct WordChars {
    alphabet: Alphabet,
    set: Class,
}

impl WordChars {
    pub(super) fn new(alphabet: Alphabet) -> Self {
        // Folding case would only add to the set.
        let alphabet = Alphabet { ignore_case: false, ..alphabet };
        Self { alphabet, set: alphabet.class(b"word") }
    }

    /// True if the character before a position is a word character.
    pub(super) fn are_before(&self, text: &[u8], at: usize) -> bool {
        let most = if self.alphabet.utf8 { at.min(4) } else { at.min(1) };
        // The longest valid sequence that ends here is the character. An invalid byte is not
        // a letter.
        (1..=most).rev().any(|length| {
            let whole = self.alphabet.first(&text[at - length..at]);
            whole.is_some_and(|(first, taken)| taken == length && self.has(first))
        })
    }

    /// True if the character after a position is a word character.
    pub(super) fn are_after(&self, text: &[u8], at: usize) -> bool {
        self.alphabet.first(&text[at..]).is_some_and(|(first, _)| self.has(first))
    }

    fn has(&self, first: Result<char, u8>) -> bool {
        match (&self.set, first) {
            (Class::Unicode(set), Ok(character)) => {
                let after = set.ranges().partition_point(|range| range.end() < character);
                set.ranges().get(after).is_some_and(|range| range.start() <= character)
            }
            (Class::Bytes(set), Ok(character)) => {
                let ranges =
                    set.ranges().iter().map(|range| char::from(range.start())..=char::from(range.end()));
                ranges.into_iter().any(|range| range.contains(&character))
            }
            // An invalid byte is not a letter.
            (_, Err(_)) => false,
        }
    }

    /// Evaluates a word assertion; `None` if the assertion is of another kind.
    pub(super) fn are_at(&self, look: Look, text: &[u8], at: usize) -> Option<bool> {
        let holds: fn(bool, bool) -> bool = match look {
            Look::WordAscii | Look::WordUnicode => |before, after| before != after,
            Look::WordAsciiNegate | Look::WordUnicodeNegate => |before, after| before == after,
            Look::WordStartAscii | Look::WordStartUnicode => |before, after| !before && after,
            Look::WordEndAscii | Look::WordEndUnicode => |before, after| before && !after,
            _ => return None,
        };
        Some(holds(self.are_before(text, at), self.are_after(text, at)))
    }

    pub(super) fn length(&self, text: &[u8]) -> usize {
        self.alphabet.first(text).map_or(1, |(_, length)| length)
    }
}
