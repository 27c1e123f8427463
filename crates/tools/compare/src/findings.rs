//! Collects the results of a comparison and emits them in path order at the end.
//!
//! Bound: at most [`KEPT_BYTES_MAX`] of differences are kept. Later ones are emitted right after
//! those, unsorted, with a warning.
//!
//! Names of hard-linked files are kept as well, without a bound: groups are known only once all
//! names are, and differences are reported by name. Each takes about 120 bytes plus twice its path.

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use haul_flow::{Problem, Reporter, Standard, lock};
use haul_sys::Identity;
use serde::{Deserialize, Serialize};

use super::CompareKind;
use super::difference::{FoundDifference, What};
use super::options::{DifferenceListing, Options};

/// Maximum size of differences kept for sorting, in bytes.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// A name with hard links, and the file it refers to in each tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Linked {
    pub(super) first: Vec<u8>,
    pub(super) second: Vec<u8>,
    pub(super) files: (Identity, Identity),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryResult {
    pub(super) differences: Vec<FoundDifference>,
    pub(super) linked: Option<Linked>,
}

impl EntryResult {
    pub(super) fn is_empty(&self) -> bool {
        self.differences.is_empty() && self.linked.is_none()
    }
}

#[derive(Default)]
pub(super) struct DifferenceLog {
    kept: Mutex<Kept>,
    different: AtomicBool,
}

#[derive(Default)]
struct Kept {
    differences: Vec<FoundDifference>,
    /// Grows with the number of hard-linked names.
    linked: Vec<Linked>,
    bytes: usize,
    overflowed: bool,
}

impl DifferenceLog {
    pub(super) fn take(&self, result: EntryResult, options: &Options, report: &dyn Reporter) {
        if !result.differences.is_empty() {
            self.different.store(true, Ordering::Relaxed);
        }
        if options.listing == DifferenceListing::Nothing && result.linked.is_none() {
            return;
        }
        let mut kept = lock(&self.kept);
        kept.bytes += result.differences.iter().map(FoundDifference::weight).sum::<usize>();
        kept.differences.extend(result.differences);
        kept.linked.extend(result.linked);
        if kept.bytes > KEPT_BYTES_MAX {
            if !kept.overflowed {
                report.problem(Problem::new(CompareKind::TooMany).as_warning());
            }
            kept.overflowed = true;
            print_kept(&mut kept, options, report);
        }
    }

    /// True if a difference was found so far.
    pub(super) fn are_different(&self) -> bool {
        self.different.load(Ordering::Relaxed)
    }

    /// Emits the remaining differences. Returns true if there were any.
    pub(super) fn finish(&self, options: &Options, report: &dyn Reporter) -> bool {
        let mut kept = lock(&self.kept);
        let linked = std::mem::take(&mut kept.linked);
        let linked = differently_linked(linked);
        if !linked.is_empty() {
            self.different.store(true, Ordering::Relaxed);
        }
        kept.differences.extend(linked);
        print_kept(&mut kept, options, report);
        self.are_different()
    }
}

/// Prints the kept differences, in order.
fn print_kept(kept: &mut Kept, options: &Options, report: &dyn Reporter) {
    // A stable sort keeps the differences of one entry in the order in which they were found.
    kept.differences.sort_by(FoundDifference::order);
    let mut before: Option<FoundDifference> = None;
    for difference in kept.differences.drain(..) {
        match options.listing {
            DifferenceListing::Nothing => {}
            DifferenceListing::Brief if before.as_ref().is_some_and(|before| difference.repeats(before)) => {}
            DifferenceListing::Brief => report.line(difference.line(true)),
            DifferenceListing::Full => match difference.end_of_file() {
                Some(problem) => report.problem(problem),
                None => report.line(difference.line(false)),
            },
            DifferenceListing::Json => report.output(Standard::Output, &difference.json()),
        }
        before = Some(difference);
    }
    kept.bytes = 0;
}

/// Finds the names whose hard-link groups differ between the trees.
///
/// A group is identified by its first name in path order. A name differs if its groups in the two
/// trees are identified by different names.
fn differently_linked(mut linked: Vec<Linked>) -> Vec<FoundDifference> {
    linked.sort_by(|one, another| one.first.cmp(&another.first));
    let (mut first_groups, mut second_groups) = (HashMap::new(), HashMap::new());
    let mut different = Vec::new();
    for (index, name) in linked.into_iter().enumerate() {
        let first = *first_groups.entry(name.files.0).or_insert(index);
        let second = *second_groups.entry(name.files.1).or_insert(index);
        if first != second {
            different.push(FoundDifference { first: name.first, second: name.second, what: What::Links });
        }
    }
    different
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linked(name: &str, first: u64, second: u64) -> Linked {
        let identity = |inode| Identity { device: 1, inode };
        Linked {
            first: format!("a/{name}").into_bytes(),
            second: format!("b/{name}").into_bytes(),
            files: (identity(first), identity(second)),
        }
    }

    fn different(names: Vec<Linked>) -> Vec<String> {
        let paths =
            differently_linked(names).into_iter().map(|found| String::from_utf8(found.first).unwrap());
        paths.collect()
    }

    #[test]
    fn groups_of_the_same_names_are_the_same_whatever_the_files_are() {
        let names = vec![linked("z", 1, 7), linked("y", 2, 6), linked("x", 1, 7), linked("w", 2, 6)];
        assert_eq!(different(names), Vec::<String>::new());
    }

    #[test]
    fn a_name_of_another_group_is_different() {
        let joined = vec![linked("x", 1, 7), linked("y", 1, 7), linked("z", 1, 8)];
        assert_eq!(different(joined), ["a/z"]);
        let parted = vec![linked("x", 1, 7), linked("y", 2, 7)];
        assert_eq!(different(parted), ["a/y"]);
    }
}
