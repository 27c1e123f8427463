//! Extended headers: records of `LENGTH KEY=VALUE`, for one member (`x`) or for all that
//! follow (`g`).

use haul_sys::Timestamp;

use super::sparse::{self, EXTENTS_MAX, Extent};

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

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wrong {
    /// It does not consist of records. Everything after the first malformed one is lost.
    Form,
    /// A value is not valid for its key.
    Value,
    /// A name has a NUL in it, and must not be used.
    Name,
}

impl Extended {
    /// Parses the records of a header. Those read before a defect are kept.
    pub(crate) fn take(&mut self, mut records: &[u8]) -> Result<(), Wrong> {
        let mut outcome = Ok(());
        while !records.is_empty() {
            let (key, value, rest) = record(records).ok_or(Wrong::Form)?;
            records = rest;
            match self.set(key, value) {
                // A bad name is the worst defect.
                Err(wrong) if outcome != Err(Wrong::Name) => outcome = Err(wrong),
                _ => {}
            }
        }
        outcome
    }

    /// Merges a header for one member over the one for all.
    pub(crate) fn over(self, global: &Extended) -> Extended {
        let all = global.clone();
        Extended {
            path: self.path.or(all.path),
            link: self.link.or(all.link),
            size: self.size.or(all.size),
            user: self.user.or(all.user),
            group: self.group.or(all.group),
            user_name: self.user_name.or(all.user_name),
            group_name: self.group_name.or(all.group_name),
            modified: self.modified.or(all.modified),
            xattrs: if self.xattrs.is_empty() { all.xattrs } else { self.xattrs },
            access_list: self.access_list.or(all.access_list),
            default_access_list: self.default_access_list.or(all.default_access_list),
            sparse: self.sparse,
        }
    }

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Wrong> {
        match key {
            b"path" => self.path = name(value)?,
            b"linkpath" => self.link = name(value)?,
            b"size" => self.size = natural(value)?,
            b"uid" => self.user = natural(value)?,
            b"gid" => self.group = natural(value)?,
            b"uname" => self.user_name = name(value)?,
            b"gname" => self.group_name = name(value)?,
            b"mtime" => self.modified = time(value)?,
            b"SCHILY.acl.access" => self.access_list = Some(value.to_vec()),
            b"SCHILY.acl.default" => self.default_access_list = Some(value.to_vec()),
            _ => match (key.strip_prefix(b"SCHILY.xattr."), key.strip_prefix(b"GNU.sparse.")) {
                (Some(key), _) => self.xattrs.push((decoded(key).ok_or(Wrong::Value)?, value.to_vec())),
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

    fn set(&mut self, key: &[u8], value: &[u8]) -> Result<(), Wrong> {
        match key {
            b"major" => self.major = natural(value)?,
            b"minor" => self.minor = natural(value)?,
            b"name" => self.name = name(value)?,
            b"size" | b"realsize" => self.size = natural(value)?,
            b"map" => self.map = Some(sparse::list(value).ok_or(Wrong::Value)?),
            b"offset" => self.offset = natural(value)?,
            b"numbytes" => {
                let (Some(offset), Some(length)) = (self.offset.take(), natural(value)?) else {
                    return Err(Wrong::Value);
                };
                let map = self.map.get_or_insert_default();
                if map.len() >= EXTENTS_MAX {
                    return Err(Wrong::Value);
                }
                map.push(Extent { offset, length });
            }
            _ => {}
        }
        Ok(())
    }
}

/// Cuts off the first record: its key, its value, and the rest.
fn record(records: &[u8]) -> Option<(&[u8], &[u8], &[u8])> {
    // A `u64` has at most 20 digits.
    let digits = records.iter().take(20).position(|byte| *byte == b' ')?;
    let length = usize::try_from(sparse::decimal(&records[..digits])?).ok()?;
    let text = records.get(digits + 1..length)?.strip_suffix(b"\n")?;
    let equals = text.iter().position(|byte| *byte == b'=')?;
    Some((&text[..equals], &text[equals + 1..], &records[length..]))
}

/// Reads a name; an empty value withdraws it.
fn name(value: &[u8]) -> Result<Option<Vec<u8>>, Wrong> {
    match value.contains(&0) {
        true => Err(Wrong::Name),
        false => Ok((!value.is_empty()).then(|| value.to_vec())),
    }
}

fn natural(value: &[u8]) -> Result<Option<u64>, Wrong> {
    match value.is_empty() {
        true => Ok(None),
        false => sparse::decimal(value).map(Some).ok_or(Wrong::Value),
    }
}

/// Reads seconds with a fraction; digits after the ninth are cut off, towards the past. As in GNU
/// tar, there must be a digit before the point, and anything after the number is ignored.
fn time(value: &[u8]) -> Result<Option<Timestamp>, Wrong> {
    if value.is_empty() {
        return Ok(None);
    }
    let (negative, digits) = match value.strip_prefix(b"-") {
        Some(digits) => (true, digits),
        None => (false, value),
    };
    let (whole, rest) = leading_digits(digits);
    // Wide enough for `i64::MIN`, whose magnitude is not an `i64`.
    let whole = sparse::decimal(whole).map(i128::from).ok_or(Wrong::Value)?;
    let fraction = rest.strip_prefix(b".").map_or(&b""[..], |rest| leading_digits(rest).0);
    let digit = |index: usize| fraction.get(index).map_or(0, |byte| u32::from(byte - b'0'));
    let nanoseconds = (0..9).fold(0, |value, index| value * 10 + digit(index));
    let is_cut = fraction.iter().skip(9).any(|byte| *byte != b'0');
    let (seconds, nanoseconds) = match (negative, nanoseconds + u32::from(negative && is_cut)) {
        (false, nanoseconds) => (whole, nanoseconds),
        (true, 0) => (-whole, 0),
        (true, nanoseconds) => (-whole - 1, 1_000_000_000 - nanoseconds),
    };
    let seconds = i64::try_from(seconds).map_err(|_| Wrong::Value)?;
    Ok(Some(Timestamp { seconds, nanoseconds }))
}

/// Splits text after its leading digits.
fn leading_digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().take_while(|byte| byte.is_ascii_digit()).count())
}

/// Decodes the key of an attribute, in which GNU tar writes `=` and `%` as `%3D` and `%25`. `None`
/// if it cannot be a key.
fn decoded(key: &[u8]) -> Option<Vec<u8>> {
    if key.is_empty() || key.contains(&0) {
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
            assert_eq!(time(text.as_bytes()), Err(Wrong::Value), "{text}");
        }
    }

