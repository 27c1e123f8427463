//! A difference: where, in what, and how it is told.
//!
//! Differences are data until they are told, so that they can be sorted, sent by the process that found them, and told as
//! text or as JSON.

use std::cmp::Ordering;

use haul_flow::{Line, Problem, Wording};
use haul_sys::FileType;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::wording;

/// Which of the two trees.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum Side {
    /// The first that was named.
    First,
    /// The second.
    Second,
}

/// The type of a file as `diff` tells it: it has a word of its own for empty files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Kind {
    pub(super) kind: FileType,
    pub(super) is_empty: bool,
}

impl Kind {
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

/// Whose an extended attribute is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Has {
    /// One of the two has it.
    Only(Side),
    /// Both have it, with different values.
    Both,
}

/// What two entries differ in.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum What {
    /// One of them is not there. The entry's directory and name on the side where it is.
    OnlyIn(Side, Vec<u8>, Vec<u8>),
    /// Their types.
    Types(Kind, Kind),
    /// Their lengths in bytes; so their content was not read.
    Size(u64, u64),
    /// Their content; the first byte that differs, counted from 0.
    Content(u64),
    /// The content of two files that were named: the first byte that differs, and the lines that end before it.
    Named(u64, u64),
    /// One of two files that were named ends where the other goes on: behind so many bytes, and ends of lines; and whether it
    /// ends with a line.
    Ends(Side, u64, u64, bool),
    /// What the links contain.
    Target(Vec<u8>, Vec<u8>),
    /// Which devices they are, as `st_rdev`.
    Device(u64, u64),
    /// Their permission bits.
    Mode(u32, u32),
    /// Their owners and groups.
    Owner((u32, u32), (u32, u32)),
    /// When they were modified: seconds since 1970 and nanoseconds.
    Modified((i64, u32), (i64, u32)),
    /// An extended attribute.
    Xattr(Vec<u8>, Has),
    /// Which other names are the same file.
    Links,
    /// Where their holes are: the first byte that is in a hole of one only.
    Holes(u64),
}

impl What {
    /// Tells whether `diff` has a sentence of its own for it, so that nothing is to be left out for brevity.
    fn has_own_sentence(&self) -> bool {
        matches!(self, Self::OnlyIn(..) | Self::Types(..) | Self::Target(..))
    }

    /// Gives the word for it, and the two values if they are short.
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

    /// Words what comes behind "differ:".
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

/// Words a device number as `ls` does.
fn device(number: u64) -> String {
    let major = (number >> 32) & 0xffff_f000 | (number >> 8) & 0xfff;
    let minor = (number >> 12) & 0xffff_ff00 | number & 0xff;
    format!("{major},{minor}")
}

fn moment((seconds, nanoseconds): (i64, u32)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

/// Makes the name of an attribute fit for a line.
fn printable(name: &[u8]) -> String {
    String::from_utf8_lossy(name).chars().flat_map(char::escape_debug).collect()
}

/// A difference, with the paths it is told by.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Difference {
    /// The path in the first tree, as the user would write it.
    pub(super) first: Vec<u8>,
    /// The path in the second.
    pub(super) second: Vec<u8>,
    /// In what.
    pub(super) what: What,
}

impl Difference {
    /// Says in which order differences are told: by path, what is in a directory behind it and before its longer neighbours.
    pub(super) fn order(&self, other: &Self) -> Ordering {
        // No name has a NUL, so that a slash taken for one comes before all that a name can go on with.
        let rank = |byte: &u8| if *byte == b'/' { 0 } else { *byte };
        self.first.iter().map(rank).cmp(other.first.iter().map(rank))
    }

    /// Says about how much memory it takes, in bytes.
    pub(super) fn weight(&self) -> usize {
        let more = match &self.what {
            What::OnlyIn(_, one, another) | What::Target(one, another) => one.len() + another.len(),
            What::Xattr(name, _) => name.len(),
            _ => 0,
        };
        size_of::<Self>() + self.first.len() + self.second.len() + more
    }

    /// Words it.
    pub(super) fn line(&self, briefly: bool) -> Line {
        let line = |wording: Wording, names: Vec<Vec<u8>>| Line { wording, names };
        let both = || vec![self.first.clone(), self.second.clone()];
        match &self.what {
            What::OnlyIn(_, directory, name) => line(wording::ONLY_IN, vec![directory.clone(), name.clone()]),
            What::Types(first, second) => {
                let [first, second] = [first, second].map(|kind| kind.words().as_bytes().to_vec());
                line(wording::TYPES, vec![self.first.clone(), first, self.second.clone(), second])
            }
            What::Target(..) => line(wording::LINKS, both()),
            _ if briefly => line(wording::FILES_BRIEFLY, both()),
            What::Named(at, lines) => {
                let numbers = [at, lines].map(|count| (count + 1).to_string().into_bytes());
                line(wording::NAMED, both().into_iter().chain(numbers).collect())
            }
            what => {
                let remark = what.remark();
                line(wording::FILES, both().into_iter().chain([remark]).collect())
            }
        }
    }

    /// Words the end of one of two files as `cmp` does, which tells of it as of a problem.
    pub(super) fn end_of_file(&self) -> Option<Problem> {
        let What::Ends(side, at, lines, with_line) = self.what else { return None };
        let path = if side == Side::First { &self.first } else { &self.second };
        let wording = match (at, with_line) {
            (0, _) => wording::IS_EMPTY,
            (_, true) => wording::ENDS,
            (_, false) => wording::ENDS_IN_LINE,
        };
        let line = if with_line { lines } else { lines + 1 };
        let names = [path.clone(), at.to_string().into_bytes(), line.to_string().into_bytes()];
        Some(names.into_iter().fold(Problem::new(wording), Problem::naming).as_warning())
    }

    /// Tells whether it and the one before it, of the same entry, are told by the same brief line.
    pub(super) fn repeats(&self, before: &Self) -> bool {
        let has_own = self.what.has_own_sentence() || before.what.has_own_sentence();
        !has_own && self.first == before.first && self.second == before.second
    }

    /// Writes it as one JSON object on a line. A name that is no UTF-8 is there as the numbers of its bytes.
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

/// Gives a name for JSON.
fn name(bytes: &[u8]) -> Value {
    std::str::from_utf8(bytes).map_or_else(|_| json!(bytes), |text| json!(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn difference(path: &[u8], what: What) -> Difference {
        Difference { first: [b"a/", path].concat(), second: [b"b/", path].concat(), what }
    }

    #[test]
    fn what_is_in_a_directory_comes_right_behind_it() {
        let mut paths =
            [&b"x-y"[..], b"x/b", b"x", b"x.c", b"x/a/z", b"x/a"].map(|path| difference(path, What::Links));
        paths.sort_by(Difference::order);
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
