//! Describes how two trees differ.
//!
//! [`compare`] takes two snapshots and returns a list of [`TreeDifference`]s, each with the path
//! and a text that says what was expected and what was found. An empty list means that the trees
//! agree in all facts that both were read with. Contents are read from disk, both sides in
//! parallel, so the trees must still exist.

use std::collections::BTreeMap;
use std::fmt::{self, Display};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;

use crate::snapshot::{Facts, Snapshot, SnapshotEntry, SnapshotKind, show};

/// Subject of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum About {
    /// Expected, but missing.
    Missing,
    /// Present, but not expected.
    Extra,
    /// Wrong type, link target or device.
    Type,
    /// Wrong content or length.
    Content,
    /// Data instead of a hole, or vice versa.
    Holes,
    /// Wrong mode.
    Mode,
    /// Wrong owner or group.
    Owner,
    /// Wrong time.
    Time,
    /// Hard-linked with the wrong names.
    Links,
    /// Wrong extended attributes.
    Attributes,
}

/// One fact in which two trees differ.
#[derive(Clone, Debug)]
pub struct TreeDifference {
    /// Path of the entry, relative to the root.
    pub path: Vec<u8>,
    /// Subject of the difference.
    pub about: About,
    /// Description of what was expected and found.
    pub text: String,
}

/// All differences between two trees, displayed one per line.
#[derive(Clone, Debug, Default)]
pub struct Differences {
    /// The differences, sorted by path except that extra entries come last.
    pub list: Vec<TreeDifference>,
}

impl Differences {
    /// Returns true if there are no differences.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Leaves out extra directories in which something else is extra: they can't go before it.
    pub fn leave_out_parents(&mut self) {
        let is_extra = |difference: &TreeDifference| difference.about == About::Extra;
        let paths: Vec<_> =
            self.list.iter().filter(|one| is_extra(one)).map(|one| one.path.clone()).collect();
        let has_more = |path: &[u8]| paths.iter().any(|other| other.starts_with(&[path, b"/"].concat()));
        self.list.retain(|difference| !is_extra(difference) || !has_more(&difference.path));
    }
}

impl Display for Differences {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN_MAX: usize = 30;
        writeln!(formatter, "{} differences", self.list.len())?;
        for difference in self.list.iter().take(SHOWN_MAX) {
            writeln!(formatter, "  {}: {}", show(&difference.path), difference.text)?;
        }
        if self.list.len() > SHOWN_MAX {
            writeln!(formatter, "  ... and {} more", self.list.len() - SHOWN_MAX)?;
        }
        Ok(())
    }
}

/// Rules for what counts as a difference.
#[derive(Clone, Copy, Debug)]
pub struct CompareRules {
    /// The facts to check.
    pub facts: Facts,
    /// Times from this second on count as "now" and equal, for entries whose times were not set.
    pub now_from: Option<i64>,
}

impl CompareRules {
    fn mode_bits(&self) -> u32 {
        let bits = |fact, bits| if self.facts.contains(fact) { bits } else { 0 };
        bits(Facts::PERMISSIONS, 0o777) | bits(Facts::SPECIAL_BITS, 0o7000)
    }
}

impl From<Facts> for CompareRules {
    fn from(facts: Facts) -> Self {
        Self { facts, now_from: None }
    }
}

/// Compares two trees, where `expected` is the reference and `found` is judged.
pub fn compare(
    expected: &Snapshot,
    found: &Snapshot,
    rules: impl Into<CompareRules>,
) -> io::Result<Differences> {
    let mut rules = rules.into();
    rules.facts &= expected.facts() & found.facts();
    let mut list = Vec::new();
    for (path, left) in expected.entries() {
        let Some(right) = found.entries().get(path) else {
            list.push(TreeDifference {
                path: path.clone(),
                about: About::Missing,
                text: format!("missing {:?}", left.kind),
            });
            continue;
        };
        let mut judge = Judge { path, list: &mut list };
        judge.entry(left, right, rules);
        let same_length =
            left.kind == SnapshotKind::File && right.kind == SnapshotKind::File && left.bytes == right.bytes;
        if same_length && rules.facts.contains(Facts::CONTENT) {
            let (left_path, right_path) = (expected.locate(path), found.locate(path));
            if let Some(offset) = first_difference(&left_path, &right_path, left)? {
                judge
                    .add(About::Content, format!("content differs from byte {offset} on, of {}", left.bytes));
            }
        }
    }
    for (path, right) in found.entries() {
        if !expected.entries().contains_key(path) {
            list.push(TreeDifference {
                path: path.clone(),
                about: About::Extra,
                text: format!("extra {:?}", right.kind),
            });
        }
    }
    Ok(Differences { list })
}

/// Reads two trees and compares them.
pub fn compare_paths(
    expected: &Path,
    found: &Path,
    rules: impl Into<CompareRules>,
) -> io::Result<Differences> {
    let rules = rules.into();
    compare(&Snapshot::take(expected, rules.facts)?, &Snapshot::take(found, rules.facts)?, rules)
}

