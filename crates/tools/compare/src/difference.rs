//! A difference, and how it is worded.
//!
//! Differences are plain data until they are emitted, so that they can be sorted, sent by the rank
//! that found them, and formatted as text or JSON.

use std::cmp::Ordering;

use haul_flow::{OutputLine, Problem};
use haul_sys::{FileType, device_parts};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::CompareKind;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Side {
    First,
    Second,
}

/// A file type as named by `diff`, which has a name for empty files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct EntryKind {
    pub(super) kind: FileType,
    pub(super) is_empty: bool,
}

impl EntryKind {
    fn words(self) -> &'static str {
        match self.kind {
            FileType::Regular if self.is_empty => "regular empty file",
            FileType::Regular => "regular file",
            FileType::Directory => "directory",
            FileType::Symlink => "symbolic link",
            FileType::Fifo => "fifo",
            FileType::Socket => "socket",
            FileType::CharacterDevice => "character special file",
            FileType::BlockDevice => "block special file",
            FileType::Unknown => "weird file",
        }
    }
}

/// The side, or sides, that have an extended attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Has {
    Only(Side),
    /// Both, with different values.
    Both,
}

/// A difference between two entries.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// One of them is missing; holds the directory and name on the side that has it.
    OnlyIn(Side, Vec<u8>, Vec<u8>),
    Types(EntryKind, EntryKind),
    /// In size, in bytes; their content was not read.
    Size(u64, u64),
    /// In content; holds the index of the first differing byte.
    Content(u64),
    /// Two file operands, in content; holds the index of the first differing byte, and the number
    /// of line ends before it.
    Named(u64, u64),
    /// One of two file operands is a prefix of the other; holds its length, its number of line
    /// ends, and true if it ends with one.
    Ends(Side, u64, u64, bool),
    Target(Vec<u8>, Vec<u8>),
    /// In device number (`st_rdev`).
    Device(u64, u64),
    Mode(u32, u32),
    Owner((u32, u32), (u32, u32)),
    /// In modification time: seconds and nanoseconds since the epoch.
    Modified((i64, u32), (i64, u32)),
    Xattr(Vec<u8>, Has),
    /// In hard links: different names are the same file.
    Links,
    /// In holes; holds the index of the first byte that is in a hole of only one file.
    Holes(u64),
}

impl What {
    /// True if `diff` words it in its own way, which even brief listings keep.
    fn has_own_sentence(&self) -> bool {
        matches!(self, Self::OnlyIn(..) | Self::Types(..) | Self::Target(..))
    }

    /// Returns the keyword for the difference, and both values if they are short.
    fn values(&self) -> (&'static str, Option<(String, String)>) {
        let two = |first: String, second: String| Some((first, second));
        match self {
            Self::OnlyIn(..) => ("only", None),
            Self::Types(first, second) => ("type", two(first.words().to_owned(), second.words().to_owned())),
            Self::Size(first, second) => ("size", two(first.to_string(), second.to_string())),
            Self::Content(_) | Self::Named(..) | Self::Ends(..) => ("content", None),
            Self::Target(..) => ("target", None),
            Self::Device(first, second) => ("device", two(device(*first), device(*second))),
            Self::Mode(first, second) => ("mode", two(format!("{first:04o}"), format!("{second:04o}"))),
            Self::Owner((owner, group), (second_owner, second_group)) => {
                ("ownership", two(format!("{owner}:{group}"), format!("{second_owner}:{second_group}")))
            }
            Self::Modified(first, second) => ("modified", two(moment(*first), moment(*second))),
            Self::Xattr(..) => ("xattr", None),
            Self::Links => ("links", None),
            Self::Holes(_) => ("holes", None),
        }
    }

    /// Returns the text after "differ:".
    fn remark(&self) -> Vec<u8> {
        match (self, self.values()) {
            (Self::Content(at) | Self::Named(at, _) | Self::Ends(_, at, ..), _) => {
                format!("byte {}", at + 1).into_bytes()
            }
            (Self::Holes(at), _) => format!("holes from byte {}", at + 1).into_bytes(),
            (Self::Links, _) => b"hard links".to_vec(),
            (Self::Xattr(name, has), _) => {
                let whose: &[u8] = match has {
                    Has::Only(Side::First) => b" of the first only",
                    Has::Only(Side::Second) => b" of the second only",
                    Has::Both => b"",
                };
                [b"xattr ", printable(name).as_bytes(), whose].concat()
            }
            (_, (word, Some((first, second)))) => format!("{word} {first}, {second}").into_bytes(),
            (_, (word, None)) => word.as_bytes().to_vec(),
        }
    }
}

/// Formats a device number as `ls` does.
fn device(number: u64) -> String {
    let (major, minor) = device_parts(number);
    format!("{major},{minor}")
}

fn moment((seconds, nanoseconds): (i64, u32)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

/// Escapes an attribute's name for output.
fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().flat_map(char::escape_debug).collect()
}

/// A difference, with the paths to report.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct FoundDifference {
    /// Path in the first tree, as the user would write it.
    pub(super) first: Vec<u8>,
    /// Path in the second tree.
    pub(super) second: Vec<u8>,
    pub(super) what: What,
}

