//! Member names: as the user wrote them, without a prefix that leads out of the
//! extraction directory.

use std::collections::HashSet;
use std::sync::Mutex;

use haul_flow::{Problem, Reporter, lock};

use super::TarKind;
use super::options::Confinement;

/// Returns the length of the prefix to strip: everything up to and including the last `..`, and the
/// slashes that then begin the name.
#[must_use]
pub(super) fn unsafe_prefix(name: &[u8]) -> usize {
    let mut kept = 0;
    let mut start = 0;
    for component in name.split(|byte| *byte == b'/') {
        start += component.len() + 1;
        if component == b".." {
            kept = start.min(name.len());
        }
    }
    kept + name[kept..].iter().take_while(|byte| **byte == b'/').count()
}

/// Reports the prefixes that are stripped, each one once.
pub(super) struct PrefixReporter {
    confinement: Confinement,
    reported: Mutex<HashSet<(TarKind, Vec<u8>)>>,
}

impl PrefixReporter {
    #[must_use]
    pub(super) fn new(confinement: Confinement) -> Self {
        Self { confinement, reported: Mutex::default() }
    }

    /// Reports, as `kind`, the prefix that is stripped from a name.
    pub(super) fn report_stripped(&self, name: &[u8], kind: TarKind, report: &dyn Reporter) {
        let prefix = &name[..unsafe_prefix(name)];
        if self.confinement == Confinement::Absolute || prefix.is_empty() {
            return;
        }
        let is_new = lock(&self.reported).insert((kind, prefix.to_vec()));
        if is_new {
            report.problem(Problem::new(kind).naming(prefix).as_warning());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leads_elsewhere_is_taken_away() {
        let kept = |name: &'static str| &name[unsafe_prefix(name.as_bytes())..];
        assert_eq!(kept("a/b"), "a/b");
        assert_eq!(kept("/a/b"), "a/b");
        assert_eq!(kept("//a"), "a");
        assert_eq!(kept("../a"), "a");
        assert_eq!(kept("a/../..//b"), "b");
        assert_eq!(kept("a/.."), "");
        assert_eq!(kept("a/..b/...c"), "a/..b/...c");
        assert_eq!(kept("./a"), "./a");
        assert_eq!(kept("/"), "");
    }
}
