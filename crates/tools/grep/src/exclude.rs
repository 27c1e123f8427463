//! Selects files and directories by name: `--include`, `--exclude`, `--exclude-dir`.
//!
//! Patterns are POSIX shell patterns. A file below a directory is matched by its name alone. An
//! operand is matched by its whole path, or by any suffix that follows a slash.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use haul_patterns::glob::{Glob, MatchEnd, literal};

/// One `--include`, `--exclude` or `--exclude-dir` option.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The pattern.
    pub glob: Vec<u8>,
    /// True for an include rule.
    pub include: bool,
}

/// Compiled rules. Names without wildcards go to a hash table, so long lists cost no more than
/// short ones.
#[derive(Debug, Default)]
pub(super) struct NameRules {
    /// Literal names, each with its last rule: index, and true for an include.
    names: HashMap<Vec<u8>, (usize, bool)>,
    /// Patterns with their rule indices.
    globs: Vec<(usize, Glob, bool)>,
    /// True if the first rule is an include; `None` if there are no rules.
    first: Option<bool>,
}

impl NameRules {
    /// Compiles rules for files. In GNU grep, a pattern that ends in a slash matches no file.
    pub(super) fn of_files(rules: &[Rule], utf8: bool) -> Self {
        Self::of(rules.iter().map(|rule| (rule.glob.as_slice(), rule.include)), utf8)
    }

    /// Compiles rules for directories, ignoring trailing slashes in patterns.
    pub(super) fn of_directories(rules: &[Rule], utf8: bool) -> Self {
        Self::of(rules.iter().map(|rule| (without_slashes(&rule.glob), rule.include)), utf8)
    }

    fn of<'a>(rules: impl Iterator<Item = (&'a [u8], bool)>, utf8: bool) -> Self {
        let mut ready = Self::default();
        for (place, (glob, include)) in rules.enumerate() {
            ready.first.get_or_insert(include);
            match literal(glob) {
                Some(name) => drop(ready.names.insert(name, (place, include))),
                None => ready.globs.push((place, Glob::new(glob, utf8), include)),
            }
        }
        ready
    }

    /// True if a name is excluded. The last matching rule decides. If none matches, the name is
    /// excluded if the first rule is an include.
    pub(super) fn leave_out(&self, name: &[u8], named_by_user: bool) -> bool {
        // The empty name after a trailing slash counts too.
        let begins = |at: &usize| *at == 0 || (named_by_user && name[at - 1] == b'/');
        let starts: Vec<_> = (0..=name.len()).filter(begins).collect();
        let named = starts.iter().filter_map(|at| self.names.get(&name[*at..])).max().copied();
        let globs =
            self.globs.iter().rev().take_while(|(place, ..)| named.is_none_or(|named| *place > named.0));
        // In GNU grep, only a name without wildcards may begin with the second of two slashes.
        let starts = || starts.iter().filter(|at| **at == 0 || name.get(**at) != Some(&b'/'));
        let fits = |glob: &Glob| starts().any(|at| glob.matches(&name[*at..], MatchEnd::Name));
        let globbed = globs.into_iter().find(|(_, glob, _)| fits(glob)).map(|(_, _, include)| *include);
        match globbed.or(named.map(|(_, include)| include)) {
            Some(include) => !include,
            None => self.first.unwrap_or(false),
        }
    }
}

fn without_slashes(glob: &[u8]) -> &[u8] {
    let end = glob.iter().rposition(|byte| *byte != b'/').map_or(glob.len(), |last| last + 1);
    &glob[..end]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(rules: &[&str]) -> NameRules {
        let rule = |text: &&str| Rule { glob: text[1..].into(), include: text.starts_with('+') };
        NameRules::of_files(&rules.iter().map(rule).collect::<Vec<_>>(), true)
    }

    #[test]
    fn the_last_rule_that_fits_decides() {
        let rules = rules(&["-*.o", "+a.*", "-[!b-z].?"]);
        let left_out =
            ["x.o", "a.o", "a.c", "b.c", "é.c", "axo"].map(|name| rules.leave_out(name.as_bytes(), false));
        assert_eq!(left_out, [true, true, true, false, true, false]);
    }

    #[test]
    fn names_without_wildcards_keep_their_place_among_the_rules() {
        let rules = rules(&["-x", "+*.c", "-a.c", "+x", "-y*", "+yy"]);
        assert_eq!((rules.globs.len(), rules.names.len()), (2, 3));
        let left_out =
            ["x", "a.c", "b.c", "y", "yy", "z"].map(|name| rules.leave_out(name.as_bytes(), false));
        assert_eq!(left_out, [false, true, false, true, false, false]);
    }

    #[test]
    fn what_the_user_named_may_fit_from_a_slash_on() {
        let rules = rules(&["+b/*.c"]);
        assert!(!rules.leave_out(b"a/b/x.c", true));
        assert!(rules.leave_out(b"a/b/x.c", false));
        assert!(rules.leave_out(b"ab/x.c", true));
        assert!(!NameRules::default().leave_out(b"", true));
    }

    #[test]
    fn slashes_in_a_name_from_the_user_count_as_in_gnu_grep() {
        for (rule, name, left_out) in [
            ("-", "d/", true),
            ("-", "d", false),
            ("-", "./.", false),
            ("-/x.c", "t//x.c", true),
            ("-/x.?", "t//x.c", false),
            ("-x.?", "t//x.c", true),
            ("-/x.?", "/x.c", true),
        ] {
            assert_eq!(rules(&[rule]).leave_out(name.as_bytes(), true), left_out, "{rule} {name}");
        }
    }
}
