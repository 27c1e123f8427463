//! Which files and directories are searched, by their names: `--include`, `--exclude`, `--exclude-dir`.
//!
//! The patterns are those of the shell as POSIX has them. A file below a directory is judged by its name alone; what the user
//! named by all of its path, or by an end of it that begins behind a slash.

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use super::glob::{End, Glob, literal};

/// One of the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The pattern.
    pub glob: Vec<u8>,
    /// Whether names that match are searched, rather than not.
    pub include: bool,
}

/// Rules made ready: names without wildcards are looked up, so that a long list of them costs no more than a short one.
#[derive(Debug, Default)]
pub(super) struct Rules {
    /// Names, with the places of the rules that came last, and whether they include.
    names: HashMap<Vec<u8>, (usize, bool)>,
    /// Patterns, with their places.
    globs: Vec<(usize, Glob, bool)>,
    /// Whether the first rule includes; `None` if there is no rule.
    first: Option<bool>,
}

impl Rules {
    /// Makes rules for files ready. As in GNU grep, a pattern with a slash at its end is the name of none.
    pub(super) fn of_files(rules: &[Rule], utf8: bool) -> Self {
        Self::of(rules.iter().map(|rule| (rule.glob.as_slice(), rule.include)), utf8)
    }

    /// Makes rules for directories ready, to which slashes at the end of a pattern say nothing.
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

    /// Tells whether a name is left out: the last rule that fits decides; if none does, the first says what the others are
    /// exceptions from.
    pub(super) fn leave_out(&self, name: &[u8], named_by_user: bool) -> bool {
        let begins = |at: &usize| *at == 0 || (named_by_user && name[at - 1] == b'/' && name[*at] != b'/');
        let starts: Vec<_> = (0..name.len().max(1)).filter(begins).map(|at| &name[at..]).collect();
        let named = starts.iter().filter_map(|name| self.names.get(*name)).max().copied();
        let globs =
            self.globs.iter().rev().take_while(|(place, ..)| named.is_none_or(|named| *place > named.0));
        let fits = |glob: &Glob| starts.iter().any(|name| glob.matches(name, End::Name));
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

    fn rules(rules: &[&str]) -> Rules {
        let rule = |text: &&str| Rule { glob: text[1..].into(), include: text.starts_with('+') };
        Rules::of_files(&rules.iter().map(rule).collect::<Vec<_>>(), true)
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
        assert!(!Rules::default().leave_out(b"", true));
    }
}
