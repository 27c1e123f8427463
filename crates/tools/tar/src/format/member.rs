//! Encodes everything before a member's content: its header, and extended headers for values that
//! do not fit in it.

use haul_sys::{Timestamp, device_parts};

use super::header::{Field, HeaderBlock, Magic, NAME_BYTES, OWNER_BYTES, PREFIX_BYTES};
use super::kind::MemberKind;
use super::{BLOCK_BYTES, in_blocks};
use crate::options::Format;

#[derive(Clone, Debug)]
pub(crate) struct HeaderFields<'a> {
    /// Name; a directory's has a slash at the end.
    pub(crate) path: &'a [u8],
    pub(crate) kind: MemberKind,
    pub(crate) mode: u32,
    pub(crate) owner: u32,
    pub(crate) group: u32,
    /// Name of the owner; empty to leave it out.
    pub(crate) owner_name: &'a [u8],
    /// Name of the group; empty to leave it out.
    pub(crate) group_name: &'a [u8],
    /// Number of bytes stored.
    pub(crate) size: u64,
    /// Length of the file, if a map of its holes is stored before the data.
    pub(crate) sparse_size: Option<u64>,
    pub(crate) modified: Timestamp,
    pub(crate) link: &'a [u8],
    pub(crate) device: u64,
    /// Further records: extended attributes and access lists, with their keys in extended headers.
    pub(crate) records: &'a [(Vec<u8>, Vec<u8>)],
}

/// Reason that a member does not fit a format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FormatMisfit {
    /// The name is too long, or has no slash where it has to be split.
    Name,
    Link,
    /// A number is too large or negative: its type, the number, and the maximum.
    Number(&'static str, i64, i64),
}

/// Appends the headers of a member to `out`.
///
/// # Errors
/// When something does not fit the format; nothing is appended then.
pub(crate) fn encode(
    format: Format,
    member: &HeaderFields<'_>,
    out: &mut Vec<u8>,
) -> Result<(), FormatMisfit> {
    match format {
        Format::Pax => pax(member, out),
        Format::Gnu => gnu(member, out),
        Format::Ustar => {
            let block = ustar(member)?;
            block.finish(out);
        }
    }
    Ok(())
}

/// Creates a header with the fields that are the same in every format.
fn begin(member: &HeaderFields<'_>, magic: Magic) -> HeaderBlock {
    let mut block = HeaderBlock::new(member.kind.letter(), magic);
    block.number(&Field::MODE, u64::from(member.mode & 0o7777));
    block.names(member.owner_name, member.group_name);
    block.link(member.link);
    if matches!(member.kind, MemberKind::CharacterDevice | MemberKind::BlockDevice) {
        let (major, minor) = device_parts(member.device);
        block.number(&Field::DEVICE_MAJOR, u64::from(major));
        block.number(&Field::DEVICE_MINOR, u64::from(minor));
    } else if magic == Magic::Posix {
        block.number(&Field::DEVICE_MAJOR, 0);
        block.number(&Field::DEVICE_MINOR, 0);
    }
    block
}

/// Splits a name so that both halves fit in a header.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    if path.len() <= NAME_BYTES {
        return Some((b"", path));
    }
    // The slash at a directory's end is no place to split at.
    let last = path.len() - 1;
    let slash = path[..last.min(PREFIX_BYTES + 1)].iter().rposition(|byte| *byte == b'/')?;
    let (prefix, name) = (&path[..slash], &path[slash + 1..]);
    (!prefix.is_empty() && name.len() <= NAME_BYTES).then_some((prefix, name))
}

/// Returns the numbers of a header: their types, fields, and values.
fn numbers(member: &HeaderFields<'_>) -> [(&'static str, Field, i64); 4] {
    [
        ("uid_t", Field::OWNER, i64::from(member.owner)),
        ("gid_t", Field::GROUP, i64::from(member.group)),
        ("off_t", Field::SIZE, i64::try_from(member.size).unwrap_or(i64::MAX)),
        ("time_t", Field::MODIFIED, member.modified.seconds),
    ]
}

fn ustar(member: &HeaderFields<'_>) -> Result<HeaderBlock, FormatMisfit> {
    let (prefix, name) = split(member.path).ok_or(FormatMisfit::Name)?;
    if member.link.len() > NAME_BYTES {
        return Err(FormatMisfit::Link);
    }
    let mut block = begin(member, Magic::Posix);
    block.name(name);
    block.prefix(prefix);
    for (what, field, number) in numbers(member) {
        let digits = if what == "uid_t" || what == "gid_t" { 7 } else { 11 };
        if !field.holds(number) {
            return Err(FormatMisfit::Number(what, number, (1 << (3 * digits)) - 1));
        }
        block.number(&field, number.unsigned_abs());
    }
    Ok(block)
}

