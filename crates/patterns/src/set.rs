//! Sets of patterns for the name of a file, with alternatives in braces: `*.{c,h}`.
//!
//! A pattern is expanded to plain patterns first, as a shell does, and those are matched by
//! [`Glob`]. Three things are stricter or wider than in a shell:
//!
//! * What a shell would take literally is refused: an unclosed bracket or brace, a `\` at the end,
//!   a range that ends before it begins.
//! * `**/` at the start of a pattern or an alternative stands for any directories, of which a name
//!   has none. `**/` alone matches every name.
//! * In brackets only ranges, `!` and `^` are special. Empty alternatives are dropped: `a{,b}` is
//!   `ab`.

use std::collections::HashSet;

use crate::glob::{Glob, MatchEnd, literal};

/// Maximum size of the expansion of a pattern, in bytes.
const EXPANDED_BYTES_MAX: usize = 4 << 20;
const DEPTH_MAX: usize = 100;

/// Patterns of which any may match.
#[derive(Clone, Debug, Default)]
pub struct GlobSet {
    /// Patterns without wildcards.
    names: HashSet<Vec<u8>>,
    globs: Vec<Glob>,
}

impl GlobSet {
    /// Compiles patterns. With `utf8`, `?` and brackets match characters.
    ///
    /// # Errors
    /// The first invalid pattern.
    pub fn new(patterns: &[String], utf8: bool) -> Result<Self, String> {
        let mut set = Self::default();
        for pattern in patterns {
            let plain = expand(pattern.as_bytes()).ok_or_else(|| pattern.clone())?;
            for plain in plain {
                if let Some(name) = literal(&plain) {
                    set.names.insert(name);
                    continue;
                }
                let glob = Glob::new(&plain, utf8);
                if glob.is_invalid() {
                    return Err(pattern.clone());
                }
                set.globs.push(glob);
            }
        }
        Ok(set)
    }

    /// True if there are no patterns.
    pub fn is_empty(&self) -> bool {
        self.names.is_empty() && self.globs.is_empty()
    }

    /// True if any pattern matches the whole name.
    pub fn matches(&self, name: &[u8]) -> bool {
        self.names.contains(name) || self.globs.iter().any(|glob| glob.matches(name, MatchEnd::Name))
    }
}

/// Expands the braces of a pattern; `None` if it is invalid.
fn expand(pattern: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut reader = SetReader { rest: pattern, size: pattern.len(), depth: 0 };
    reader.skip_directories();
    if reader.rest.is_empty() && !pattern.is_empty() {
        return Some(vec![b"*".to_vec()]);
    }
    reader.branch()
}

struct SetReader<'a> {
    rest: &'a [u8],
    /// Length of the whole pattern. An alternative is at most twice as long.
    size: usize,
    depth: usize,
}

