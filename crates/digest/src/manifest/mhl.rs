//! ASC MHL 2.0, the Media Hash List of the American Society of Cinematographers.
//!
//! A hash list as in `xsd/ASCMHL.xsd` of <https://github.com/ascmitc/mhl>, with the process
//! `in-place` and each hash as `original`. Hashes of directories and references to other lists are
//! neither written nor checked.
//!
//! XML has no way to write most control characters, so names with them are refused. Others that
//! a parser would change (tab, line feed, carriage return) are written as character references.

use std::borrow::Cow;
use std::time::{Duration, SystemTime};

use quick_xml::escape::escape;
use quick_xml::events::{BytesDecl, BytesEnd, BytesStart, BytesText, Event};
use roxmltree::{Document, Node};

use crate::algorithm::{Algorithm, Digest};

use super::parse::{ExpectedHash, ManifestEntry, ManifestLine, ParseError};
use super::write::{Creator, HashRecord, WriteError};

const NAMESPACE: &str = "urn:ASC:MHL:v2.0";

/// True if the schema has an element for the algorithm.
pub(super) fn has(algorithm: Algorithm) -> bool {
    match algorithm {
        Algorithm::Xxh128 | Algorithm::Xxh64 | Algorithm::Md5 => true,
        Algorithm::Blake3 | Algorithm::Sha256 => false,
    }
}

/// A hash list that is being written.
pub(super) struct HashList {
    creator: Creator,
    created: String,
    has_records: bool,
}

impl HashList {
    pub(super) fn new(creator: &Creator) -> Self {
        Self { creator: creator.clone(), created: date_time(creator.created), has_records: false }
    }

    pub(super) fn begin(&self, out: &mut Vec<u8>) {
        let mut xml = Xml { out, depth: 0 };
        xml.write(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)));
        xml.start("hashlist", &[("version", "2.0"), ("xmlns", NAMESPACE)]);
        xml.start("creatorinfo", &[]);
        xml.element("creationdate", &[], &self.created);
        xml.element("hostname", &[], &self.creator.host);
        xml.element("tool", &[("version", &self.creator.version)], "haul");
        xml.end("creatorinfo");
        xml.start("processinfo", &[]);
        xml.element("process", &[], "in-place");
        xml.end("processinfo");
    }

    pub(super) fn record(&mut self, out: &mut Vec<u8>, record: &HashRecord<'_>) -> Result<(), WriteError> {
        let path = std::str::from_utf8(record.path).ok().filter(|path| path.chars().all(is_in_xml));
        let path = path.ok_or(WriteError::NameNotInMhl)?;
        let algorithm = record.digest.algorithm();
        if !has(algorithm) {
            return Err(WriteError::NotInMhl(algorithm));
        }
        let mut xml = Xml { out, depth: 1 };
        // The schema allows no empty list.
        if !std::mem::replace(&mut self.has_records, true) {
            xml.start("hashes", &[]);
        }
        xml.depth = 2;
        xml.start("hash", &[]);
        let size = record.size.map(|size| size.to_string());
        let size: Vec<_> = size.iter().map(|size| ("size", size.as_str())).collect();
        xml.element("path", &size, path);
        let attributes = [("action", "original"), ("hashdate", self.created.as_str())];
        xml.element(algorithm.name(), &attributes, &record.digest.to_string());
        xml.end("hash");
        Ok(())
    }

    pub(super) fn end(&self, out: &mut Vec<u8>) {
        let mut xml = Xml { out, depth: 2 };
        if self.has_records {
            xml.end("hashes");
        }
        xml.depth = 1;
        xml.end("hashlist");
    }
}

/// Writes events with one element on a line.
struct Xml<'a> {
    out: &'a mut Vec<u8>,
    depth: usize,
}

impl Xml<'_> {
    fn write(&mut self, event: Event<'_>) {
        self.add(event);
        self.out.push(b'\n');
    }

    fn add(&mut self, event: Event<'_>) {
        // Writing to memory can't fail.
        quick_xml::Writer::new(&mut *self.out).write_event(event).unwrap_or_default();
    }

    fn indent(&mut self) {
        self.out.extend(std::iter::repeat_n(b' ', 2 * self.depth));
    }

    fn start(&mut self, name: &str, attributes: &[(&str, &str)]) {
        self.indent();
        self.write(Event::Start(BytesStart::new(name).with_attributes(attributes.iter().copied())));
        self.depth += 1;
    }

    fn end(&mut self, name: &str) {
        self.depth -= 1;
        self.indent();
        self.write(Event::End(BytesEnd::new(name)));
    }

    fn element(&mut self, name: &str, attributes: &[(&str, &str)], text: &str) {
        self.indent();
        self.add(Event::Start(BytesStart::new(name).with_attributes(attributes.iter().copied())));
        self.add(Event::Text(BytesText::from_escaped(escaped(text))));
        self.write(Event::End(BytesEnd::new(name)));
    }
}

