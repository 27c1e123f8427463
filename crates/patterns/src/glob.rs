//! POSIX shell patterns: `*`, `?`, `[...]`, and `\` to quote.
//!
//! Pattern lists can be long (`tar -X`, `grep --exclude-from`), so a compiled pattern takes about
//! as much memory as its text. It is matched token by token, backtracking to the last star, as
//! fnmatch(3) does. A pattern without wildcards is a plain string ([`literal`]), and thousands of
//! those are looked up at once.

use regex_syntax::hir::Class;

use super::InvalidPattern;
use super::bracket::{self, Alphabet, BracketContext};

/// Returns the only string that a pattern matches, if it has no wildcards.
pub fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
    let (mut text, mut rest) = (Vec::with_capacity(pattern.len()), pattern);
    loop {
        rest = match rest {
            [] => return Some(text),
            [b'*' | b'?' | b'[', ..] => return None,
            [b'\\', byte, more @ ..] | [byte, more @ ..] => {
                text.push(*byte);
                more
            }
        };
    }
}

/// A compiled pattern.
#[derive(Clone, Debug)]
pub struct Glob {
    /// Tokens for matching by character. `None` if the locale or the pattern is not UTF-8, or if it
    /// makes no difference.
    by_characters: Option<Vec<GlobToken>>,
    /// Tokens for matching by byte.
    by_bytes: Vec<GlobToken>,
}

#[derive(Clone, Debug)]
enum GlobToken {
    Byte(u8),
    /// `*`: any number of bytes.
    Star,
    /// `?`: one character.
    Any,
    Class(Box<Class>),
    Never,
}

/// Where a match may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatchEnd {
    /// At the end of the name.
    Name,
    /// At the end of the name, or before a slash.
    Component,
}

impl Glob {
    /// Compiles a pattern of any length.
    pub fn new(pattern: &[u8], utf8: bool) -> Self {
        let by_bytes = tokens(pattern, false);
        let has_characters =
            by_bytes.iter().any(|token| matches!(token, GlobToken::Any | GlobToken::Class(_)));
        let is_text = utf8 && has_characters && str::from_utf8(pattern).is_ok();
        Self { by_characters: is_text.then(|| tokens(pattern, true)), by_bytes }
    }

    /// True if the pattern matches from the start of a name. A name that is valid UTF-8 may also
    /// match by byte, as in GNU's programs.
    pub fn matches(&self, name: &[u8], end: MatchEnd) -> bool {
        let text = self.by_characters.as_ref().zip(str::from_utf8(name).ok());
        text.is_some_and(|(tokens, text)| matches(tokens, name, Some(text), end))
            || matches(&self.by_bytes, name, None, end)
    }

    /// True if a bracket expression of the pattern is invalid, so that it matches nothing.
    pub fn is_invalid(&self) -> bool {
        let tokens = self.by_characters.as_ref().unwrap_or(&self.by_bytes);
        tokens.iter().any(|token| matches!(token, GlobToken::Never))
    }

    /// True if the pattern begins with a star, so a match at any position is also a match at the
    /// start.
    pub fn begins_anywhere(&self) -> bool {
        matches!(self.by_bytes.first(), Some(GlobToken::Star))
    }
}

fn tokens(glob: &[u8], utf8: bool) -> Vec<GlobToken> {
    let alphabet = Alphabet { utf8, ignore_case: false, terminator: 0 };
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < glob.len() {
        let (token, length) = match &glob[at..] {
            [b'*', ..] => (GlobToken::Star, 1),
            [b'?', ..] => (GlobToken::Any, 1),
            [b'\\', byte, ..] => (GlobToken::Byte(*byte), 2),
            [b'[', rest @ ..] => match bracket::read(rest, alphabet, BracketContext::Glob) {
                Ok((class, length)) => (GlobToken::Class(Box::new(class)), 1 + length),
                Err(InvalidPattern::UnmatchedBracket) => (GlobToken::Byte(b'['), 1),
                // In the C library, an unknown class name makes the whole pattern match nothing.
                Err(_) => return vec![GlobToken::Never],
            },
            [byte, ..] => (GlobToken::Byte(*byte), 1),
            [] => break,
        };
        // Consecutive stars are equivalent to one.
        if !matches!((&token, tokens.last()), (GlobToken::Star, Some(GlobToken::Star))) {
            tokens.push(token);
        }
        at += length;
    }
    tokens.shrink_to_fit();
    tokens
}

