//! Which files and directories are searched, by their names: `--include`, `--exclude`, `--exclude-dir`.
//!
//! The patterns are those of the shell as POSIX has them. A file below a directory is judged by its name alone; what the user
//! named by all of its path, or by an end of it that begins behind a slash.

use regex_syntax::hir::{Hir, Look};
use serde::{Deserialize, Serialize};

use super::glob::Glob;

/// One of the options.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rule {
    /// The pattern.
    pub glob: Vec<u8>,
    /// Whether names that match are searched, rather than not.
    pub include: bool,
}

/// Rules made ready.
#[derive(Debug, Default)]
pub(super) struct Rules(Vec<(Glob, bool)>);

impl Rules {
    /// Makes rules for files ready. As in GNU grep, a pattern with a slash at its end is the name of none.
    pub(super) fn of_files(rules: &[Rule], utf8: bool) -> Self {
        Self(rules.iter().filter_map(|rule| ready(&rule.glob, rule.include, utf8)).collect())
    }

    /// Makes rules for directories ready, to which slashes at the end of a pattern say nothing.
    pub(super) fn of_directories(rules: &[Rule], utf8: bool) -> Self {
        let ready = |rule: &Rule| ready(without_slashes(&rule.glob), rule.include, utf8);
        Self(rules.iter().filter_map(ready).collect())
    }

    /// Tells whether a name is left out: the last rule that fits decides; if none does, the first says what the others are
    /// exceptions from.
    pub(super) fn leave_out(&self, name: &[u8], named_by_user: bool) -> bool {
        let fits = |glob: &Glob| {
            let begins =
                |at: &usize| *at == 0 || (named_by_user && name[at - 1] == b'/' && name[*at] != b'/');
            (0..name.len().max(1)).filter(begins).any(|at| glob.matches(&name[at.min(name.len())..]))
        };
        let last = self.0.iter().rev().find(|(glob, _)| fits(glob));
        match (last, self.0.first()) {
            (Some((_, include)), _) => !include,
            (None, Some((_, include))) => *include,
            (None, None) => false,
        }
    }
}

fn ready(glob: &[u8], include: bool, utf8: bool) -> Option<(Glob, bool)> {
    let whole = |hir| Hir::concat(vec![Hir::look(Look::Start), hir, Hir::look(Look::End)]);
    Some((Glob::new(glob, utf8, whole)?, include))
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
    fn what_the_user_named_may_fit_from_a_slash_on() {
        let rules = rules(&["+b/*.c"]);
        assert!(!rules.leave_out(b"a/b/x.c", true));
        assert!(rules.leave_out(b"a/b/x.c", false));
        assert!(rules.leave_out(b"ab/x.c", true));
        assert!(!Rules::default().leave_out(b"", true));
    }
}
