//! Patterns of `--exclude`, matched as GNU tar does.
//!
//! A pattern is matched against a member's name and, unless it is anchored, against the rest after
//! any slash in it. `*` and `?` match slashes too. Excluding a name also excludes everything below
//! it: a walk does not enter it, and for a reader a pattern may also match any prefix of a name
//! that ends before a slash.

use std::collections::HashSet;

use super::options::{Exclude, Options};
use haul_patterns::glob::{Glob, MatchEnd, literal};

/// Compiled exclusion patterns. Those without wildcards are in hash tables, so that a long list
/// costs no more than a short one.
#[derive(Clone, Debug, Default)]
pub struct Excludes {
    anchored: Literals,
    floating: Literals,
    /// Patterns with wildcards; the flag is true if the pattern is anchored.
    globs: Vec<(Glob, bool)>,
}

/// Patterns without wildcards, each one or more whole components.
#[derive(Clone, Debug, Default)]
struct Literals {
    texts: HashSet<Vec<u8>>,
    /// Distinct numbers of components that the texts have.
    counts: Vec<usize>,
}

impl Literals {
    fn insert(&mut self, text: Vec<u8>) {
        let count = text.split(|byte| *byte == b'/').count();
        if !self.counts.contains(&count) {
            self.counts.push(count);
        }
        self.texts.insert(text);
    }

    /// True if a text equals the components of `name` from the `first` one on. `components` has the
    /// start of each component, and where another after the last would start.
    fn has(&self, name: &[u8], components: &[usize], first: usize) -> bool {
        self.counts.iter().any(|count| {
            let end = components.get(first + count);
            end.is_some_and(|end| self.texts.contains(&name[components[first]..end - 1]))
        })
    }
}

impl Excludes {
    /// Compiles the patterns.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        let mut excludes = Self::default();
        // An empty pattern matches nothing.
        for Exclude { pattern, anchored } in options.excludes.iter().filter(|one| !one.pattern.is_empty()) {
            match literal(pattern) {
                Some(text) if *anchored => excludes.anchored.insert(text),
                Some(text) => excludes.floating.insert(text),
                None => excludes.globs.push((Glob::new(pattern, options.utf8), *anchored)),
            }
        }
        excludes
    }

    /// True if there are no patterns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.globs.is_empty() && self.anchored.texts.is_empty() && self.floating.texts.is_empty()
    }

    /// True if a member of this name is excluded, by itself or with a directory above it.
    #[must_use]
    pub fn leaves_out(&self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        if name.is_empty() {
            return false;
        }
        let slashes = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at + 1);
        let components: Vec<_> = std::iter::once(0).chain(slashes).chain([name.len() + 1]).collect();
        let starts = &components[..components.len() - 1];
        self.anchored.has(name, &components, 0)
            || (0..starts.len()).any(|first| self.floating.has(name, &components, first))
            || self.globs.iter().any(|(glob, is_anchored)| {
                let starts = if *is_anchored || glob.begins_anywhere() { &starts[..1] } else { starts };
                // In GNU tar, patterns without wildcards may match behind the first of two slashes.
                let begins = |start: &&usize| **start == 0 || name[**start] != b'/';
                starts.iter().filter(begins).any(|start| glob.matches(&name[*start..], MatchEnd::Component))
            })
    }
}

impl Exclude {
    /// Makes a pattern as given to `--exclude`: a shell pattern, not anchored.
    #[must_use]
    pub fn of(pattern: &[u8]) -> Self {
        Self { pattern: pattern.to_vec(), anchored: false }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn leaves_out(exclude: Exclude, name: &str) -> bool {
        let options = Options { excludes: vec![exclude], utf8: true, ..Options::default() };
        Excludes::new(&options).leaves_out(name.as_bytes())
    }

    #[test]
    fn a_glob_matches_as_a_shells() {
        for (pattern, name, wanted) in [
            ("*.o", "a.o", true),
            ("*.o", "a/b.o", true),
            ("*.o", "a.oo", false),
            ("a*b*c", "aXbYbZc", true),
            ("a*b*c", "aXbYbZ", false),
            ("?", "", false),
            ("?", "é", true),
            ("?", "éé", false),
            ("?", "\n", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("[!a-c]x", "éx", true),
            ("[]x]", "]", true),
            ("[\\]]", "]", true),
            ("[[:alpha:]_]x", "_x", true),
            ("[[:alpha:]_]x", "éx", true),
            ("[![:digit:]]x", "1x", false),
            ("[[=a=][.b.]]", "b", true),
            ("[[:none:]]", "[:]", false),
            ("[z-a]", "[z-a]", false),
            ("[a", "[a", true),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("", "a", false),
            ("***", "a", true),
        ] {
            assert_eq!(leaves_out(Exclude::of(pattern.as_bytes()), name), wanted, "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_is_matched_behind_any_slash_and_leaves_out_what_is_below() {
        let of = |pattern: &str| Exclude::of(pattern.as_bytes());
        assert!(leaves_out(of("b"), "a/b"));
        assert!(leaves_out(of("b"), "a/b/c"));
        assert!(leaves_out(of("a/b"), "x/a/b/"));
        // GNU tar, too, matches names without a trailing slash.
        assert!(!leaves_out(of("b/"), "a/b/") && !leaves_out(of("b/"), "a/b/c"));
        assert!(!leaves_out(of("b"), "a/bc"));
        assert!(leaves_out(of("*.git"), "x/.git/config"));
        // As in GNU tar, too.
        assert!(leaves_out(of("/b"), "a//b") && !leaves_out(of("/[b]"), "a//b"));
        let anchored = || Exclude { anchored: true, ..of("b") };
        assert!(!leaves_out(anchored(), "a/b"));
        assert!(leaves_out(anchored(), "b/a"));
    }

    #[test]
    fn patterns_without_wildcards_are_looked_up_and_match_as_others_do() {
        let patterns: Vec<_> =
            (0..16_000).map(|number| format!("dir{}/file\\-{number}", number % 7)).collect();
        let excludes = patterns.iter().map(|pattern| Exclude::of(pattern.as_bytes())).collect();
        let excludes = Excludes::new(&Options { excludes, utf8: true, ..Options::default() });
        assert!(excludes.globs.is_empty());
        assert_eq!((excludes.floating.texts.len(), excludes.floating.counts.len()), (16_000, 1));
        assert!(excludes.leaves_out(b"a/dir3/file-3/x") && !excludes.leaves_out(b"a/dir3/file-4"));
    }

    proptest::proptest! {
        #[test]
        fn a_literal_matches_as_the_same_pattern_with_a_wildcard_for_one_byte(
            text in "[ab/]{1,5}", name in "/?([ab]/?){1,6}", anchored in proptest::bool::ANY,
        ) {
            let of = |pattern: String| leaves_out(Exclude { anchored, ..Exclude::of(pattern.as_bytes()) }, &name);
            let bracketed: String = text.chars().map(|byte| format!("[{byte}]")).collect();
            // A bracket expression matches a slash here, as `*` does.
            proptest::prop_assert_eq!(of(text.clone()), of(bracketed));
        }
    }

    #[test]
    fn where_names_are_bytes_one_of_them_is_not_a_character() {
        let of =
            |utf8| Excludes::new(&Options { excludes: vec![Exclude::of(b"?")], utf8, ..Options::default() });
        assert!(of(false).leaves_out(b"\xe9") && !of(false).leaves_out("é".as_bytes()));
        // A name that is not valid UTF-8 is bytes in any locale.
        assert!(of(true).leaves_out(b"\xe9") && of(true).leaves_out("é".as_bytes()));
    }
}