/// Matches tokens against a name. `text` is the same name if it is matched by character.
///
/// Backtracking to the last star is enough: it can consume whatever an earlier star could instead.
fn matches(tokens: &[GlobToken], name: &[u8], text: Option<&str>, end: MatchEnd) -> bool {
    let (mut token, mut at) = (0, 0);
    // The token after the last star, and the position in the name last tried for it.
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(token) {
            None if at == name.len() || (end == MatchEnd::Component && name[at] == b'/') => return true,
            None | Some(GlobToken::Never) => None,
            Some(GlobToken::Star) => {
                back = Some((token + 1, at));
                Some(0)
            }
            Some(token) => length(token, name, text, at),
        };
        match (step, back) {
            (Some(bytes), _) => (token, at) = (token + 1, at + bytes),
            (None, Some((behind, tried))) if tried < name.len() => {
                (token, at) = (behind, tried + 1);
                back = Some((behind, at));
            }
            (None, _) => return false,
        }
    }
}

/// Returns how many bytes of a name a token matches.
fn length(token: &GlobToken, name: &[u8], text: Option<&str>, at: usize) -> Option<usize> {
    let first = *name.get(at)?;
    if let GlobToken::Byte(byte) = token {
        return (*byte == first).then_some(1);
    }
    let Some(text) = text else {
        let has = match token {
            GlobToken::Class(class) => has(class, u32::from(first)),
            _ => true,
        };
        return has.then_some(1);
    };
    // Fails in the middle of a character, where backtracking may have led.
    let character = text.get(at..)?.chars().next()?;
    let has = match token {
        GlobToken::Class(class) => has(class, u32::from(character)),
        _ => true,
    };
    has.then_some(character.len_utf8())
}

fn has(class: &Class, number: u32) -> bool {
    match class {
        Class::Unicode(class) => class
            .ranges()
            .iter()
            .any(|range| (u32::from(range.start())..=u32::from(range.end())).contains(&number)),
        Class::Bytes(class) => class
            .ranges()
            .iter()
            .any(|range| (u32::from(range.start())..=u32::from(range.end())).contains(&number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation for literals, stars and question marks: tries everything.
    fn slowly(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => {
                slowly(rest, name) || name.split_first().is_some_and(|(_, name)| slowly(pattern, name))
            }
            ([b'?', rest @ ..], [_, name @ ..]) => slowly(rest, name),
            ([b'\\', byte, rest @ ..], [first, name @ ..]) if byte == first => slowly(rest, name),
            ([b'\\', _, ..], _) => false,
            ([byte, rest @ ..], [first, name @ ..]) if byte == first => slowly(rest, name),
            _ => false,
        }
    }

    proptest::proptest! {
        #[test]
        fn going_back_to_the_last_star_finds_every_match(pattern in "[ab/*?\\\\]{0,8}", name in "[ab/*]{0,10}") {
            let (pattern, name) = (pattern.as_bytes(), name.as_bytes());
            let glob = Glob::new(pattern, true);
            let expected = slowly(pattern, name);
            proptest::prop_assert_eq!(glob.matches(name, MatchEnd::Name), expected);
            if let Some(text) = literal(pattern) {
                proptest::prop_assert_eq!(text == name, expected);
            }
            let ends = (0..=name.len()).filter(|end| *end == name.len() || name[*end] == b'/');
            let by_component = ends.into_iter().any(|end| slowly(pattern, &name[..end]));
            proptest::prop_assert_eq!(glob.matches(name, MatchEnd::Component), by_component);
        }
    }

    #[test]
    fn characters_are_matched_whole_and_never_in_their_middle() {
        let matches = |pattern: &str, name: &str| {
            Glob::new(pattern.as_bytes(), true).matches(name.as_bytes(), MatchEnd::Name)
        };
        assert!(matches("*[é]", "aé") && matches("?", "é") && !matches("[è]", "é") && !matches("a?b", "aéé"));
        assert!(matches("*[!a]", "é"));
    }

    #[test]
    fn a_class_name_without_its_brackets_is_a_set_of_letters() {
        let glob = Glob::new(b"[:space:]", true);
        assert!(
            glob.matches(b"s", MatchEnd::Name)
                && glob.matches(b":", MatchEnd::Name)
                && !glob.matches(b" ", MatchEnd::Name)
        );
    }
}
