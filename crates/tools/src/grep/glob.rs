//! Patterns of the shell, as POSIX has them: `*`, `?`, `[...]`, and `\` before what means itself.
//!
//! Lists of patterns are long (`tar -X`, `grep --exclude-from`), so a pattern takes about as much memory as its text: it is matched
//! token by token, going back to its last star, as fnmatch(3) does. One without wildcards is a plain text ([`literal`]), of which
//! thousands are looked up at once.

use regex_syntax::hir::Class;

use super::bracket::{self, Alphabet, Place, UNMATCHED};

/// Returns the one text that a pattern matches, if it has no wildcards.
pub(crate) fn literal(pattern: &[u8]) -> Option<Vec<u8>> {
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

/// A pattern made ready.
#[derive(Clone, Debug)]
pub(crate) struct Glob {
    /// For names that are characters of UTF-8, where the locale and the pattern are, if that makes a difference.
    by_characters: Option<Vec<Token>>,
    /// For any, as bytes.
    by_bytes: Vec<Token>,
}

/// A part of a pattern.
#[derive(Clone, Debug)]
enum Token {
    Byte(u8),
    /// `*`: any number of bytes.
    Star,
    /// `?`: a character.
    Any,
    Class(Box<Class>),
    /// What no name matches.
    Never,
}

/// Where a match of a pattern may end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// At the end of the name.
    Name,
    /// There, or before a slash.
    Component,
}

impl Glob {
    /// Makes a pattern ready, however long it is.
    pub(crate) fn new(pattern: &[u8], utf8: bool) -> Self {
        let by_bytes = tokens(pattern, false);
        let has_characters = by_bytes.iter().any(|token| matches!(token, Token::Any | Token::Class(_)));
        let is_text = utf8 && has_characters && str::from_utf8(pattern).is_ok();
        Self { by_characters: is_text.then(|| tokens(pattern, true)), by_bytes }
    }

    /// True if it matches a name from its beginning on. As with GNU's programs, one that is text may also be taken for bytes.
    pub(crate) fn matches(&self, name: &[u8], end: End) -> bool {
        let text = self.by_characters.as_ref().zip(str::from_utf8(name).ok());
        text.is_some_and(|(tokens, text)| matches(tokens, name, Some(text), end))
            || matches(&self.by_bytes, name, None, end)
    }

    /// True if it begins with a star, so that whatever it matches further on it matches from the beginning on.
    pub(crate) fn begins_anywhere(&self) -> bool {
        matches!(self.by_bytes.first(), Some(Token::Star))
    }
}

/// Takes a pattern apart.
fn tokens(glob: &[u8], utf8: bool) -> Vec<Token> {
    let alphabet = Alphabet { utf8, ignore_case: false, terminator: 0 };
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < glob.len() {
        let (token, length) = match &glob[at..] {
            [b'*', ..] => (Token::Star, 1),
            [b'?', ..] => (Token::Any, 1),
            [b'\\', byte, ..] => (Token::Byte(*byte), 2),
            [b'[', rest @ ..] => match bracket::read(rest, alphabet, Place::Glob) {
                Ok((class, length)) => (Token::Class(Box::new(class)), 1 + length),
                Err(UNMATCHED) => (Token::Byte(b'['), 1),
                // As in the C library, a name that is no class's makes the pattern none.
                Err(_) => return vec![Token::Never],
            },
            [byte, ..] => (Token::Byte(*byte), 1),
            [] => break,
        };
        // More stars are no more than one.
        if !matches!((&token, tokens.last()), (Token::Star, Some(Token::Star))) {
            tokens.push(token);
        }
        at += length;
    }
    tokens.shrink_to_fit();
    tokens
}

/// Matches tokens with a name, which is `text` where characters count.
///
/// After a star it is enough to go back to that: what an earlier one could take instead, this one can.
fn matches(tokens: &[Token], name: &[u8], text: Option<&str>, end: End) -> bool {
    let (mut token, mut at) = (0, 0);
    // The token behind the last star, and where in the name that was tried last.
    let mut back: Option<(usize, usize)> = None;
    loop {
        let step = match tokens.get(token) {
            None if at == name.len() || (end == End::Component && name[at] == b'/') => return true,
            None | Some(Token::Never) => None,
            Some(Token::Star) => {
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
fn length(token: &Token, name: &[u8], text: Option<&str>, at: usize) -> Option<usize> {
    let first = *name.get(at)?;
    if let Token::Byte(byte) = token {
        return (*byte == first).then_some(1);
    }
    let Some(text) = text else {
        let has = match token {
            Token::Class(class) => has(class, u32::from(first)),
            _ => true,
        };
        return has.then_some(1);
    };
    // None in the middle of a character, where a star may have led.
    let character = text.get(at..)?.chars().next()?;
    let has = match token {
        Token::Class(class) => has(class, u32::from(character)),
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

    /// Says what a pattern of literals, stars and question marks matches, by trying everything.
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
            proptest::prop_assert_eq!(glob.matches(name, End::Name), expected);
            if let Some(text) = literal(pattern) {
                proptest::prop_assert_eq!(text == name, expected);
            }
            let ends = (0..=name.len()).filter(|end| *end == name.len() || name[*end] == b'/');
            let by_component = ends.into_iter().any(|end| slowly(pattern, &name[..end]));
            proptest::prop_assert_eq!(glob.matches(name, End::Component), by_component);
        }
    }

    #[test]
    fn characters_are_matched_whole_and_never_in_their_middle() {
        let matches = |pattern: &str, name: &str| {
            Glob::new(pattern.as_bytes(), true).matches(name.as_bytes(), End::Name)
        };
        assert!(matches("*[é]", "aé") && matches("?", "é") && !matches("[è]", "é") && !matches("a?b", "aéé"));
        assert!(matches("*[!a]", "é"));
    }
}
