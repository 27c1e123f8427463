//! Selection of members: those that the user named, with everything below them, but not
//! those excluded.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_flow::{Problem, Reporter};

use crate::prefix::{PrefixReporter, unsafe_prefix};
use crate::{Confinement, Excludes, Options, TarKind};

/// Operands and exclusions.
pub(crate) struct MemberSelection {
    excludes: Excludes,
    /// Names without trailing slashes, and of each the index of its first operand, and whether that
    /// selects what is below the name, too.
    named: HashMap<Vec<u8>, (usize, bool)>,
    /// Length of the longest of them.
    longest: usize,
    found: Vec<(Vec<u8>, AtomicBool)>,
}

impl MemberSelection {
    pub(crate) fn new(options: &Options) -> Self {
        let excludes = Excludes::new(options);
        let names: Vec<_> = options.named.iter().map(|named| named.name.as_bytes().to_vec()).collect();
        // In reverse: of operands with the same name, the first stays.
        let named = options.named.iter().enumerate().rev().map(|(index, named)| {
            let name = without_slashes(named.name.as_bytes()).to_vec();
            (name, (index, !named.no_recursion))
        });
        Self {
            excludes,
            longest: names.iter().map(|name| without_slashes(name).len()).max().unwrap_or_default(),
            named: named.collect(),
            found: names.into_iter().map(|name| (name, AtomicBool::new(false))).collect(),
        }
    }

    /// Returns `None` if a member is not wanted; otherwise the operand that selects it, if there
    /// are operands.
    pub(crate) fn wants(&self, name: &[u8]) -> Option<Option<usize>> {
        let operand = match self.named.is_empty() {
            true => None,
            false => Some(self.operand(without_slashes(name))?),
        };
        if let Some((_, found)) = operand.and_then(|index| self.found.get(index)) {
            found.store(true, Ordering::Relaxed);
        }
        (self.excludes.is_empty() || !self.excludes.leaves_out(name)).then_some(operand)
    }

    fn operand(&self, name: &[u8]) -> Option<usize> {
        let ends = name.iter().enumerate().filter(|(_, byte)| **byte == b'/').map(|(at, _)| at);
        // No prefix that is longer than the longest operand.
        let ends = ends.chain([name.len()]).take_while(|end| *end <= self.longest);
        let selecting = ends.filter_map(|end| {
            let (index, recurses) = *self.named.get(&name[..end])?;
            (recurses || end == name.len()).then_some(index)
        });
        // The one that was named first.
        selecting.min()
    }

    /// Reports operands that were not found; returns true if there are any.
    pub(crate) fn report_missing(&self, report: &dyn Reporter) -> bool {
        let mut any = false;
        for (name, _) in self.found.iter().filter(|(_, found)| !found.load(Ordering::Relaxed)) {
            any = true;
            report.problem(Problem::new(TarKind::NotFound).naming(name.as_slice()));
        }
        any
    }
}

/// Returns a name without a prefix that leads out of the extraction directory, which is reported
/// as `kind`.
pub(crate) fn confined<'a>(
    prefixes: &PrefixReporter,
    options: &Options,
    name: &'a [u8],
    kind: TarKind,
    report: &dyn Reporter,
) -> &'a [u8] {
    if options.confinement == Confinement::Absolute {
        return name;
    }
    prefixes.report_stripped(name, kind, report);
    let kept = &name[unsafe_prefix(name)..];
    if kept.is_empty() { b"." } else { kept }
}

/// Returns the target of a hard link below the root: like a name, without the stripped components.
pub(crate) fn link_target(
    prefixes: &PrefixReporter,
    options: &Options,
    link: &[u8],
    report: &dyn Reporter,
) -> Vec<u8> {
    let link = confined(prefixes, options, link, TarKind::RemovingLinkPrefix, report);
    stripped(link, options.strip_components).unwrap_or_default()
}

/// Strips leading components; `None` if nothing is left.
pub(crate) fn stripped(path: &[u8], count: usize) -> Option<Vec<u8>> {
    let mut rest = path;
    for _ in 0..count {
        let slash = rest.iter().position(|byte| *byte == b'/')?;
        let behind = rest[slash..].iter().position(|byte| *byte != b'/')?;
        rest = &rest[slash + behind..];
    }
    Some(rest.to_vec())
}

fn without_slashes(name: &[u8]) -> &[u8] {
    match name.iter().rposition(|byte| *byte != b'/') {
        Some(last) => &name[..=last],
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TarOperand;

    #[test]
    fn the_operand_named_first_selects() {
        let names =
            [c"a/b", c"a", c"a/c"].map(|name| TarOperand { name: name.to_owned(), ..TarOperand::default() });
        let options = Options { named: names.to_vec(), ..Options::default() };
        let selection = MemberSelection::new(&options);
        let selecting = ["a/b", "a/b/x", "a", "a/c"].map(|name| selection.wants(name.as_bytes()));
        assert_eq!(selecting, [0, 0, 1, 1].map(|index| Some(Some(index))));
    }

    #[test]
    fn a_name_selects_only_itself_without_recursion() {
        let name = TarOperand { name: c"a/b/".to_owned(), no_recursion: true, ..TarOperand::default() };
        let options = Options { named: vec![name], ..Options::default() };
        let selection = MemberSelection::new(&options);
        let selecting = ["a/b", "a/b/", "a/b/c"].map(|name| selection.wants(name.as_bytes()).is_some());
        assert_eq!(selecting, [true, true, false]);
    }

    #[test]
    fn a_name_selects_itself_and_what_is_below() {
        let names = [c"a/b", c"c/"].map(|name| TarOperand { name: name.to_owned(), ..TarOperand::default() });
        let options = Options { named: names.to_vec(), ..Options::default() };
        let selection = MemberSelection::new(&options);
        for wanted in ["a/b", "a/b/", "a/b/c", "c", "c/d"] {
            assert!(selection.wants(wanted.as_bytes()).is_some(), "{wanted}");
        }
        for other in ["a", "a/", "a/bc", "b", "x/c"] {
            assert!(selection.wants(other.as_bytes()).is_none(), "{other}");
        }
    }
}