fn gnu(member: &HeaderFields<'_>, out: &mut Vec<u8>) {
    // GNU tar's order: the link first, and root as the owner.
    for (kind, text) in [(b'K', member.link), (b'L', member.path)] {
        if text.len() > NAME_BYTES {
            let mut block = HeaderBlock::new(kind, Magic::Gnu);
            block.name(b"././@LongLink");
            block.number(&Field::MODE, 0o644);
            block.names(b"root", b"root");
            block.number(&Field::SIZE, text.len() as u64 + 1);
            block.finish(out);
            out.extend_from_slice(text);
            let bytes = out.len() + in_blocks(text.len() as u64 + 1) as usize - text.len();
            out.resize(bytes, 0);
        }
    }
    let mut block = begin(member, Magic::Gnu);
    block.name(member.path);
    for (_, field, number) in numbers(member) {
        block.any_number(&field, number);
    }
    block.finish(out);
}

fn pax(member: &HeaderFields<'_>, out: &mut Vec<u8>) {
    // Records are written in their final place, behind room for their header. Without records the
    // room is removed.
    let begins = out.len();
    let records_begin = begins + BLOCK_BYTES as usize;
    out.resize(records_begin, 0);
    let block = describe(member, out);
    let bytes = out.len() - records_begin;
    if bytes == 0 {
        out.truncate(begins);
    } else {
        out.resize(records_begin + in_blocks(bytes as u64) as usize, 0);
        let mut extended = HeaderBlock::new(b'x', Magic::Posix);
        extended.name_parts(auxiliary_name(member.path, b"PaxHeaders"));
        extended.number(&Field::MODE, 0o644);
        extended.number(&Field::SIZE, bytes as u64);
        out[begins..records_begin].copy_from_slice(&extended.finished());
    }
    block.finish(out);
}

/// Creates the header of a member, and appends records for values that do not fit in it.
fn describe(member: &HeaderFields<'_>, records: &mut Vec<u8>) -> HeaderBlock {
    let mut block = begin(member, Magic::Posix);
    let parts = split(member.path);
    match (member.sparse_size, parts) {
        // GNU tar has its process id in place of the 0, so that no two archives are equal.
        (Some(_), _) => block.name_parts(auxiliary_name(member.path, b"GNUSparseFile.0")),
        (None, Some((prefix, name))) => {
            block.name(name);
            block.prefix(prefix);
        }
        // Cut off; the record has all of it.
        (None, None) => block.name(member.path),
    }
    let texts: [(&[u8], &[u8], bool); 5] = [
        (b"path", member.path, member.sparse_size.is_none() && parts.is_none()),
        (b"GNU.sparse.name", member.path, member.sparse_size.is_some()),
        (b"linkpath", member.link, member.link.len() > NAME_BYTES),
        (b"uname", member.owner_name, member.owner_name.len() > OWNER_BYTES),
        (b"gname", member.group_name, member.group_name.len() > OWNER_BYTES),
    ];
    let recorded = texts.iter().filter(|(.., is_recorded)| *is_recorded);
    if recorded.clone().any(|(_, text, _)| std::str::from_utf8(text).is_err()) {
        // Text in records is taken for UTF-8 unless it is declared binary.
        record(records, b"hdrcharset", b"BINARY");
    }
    recorded.for_each(|(key, text, _)| record(records, key, text));
    for (what, field, number) in numbers(member) {
        if field.holds(number) {
            block.number(&field, number.unsigned_abs());
        }
        let key: &[u8] = match what {
            "uid_t" => b"uid",
            "gid_t" => b"gid",
            "off_t" => b"size",
            _ => b"mtime",
        };
        if key == b"mtime" && (member.modified.nanoseconds != 0 || !field.holds(number)) {
            let mut text = [0; MOMENT_BYTES];
            record(records, key, moment(member.modified, &mut text));
        } else if !field.holds(number) {
            record(records, key, itoa::Buffer::new().format(number).as_bytes());
        }
    }
    if let Some(size) = member.sparse_size {
        record(records, b"GNU.sparse.major", b"1");
        record(records, b"GNU.sparse.minor", b"0");
        record(records, b"GNU.sparse.realsize", itoa::Buffer::new().format(size).as_bytes());
    }
    for (key, value) in member.records {
        record(records, key, value);
    }
    block
}

