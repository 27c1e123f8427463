//! Manifests: written records are parsed again, for any names, and no input makes the parser panic.

use std::time::SystemTime;

use haul_digest::manifest::{
    Creator, ExpectedHash, Format, HashRecord, LineEnd, ManifestEntry, ManifestLine, ParseError, Parser,
    WriteError, Writer,
};
use haul_digest::{Algorithm, Digest};
use haul_testkit::needs;
use proptest::prelude::*;

const FORMATS: [Format; 4] = [Format::B3sum, Format::Bsd, Format::Json, Format::Mhl];

const EMPTY_MD5: &str = "d41d8cd98f00b204e9800998ecf8427e";

fn creator() -> Creator {
    let (host, version) = ("a<b".to_owned(), "1.0".to_owned());
    Creator { host, version, created: SystemTime::UNIX_EPOCH }
}

fn parse(hint: Option<Algorithm>, pieces: &[&[u8]]) -> Vec<ManifestLine> {
    let (mut parser, mut all) = (Parser::new(hint), Vec::new());
    pieces.iter().for_each(|piece| parser.feed(piece, |parsed| all.push(parsed)));
    parser.finish(|parsed| all.push(parsed));
    all
}

fn parse_line(line: &str, hint: Option<Algorithm>) -> Result<ManifestEntry, ParseError> {
    let parsed = parse(hint, &[line.as_bytes()]);
    parsed.into_iter().next().map_or(Err(ParseError::Malformed), |parsed| parsed.listed)
}

fn written(format: Format, records: &[HashRecord<'_>]) -> Result<Vec<u8>, WriteError> {
    let algorithm = records.first().map_or(Algorithm::Md5, |record| record.digest.algorithm());
    let (mut writer, mut out) = (Writer::new(format, algorithm, LineEnd::LineFeed, &creator())?, Vec::new());
    writer.begin(&mut out);
    for record in records {
        writer.record(&mut out, record)?;
    }
    writer.end(&mut out);
    Ok(out)
}

fn names() -> impl Strategy<Value = Vec<u8>> {
    let byte = prop_oneof![
        6 => prop::sample::select(b"ab/\\\n\r\t *()=<>&'\"{#-".to_vec()),
        1 => 1u8..=255,
    ];
    prop::collection::vec(byte, 1..30)
}

fn cases() -> ProptestConfig {
    ProptestConfig::with_cases(if needs::is_full_run() { 20_000 } else { 2_000 })
}

proptest! {
    #![proptest_config(cases())]

    #[test]
    fn what_is_written_is_parsed_again(
        names in prop::collection::vec(names(), 0..6), format in prop::sample::select(FORMATS.to_vec()),
        algorithm in prop::sample::select(Algorithm::ALL.to_vec()), at in any::<prop::sample::Index>(),
    ) {
        let record = |(number, path): (usize, &'_ Vec<u8>)| -> (u64, Digest) {
            (number as u64, algorithm.hash(path))
        };
        let known: Vec<_> = names.iter().enumerate().map(record).collect();
        let records: Vec<_> = names.iter().zip(&known)
            .map(|(path, (size, digest))| HashRecord { path, size: Some(*size), digest: *digest }).collect();
        let text = match written(format, &records) {
            Ok(text) => text,
            Err(WriteError::NotInMhl(refused)) => {
                prop_assert!(format == Format::Mhl && refused == algorithm);
                return Ok(());
            }
            Err(WriteError::NameNotInMhl) => {
                let control = |byte: &u8| *byte < b' ' && !matches!(byte, b'\t' | b'\n' | b'\r');
                let is_refused = |name: &Vec<u8>| std::str::from_utf8(name).is_err() || name.iter().any(control);
                prop_assert!(format == Format::Mhl && names.iter().any(is_refused));
                return Ok(());
            }
        };
        let (first, second) = text.split_at(at.index(text.len() + 1));
        let parsed = parse(Some(algorithm), &[first, second]);
        prop_assert_eq!(parsed.len(), records.len());
        for (parsed, record) in parsed.iter().zip(&records) {
            let listed = parsed.listed.as_ref().unwrap();
            prop_assert_eq!(&listed.path, record.path);
            prop_assert_eq!(listed.expected, ExpectedHash::Known(record.digest));
            let has_size = matches!(format, Format::Json | Format::Mhl);
            prop_assert_eq!(listed.size, record.size.filter(|_| has_size));
        }
    }

    #[test]
    fn nothing_makes_the_parser_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), begin in prop::sample::select(vec!["", "<", "{", "\\", "MD5 ("]),
    ) {
        parse(None, &[begin.as_bytes(), &bytes]);
    }

    #[test]
    fn damage_makes_no_parser_panic(
        name in names(), format in prop::sample::select(FORMATS.to_vec()),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..5), cut in any::<prop::sample::Index>(),
    ) {
        let digest = Algorithm::Md5.hash(b"");
        let Ok(mut text) = written(format, &[HashRecord { path: &name, size: Some(1), digest }]) else { return Ok(()) };
        for (index, byte) in damage {
            *index.get_mut(&mut text) = byte;
        }
        text.truncate(cut.index(text.len() + 1));
        for parsed in parse(None, &[&text]) {
            if let Ok(listed) = parsed.listed {
                prop_assert!(!listed.path.is_empty() && !listed.path.contains(&0));
            }
        }
    }
}