struct Judge<'a> {
    path: &'a [u8],
    list: &'a mut Vec<TreeDifference>,
}

impl Judge<'_> {
    fn add(&mut self, about: About, text: String) {
        self.list.push(TreeDifference { path: self.path.to_vec(), about, text });
    }

    fn check<T: PartialEq + fmt::Debug>(&mut self, about: About, what: &str, expected: &T, found: &T) {
        if expected != found {
            self.add(about, format!("{what}: expected {expected:?}, found {found:?}"));
        }
    }

    fn entry(&mut self, left: &SnapshotEntry, right: &SnapshotEntry, rules: CompareRules) {
        if left.kind != right.kind {
            self.check(About::Type, "type", &left.kind, &right.kind);
            return;
        }
        self.check(About::Content, "length", &left.bytes, &right.bytes);
        self.check(About::Type, "device", &left.device, &right.device);
        if left.leads_to != right.leads_to {
            let text = |link: &Option<Vec<u8>>| link.as_deref().map(show).unwrap_or_default();
            self.check(About::Type, "link target", &text(&left.leads_to), &text(&right.leads_to));
        }
        if rules.facts.contains(Facts::HOLES) && left.bytes == right.bytes {
            self.holes(left, right);
        }
        // The mode of a symbolic link is meaningless and can't be set.
        if left.kind != SnapshotKind::Symlink && (left.mode ^ right.mode) & rules.mode_bits() != 0 {
            self.add(About::Mode, format!("mode: expected {:04o}, found {:04o}", left.mode, right.mode));
        }
        if rules.facts.contains(Facts::OWNER) {
            self.check(About::Owner, "owner", &left.owner, &right.owner);
        }
        self.times(left, right, rules);
        if rules.facts.contains(Facts::LINKS) {
            let text =
                |group: &Option<Vec<u8>>| group.as_deref().map(show).unwrap_or_else(|| "alone".to_owned());
            self.check(About::Links, "linked with", &text(&left.group), &text(&right.group));
        }
        if rules.facts.contains(Facts::ATTRIBUTES) {
            self.attributes(&left.attributes, &right.attributes);
        }
    }

    fn holes(&mut self, left: &SnapshotEntry, right: &SnapshotEntry) {
        if left.extents == right.extents {
            return;
        }
        let text = |entry: &SnapshotEntry| {
            let shown: Vec<_> =
                entry.extents.iter().take(4).map(|e| format!("{}..{}", e.start, e.end)).collect();
            format!("{} stretches of data ({} ...)", entry.extents.len(), shown.join(" "))
        };
        self.add(About::Holes, format!("holes: expected {}, found {}", text(left), text(right)));
    }

    fn times(&mut self, left: &SnapshotEntry, right: &SnapshotEntry, rules: CompareRules) {
        let wanted =
            if left.kind == SnapshotKind::Directory { Facts::DIRECTORY_MODIFIED } else { Facts::MODIFIED };
        let is_now = |time: (i64, u32)| rules.now_from.is_some_and(|from| time.0 >= from);
        if rules.facts.contains(wanted) && !(is_now(left.modified) && is_now(right.modified)) {
            self.check(About::Time, "modified", &left.modified, &right.modified);
        }
        let accessed = rules.facts.contains(Facts::ACCESSED) && left.kind == SnapshotKind::File;
        if accessed && !(is_now(left.accessed) && is_now(right.accessed)) {
            self.check(About::Time, "accessed", &left.accessed, &right.accessed);
        }
    }

    fn attributes(&mut self, left: &BTreeMap<Vec<u8>, Vec<u8>>, right: &BTreeMap<Vec<u8>, Vec<u8>>) {
        for (name, value) in left {
            match right.get(name) {
                None => self.add(About::Attributes, format!("attribute {} is missing", show(name))),
                Some(other) if other != value => {
                    self.add(
                        About::Attributes,
                        format!("attribute {}: expected {value:02x?}, found {other:02x?}", show(name)),
                    );
                }
                Some(_) => {}
            }
        }
        for name in right.keys().filter(|name| !left.contains_key(*name)) {
            self.add(About::Attributes, format!("attribute {} is not expected", show(name)));
        }
    }
}

/// Returns the first offset at which two files of the same length differ. Skips long holes in both.
fn first_difference(left: &Path, right: &Path, entry: &SnapshotEntry) -> io::Result<Option<u64>> {
    const BLOCK: usize = 1 << 18;
    if entry.bytes == 0 {
        return Ok(None);
    }
    let open = |path: &Path| {
        // Only the owner and root may use `O_NOATIME`.
        let quiet = OFlags::NOFOLLOW | OFlags::NOATIME;
        let flags =
            |flags: OFlags| OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path);
        flags(quiet).or_else(|_| flags(OFlags::NOFOLLOW))
    };
    let (mut left, mut right) = (open(left)?, open(right)?);
    let (mut left_block, mut right_block) = (vec![0; BLOCK], vec![0; BLOCK]);
    let mut offset = 0;
    while offset < entry.bytes {
        if let Some(next) = skip_common_hole(&left, &right, offset, entry.bytes)? {
            offset = next;
            continue;
        }
        let length = BLOCK.min(usize::try_from(entry.bytes - offset).unwrap_or(BLOCK));
        left.read_exact(&mut left_block[..length])?;
        right.read_exact(&mut right_block[..length])?;
        if let Some(position) = (0..length).find(|&i| left_block[i] != right_block[i]) {
            return Ok(Some(offset + position as u64));
        }
        offset += length as u64;
    }
    Ok(None)
}

