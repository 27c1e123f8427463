//! Lines with a hash and a name, in the forms of coreutils and BSD.
//!
//! A line whose name was escaped begins with a backslash. The parser accepts the same lines as
//! `sha256sum -c`.

use memchr::memrchr;

use crate::algorithm::{Algorithm, Digest};

use super::LineEnd;
use super::parse::{ExpectedHash, ManifestEntry, ParseError};

/// Appends a name, escaped if necessary. Returns true if it was.
fn append_name(out: &mut Vec<u8>, name: &[u8]) -> bool {
    let mut is_escaped = false;
    for byte in name {
        let escape = match byte {
            b'\\' => b'\\',
            b'\n' => b'n',
            b'\r' => b'r',
            _ => {
                out.push(*byte);
                continue;
            }
        };
        out.extend([b'\\', escape]);
        is_escaped = true;
    }
    is_escaped
}

/// Appends a name as in a manifest of lines: escaped and with a backslash before it, if it has
/// a backslash or a line end.
pub fn append_escaped(out: &mut Vec<u8>, name: &[u8]) {
    let start = out.len();
    if append_name(out, name) {
        out.insert(start, b'\\');
    }
}

/// Appends a line.
fn append_line(out: &mut Vec<u8>, end: LineEnd, before: &[u8], name: &[u8], after: &[u8]) {
    let start = out.len();
    out.extend(before);
    if end == LineEnd::Nul {
        out.extend(name);
    } else if append_name(out, name) {
        out.insert(start, b'\\');
    }
    out.extend(after);
    out.push(end.byte());
}

/// Appends `HASH  NAME`.
pub(super) fn append_plain(out: &mut Vec<u8>, end: LineEnd, digest: &Digest, name: &[u8]) {
    append_line(out, end, format!("{digest}  ").as_bytes(), name, b"");
}

/// Appends `TAG (NAME) = HASH`.
pub(super) fn append_tagged(out: &mut Vec<u8>, end: LineEnd, digest: &Digest, name: &[u8]) {
    let before = format!("{} (", digest.algorithm().tag());
    append_line(out, end, before.as_bytes(), name, format!(") = {digest}").as_bytes());
}

/// Undoes the escaping of a name.
fn unescaped(name: &[u8]) -> Result<Vec<u8>, ParseError> {
    let mut bytes = name.iter();
    let mut result = Vec::with_capacity(name.len());
    while let Some(byte) = bytes.next() {
        result.push(match byte {
            b'\\' => match bytes.next() {
                Some(b'\\') => b'\\',
                Some(b'n') => b'\n',
                Some(b'r') => b'\r',
                _ => return Err(ParseError::BadName),
            },
            other => *other,
        });
    }
    Ok(result)
}

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

fn without_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| is_blank(byte)).count();
    &bytes[blanks..]
}

/// Parses lines. Keeps which of two forms they have.
#[derive(Default)]
pub(super) struct TextParser {
    /// True if names come after a single blank, as in reversed BSD lines; `None` before the first
    /// line that decides. The forms must not be mixed: a name may begin with a blank.
    single_blank: Option<bool>,
}

impl TextParser {
    /// Parses a line without its end.
    pub(super) fn parse(
        &mut self,
        line: &[u8],
        hint: Option<Algorithm>,
    ) -> Result<ManifestEntry, ParseError> {
        let line = without_blanks(line);
        let (line, is_escaped) = match line.strip_prefix(b"\\") {
            Some(line) => (line, true),
            None => (line, false),
        };
        let (name, expected) = match tagged(line) {
            Some(parts) => parts?,
            None => self.plain(line, hint)?,
        };
        let path = if is_escaped { unescaped(name)? } else { name.to_vec() };
        if path.is_empty() || path.contains(&0) {
            return Err(ParseError::BadName);
        }
        Ok(ManifestEntry { path, size: None, expected })
    }

    fn plain<'a>(
        &mut self,
        line: &'a [u8],
        hint: Option<Algorithm>,
    ) -> Result<(&'a [u8], ExpectedHash), ParseError> {
        let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
        let (digits, rest) = line.split_at(digits);
        let (blank, name) = rest.split_first().ok_or(ParseError::Malformed)?;
        if !is_blank(blank) || name.is_empty() {
            return Err(ParseError::Malformed);
        }
        let expected = ExpectedHash::untagged(digits, hint)?;
        let has_mode = name.len() > 1 && matches!(name[0], b' ' | b'*');
        match (has_mode, self.single_blank) {
            (false, Some(false)) => return Err(ParseError::Malformed),
            (false, _) => self.single_blank = Some(true),
            (true, None) => self.single_blank = Some(false),
            (true, Some(_)) => {}
        }
        let name = if self.single_blank == Some(true) { name } else { &name[1..] };
        Ok((name, expected))
    }
}

/// Parses a line that begins with the tag of an algorithm; `None` if there is none.
fn tagged(line: &[u8]) -> Option<Result<(&[u8], ExpectedHash), ParseError>> {
    let tag = line.iter().position(|byte| matches!(byte, b' ' | b'('))?;
    let algorithm = Algorithm::of_tag(&line[..tag])?;
    let rest = &line[tag..];
    let rest = rest.strip_prefix(b" ").unwrap_or(rest);
    let parts = || {
        let rest = rest.strip_prefix(b"(").ok_or(ParseError::Malformed)?;
        let end = memrchr(b')', rest).ok_or(ParseError::Malformed)?;
        let (name, after) = (&rest[..end], without_blanks(&rest[end + 1..]));
        let digits = without_blanks(after.strip_prefix(b"=").ok_or(ParseError::Malformed)?);
        let digest = Digest::parse(algorithm, digits).ok_or(ParseError::BadHash)?;
        Ok((name, ExpectedHash::Known(digest)))
    };
    Some(parts())
}