#[test]
fn lines_are_understood_as_by_coreutils() {
    let path = |line: String| parse_line(&line, Some(Algorithm::Md5)).map(|listed| listed.path);
    let fine = [
        (format!("{EMPTY_MD5}  a"), "a"),
        (format!("{EMPTY_MD5} *a"), "a"),
        (format!("{EMPTY_MD5} a"), "a"),
        (format!("{EMPTY_MD5}   a"), " a"),
        (format!("{EMPTY_MD5}\t a"), "a"),
        (format!(" \t{EMPTY_MD5}  a\r"), "a"),
        (format!("{}  a", EMPTY_MD5.to_uppercase()), "a"),
        (format!("\\{EMPTY_MD5}  a\\\\b\\nc\\rd"), "a\\b\nc\rd"),
        (format!("{EMPTY_MD5}  a\\nb"), "a\\nb"),
        (format!("MD5 (a) = {EMPTY_MD5}"), "a"),
        (format!("MD5(a)= {EMPTY_MD5}"), "a"),
        (format!("MD5 (a) (b)) = {EMPTY_MD5}"), "a) (b)"),
        (format!("\\MD5 (a\\nb) = {EMPTY_MD5}"), "a\nb"),
    ];
    for (line, expected) in fine {
        assert_eq!(path(line.clone()), Ok(expected.as_bytes().to_vec()), "{line:?}");
    }
    let wrong = [
        (EMPTY_MD5.to_owned(), ParseError::Malformed),
        (format!("{EMPTY_MD5} "), ParseError::Malformed),
        (format!("{EMPTY_MD5}0  a"), ParseError::BadHash),
        (format!("{}  a", &EMPTY_MD5[1..]), ParseError::BadHash),
        (format!("{EMPTY_MD5}x  a"), ParseError::Malformed),
        (format!("\\{EMPTY_MD5}  a\\"), ParseError::BadName),
        (format!("\\{EMPTY_MD5}  a\\t"), ParseError::BadName),
        (format!("MD5 (a = {EMPTY_MD5}"), ParseError::Malformed),
        (format!("MD5 (a) {EMPTY_MD5}"), ParseError::Malformed),
        (format!("MD5 () = {EMPTY_MD5}"), ParseError::BadName),
        ("MD5 (a) = 00".to_owned(), ParseError::BadHash),
        (format!("{EMPTY_MD5}  a\0b"), ParseError::BadName),
        ("nothing".to_owned(), ParseError::Malformed),
    ];
    for (line, expected) in wrong {
        assert_eq!(path(line.clone()), Err(expected), "{line:?}");
    }
}

#[test]
fn the_two_forms_of_plain_lines_do_not_mix() {
    let two = |first: &str, second: &str| {
        let text = format!("{EMPTY_MD5}{first}\n{EMPTY_MD5}{second}\n");
        let parsed = parse(None, &[text.as_bytes()]);
        let path = |parsed: ManifestLine| parsed.listed.map(|listed| String::from_utf8(listed.path).unwrap());
        parsed.into_iter().map(path).collect::<Vec<_>>()
    };
    assert_eq!(two("  a", " b"), [Ok("a".to_owned()), Err(ParseError::Malformed)]);
    assert_eq!(two(" a", "  b"), [Ok("a".to_owned()), Ok(" b".to_owned())]);
}