    #[test]
    fn what_is_wrong_is_told_and_what_came_before_is_kept() {
        let wrong = |text: &[u8]| Extended::default().take(text);
        for text in
            [&b"9 a=b\n"[..], b"6 a=b\n9", b"0 a=b\n", b"x a=b\n", b"6 ab\n", b"6  a=b", b"3 \n", b"2\n"]
        {
            assert_eq!(wrong(text), Err(Wrong::Form), "{}", text.escape_ascii());
        }
        assert_eq!(wrong(&records(&[("path", b"a\0b"), ("size", b"x")])), Err(Wrong::Name));
        assert_eq!(wrong(&records(&[("size", b"-5")])), Err(Wrong::Value));
        assert_eq!(wrong(&records(&[("GNU.sparse.numbytes", b"5")])), Err(Wrong::Value));
        let mut header = Extended::default();
        let text = [records(&[("path", b"kept")]), b"junk".to_vec()].concat();
        assert_eq!(header.take(&text), Err(Wrong::Form));
        assert_eq!(header.path.as_deref(), Some(&b"kept"[..]));
    }

    #[test]
    fn what_is_said_of_one_member_goes_before_what_is_said_of_all() {
        let mut all = Extended::default();
        all.take(&records(&[("uname", b"all"), ("gname", b"all")])).unwrap();
        let mut one = Extended::default();
        one.take(&records(&[("uname", b"one"), ("gname", b"")])).unwrap();
        let both = one.over(&all);
        assert_eq!((both.user_name.unwrap(), both.group_name.unwrap()), (b"one".to_vec(), b"all".to_vec()));
    }
}
