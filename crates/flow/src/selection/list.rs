//! A list of names: the only entries below an operand that a run looks at.
//!
//! The names are kept as text, sorted so that those in one directory are neighbours. A directory of
//! the walk is a range of the list, and its listing is read from that range instead of from the
//! file system. So listed names are opened like all others, component by component from their
//! directory's descriptor.
//!
//! Bound: the length of the text and eight bytes for each name.

use std::ffi::CStr;
use std::ops::Range;

use haul_sys::{EntryType, NameArena};

/// The names that a run is restricted to, relative to its operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NameList {
    /// The text that the list was read from, with NUL in place of each slash.
    text: Vec<u8>,
    /// Where each name is in `text`. Sorted by name.
    names: Vec<Range<u32>>,
    contents: Contents,
}

/// A list's entries in one directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct ListedNames {
    /// The names in it, and the directory itself if that is listed.
    pub(super) names: Range<u32>,
    /// True if everything in it is taken, listed or not.
    pub(super) is_whole: bool,
}

/// Treatment of the contents of a listed directory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contents {
    /// Everything in it is taken, listed or not.
    All,
    /// Only listed entries are taken.
    Listed,
}

/// A name that can't be in a list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedName {
    /// Its number in the text, from 1.
    pub number: usize,
    /// The name.
    pub name: Vec<u8>,
    /// The reason.
    pub why: BadName,
}

/// Why a name can't be in a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadName {
    /// It is empty.
    Empty,
    /// It begins with a slash.
    Absolute,
    /// It has `..` in it.
    GoesUp,
    /// It has a NUL in it.
    Nul,
    /// It ends more than 4 GiB from the beginning of the text.
    TooFar,
}

impl NameList {
    /// Reads a list in which each name ends with the byte `end`, which the last may lack. Empty
    /// lines are ignored if that is a newline. Repeated slashes, `.` and slashes at the end of a
    /// name make no difference.
    ///
    /// # Errors
    /// The first name that could lead out of the operand, or is invalid.
    pub fn parse(mut text: Vec<u8>, end: u8, contents: Contents) -> Result<Self, RefusedName> {
        let (mut names, mut start, mut number) = (Vec::new(), 0, 0);
        while start < text.len() {
            let rest = &mut text[start..];
            let length = rest.iter().position(|byte| *byte == end).unwrap_or(rest.len());
            let name = &mut rest[..length];
            number += 1;
            if !(name.is_empty() && end == b'\n') {
                let refused = |why| RefusedName { number, name: name.to_vec(), why };
                check(name).map_err(refused)?;
                let last = u32::try_from(start + length).map_err(|_| refused(BadName::TooFar))?;
                let first = last - u32::try_from(length).unwrap_or(last);
                let length = normalise(name);
                names.push(first..first + u32::try_from(length).unwrap_or(0));
            }
            start += length + 1;
        }
        let of = |name: &Range<u32>| &text[name.start as usize..name.end as usize];
        if !names.is_sorted_by(|one, next| of(one) < of(next)) {
            names.sort_unstable_by(|one, other| of(one).cmp(of(other)));
            names.dedup_by(|other, one| of(other) == of(one));
        }
        Ok(Self { text, names, contents })
    }

    fn name(&self, index: u32) -> &[u8] {
        let Range { start, end } = self.names[index as usize];
        &self.text[start as usize..end as usize]
    }

    /// Returns the list's entries below an operand.
    pub(super) fn whole(&self) -> ListedNames {
        // At most one name per byte.
        let names = 0..u32::try_from(self.names.len()).unwrap_or(u32::MAX);
        let is_listed = !names.is_empty() && self.name(0).is_empty();
        ListedNames { names, is_whole: is_listed && self.contents == Contents::All }
    }

    /// Returns the list's entries below a directory, the entry `name` of one whose path has `depth`
    /// bytes with its slash.
    pub(super) fn below(&self, within: &ListedNames, depth: usize, name: &CStr) -> ListedNames {
        let names = self.range_of(within.names.clone(), depth, name.to_bytes());
        let is_listed = self.is_first(&names, depth + name.count_bytes());
        ListedNames { names, is_whole: within.is_whole || (is_listed && self.contents == Contents::All) }
    }

    /// Returns whether an entry of a directory is listed, and the paths below it that are, relative
    /// to it.
    pub(super) fn at(&self, within: &ListedNames, depth: usize, name: &CStr) -> (bool, Vec<Vec<u8>>) {
        let length = depth + name.count_bytes();
        let mut names = self.range_of(within.names.clone(), depth, name.to_bytes());
        let is_listed = self.is_first(&names, length);
        names.start += u32::from(is_listed);
        let with_slashes = |byte: &u8| if *byte == 0 { b'/' } else { *byte };
        let path = |index| self.name(index)[length + 1..].iter().map(with_slashes).collect();
        (is_listed, names.map(path).collect())
    }

    /// True if a range of names that begin with a path of `length` bytes has that path itself,
    /// which comes first.
    fn is_first(&self, names: &Range<u32>, length: usize) -> bool {
        !names.is_empty() && self.name(names.start).len() == length
    }

    /// True if an entry of a directory is listed, or something below it is.
    pub(super) fn has(&self, within: &ListedNames, depth: usize, name: &CStr) -> bool {
        !self.range_of(within.names.clone(), depth, name.to_bytes()).is_empty()
    }