impl SetReader<'_> {
    fn skip_directories(&mut self) {
        while let Some(rest) = self.rest.strip_prefix(b"**/") {
            self.rest = rest;
        }
    }

    fn take(&mut self, length: usize) -> &[u8] {
        let (taken, rest) = self.rest.split_at(length);
        self.rest = rest;
        taken
    }

    /// Reads to the end of the pattern or, in braces, up to `,` or `}`.
    fn branch(&mut self) -> Option<Vec<Vec<u8>>> {
        self.skip_directories();
        let mut plain = vec![Vec::new()];
        loop {
            let part = match self.rest {
                [] => return (self.depth == 0).then_some(plain),
                [b',' | b'}', ..] if self.depth > 0 => return Some(plain),
                [b'}', ..] | [b'\\'] => return None,
                [b'{', ..] => {
                    let parts = self.alternatives()?;
                    if plain.len() * parts.len() * self.size > EXPANDED_BYTES_MAX {
                        return None;
                    }
                    let pairs =
                        plain.iter().flat_map(|first| parts.iter().map(move |second| (first, second)));
                    plain = pairs.map(|(first, second)| [first.as_slice(), second].concat()).collect();
                    continue;
                }
                [b'[', ..] => self.bracket()?,
                [b'\\', ..] => self.take(2).to_vec(),
                _ => self.take(1).to_vec(),
            };
            plain.iter_mut().for_each(|plain| plain.extend_from_slice(&part));
        }
    }

    /// Reads `{`, alternatives and `}`.
    fn alternatives(&mut self) -> Option<Vec<Vec<u8>>> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return None;
        }
        let mut all = Vec::new();
        let mut closed = false;
        while !closed {
            self.take(1);
            all.extend(self.branch()?.into_iter().filter(|plain| !plain.is_empty()));
            closed = self.rest.first() == Some(&b'}');
        }
        self.take(1);
        self.depth -= 1;
        if all.is_empty() {
            all.push(Vec::new());
        }
        Some(all)
    }

    /// Reads a bracket expression, and quotes characters that are special in a shell pattern.
    fn bracket(&mut self) -> Option<Vec<u8>> {
        let begin = 1 + usize::from(matches!(self.rest.get(1), Some(b'!' | b'^')));
        // A `]` at the start is literal.
        let length = 1 + self.rest.get(begin + 1..)?.iter().position(|byte| *byte == b']')?;
        let mut plain = self.take(begin).to_vec();
        for byte in self.take(length) {
            plain.extend(matches!(byte, b'[' | b'\\').then_some(b'\\'));
            plain.push(*byte);
        }
        plain.extend_from_slice(self.take(1));
        Some(plain)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The name, if the pattern is valid and matches it.
    fn matches(pattern: &str, name: &str) -> Option<bool> {
        GlobSet::new(&[pattern.to_owned()], true).ok().map(|set| set.matches(name.as_bytes()))
    }

    #[test]
    fn alternatives_are_matched_one_by_one() {
        for (pattern, name, expected) in [
            ("*.{c,h}", "a.c", true),
            ("*.{c,h}", "a.{c,h}", false),
            ("{a,b{c,[,}]}}x", "b}x", true),
            ("{a,b{c,[,}]}}x", "bx", false),
            (r"{a\,b,c}", "a,b", true),
            ("a{,b}", "a", false),
            ("a{}{,}", "a", true),
            ("a,b", "a,b", true),
            ("**/{a,**/b*}", "bc", true),
            ("**", "a", true),
            ("**/", "a", true),
            ("a/**", "a", false),
        ] {
            assert_eq!(matches(pattern, name), Some(expected), "{pattern} {name}");
        }
    }

    #[test]
    fn characters_are_whole_where_the_locale_has_them() {
        for (pattern, utf8, expected) in [
            ("?", true, Some(true)),
            ("?", false, Some(false)),
            ("[é]", true, Some(true)),
            ("[è]", true, Some(false)),
            ("[à-ê]", true, Some(true)),
            ("[ê-à]", true, None),
            // The C library also tries the bytes.
            ("??", true, Some(true)),
            ("??", false, Some(true)),
        ] {
            let set = GlobSet::new(&[pattern.to_owned()], utf8).ok();
            assert_eq!(set.map(|set| set.matches("é".as_bytes())), expected, "{pattern} {utf8}");
        }
    }

    #[test]
    fn only_ranges_are_special_in_brackets() {
        for (pattern, name) in
            [("[[:alpha:]", ":"), (r"[\]", r"\"), ("[]a]", "]"), ("[!a-c]", "d"), ("[a-]", "-")]
        {
            assert_eq!(matches(pattern, name), Some(true), "{pattern} {name}");
        }
        assert_eq!(matches("[[:alpha:]]", "b"), Some(false));
        assert_eq!(matches("[[:alpha:]]", ":]"), Some(true));
    }

    #[test]
    fn what_is_unfinished_or_too_large_is_refused() {
        for pattern in ["[a", "[]", "{a", "{a,{b}", "a}", r"a\", "[z-a]", r"{[z-a]\", "{a,[b}"] {
            assert_eq!(matches(pattern, "a"), None, "{pattern}");
        }
        assert_eq!(matches(&"{a,b}".repeat(30), "a"), None);
        assert_eq!(matches(&"{".repeat(100_000), "a"), None);
        assert_eq!(matches(&"{a,b}".repeat(8), "abababab"), Some(true));
    }

    proptest::proptest! {
        #[test]
        fn names_in_braces_match_themselves_alone(names in proptest::collection::vec("[a-c.]{1,4}", 1..5), other in "[a-c.]{0,4}") {
            let pattern = format!("{{{}}}", names.join(","));
            proptest::prop_assert_eq!(matches(&pattern, &other), Some(names.contains(&other)));
        }
    }
}
