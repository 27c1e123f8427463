//! Quotes names as GNU's messages do: any bytes on one line, no character that could move the
//! cursor, and a form that can be pasted back into a shell.
//!
//! Four forms: [`shell`] for file names, always quoted: `'a b'`, `"it's"`, `'a'$'\n''b'`;
//! [`shell_if_needed`], which leaves plain names alone; [`prose`] for command-line words: `‘x’`, or
//! `'x'` where the locale has no such marks; and [`escape`] for tar, which only escapes.

use std::ffi::{OsStr, OsString};
use std::sync::OnceLock;

/// Encoding of text in the user's locale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Charset {
    /// ASCII; every other byte is unknown.
    Ascii,
    /// UTF-8.
    Utf8,
    /// Another one: only the C library knows its characters.
    Other(Marks),
}

/// The marks around a quoted word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Marks {
    /// Apostrophes.
    Plain,
    /// GB 18030's single quotation marks: besides UTF-8, the only set whose marks GNU's
    /// programs know.
    Gb18030,
}

impl Charset {
    /// Returns the character set of this process's locale.
    ///
    /// It is looked up at the first call: the C library opens half a dozen files for it, and most
    /// runs have nothing to say.
    pub(crate) fn of_process() -> Self {
        static CHARSET: OnceLock<Charset> = OnceLock::new();
        *CHARSET.get_or_init(|| {
            let charset = Self::of_locale(&locale(variable), haul_sys::character_set);
            if matches!(charset, Self::Other(_)) {
                haul_sys::use_character_set();
            }
            charset
        })
    }

    /// Looks the character set up at once if the process's locale may have to be changed for it,
    /// which is only possible before there are other threads.
    pub(crate) fn prepare() {
        if !locale(variable).to_ascii_lowercase().to_string_lossy().contains("utf") {
            Self::of_process();
        }
    }

    /// Returns the character set of a locale. Only the C library knows what a locale other than C
    /// means and whether it is installed; `ask` queries it.
    fn of_locale(locale: &OsStr, ask: impl FnOnce() -> String) -> Self {
        match locale.to_str() {
            Some("" | "C" | "POSIX") => Self::Ascii,
            _ => match ask().as_str() {
                "UTF-8" => Self::Utf8,
                "ANSI_X3.4-1968" => Self::Ascii,
                "GB18030" => Self::Other(Marks::Gb18030),
                _ => Self::Other(Marks::Plain),
            },
        }
    }
}

/// Returns the user's locale: the first of `LC_ALL`, `LC_CTYPE` and `LANG` that is not empty.
fn locale(variable: impl Fn(&str) -> Option<OsString>) -> OsString {
    let mut values = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().filter_map(variable);
    values.find(|value| !value.is_empty()).unwrap_or_default()
}

fn variable(name: &str) -> Option<OsString> {
    std::env::var_os(name)
}

/// A character, or an invalid byte.
struct Unit<'a> {
    bytes: &'a [u8],
    printable: bool,
}

/// Splits a name into characters.
fn units(name: &[u8], charset: Charset) -> Vec<Unit<'_>> {
    let unknown = |byte| Unit { bytes: byte, printable: false };
    match charset {
        Charset::Ascii => {
            name.chunks(1).map(|bytes| Unit { bytes, printable: matches!(bytes, [b' '..=b'~']) }).collect()
        }
        Charset::Other(_) => {
            let mut rest = name;
            let next = || {
                let (length, printable) = haul_sys::first_character(rest);
                let (bytes, after) = rest.split_at_checked(length).filter(|_| !rest.is_empty())?;
                rest = after;
                Some(Unit { bytes, printable })
            };
            std::iter::from_fn(next).collect()
        }
        Charset::Utf8 => name
            .utf8_chunks()
            .flat_map(|chunk| {
                let valid = chunk.valid();
                let characters = valid.char_indices().map(move |(start, character)| Unit {
                    bytes: &valid.as_bytes()[start..start + character.len_utf8()],
                    printable: is_printable(character),
                });
                characters.chain(chunk.invalid().chunks(1).map(unknown))
            })
            .collect(),
    }
}