/// Returns the name of an auxiliary member, in parts: in a directory next to the member it
/// belongs to.
fn auxiliary_name<'a>(path: &'a [u8], directory: &'a [u8]) -> [&'a [u8]; 4] {
    let path = path.strip_suffix(b"/").unwrap_or(path);
    let start = path.iter().rposition(|byte| *byte == b'/').map_or(0, |slash| slash + 1);
    let (before, name) = path.split_at(start);
    let before = if before.is_empty() { b"./".as_slice() } else { before };
    [before, directory, b"/", name]
}

/// Maximum length of a time as text, in bytes: a sign, digits of 64 bits, a point and nine
/// more digits.
const MOMENT_BYTES: usize = 1 + 20 + 1 + 9;

/// Formats a time for an extended header: as a decimal fraction, also before 1970.
fn moment(time: Timestamp, text: &mut [u8; MOMENT_BYTES]) -> &[u8] {
    let Timestamp { seconds, nanoseconds } = time;
    let is_fraction_before = seconds < 0 && nanoseconds > 0;
    let (whole, fraction) = match is_fraction_before {
        true => ((seconds + 1).unsigned_abs(), 1_000_000_000 - nanoseconds),
        false => (seconds.unsigned_abs(), nanoseconds),
    };
    let mut length = 0;
    if seconds < 0 {
        text[0] = b'-';
        length = 1;
    }
    let mut digits = itoa::Buffer::new();
    let whole = digits.format(whole).as_bytes();
    text[length..length + whole.len()].copy_from_slice(whole);
    length += whole.len();
    if fraction > 0 {
        text[length] = b'.';
        let mut rest = fraction;
        for place in (length + 1..=length + 9).rev() {
            text[place] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        length += 10;
        while text[length - 1] == b'0' {
            length -= 1;
        }
    }
    &text[..length]
}

/// Appends a record of an extended header: its length, which counts its own digits, the key, and
/// the value.
fn record(records: &mut Vec<u8>, key: &[u8], value: &[u8]) {
    let rest = key.len() + value.len() + 3;
    let mut bytes = rest + 1;
    while bytes != rest + digits(bytes) {
        bytes = rest + digits(bytes);
    }
    let mut length = itoa::Buffer::new();
    for part in [length.format(bytes).as_bytes(), b" ", key, b"=", value, b"\n"] {
        records.extend_from_slice(part);
    }
}

fn digits(number: usize) -> usize {
    number.checked_ilog10().unwrap_or(0) as usize + 1
}

#[cfg(test)]
mod tests {
    use std::io::Read;

    use super::*;

    const PLAIN: HeaderFields<'_> = HeaderFields {
        path: b"name",
        kind: MemberKind::Regular,
        mode: 0o4755,
        owner: 1000,
        group: 100,
        owner_name: b"someone",
        group_name: b"users",
        size: 0,
        sparse_size: None,
        modified: Timestamp { seconds: 1_700_000_000, nanoseconds: 0 },
        link: b"",
        device: 0,
        records: &[],
    };

    fn encoded(format: Format, member: &HeaderFields<'_>) -> Vec<u8> {
        let mut out = Vec::new();
        encode(format, member, &mut out).unwrap();
        assert_eq!(out.len() % 512, 0);
        out
    }

    /// Reads the only member of an archive with another implementation, and passes its path, link
    /// and records to `check`.
    fn read_back(
        mut archive: Vec<u8>,
        check: impl FnOnce(&tar::Header, Vec<u8>, Vec<u8>, Vec<(String, Vec<u8>)>),
    ) {
        archive.resize(archive.len() + 1024, 0);
        let mut archive = tar::Archive::new(archive.as_slice());
        let mut entry = archive.entries().unwrap().next().unwrap().unwrap();
        let records = entry.pax_extensions().unwrap().map_or_else(Vec::new, |records| {
            let pair = |record: tar::PaxExtension<'_>| {
                (record.key().unwrap().to_owned(), record.value_bytes().to_vec())
            };
            records.map(|record| pair(record.unwrap())).collect()
        });
        let (path, link) =
            (entry.path_bytes().to_vec(), entry.link_name_bytes().unwrap_or_default().to_vec());
        let header = entry.header().clone();
        let mut content = Vec::new();
        entry.read_to_end(&mut content).unwrap();
        check(&header, path, link, records);
    }

    #[test]
    fn what_fits_takes_one_block() {
        for format in [Format::Pax, Format::Gnu, Format::Ustar] {
            let out = encoded(format, &PLAIN);
            assert_eq!(out.len(), 512);
            read_back(out, |header, path, _, _| {
                assert_eq!(path, b"name");
                assert_eq!((header.mode().unwrap(), header.mtime().unwrap()), (0o4755, 1_700_000_000));
                assert_eq!((header.uid().unwrap(), header.gid().unwrap()), (1000, 100));
                assert_eq!(header.username_bytes().unwrap(), b"someone");
                assert_eq!(header.groupname_bytes().unwrap(), b"users");
            });
        }
    }

    #[test]
    fn what_does_not_fit_is_in_extended_headers() {
        let long = [b'n'; 300];
        let deep = [[b'd'; 120].as_slice(), b"/", &[b'n'; 90]].concat();
        for format in [Format::Pax, Format::Gnu] {
            let link = HeaderFields { path: &long, kind: MemberKind::Symlink, link: &[b'l'; 101], ..PLAIN };
            read_back(encoded(format, &link), |_, path, link, _| {
                assert_eq!((path.as_slice(), link.as_slice()), (long.as_slice(), [b'l'; 101].as_slice()));
            });
            read_back(encoded(format, &HeaderFields { path: &deep, ..PLAIN }), |_, path, _, _| {
                assert_eq!(path, deep)
            });
            let large = HeaderFields { owner: 3_000_000, group: u32::MAX, ..PLAIN };
            read_back(encoded(format, &large), |header, _, _, records| match format {
                Format::Gnu => {
                    assert_eq!(
                        (header.uid().unwrap(), header.gid().unwrap()),
                        (3_000_000, u64::from(u32::MAX))
                    );
                }
                _ => {
                    let wanted =
                        [("uid".to_owned(), b"3000000".to_vec()), ("gid".to_owned(), b"4294967295".to_vec())];
                    assert_eq!(records, wanted);
                }
            });
        }
        assert_eq!(encoded(Format::Pax, &HeaderFields { path: &deep, ..PLAIN }).len(), 512);
    }

    #[test]
    fn times_are_kept_to_the_nanosecond() {
        for (seconds, nanoseconds, text) in [
            (1_700_000_000, 123_456_789, "1700000000.123456789"),
            (1_700_000_000, 500_000_000, "1700000000.5"),
            (-1, 500_000_000, "-0.5"),
            (-5, 0, "-5"),
            (-5, 250_000_000, "-4.75"),
            (1 << 33, 0, "8589934592"),
        ] {
            let member = HeaderFields { modified: Timestamp { seconds, nanoseconds }, ..PLAIN };
            let out = encoded(Format::Pax, &member);
            let (record, length) = (format!("mtime={text}\n"), 512 + 512 + 512);
            let record = format!("{} {record}", record.len() + 3);
            assert_eq!((&out[512..512 + record.len()], out.len()), (record.as_bytes(), length));
        }
    }

    #[test]
    fn a_records_length_counts_its_own_digits() {
        for bytes in [1, 84, 85, 86, 90, 91, 92, 985, 986, 987, 9984, 9985] {
            let mut records = Vec::new();
            record(&mut records, b"comment", &vec![b'x'; bytes]);
            let (length, _) = records.split_at(records.iter().position(|byte| *byte == b' ').unwrap());
            assert_eq!(std::str::from_utf8(length).unwrap().parse(), Ok(records.len()));
        }
    }

    #[test]
    fn ustar_refuses_what_does_not_fit() {
        let refused = |member: HeaderFields<'_>| encode(Format::Ustar, &member, &mut Vec::new()).unwrap_err();
        assert_eq!(refused(HeaderFields { path: &[b'n'; 101], ..PLAIN }), FormatMisfit::Name);
        assert_eq!(
            refused(HeaderFields { link: &[b'n'; 101], kind: MemberKind::Symlink, ..PLAIN }),
            FormatMisfit::Link
        );
        assert_eq!(
            refused(HeaderFields { owner: 1 << 21, ..PLAIN }),
            FormatMisfit::Number("uid_t", 1 << 21, (1 << 21) - 1)
        );
        assert_eq!(
            refused(HeaderFields { size: 1 << 33, ..PLAIN }),
            FormatMisfit::Number("off_t", 1 << 33, (1 << 33) - 1)
        );
        let edge = [[b'd'; 155].as_slice(), b"/", &[b'n'; 99], b"/"].concat();
        read_back(encoded(Format::Ustar, &HeaderFields { path: &edge, ..PLAIN }), |_, path, _, _| {
            assert_eq!(path, edge)
        });
    }
}