/// True if XML 1.0 can represent a character.
fn is_in_xml(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' => true,
        '\u{fffe}' | '\u{ffff}' => false,
        _ => character >= ' ',
    }
}

fn escaped(text: &str) -> Cow<'_, str> {
    let escaped = escape(text);
    if !escaped.contains(['\t', '\n', '\r']) {
        return escaped;
    }
    let reference = |character: char| match character {
        '\t' => "&#9;".to_owned(),
        '\n' => "&#10;".to_owned(),
        '\r' => "&#13;".to_owned(),
        other => other.to_string(),
    };
    escaped.chars().map(reference).collect::<String>().into()
}

/// Formats a time as in XML Schema, in UTC and whole seconds.
fn date_time(time: SystemTime) -> String {
    let seconds = time.duration_since(SystemTime::UNIX_EPOCH).unwrap_or(Duration::ZERO).as_secs();
    let (mut days, second) = (seconds / 86400, seconds % 86400);
    let is_leap =
        |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let february = 28 + u64::from(is_leap(year));
    let mut month = 1;
    for length in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30] {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{:02}T{hour:02}:{minute:02}:{second:02}+00:00", days + 1)
}

/// Parses a hash list. Each file is an item, or an error with the line of its element.
pub(super) fn parse(bytes: &[u8], hint: Option<Algorithm>, take: &mut impl FnMut(ManifestLine)) {
    let fail = |take: &mut dyn FnMut(ManifestLine), line| {
        take(ManifestLine { line, listed: Err(ParseError::Malformed) })
    };
    let Ok(text) = std::str::from_utf8(bytes) else { return fail(take, 1) };
    let document = match Document::parse(text) {
        Ok(document) => document,
        Err(cause) => return fail(take, cause.pos().row.into()),
    };
    if document.root_element().tag_name().name() != "hashlist" {
        return fail(take, 1);
    }
    let (mut line, mut counted) = (1, 0);
    let hashes = document.root_element().children().filter(|node| node.tag_name().name() == "hashes");
    for hash in hashes.flat_map(|hashes| hashes.children()).filter(|node| node.tag_name().name() == "hash") {
        // Positions only grow, so the lines are counted once.
        let start = hash.range().start;
        line += bytes[counted..start].iter().filter(|byte| **byte == b'\n').count() as u64;
        counted = start;
        take(ManifestLine { line, listed: listed(hash, hint) });
    }
}

fn listed(hash: Node<'_, '_>, hint: Option<Algorithm>) -> Result<ManifestEntry, ParseError> {
    let elements = || hash.children().filter(Node::is_element);
    let path_element = elements().find(|node| node.tag_name().name() == "path").ok_or(ParseError::BadName)?;
    let path = text(path_element).into_bytes();
    if path.is_empty() || path.contains(&0) {
        return Err(ParseError::BadName);
    }
    let size = path_element.attribute("size").and_then(|size| size.trim().parse().ok());
    // A hash marked as failed belongs to a damaged file.
    let sound = elements().filter(|node| node.attribute("action") != Some("failed"));
    let mut known: Vec<_> = sound
        .filter_map(|node| Some((Algorithm::of_name(node.tag_name().name()).filter(|it| has(*it))?, node)))
        .collect();
    known.sort_by_key(|(algorithm, _)| Some(*algorithm) != hint);
    let (algorithm, node) = known.first().ok_or(ParseError::UnknownAlgorithm)?;
    let digest = Digest::parse(*algorithm, text(*node).trim().as_bytes()).ok_or(ParseError::BadHash)?;
    Ok(ManifestEntry { path, size, expected: ExpectedHash::Known(digest) })
}

/// Returns the text of an element. It is in several parts if there are comments in it.
fn text(node: Node<'_, '_>) -> String {
    node.children().filter(Node::is_text).filter_map(|part| part.text()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        let at = |seconds| date_time(SystemTime::UNIX_EPOCH + Duration::from_secs(seconds));
        assert_eq!(at(0), "1970-01-01T00:00:00+00:00");
        assert_eq!(at(951_827_696), "2000-02-29T12:34:56+00:00");
        assert_eq!(at(1_735_689_599), "2024-12-31T23:59:59+00:00");
        assert_eq!(at(4_107_542_400), "2100-03-01T00:00:00+00:00");
    }
}