/// True if the C library prints a character: all that Unicode has assigned, except controls and the
/// line and paragraph separators.
fn is_printable(character: char) -> bool {
    if character.is_ascii() {
        return matches!(character, ' '..='~');
    }
    // `escape_debug` knows what is assigned, but also escapes format characters, private ones and
    // wide spaces. It treats a leading combining mark as unprintable, hence the letter before.
    let assigned_and_visible = ['a', character].iter().collect::<String>().escape_debug().count() == 2;
    assigned_and_visible
        || is_format(character)
        || is_private(character)
        || (character.is_whitespace()
            && !character.is_control()
            && !matches!(character, '\u{2028}' | '\u{2029}'))
}

/// True if a character is in Unicode category Cf (format).
fn is_format(character: char) -> bool {
    matches!(character,
        '\u{ad}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}' | '\u{890}'..='\u{891}' | '\u{8e2}'
        | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2064}'
        | '\u{2066}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{110bd}' | '\u{110cd}'
        | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0001}'
        | '\u{e0020}'..='\u{e007f}')
}

/// True if a character is in Unicode category Co (private use).
fn is_private(character: char) -> bool {
    matches!(character, '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{ffffd}' | '\u{100000}'..='\u{10fffd}')
}

/// Quotes a name for a shell.
pub(crate) fn shell(name: &[u8], charset: Charset) -> Vec<u8> {
    let units = units(name, charset);
    if fits_double_quotes(name, &units) {
        return [b"\"", name, b"\""].concat();
    }
    let mut quoted = vec![b'\''];
    // True inside `$'...'`, where the shell accepts escapes.
    let mut in_escapes = false;
    for unit in units {
        match (unit.bytes, unit.printable) {
            (b"'", _) => {
                quoted.extend_from_slice(b"'\\''");
                in_escapes = false;
            }
            (bytes, true) => {
                if in_escapes {
                    quoted.extend_from_slice(b"''");
                    in_escapes = false;
                }
                quoted.extend_from_slice(bytes);
            }
            (bytes, false) => {
                if !in_escapes {
                    quoted.extend_from_slice(b"'$'");
                    in_escapes = true;
                }
                bytes.iter().for_each(|&byte| escape_byte(byte, &mut quoted));
            }
        }
    }
    quoted.push(b'\'');
    quoted
}

/// Quotes a name for a shell, unless it is one word as it stands.
pub(crate) fn shell_if_needed(name: &[u8], charset: Charset) -> Vec<u8> {
    let plain = |unit: Unit<'_>| match unit.bytes {
        [byte] if byte.is_ascii() => byte.is_ascii_alphanumeric() || b"#%+,-./@]_{}~".contains(byte),
        // Some shells take a trailing byte of such a character for one of their special characters.
        [_, others @ ..] => unit.printable && !others.iter().any(|byte| b"[\\^`|".contains(byte)),
        [] => true,
    };
    let special = matches!(name, [] | [b'{' | b'}'] | [b'#' | b'~', ..]);
    if special || !units(name, charset).into_iter().all(plain) { shell(name, charset) } else { name.to_vec() }
}

/// True if a name has an apostrophe and otherwise only what double quotes leave alone: they read
/// better then.
fn fits_double_quotes(name: &[u8], units: &[Unit<'_>]) -> bool {
    let plain = |unit: &Unit<'_>| match unit.bytes {
        [byte] if byte.is_ascii() => byte.is_ascii_alphanumeric() || b" %'+,-./:@]_".contains(byte),
        _ => unit.printable,
    };
    let leading = |unit: &Unit<'_>| plain(unit) || matches!(unit.bytes, b"#" | b"~");
    name.contains(&b'\'') && units.first().is_some_and(leading) && units.iter().skip(1).all(plain)
}

