//! Selection of extended attributes to archive and to set: `--xattrs-include`, `--xattrs-exclude`.
//!
//! An archive may hold `security.*` and `trusted.*` of anybody's choice. So extraction sets only
//! `user.*` unless a pattern of the user asks for more, as in GNU tar.

use super::options::Options;
use haul_patterns::glob::{Glob, MatchEnd};

#[derive(Clone, Debug)]
pub(crate) struct XattrSelection {
    include: Vec<Glob>,
    exclude: Vec<Glob>,
}

impl XattrSelection {
    pub(crate) fn new(options: &Options) -> Self {
        let globs =
            |patterns: &[Vec<u8>]| patterns.iter().map(|pattern| Glob::new(pattern, options.utf8)).collect();
        Self { include: globs(&options.xattrs_include), exclude: globs(&options.xattrs_exclude) }
    }

    pub(crate) fn archives(&self, key: &[u8]) -> bool {
        self.wants(key, true)
    }

    pub(crate) fn sets(&self, key: &[u8]) -> bool {
        self.wants(key, key.starts_with(b"user."))
    }

    fn wants(&self, key: &[u8], by_default: bool) -> bool {
        let matches = |globs: &[Glob]| globs.iter().any(|glob| glob.matches(key, MatchEnd::Name));
        let included = if self.include.is_empty() { by_default } else { matches(&self.include) };
        included && !matches(&self.exclude)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_patterns_open_other_namespaces_than_the_users() {
        let of = |include: &[&str], exclude: &[&str]| {
            let patterns = |texts: &[&str]| texts.iter().map(|text| text.as_bytes().to_vec()).collect();
            let (xattrs_include, xattrs_exclude) = (patterns(include), patterns(exclude));
            XattrSelection::new(&Options { xattrs_include, xattrs_exclude, ..Options::default() })
        };
        let plain = of(&[], &[]);
        assert!(plain.sets(b"user.a") && !plain.sets(b"security.capability") && !plain.sets(b"trusted.a"));
        assert!(plain.archives(b"security.capability"));
        let trusted = of(&["trusted.*"], &[]);
        assert!(trusted.sets(b"trusted.a") && !trusted.sets(b"user.a") && !trusted.archives(b"user.a"));
        let all_but = of(&["*"], &["user.*"]);
        assert!(all_but.sets(b"security.a") && !all_but.sets(b"user.a") && !all_but.archives(b"user.a"));
    }
}