impl FoundDifference {
    /// Orders differences by path, with a directory's content right after the directory.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        // Names contain no NUL, so slashes ranked as NUL sort before any longer sibling.
        let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        self.first.iter().map(rank).cmp(other.first.iter().map(rank))
    }

    /// Returns the approximate memory use, in bytes.
    pub(super) fn weight(&self) -> usize {
        let more = match &self.what {
            What::OnlyIn(_, one, another) | What::Target(one, another) => one.len() + another.len(),
            What::Xattr(name, _) => name.len(),
            _ => 0,
        };
        size_of::<Self>() + self.first.len() + self.second.len() + more
    }

    pub(super) fn line(&self, briefly: bool) -> OutputLine {
        let line = |kind: CompareKind, names: Vec<Vec<u8>>| OutputLine::new(kind, names);
        let both = || vec![self.first.clone(), self.second.clone()];
        match &self.what {
            What::OnlyIn(_, directory, name) => {
                line(CompareKind::OnlyIn, vec![directory.clone(), name.clone()])
            }
            What::Types(first, second) => {
                let [first, second] = [first, second].map(|kind| kind.words().as_bytes().to_vec());
                line(CompareKind::Types, vec![self.first.clone(), first, self.second.clone(), second])
            }
            What::Target(..) => line(CompareKind::Links, both()),
            _ if briefly => line(CompareKind::FilesBriefly, both()),
            What::Named(at, lines) => {
                let numbers = [at, lines].map(|count| (count + 1).to_string().into_bytes());
                line(CompareKind::Named, both().into_iter().chain(numbers).collect())
            }
            what => {
                let remark = what.remark();
                line(CompareKind::Files, both().into_iter().chain([remark]).collect())
            }
        }
    }

    /// Formats an unexpected EOF as `cmp` does, which reports it as a problem.
    pub(super) fn end_of_file(&self) -> Option<Problem> {
        let What::Ends(side, at, lines, with_line) = self.what else { return None };
        let path = if side == Side::First { &self.first } else { &self.second };
        let kind = match (at, with_line) {
            (0, _) => CompareKind::IsEmpty,
            (_, true) => CompareKind::Ends,
            (_, false) => CompareKind::EndsInLine,
        };
        let line = if with_line { lines } else { lines + 1 };
        let names = [path.clone(), at.to_string().into_bytes(), line.to_string().into_bytes()];
        Some(names.into_iter().fold(Problem::new(kind), Problem::naming).as_warning())
    }

    /// True if this difference and the one before it, of the same entry, have the same brief line.
    pub(super) fn repeats(&self, before: &Self) -> bool {
        let has_own = self.what.has_own_sentence() || before.what.has_own_sentence();
        !has_own && self.first == before.first && self.second == before.second
    }

    /// Formats the difference as one line of JSON. Names that are not UTF-8 become arrays of bytes.
    pub(super) fn json(&self) -> Vec<u8> {
        let (word, values) = self.what.values();
        let mut object = json!({ "differ": word, "first": name(&self.first), "second": name(&self.second) });
        let mut add = |key: &str, value: Value| object[key] = value;
        match &self.what {
            What::OnlyIn(Side::First, ..) => add("in", json!("first")),
            What::OnlyIn(Side::Second, ..) => add("in", json!("second")),
            What::Size(first, second) => add("values", json!([first, second])),
            What::Content(at) | What::Holes(at) => add("byte", json!(at + 1)),
            What::Named(at, lines) => {
                add("byte", json!(at + 1));
                add("line", json!(lines + 1));
            }
            What::Ends(side, at, ..) => {
                add("byte", json!(at + 1));
                add("ends", json!(if *side == Side::First { "first" } else { "second" }));
            }
            What::Target(first, second) => add("values", json!([name(first), name(second)])),
            What::Xattr(key, has) => {
                add("name", name(key));
                add(
                    "in",
                    json!(match has {
                        Has::Only(Side::First) => "first",
                        Has::Only(Side::Second) => "second",
                        Has::Both => "both",
                    }),
                );
            }
            _ => {
                if let Some((first, second)) = values {
                    add("values", json!([first, second]));
                }
            }
        }
        (object.to_string() + "\n").into_bytes()
    }
}

/// Converts a name to JSON.
fn name(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &[u8], what: What) -> FoundDifference {
        FoundDifference { first: [b"a/", path].concat(), second: [b"b/", path].concat(), what }
    }

    #[test]
    fn what_is_in_a_directory_comes_right_behind_it() {
        let mut paths =
            [&b"x-y"[..], b"x/b", b"x", b"x.c", b"x/a/z", b"x/a"].map(|path| difference(path, What::Links));
        paths.sort_by(FoundDifference::order);
        let sorted = paths.map(|difference| String::from_utf8(difference.first).unwrap());
        assert_eq!(sorted, ["a/x", "a/x/a", "a/x/a/z", "a/x/b", "a/x-y", "a/x.c"]);
    }

    #[test]
    fn an_entry_that_differs_in_several_things_is_one_brief_line() {
        let (mode, size) = (difference(b"x", What::Mode(1, 2)), difference(b"x", What::Size(1, 2)));
        assert!(mode.repeats(&size));
        assert!(!difference(b"y", What::Mode(1, 2)).repeats(&size));
        assert!(!difference(b"x", What::Target(vec![], vec![])).repeats(&size));
    }

    #[test]
    fn devices_are_worded_as_ls_does() {
        assert_eq!(device((8 << 8) | 1), "8,1");
        assert_eq!(device((259 << 8) | (0x12 << 12 << 8) | 3), "259,4611");
    }

    #[test]
    fn a_name_without_utf_8_is_numbers_in_json() {
        let found = difference(b"\xff", What::Content(4));
        let object: Value = serde_json::from_slice(&found.json()).unwrap();
        assert_eq!(object["first"], json!([97, 47, 255]));
        assert_eq!((&object["differ"], &object["byte"]), (&json!("content"), &json!(5)));
    }
}