#[test]
fn an_algorithm_comes_from_the_tag_the_hint_or_the_length() {
    let expected = |line: &str, hint| parse_line(line, hint).map(|listed| listed.expected);
    let tagged = format!("MD5 (a) = {EMPTY_MD5}");
    let known = |algorithm| Ok(ExpectedHash::Known(Digest::parse(algorithm, EMPTY_MD5.as_bytes()).unwrap()));
    assert_eq!(expected(&tagged, Some(Algorithm::Xxh128)), known(Algorithm::Md5));
    let plain = format!("{EMPTY_MD5}  a");
    assert_eq!(expected(&plain, None), known(Algorithm::Md5));
    assert_eq!(expected(&plain, Some(Algorithm::Xxh128)), known(Algorithm::Xxh128));
    assert_eq!(expected(&plain, Some(Algorithm::Sha256)), Err(ParseError::BadHash));
    let long = format!("{EMPTY_MD5}{EMPTY_MD5}  a");
    let either = expected(&long, None).unwrap();
    let algorithms: Vec<_> = either.digests().map(|digest| digest.algorithm()).collect();
    assert_eq!(algorithms, [Algorithm::Blake3, Algorithm::Sha256]);
    assert_eq!(expected(&format!("{}  a", &EMPTY_MD5[..16]), None).unwrap().digests().count(), 1);
    assert_eq!(expected("00  a", None), Err(ParseError::BadHash));
}

#[test]
fn lines_have_numbers_and_comments_are_none() {
    let text = format!("# x\n\n{EMPTY_MD5}  a\nwrong\n{{\"path\":\"b\"}}\n{EMPTY_MD5}  c");
    let parsed = parse(None, &[text.as_bytes()]);
    let lines: Vec<_> = parsed.iter().map(|parsed| (parsed.line, parsed.listed.is_ok())).collect();
    assert_eq!(lines, [(3, true), (4, false), (5, false), (6, true)]);
}

#[test]
fn a_line_that_is_too_long_is_skipped() {
    let long = vec![b'a'; 40 << 20];
    let end = format!("\n{EMPTY_MD5}  b\n");
    let parsed = parse(None, &[EMPTY_MD5.as_bytes(), b"  ", &long, &long, end.as_bytes()]);
    assert_eq!(parsed[0], ManifestLine { line: 1, listed: Err(ParseError::TooLong) });
    assert_eq!(parsed[1].listed.as_ref().unwrap().path, b"b");
    assert_eq!(parsed.len(), 2);
    // The path of a file in a deep tree.
    let parsed = parse(None, &[EMPTY_MD5.as_bytes(), b"  ", &long, b"\n"]);
    assert!(parsed[0].listed.as_ref().is_ok_and(|listed| listed.path == long));
}

#[test]
fn json_lines_have_an_algorithm_and_one_path() {
    let digest = Algorithm::Md5.hash(b"");
    let text = written(Format::Json, &[HashRecord { path: b"\xff", size: None, digest }]).unwrap();
    let line = format!("{{\"path_b64\":\"/w==\",\"hash\":\"{EMPTY_MD5}\",\"algorithm\":\"md5\"}}\n");
    assert_eq!(String::from_utf8(text).unwrap(), line);
    let json = |fields: &str| parse_line(&format!("{{{fields}}}"), None);
    let hash = format!("\"hash\":\"{EMPTY_MD5}\"");
    assert!(json(&format!("\"path\":\"a\",{hash},\"algorithm\":\"md5\",\"new\":[1]")).is_ok());
    let wrong = [
        (format!("{hash},\"algorithm\":\"md5\""), ParseError::BadName),
        (format!("\"path\":\"a\",\"path_b64\":\"YQ==\",{hash},\"algorithm\":\"md5\""), ParseError::BadName),
        (format!("\"path_b64\":\"!\",{hash},\"algorithm\":\"md5\""), ParseError::BadName),
        (format!("\"path\":\"a\",{hash},\"algorithm\":\"crc\""), ParseError::UnknownAlgorithm),
        (format!("\"path\":\"a\",{hash},\"algorithm\":\"sha256\""), ParseError::BadHash),
        (format!("\"path\":\"a\",{hash}"), ParseError::Malformed),
        ("\"path\":1".to_owned(), ParseError::Malformed),
    ];
    for (fields, expected) in wrong {
        assert_eq!(json(&fields), Err(expected), "{fields}");
    }
}

#[test]
fn an_mhl_file_has_the_elements_of_its_schema_in_order() {
    let digest = Algorithm::Xxh64.hash(b"");
    let record = HashRecord { path: "Clips/ä<\r\n>.mov".as_bytes(), size: Some(5), digest };
    let text = String::from_utf8(written(Format::Mhl, &[record]).unwrap()).unwrap();
    let expected = "<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">
  <creatorinfo>
    <creationdate>1970-01-01T00:00:00+00:00</creationdate>
    <hostname>a&lt;b</hostname>
    <tool version=\"1.0\">haul</tool>
  </creatorinfo>
  <processinfo>
    <process>in-place</process>
  </processinfo>
  <hashes>
    <hash>
      <path size=\"5\">Clips/ä&lt;&#13;&#10;&gt;.mov</path>
      <xxh64 action=\"original\" hashdate=\"1970-01-01T00:00:00+00:00\">ef46db3751d8e999</xxh64>
    </hash>
  </hashes>
</hashlist>
";
    assert_eq!(text, expected);
    assert!(!String::from_utf8(written(Format::Mhl, &[]).unwrap()).unwrap().contains("hashes"));
}

