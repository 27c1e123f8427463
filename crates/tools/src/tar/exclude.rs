//! What is left out: patterns of `--exclude`, as GNU tar matches them.
//!
//! A pattern is matched against a member's name, and unless it is anchored against what follows any slash in it. `*` and `?`
//! match slashes too. A pattern that matches a name leaves out what is below it as well: where a tree is walked by not
//! entering it, where an archive is read because a pattern may also match any beginning of a name that ends before a slash.

use regex_syntax::hir::{Hir, Look};

use super::options::{Exclude, Options};
use crate::grep::glob::Glob;

/// The patterns of a run.
#[derive(Clone, Debug, Default)]
pub struct Excludes(Vec<Glob>);

impl Excludes {
    /// Makes the patterns ready.
    #[must_use]
    pub fn new(options: &Options) -> Self {
        Self(options.excludes.iter().filter_map(|exclude| exclude.ready(options.utf8)).collect())
    }

    /// Tells whether there is no pattern.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Tells whether a member of this name is left out, by itself or with a directory above it.
    #[must_use]
    pub fn leaves_out(&self, name: &[u8]) -> bool {
        let name = name.strip_suffix(b"/").unwrap_or(name);
        !name.is_empty() && self.0.iter().any(|pattern| pattern.matches(name))
    }
}

impl Exclude {
    /// Makes a pattern as `--exclude` has it: a shell's, matched behind any slash.
    #[must_use]
    pub fn of(pattern: &[u8]) -> Self {
        Self { pattern: pattern.to_vec(), anchored: false }
    }

    /// Makes it ready; an empty one matches nothing.
    fn ready(&self, utf8: bool) -> Option<Glob> {
        if self.pattern.is_empty() {
            return None;
        }
        let slash = || Hir::literal(*b"/");
        Glob::new(&self.pattern, utf8, |hir| {
            let begin = match self.anchored {
                true => Hir::look(Look::Start),
                false => Hir::alternation(vec![Hir::look(Look::Start), slash()]),
            };
            Hir::concat(vec![begin, hir, Hir::alternation(vec![slash(), Hir::look(Look::End)])])
        })
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
        // As for GNU tar: no name that is matched ends with a slash.
        assert!(!leaves_out(of("b/"), "a/b/") && !leaves_out(of("b/"), "a/b/c"));
        assert!(!leaves_out(of("b"), "a/bc"));
        assert!(leaves_out(of("*.git"), "x/.git/config"));
        let anchored = || Exclude { anchored: true, ..of("b") };
        assert!(!leaves_out(anchored(), "a/b"));
        assert!(leaves_out(anchored(), "b/a"));
    }

    #[test]
    fn where_names_are_bytes_one_of_them_is_not_a_character() {
        let of =
            |utf8| Excludes::new(&Options { excludes: vec![Exclude::of(b"?")], utf8, ..Options::default() });
        assert!(of(false).leaves_out(b"\xe9") && !of(false).leaves_out("é".as_bytes()));
        // What is no text is bytes whatever the locale.
        assert!(of(true).leaves_out(b"\xe9") && of(true).leaves_out("é".as_bytes()));
    }
}