/// Quotes a word for a sentence.
pub(crate) fn prose(word: &[u8], charset: Charset) -> Vec<u8> {
    let (left, right): (&[u8], &[u8]) = match charset {
        Charset::Ascii | Charset::Other(Marks::Plain) => (b"'", b"'"),
        Charset::Other(Marks::Gb18030) => (b"\xa1\xae", b"\xa1\xaf"),
        Charset::Utf8 => ("\u{2018}".as_bytes(), "\u{2019}".as_bytes()),
    };
    let mut quoted = left.to_vec();
    for unit in units(word, charset) {
        match (unit.bytes, unit.printable) {
            (bytes, true) => {
                if bytes == b"\\" || bytes == right {
                    quoted.push(b'\\');
                }
                quoted.extend_from_slice(bytes);
            }
            (bytes, false) => bytes.iter().for_each(|&byte| escape_byte(byte, &mut quoted)),
        }
    }
    quoted.extend_from_slice(right);
    quoted
}

/// Escapes a name without quoting it, as GNU tar shows names.
pub(crate) fn escape(name: &[u8], charset: Charset) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    for unit in units(name, charset) {
        match (unit.bytes, unit.printable) {
            (b"\\", _) => escaped.extend_from_slice(b"\\\\"),
            (bytes, true) => escaped.extend_from_slice(bytes),
            (bytes, false) => bytes.iter().for_each(|&byte| escape_byte(byte, &mut escaped)),
        }
    }
    escaped
}

/// Escapes a name as rsync does in its output: bytes that can't be printed as `\\#` and three octal
/// digits, and a backslash where it would begin that.
pub(crate) fn itemized(name: &[u8], charset: Charset) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(name.len());
    let mut rest = name;
    for unit in units(name, charset) {
        let begins_escape = matches!(rest, [b'\\', b'#', a, b, c, ..]
            if [a, b, c].iter().all(|digit| digit.is_ascii_digit()));
        rest = &rest[unit.bytes.len()..];
        if (unit.printable || unit.bytes == b"\t") && !begins_escape {
            escaped.extend_from_slice(unit.bytes);
        } else {
            unit.bytes.iter().for_each(|byte| escaped.extend(format!("\\#{byte:03o}").bytes()));
        }
    }
    escaped
}

