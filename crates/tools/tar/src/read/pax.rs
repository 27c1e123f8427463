//! Extended headers: records of `LENGTH KEY=VALUE`, for one member (`x`) or for all that
//! follow (`g`).

use haul_flow::Problem;
use haul_sys::Timestamp;

use super::sparse::{self, EXTENTS_MAX, Extent, FILE_BYTES_MAX};
use crate::TarKind;

/// Records of an extended header, as far as they are used.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Extended {
    pub(crate) path: Option<Vec<u8>>,
    pub(crate) link: Option<Vec<u8>>,
    /// Bytes that follow the header.
    pub(crate) size: Option<u64>,
    pub(crate) user: Option<u64>,
    pub(crate) group: Option<u64>,
    pub(crate) user_name: Option<Vec<u8>>,
    pub(crate) group_name: Option<Vec<u8>>,
    pub(crate) modified: Option<Timestamp>,
    pub(crate) xattrs: Vec<(Vec<u8>, Vec<u8>)>,
    /// Access list, as text.
    pub(crate) access_list: Option<Vec<u8>>,
    /// Access list that new entries of a directory inherit, as text.
    pub(crate) default_access_list: Option<Vec<u8>>,
    pub(crate) sparse: Sparse,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Sparse {
    pub(crate) major: Option<u64>,
    pub(crate) minor: Option<u64>,
    /// Name of the file; the member's own name only shows that it is not the whole file.
    pub(crate) name: Option<Vec<u8>>,
    /// Length of the file, in bytes.
    pub(crate) size: Option<u64>,
    /// Extents, in versions 0.0 and 0.1.
    pub(crate) map: Option<Vec<Extent>>,
    offset: Option<u64>,
}

/// Maximum bytes of a record that a message repeats.
const TOLD_BYTES_MAX: usize = 200;

/// A defect of an extended header, in the words of GNU tar.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum PaxDefect {
    /// It does not consist of records. Everything after the first malformed one is lost.
    Form(&'static str),
    /// A value is not valid for its key: the record.
    Value(Vec<u8>),
    /// A name has a NUL in it, and must not be used: the record.
    Name(Vec<u8>),
}

impl PaxDefect {
    /// Returns the problem to report.
    pub(crate) fn problem(&self) -> Problem {
        let malformed = Problem::new(TarKind::MalformedExtended);
        match self {
            Self::Form(what) => malformed.naming(*what),
            Self::Value(record) | Self::Name(record) => {
                malformed.naming([b"invalid ", &record[..record.len().min(TOLD_BYTES_MAX)]].concat())
            }
        }
    }
}

/// Reason that a value is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PaxMisuse {
    Value,
    Name,
}

impl Extended {
    /// Reads the records of a header over what is known already. Those before a defect count.
    ///
    /// # Errors
    /// The first defect, or the first bad name, which is worse.
    pub(crate) fn take(&mut self, mut records: &[u8]) -> Result<(), PaxDefect> {
        let mut outcome = Ok(());
        // Like GNU tar: a NUL ends them.
        while records.first().is_some_and(|first| *first != 0) {
            let (text, equals, rest) = record(records).map_err(PaxDefect::Form)?;
            records = rest;
            match self.set(&text[..equals], &text[equals + 1..]) {
                Err(PaxMisuse::Name) if !matches!(outcome, Err(PaxDefect::Name(_))) => {
                    outcome = Err(PaxDefect::Name(text.to_vec()));
                }
                Err(PaxMisuse::Value) if outcome.is_ok() => outcome = Err(PaxDefect::Value(text.to_vec())),
                _ => {}
            }
        }
        outcome
    }

    /// Returns a global header's values for the members after it.
    pub(crate) fn global(self) -> Self {
        Self { xattrs: Vec::new(), sparse: Sparse::default(), ..self }
    }