#[test]
fn an_mhl_file_of_other_programs_is_understood() {
    let text = "\u{feff}<?xml version=\"1.0\" encoding=\"UTF-8\"?>
<hashlist version=\"2.0\" xmlns=\"urn:ASC:MHL:v2.0\">
  <creatorinfo><creationdate>2020-01-16T09:15:00+00:00</creationdate></creatorinfo>
  <processinfo><process>in-place</process>
    <roothash><content><xxh64>8d02114c32e28cbe</xxh64></content></roothash>
  </processinfo>
  <hashes>
    <hash>
      <path size=\"5\" lastmodificationdate=\"2020-01-15T13:00:00+00:00\">a.<!-- x -->mov</path>
      <c4>c4abc</c4>
      <md5 action=\"original\">d41d8cd98f00b204e9800998ecf8427e</md5>
      <xxh64 action=\"original\" hashdate=\"2020-01-16T09:15:00+00:00\">0EA03B369A463D9D</xxh64>
    </hash>
    <directoryhash><path>Clips</path><content><xxh64>4c226b42e27d7af3</xxh64></content></directoryhash>
    <hash><path>b.mov</path><sha1>da39a3ee5e6b4b0d3255bfef95601890afd80709</sha1></hash>
    <hash><path>c.mov</path><md5 action=\"failed\">d41d8cd98f00b204e9800998ecf8427e</md5></hash>
  </hashes>
</hashlist>";
    let parsed = parse(Some(Algorithm::Xxh64), &[text.as_bytes()]);
    let listed = parsed[0].listed.as_ref().unwrap();
    assert_eq!((listed.path.as_slice(), listed.size), (b"a.mov".as_slice(), Some(5)));
    let xxh64 = Digest::parse(Algorithm::Xxh64, b"0ea03b369a463d9d").unwrap();
    assert_eq!(listed.expected, ExpectedHash::Known(xxh64));
    let unknown = |line| ManifestLine { line, listed: Err(ParseError::UnknownAlgorithm) };
    assert_eq!(parsed[1..], [unknown(15), unknown(16)]);
    let without_hint = parse(None, &[text.as_bytes()]);
    let first = without_hint[0].listed.as_ref().unwrap().expected;
    assert_eq!(first.digests().next().unwrap().algorithm(), Algorithm::Md5);
}

#[test]
fn documents_that_are_none_are_one_error() {
    let deep = "<a>".repeat(100_000);
    let bomb = "<!DOCTYPE a [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]><hashlist>&b;</hashlist>";
    for text in ["<", "<hashlist>", "<html/>", "<hashlist>\u{0}</hashlist>", bomb, &deep] {
        let parsed = parse(None, &[text.as_bytes()]);
        assert_eq!(parsed.len(), 1, "{}", &text[..text.len().min(100)]);
        assert_eq!(parsed[0].listed, Err(ParseError::Malformed));
    }
    let chunk = vec![b' '; 1 << 20];
    let (mut parser, mut all) = (Parser::new(None), Vec::new());
    parser.feed(b"<hashlist>", |parsed| all.push(parsed));
    (0..300).for_each(|_| parser.feed(&chunk, |parsed| all.push(parsed)));
    parser.finish(|parsed| all.push(parsed));
    assert_eq!(all, [ManifestLine { line: 1, listed: Err(ParseError::TooLong) }]);
}

#[test]
fn with_zero_nothing_is_escaped() {
    let digest = Algorithm::Md5.hash(b"");
    let expected = [
        (Format::B3sum, format!("{EMPTY_MD5}  a\n\\\0")),
        (Format::Bsd, format!("MD5 (a\n\\) = {EMPTY_MD5}\0")),
    ];
    for (format, line) in expected {
        let (mut writer, mut out) =
            (Writer::new(format, Algorithm::Md5, LineEnd::Nul, &creator()).unwrap(), Vec::new());
        writer.record(&mut out, &HashRecord { path: b"a\n\\", size: None, digest }).unwrap();
        assert_eq!(out, line.as_bytes());
    }
}