/// Appends a byte escaped as in C and the shell.
fn escape_byte(byte: u8, quoted: &mut Vec<u8>) {
    let letter = match byte {
        0x07 => b'a',
        0x08 => b'b',
        b'\t' => b't',
        b'\n' => b'n',
        0x0b => b'v',
        0x0c => b'f',
        b'\r' => b'r',
        _ => {
            quoted.extend_from_slice(format!("\\{byte:03o}").as_bytes());
            return;
        }
    };
    quoted.extend_from_slice(&[b'\\', letter]);
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::os::unix::ffi::OsStrExt;
    use std::path::Path;
    use std::process::Command;

    use proptest::prelude::*;

    use super::*;

    const LOCALES: [(&str, Charset); 2] = [("C", Charset::Ascii), ("C.UTF-8", Charset::Utf8)];

    /// Makes the installed GNU cp complain, and cuts the quoted text out of its message.
    fn quoted_by_gnu(arguments: &[&[u8]], locale: &str, before: &str, after: &str) -> Vec<u8> {
        let arguments = arguments.iter().map(|word| OsStr::from_bytes(word));
        let output = Command::new("cp").args(arguments).env("LC_ALL", locale).output().unwrap();
        let said = output.stderr;
        let rest = said.strip_prefix(before.as_bytes());
        let end =
            rest.and_then(|rest| rest.windows(after.len()).position(|window| window == after.as_bytes()));
        match (rest, end) {
            (Some(rest), Some(end)) => rest[..end].to_vec(),
            _ => panic!("cp said something else: {}", said.escape_ascii()),
        }
    }

    /// GNU cp up to at least 9.1 scans a name with an apostrophe twice. If the name ends in an
    /// escape, the second scan starts as if inside `$'...'`, and what it prints is not the name to
    /// a shell.
    fn met_by_a_defect_of_gnu(name: &[u8], charset: Charset) -> bool {
        let units = units(name, charset);
        name.contains(&b'\'') && units.last().is_some_and(|unit| !unit.printable)
    }

    fn assert_file_name_quoted_alike(name: &[u8]) {
        for (locale, charset) in LOCALES {
            let theirs = quoted_by_gnu(
                &[b"--", name, b"/nonexistent/target"],
                locale,
                "cp: cannot stat ",
                ": No such file or directory\n",
            );
            let ours = shell(name, charset);
            if met_by_a_defect_of_gnu(name, charset) {
                continue;
            }
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "in {locale}");
        }
    }

    fn assert_word_quoted_alike(word: &[u8]) {
        for (locale, charset) in LOCALES {
            let option = [b"--sparse=", word].concat();
            let end = String::from_utf8_lossy(&[b" for ".to_vec(), prose(b"--sparse", charset)].concat())
                .into_owned();
            let theirs = quoted_by_gnu(&[&option], locale, "cp: invalid argument ", &end);
            let ours = prose(word, charset);
            assert_eq!(ours.escape_ascii().to_string(), theirs.escape_ascii().to_string(), "in {locale}");
        }
    }

    #[test]
    fn tars_names_are_escaped_and_not_quoted() {
        let name = "x y\t\n\\\u{1}\u{e9}".as_bytes();
        assert_eq!(escape(name, Charset::Utf8), "x y\\t\\n\\\\\\001\u{e9}".as_bytes());
        assert_eq!(escape(name, Charset::Ascii), b"x y\\t\\n\\\\\\001\\303\\251");
    }

    #[test]
    fn names_read_as_a_shell_takes_them() {
        let utf8 = |name: &[u8]| String::from_utf8(shell(name, Charset::Utf8)).unwrap();
        assert_eq!(utf8(b"plain"), "'plain'");
        assert_eq!(utf8(b"it's"), r#""it's""#);
        assert_eq!(utf8(b"it's $HOME"), r"'it'\''s $HOME'");
        assert_eq!(utf8(b"a\n\tb"), r"'a'$'\n\t''b'");
        assert_eq!(utf8("\u{e9}\u{202e}\u{2028}".as_bytes()), "'\u{e9}\u{202e}'$'\\342\\200\\250'");
        assert_eq!(shell("\u{e9}".as_bytes(), Charset::Ascii), br"''$'\303\251'");
    }

    #[test]
    fn names_with_every_byte_are_quoted_as_by_gnu() {
        for byte in (1..=255).filter(|byte| !b"/.".contains(byte)) {
            assert_file_name_quoted_alike(&[b'\'', byte, b'y']);
            assert_file_name_quoted_alike(&[byte]);
            assert_file_name_quoted_alike(&[byte, b'\'', b'1']);
        }
    }

    #[test]
    fn hard_characters_are_quoted_as_by_gnu() {
        // Combining, format, private, wide space, separator, noncharacter, unassigned, emoji,
        // overlong, surrogate, beyond the last character, truncated.
        let names: [&[u8]; 12] = [
            "e\u{301}".as_bytes(),
            "\u{301}'".as_bytes(),
            "\u{ad}\u{200d}\u{feff}".as_bytes(),
            "\u{e000}'\u{100000}".as_bytes(),
            "\u{a0}\u{3000}\u{85}".as_bytes(),
            "\u{2028}\u{2029}\u{fffe}".as_bytes(),
            "\u{378}\u{1f600}'".as_bytes(),
            b"\xc0\x80'",
            b"\xed\xa0\x80",
            b"\xf5\x80\x80\x80\xf4\x90\x80\x80",
            b"a\xe2\x82b\xf0\x9f",
            b"",
        ];
        names.iter().for_each(|name| assert_file_name_quoted_alike(name));
    }

    #[test]
    fn names_are_quoted_where_gnu_must() {
        let names = (1..=255).filter(|byte| !b"/.".contains(byte)).flat_map(|byte| {
            [vec![b'd', b'/', byte, b'y'], vec![byte, b'/', b'y'], vec![b'd', b'/', byte, b'\'']]
        });
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("source"), "").unwrap();
        for name in names {
            let parent = Path::new(OsStr::from_bytes(&name)).parent().unwrap();
            std::fs::create_dir_all(folder.path().join(parent)).unwrap();
            if met_by_a_defect_of_gnu(&name, Charset::Ascii) {
                continue;
            }
            for (locale, charset) in LOCALES {
                let gnu = Command::new("cp")
                    .args(["-s", "--", "source"])
                    .arg(OsStr::from_bytes(&name))
                    .env("LC_ALL", locale)
                    .current_dir(&folder)
                    .output()
                    .unwrap();
                let reason = b": can make relative symbolic links only in current directory\n";
                let ours = [b"cp: ".as_slice(), &shell_if_needed(&name, charset), reason].concat();
                assert_eq!(
                    ours.escape_ascii().to_string(),
                    gnu.stderr.escape_ascii().to_string(),
                    "in {locale}"
                );
            }
        }
    }

    #[test]
    fn words_are_quoted_as_by_gnu() {
        let words: [&[u8]; 8] = [
            b"x'y",
            "\u{2018}x\u{2019}".as_bytes(),
            b"x\\y",
            b"\n\x01\x7f\xc3\xa9\xff",
            b"\x1b\x07\x08\x0c\x0b\r\t",
            b"x\"y",
            b"\x013",
            b"{}",
        ];
        words.iter().for_each(|word| assert_word_quoted_alike(word));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(300))]

        /// Half of the bytes are among those that quoting treats specially.
        #[test]
        fn random_names_are_quoted_as_by_gnu(name in prop::collection::vec(
            prop_oneof![1..=255u8, prop::sample::select(b"'\"\\\n\t $`{}#~\xc3\xa9\xe2\x82\xac".to_vec())],
            1..40,
        )) {
            prop_assume!(!name.contains(&b'/') && name != b"." && name != b"..");
            // Above that, each version of Unicode assigns characters, and the C library's differs
            // from ours.
            prop_assume!(String::from_utf8_lossy(&name).chars().all(|character| character <= '\u{ffff}'));
            assert_file_name_quoted_alike(&name);
        }
    }

    #[test]
    fn the_locale_names_its_character_set() {
        let charset = |pairs: &[(&str, &str)], known: &str| {
            let variable =
                |name: &str| pairs.iter().find(|(known, _)| *known == name).map(|(_, value)| value.into());
            Charset::of_locale(&locale(variable), || known.to_owned())
        };
        assert_eq!(charset(&[], "UTF-8"), Charset::Ascii);
        assert_eq!(charset(&[("LANG", "en_US.UTF-8")], "UTF-8"), Charset::Utf8);
        assert_eq!(charset(&[("LANG", "en_US.UTF-8"), ("LC_ALL", "C")], "UTF-8"), Charset::Ascii);
        assert_eq!(charset(&[("LC_CTYPE", "de_DE.utf8@euro"), ("LC_ALL", "")], "UTF-8"), Charset::Utf8);
        assert_eq!(charset(&[("LANG", "en_US")], "ISO-8859-1"), Charset::Other(Marks::Plain));
        assert_eq!(charset(&[("LANG", "zh_CN.gb18030")], "GB18030"), Charset::Other(Marks::Gb18030));
        // Not installed, which the C library shows by reporting the C locale's character set.
        assert_eq!(charset(&[("LANG", "xx_YY.UTF-8")], "ANSI_X3.4-1968"), Charset::Ascii);
    }
}