    /// Applies a record. An empty value deletes the value of another header: the member's own
    /// header applies then, but owners have no name and links lead nowhere, as in GNU tar.
    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), PaxMisuse> {
        match key {
            b"path" => self.path = name(value)?,
            b"linkpath" => self.link = Some(text(value)?),
            b"size" => self.size = length(value)?,
            b"uid" => self.user = natural(value)?,
            b"gid" => self.group = natural(value)?,
            b"uname" => self.user_name = Some(text(value)?),
            b"gname" => self.group_name = Some(text(value)?),
            b"mtime" => self.modified = time(value)?,
            b"SCHILY.acl.access" => self.access_list = Some(value.to_vec()),
            b"SCHILY.acl.default" => self.default_access_list = Some(value.to_vec()),
            _ => match (key.strip_prefix(b"SCHILY.xattr."), key.strip_prefix(b"GNU.sparse.")) {
                // No attribute has an empty name, and GNU tar passes over such a record.
                (Some(b""), _) => {}
                (Some(key), _) => self.xattrs.push((decoded(key).ok_or(PaxMisuse::Value)?, value.to_vec())),
                (_, Some(key)) => self.sparse.set(key, value)?,
                _ => {}
            },
        }
        Ok(())
    }
}

impl Sparse {
    /// True if the member is a sparse file.
    pub(crate) fn is_any(&self) -> bool {
        self.major.is_some() || self.map.is_some() || self.size.is_some()
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), PaxMisuse> {
        match key {
            b"major" => self.major = natural(value)?,
            b"minor" => self.minor = natural(value)?,
            b"name" => self.name = name(value)?,
            b"size" | b"realsize" => self.size = natural(value)?,
            b"map" => self.map = Some(sparse::list(value).ok_or(PaxMisuse::Value)?),
            b"offset" => self.offset = natural(value)?,
            b"numbytes" => {
                let (Some(offset), Some(length)) = (self.offset.take(), natural(value)?) else {
                    return Err(PaxMisuse::Value);
                };
                let map = self.map.get_or_insert_default();
                if map.len() >= EXTENTS_MAX {
                    return Err(PaxMisuse::Value);
                }
                map.push(Extent { offset, length });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Cuts off the first record: its text after the length, the offset of its equals sign, and the
/// rest; or returns what is missing.
fn record(records: &[u8]) -> Result<(&[u8], usize, &[u8]), &'static str> {
    let blanks = |text: &[u8]| text.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    let start = blanks(records);
    let (digits, rest) = leading_digits(&records[start..]);
    if digits.is_empty() {
        return Err("missing length");
    }
    let length = sparse::decimal(digits).and_then(|length| usize::try_from(length).ok());
    let length = length.filter(|length| *length <= records.len()).ok_or("length is out of range")?;
    let key = start + digits.len() + blanks(rest);
    if blanks(rest) == 0 {
        return Err("missing blank after length");
    }
    let text = records.get(key..length).unwrap_or_default();
    let equals = text.iter().position(|byte| *byte == b'=').ok_or("missing equal sign")?;
    let text = text.strip_suffix(b"\n").ok_or("missing newline")?;
    Ok((text, equals, &records[length..]))
}

/// Reads text that must have no NUL.
fn text(value: &[u8]) -> Result<Vec<u8>, PaxMisuse> {
    if value.contains(&0) { Err(PaxMisuse::Name) } else { Ok(value.to_vec()) }
}

/// Reads the name of a file; an empty value deletes it.
fn name(value: &[u8]) -> Result<Option<Vec<u8>>, PaxMisuse> {
    text(value).map(|name| Some(name).filter(|name| !name.is_empty()))
}

/// Reads the length of a file.
fn length(value: &[u8]) -> Result<Option<u64>, PaxMisuse> {
    natural(value)?.map_or(Ok(None), |length| match length <= FILE_BYTES_MAX {
        true => Ok(Some(length)),
        false => Err(PaxMisuse::Value),
    })
}

fn natural(value: &[u8]) -> Result<Option<u64>, PaxMisuse> {
    match value.is_empty() {
        true => Ok(None),
        false => sparse::decimal(value).map(Some).ok_or(PaxMisuse::Value),
    }
}

/// Reads seconds with a fraction; digits after the ninth are cut off, towards the past. As in GNU
/// tar, there must be a digit before the point, and anything after the number is ignored.
fn time(value: &[u8]) -> Result<Option<Timestamp>, PaxMisuse> {
    if value.is_empty() {
        return Ok(None);
    }
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let (whole, rest) = leading_digits(digits);
    // Wide enough for `i64::MIN`, whose magnitude is not an `i64`.
    let whole = sparse::decimal(whole).map(i128::from).ok_or(PaxMisuse::Value)?;
    let fraction = rest.strip_prefix(b".").map_or(&b""[..], |rest| leading_digits(rest).0);
    let digit = |index: usize| fraction.get(index).map_or(0, |byte| u32::from(byte - b'0'));
    let nanoseconds = (0..9).fold(0, |value, index| value * 10 + digit(index));
    let is_cut = fraction.iter().skip(9).any(|byte| *byte != b'0');
    let (seconds, nanoseconds) = match (negative, nanoseconds + u32::from(negative && is_cut)) {
        (false, nanoseconds) => (whole, nanoseconds),
        (true, 0) => (-whole, 0),
        (true, nanoseconds) => (-whole - 1, 1_000_000_000 - nanoseconds),
    };
    let seconds = i64::try_from(seconds).map_err(|_| PaxMisuse::Value)?;
    Ok(Some(Timestamp { seconds, nanoseconds }))
}

/// Splits text after its leading digits.
fn leading_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Decodes the key of an attribute, in which GNU tar writes `=` and `%` as `%3D` and `%25`. `None`
/// if it cannot be a key.
fn decoded(key: &[u8]) -> Option<Vec<u8>> {
    if key.contains(&0) {
        return None;
    }
    let mut decoded = Vec::with_capacity(key.len());
    let mut rest = key;
    while let Some((&first, more)) = rest.split_first() {
        let (byte, length) = match rest {
            [b'%', b'3', b'D', ..] => (b'=', 3),
            [b'%', b'2', b'5', ..] => (b'%', 3),
            _ => (first, 1),
        };
        decoded.push(byte);
        rest = if length == 1 { more } else { &rest[length..] };
    }
    Some(decoded)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn records(pairs: &[(&str, &[u8])]) -> Vec<u8> {
        let mut text = Vec::new();
        for (key, value) in pairs {
            let body = key.len() + value.len() + 3;
            let mut length = body + 1;
            while length != body + length.to_string().len() {
                length = body + length.to_string().len();
            }
            text.extend_from_slice(format!("{length} {key}=").as_bytes());
            text.extend_from_slice(value);
            text.push(b'\n');
        }
        text
    }

    #[test]
    fn records_are_read_whatever_is_in_the_values() {
        let mut header = Extended::default();
        let text = records(&[
            ("path", b"a\n9 b=c"),
            ("size", b"12345678901"),
            ("mtime", b"-1.5"),
            ("SCHILY.xattr.user.a%3Db%25", b"\0=\n"),
            ("comment", b""),
        ]);
        assert_eq!(header.take(&text), Ok(()));
        assert_eq!(header.path.as_deref(), Some(&b"a\n9 b=c"[..]));
        assert_eq!(header.size, Some(12_345_678_901));
        assert_eq!(header.modified, Some(Timestamp { seconds: -2, nanoseconds: 500_000_000 }));
        assert_eq!(header.xattrs, [(b"user.a=b%".to_vec(), b"\0=\n".to_vec())]);
    }

    #[test]
    fn times_keep_nine_digits_and_never_get_later() {
        for (text, seconds, nanoseconds) in [
            ("0", 0, 0),
            ("1.000000001", 1, 1),
            ("1.1", 1, 100_000_000),
            ("1.9999999999", 1, 999_999_999),
            ("-0.25", -1, 750_000_000),
            ("-3", -3, 0),
            ("-1.0000000001", -2, 999_999_999),
            ("-0.9999999999", -1, 0),
            ("1.", 1, 0),
            ("-0", 0, 0),
            ("1.5x", 1, 500_000_000),
            ("1,5", 1, 0),
            ("1e3", 1, 0),
            ("1.5 ", 1, 500_000_000),
            ("1.-5", 1, 0),
            ("9223372036854775807.9", i64::MAX, 900_000_000),
            ("-9223372036854775808", i64::MIN, 0),
        ] {
            let expected = Timestamp { seconds, nanoseconds };
            assert_eq!(time(text.as_bytes()), Ok(Some(expected)), "{text}");
        }
        let wrong = ["x", "--1", "-", ".", ".5", "-.5", "+1", " 1", "99999999999999999999"];
        for text in wrong.into_iter().chain(["9223372036854775808", "-9223372036854775808.5"]) {
            assert_eq!(time(text.as_bytes()), Err(PaxMisuse::Value), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_and_what_came_before_is_kept() {
        let wrong = |text: &[u8]| Extended::default().take(text);
        for (text, what) in [
            (&b"junk"[..], "missing length"),
            (b"-6 a=b\n", "missing length"),
            (b"6 a=b\n\n", "missing length"),
            (b"9 a=b\n", "length is out of range"),
            (b"6 a=b\n9", "length is out of range"),
            (b"99999999999999999999999 a=b\n", "length is out of range"),
            (b"2\n", "missing blank after length"),
            (b"0 a=b\n", "missing equal sign"),
            (b"6 a=b\n5 ab\n", "missing equal sign"),
            (b"3 \n", "missing equal sign"),
            (b"6  a=b", "missing newline"),
        ] {
            assert_eq!(wrong(text), Err(PaxDefect::Form(what)), "{}", text.escape_ascii());
        }
        let nameless = records(&[("SCHILY.xattr.", b"v")]);
        let valid = [&b"  8 a=b\n"[..], b"7  a=b\n", b"6\ta=b\n", b"5 =b\n", b"6 a=b\n\0\0", &nameless];
        for text in valid {
            assert_eq!(wrong(text), Ok(()), "{}", text.escape_ascii());
        }
        let name = Err(PaxDefect::Name(b"path=a\0b".to_vec()));
        assert_eq!(wrong(&records(&[("size", b"x"), ("path", b"a\0b"), ("size", b"x")])), name);
        for (key, value) in [("size", "-5"), ("size", "9223372036854775808"), ("GNU.sparse.numbytes", "5")] {
            let record = Err(PaxDefect::Value(format!("{key}={value}").into_bytes()));
            assert_eq!(wrong(&records(&[(key, value.as_bytes()), ("mtime", b"x")])), record);
        }
        let mut header = Extended::default();
        let text = [records(&[("path", b"kept")]), b"junk".to_vec()].concat();
        assert!(header.take(&text).is_err());
        assert_eq!(header.path.as_deref(), Some(&b"kept"[..]));
    }

    #[test]
    fn what_is_said_of_one_member_goes_before_what_is_said_of_all() {
        let all = [("path", &b"all"[..]), ("uname", b"all"), ("gname", b"all"), ("uid", b"1"), ("gid", b"1")];
        let mut header = Extended::default();
        header.take(&records(&all)).unwrap();
        header.take(&records(&[("path", b""), ("uname", b"one"), ("gname", b""), ("uid", b"")])).unwrap();
        assert_eq!((header.path, header.user, header.group), (None, None, Some(1)));
        assert_eq!((header.user_name.unwrap(), header.group_name.unwrap()), (b"one".to_vec(), Vec::new()));
    }
}