/// Skips a long hole that starts at `offset` in both files. Returns the new offset, if
/// there was one.
fn skip_common_hole(
    left: &std::fs::File,
    right: &std::fs::File,
    offset: u64,
    bytes: u64,
) -> io::Result<Option<u64>> {
    const WORTH_IT: u64 = 1 << 20;
    let next_data = |file: &std::fs::File| match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(offset)) {
        Ok(start) => Ok(start),
        Err(rustix::io::Errno::NXIO) => Ok(bytes),
        Err(error) => Err(io::Error::from(error)),
    };
    let next = next_data(left)?.min(next_data(right)?);
    let skip = next >= offset + WORTH_IT;
    let to = if skip { next } else { offset };
    rustix::fs::seek(left, rustix::fs::SeekFrom::Start(to))?;
    rustix::fs::seek(right, rustix::fs::SeekFrom::Start(to))?;
    Ok(skip.then_some(to))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Sandbox;
    use crate::spec::{EntrySpec, PieceSpec, Spec, SpecKind as Made};

    fn abouts(left: &[EntrySpec], right: &[EntrySpec]) -> Vec<About> {
        let sandbox = Sandbox::in_memory().unwrap();
        let (a, b) = (sandbox.join("a"), sandbox.join("b"));
        Spec { nodes: left.to_vec() }.build(&a).unwrap();
        Spec { nodes: right.to_vec() }.build(&b).unwrap();
        let facts = Facts::PRESERVED - Facts::DIRECTORY_MODIFIED;
        let differences = compare_paths(&a, &b, facts).unwrap();
        assert!(!differences.to_string().is_empty());
        differences.list.into_iter().map(|difference| difference.about).collect()
    }

    #[test]
    fn equal_trees_have_no_differences() {
        let nodes = crate::everything::spec().nodes;
        assert_eq!(abouts(&nodes, &nodes), []);
    }

    #[test]
    fn every_kind_of_difference_is_found() {
        let file = || EntrySpec::file(0, "f", 1, 10_000);
        let one = |node: EntrySpec| abouts(&[file()], &[node]);
        assert_eq!(abouts(&[file()], &[]), [About::Missing]);
        assert_eq!(abouts(&[], &[file()]), [About::Extra]);
        assert_eq!(one(EntrySpec::new(0, "f", Made::Fifo)), [About::Type]);
        assert_eq!(one(EntrySpec::file(0, "f", 2, 10_000)), [About::Content]);
        assert_eq!(one(EntrySpec::file(0, "f", 1, 10_001)), [About::Content]);
        assert_eq!(one(file().mode(0o4644)), [About::Mode]);
        assert_eq!(one(file().modified(1_234_567_890, 123_456_788)), [About::Time]);
        assert_eq!(one(file().attribute("user.a", "b")), [About::Attributes]);
        let link = |to: &str| EntrySpec::new(0, "l", Made::Symlink(to.into()));
        assert_eq!(abouts(&[link("a")], &[link("b")]), [About::Type]);
        let linked = [file(), EntrySpec::new(0, "g", Made::HardLink(0))];
        assert_eq!(
            abouts(&linked, &[file(), EntrySpec::file(0, "g", 1, 10_000)]),
            [About::Links, About::Links]
        );
        let sparse =
            |piece| EntrySpec::new(0, "s", Made::File(vec![piece, PieceSpec::Data { seed: 1, bytes: 9 }]));
        let holes = abouts(&[sparse(PieceSpec::Hole(1 << 21))], &[sparse(PieceSpec::Zeros(1 << 21))]);
        assert_eq!(holes, [About::Holes]);
        if crate::needs::root().is_none() {
            assert_eq!(one(file().owner(1, 1)), [About::Owner]);
            let device = |minor| EntrySpec::new(0, "d", Made::CharacterDevice(1, minor));
            assert_eq!(abouts(&[device(3)], &[device(5)]), [About::Type]);
        }
    }

    #[test]
    fn a_difference_behind_a_long_hole_is_found() {
        let far = |seed| {
            EntrySpec::new(
                0,
                "f",
                Made::File(vec![PieceSpec::Hole(50 << 30), PieceSpec::Data { seed, bytes: 100 }]),
            )
        };
        assert_eq!(abouts(&[far(1)], &[far(1)]), []);
        assert_eq!(abouts(&[far(1)], &[far(2)]), [About::Content]);
    }
}