    /// Returns the entries of a directory that are listed, or have something below them that is.
    /// Their types are unknown.
    pub(super) fn entries(&self, within: &ListedNames, depth: usize) -> NameArena {
        let (mut entries, mut rest) = (NameArena::new(), within.names.clone());
        while let Some(index) = rest.next() {
            // The name of the directory itself is shorter.
            let Some(name) = self.name(index).get(depth..).filter(|name| !name.is_empty()) else { continue };
            let component = name.split(|byte| *byte == 0).next().unwrap_or(name);
            rest.start = self.range_of(index..rest.end, depth, component).end;
            entries.push_bytes(component, 0, EntryType::Unknown);
        }
        entries
    }

    /// Returns the range of the names that begin with this component after `depth` bytes.
    fn range_of(&self, within: Range<u32>, depth: usize, component: &[u8]) -> Range<u32> {
        let tail = |index: u32| self.name(index).get(depth..).unwrap_or_default();
        let first_of = |name: &[u8]| name.iter().position(|byte| *byte == 0).unwrap_or(name.len());
        let start = partition(within.clone(), |index| {
            let tail = tail(index);
            &tail[..first_of(tail)] < component
        });
        let end = partition(start..within.end, |index| {
            let tail = tail(index);
            &tail[..first_of(tail)] <= component
        });
        start..end
    }
}

fn check(name: &[u8]) -> Result<(), BadName> {
    match name {
        [] => Err(BadName::Empty),
        [b'/', ..] => Err(BadName::Absolute),
        _ if name.contains(&0) => Err(BadName::Nul),
        _ if name.split(|byte| *byte == b'/').any(|component| component == b"..") => Err(BadName::GoesUp),
        _ => Ok(()),
    }
}

/// Removes empty and `.` components from a name, in place, and replaces slashes by NUL. Returns its
/// new length.
fn normalise(name: &mut [u8]) -> usize {
    let (mut read, mut written) = (0, 0);
    while read < name.len() {
        let length = name[read..].iter().position(|byte| *byte == b'/').unwrap_or(name.len() - read);
        if !matches!(&name[read..read + length], b"" | b".") {
            if written > 0 {
                name[written] = 0;
                written += 1;
            }
            name.copy_within(read..read + length, written);
            written += length;
        }
        read += length + 1;
    }
    written
}

/// Returns the first number in a range for which `is_before`, true at first and then false, is
/// false. Looks close to the start first.
fn partition(range: Range<u32>, is_before: impl Fn(u32) -> bool) -> u32 {
    let (mut low, mut step) = (range.start, 1);
    while low < range.end && range.end - low > step && is_before(low + step - 1) {
        low += step;
        step *= 2;
    }
    let mut high = range.end.min(low.saturating_add(step));
    while low < high {
        let middle = low + (high - low) / 2;
        if is_before(middle) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    low
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str], contents: Contents) -> NameList {
        NameList::parse(names.join("\n").into_bytes(), b'\n', contents).unwrap()
    }

    fn shown(names: &NameArena) -> Vec<String> {
        (0..names.len()).map(|index| names.name(index).to_str().unwrap().to_owned()).collect()
    }

    #[test]
    fn the_entries_of_a_directory_are_those_on_the_way_to_a_listed_name() {
        let list = list(&["b/x", "a/y/z", "./a-b", "a//y/", "c", "b/x", "a/w"], Contents::Listed);
        let whole = list.whole();
        assert_eq!(shown(&list.entries(&whole, 0)), ["a", "a-b", "b", "c"]);
        let a = list.below(&whole, 0, c"a");
        assert_eq!(shown(&list.entries(&a, 2)), ["w", "y"]);
        let y = list.below(&a, 2, c"y");
        assert_eq!(shown(&list.entries(&y, 4)), ["z"]);
        let z = list.below(&y, 4, c"z");
        assert!(list.entries(&z, 6).is_empty() && !z.is_whole);
        assert!(list.has(&whole, 0, c"c") && !list.has(&whole, 0, c"x"));
        let at = |name| list.at(&whole, 0, name);
        assert_eq!(at(c"a"), (false, vec![b"w".to_vec(), b"y".to_vec(), b"y/z".to_vec()]));
        assert_eq!((at(c"c"), at(c"x")), ((true, vec![]), (false, vec![])));
    }

    #[test]
    fn a_listed_directory_is_taken_as_a_whole_if_its_contents_are_wanted() {
        let some = list(&["a", "a/b/c", "c/d"], Contents::All);
        let whole = some.whole();
        let a = some.below(&whole, 0, c"a");
        assert!(a.is_whole && !whole.is_whole && !some.below(&whole, 0, c"c").is_whole);
        assert_eq!(shown(&some.entries(&a, 2)), ["b"]);
        assert!(some.below(&a, 2, c"b").is_whole && some.below(&a, 2, c"x").is_whole);
        assert!(list(&["."], Contents::All).whole().is_whole);
        let itself = list(&["."], Contents::Listed).whole();
        assert!(!itself.is_whole && itself.names.len() == 1);
    }

    #[test]
    fn names_that_lead_elsewhere_are_refused() {
        for (name, why) in [
            (&b""[..], BadName::Empty),
            (b"/a", BadName::Absolute),
            (b"..", BadName::GoesUp),
            (b"a/../b", BadName::GoesUp),
        ] {
            let refused = NameList::parse([b"x\0", name, b"\0"].concat(), 0, Contents::All).unwrap_err();
            assert_eq!((refused.number, refused.name.as_slice(), refused.why), (2, name, why));
        }
        let nul = NameList::parse(b"a\0b\n".to_vec(), b'\n', Contents::All);
        assert_eq!(nul.unwrap_err().why, BadName::Nul);
        let fine = NameList::parse(b"a/..b\n\nc".to_vec(), b'\n', Contents::All).unwrap();
        assert_eq!(fine.names.len(), 2);
    }
}
