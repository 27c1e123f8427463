//! Other spellings of tar's options: bundles of letters without a hyphen, and lists of names
//! in files.

use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_tar::Named;

use super::Step;
use crate::tools::standard_input_to_end;

/// Splits the first word if it is a bundle of letters: each letter becomes an option of its own,
/// followed by its argument, the next unused word.
pub(super) fn unbundled(words: &[OsString], takes_argument: impl Fn(u8) -> bool) -> Vec<OsString> {
    let Some((bundle, mut rest)) = words.split_first() else { return Vec::new() };
    let letters = bundle.as_bytes();
    if letters.first().is_none_or(|first| *first == b'-') || !letters.iter().all(u8::is_ascii_alphabetic) {
        return words.to_vec();
    }
    let mut apart = Vec::new();
    for letter in letters {
        apart.push(OsString::from_vec(vec![b'-', *letter]));
        if takes_argument(*letter)
            && let Some((argument, others)) = rest.split_first()
        {
            apart.push(argument.clone());
            rest = others;
        }
    }
    apart.extend_from_slice(rest);
    apart
}

pub(super) fn c_string(word: &OsStr) -> Result<CString, String> {
    CString::new(word.as_bytes()).map_err(|_| "a name contains a NUL byte".to_owned())
}

/// Returns each name with its directory, and the directory that the last `-C` led to.
pub(super) fn named(steps: &[Step], by_nul: bool) -> Result<(Vec<Named>, Option<CString>), String> {
    let mut directory: Option<Vec<u8>> = None;
    let mut all = Vec::new();
    for step in steps {
        let listed = match step {
            Step::Directory(to) => vec![Listed::Directory(to.as_bytes().to_vec())],
            Step::Name(name) => vec![Listed::Name(name.as_bytes().to_vec())],
            Step::NamesFrom(file) if by_nul => lines(file, 0)?.into_iter().map(Listed::Name).collect(),
            Step::NamesFrom(file) => directions(lines(file, b'\n')?),
        };
        for listed in listed {
            match listed {
                Listed::Directory(to) => {
                    let before = directory.take().filter(|_| !to.starts_with(b"/"));
                    let before = before.map(|before| [before.as_slice(), b"/"].concat()).unwrap_or_default();
                    directory = Some([before, to].concat());
                }
                Listed::Name(name) => {
                    let path = |path: &Vec<u8>| c_string(OsStr::from_bytes(path));
                    let directory = directory.as_ref().map(path).transpose()?;
                    all.push(Named { directory, name: path(&name)? });
                }
            }
        }
    }
    Ok((all, directory.map(|path| c_string(OsStr::from_bytes(&path))).transpose()?))
}

/// A line of a list.
enum Listed {
    /// Change to a directory.
    Directory(Vec<u8>),
    /// A name.
    Name(Vec<u8>),
}

/// Parses the lines of a list, which may change directory as the command line does: `-C DIR`
/// or `--directory=DIR`. Names are written as `tar -t` prints them.
fn directions(lines: Vec<Vec<u8>>) -> Vec<Listed> {
    let direction = |line: Vec<u8>| {
        let to = line.strip_prefix(b"-C").or_else(|| line.strip_prefix(b"--directory="));
        match to.map(<[u8]>::trim_ascii_start).filter(|to| !to.is_empty()) {
            Some(to) => Listed::Directory(to.to_vec()),
            None => Listed::Name(unquoted(&line)),
        }
    };
    lines.into_iter().map(direction).collect()
}

/// Returns a name without the escapes of C that GNU tar prints and reads: `\n`, `\\`, `\303` and so
/// on. A backslash before anything else stands for itself.
fn unquoted(line: &[u8]) -> Vec<u8> {
    let (mut name, mut rest) = (Vec::with_capacity(line.len()), line);
    while let Some((&first, after)) = rest.split_first() {
        let digits = after.iter().take(3).take_while(|byte| (b'0'..=b'7').contains(byte)).count();
        let (byte, length) = match after.first() {
            Some(letter) if first == b'\\' => match letter {
                b'\\' => (b'\\', 2),
                b'a' => (7, 2),
                b'b' => (8, 2),
                b'f' => (12, 2),
                b'n' => (b'\n', 2),
                b'r' => (b'\r', 2),
                b't' => (b'\t', 2),
                b'v' => (11, 2),
                b'?' => (127, 2),
                _ if digits > 0 => {
                    let value = after[..digits]
                        .iter()
                        .fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                    (value as u8, 1 + digits)
                }
                _ => (b'\\', 1),
            },
            _ => (first, 1),
        };
        name.push(byte);
        rest = &rest[length..];
    }
    name
}

/// Reads the lines of a file, which end with `end`; empty ones are skipped.
pub(super) fn lines(file: &OsStr, end: u8) -> Result<Vec<Vec<u8>>, String> {
    let text = if file == "-" { standard_input_to_end() } else { std::fs::read(file) };
    let text = text.map_err(|cause| format!("{}: Cannot read: {cause}", file.to_string_lossy()))?;
    let lines = text.split(|byte| *byte == end).filter(|line| !line.is_empty());
    Ok(lines.map(<[u8]>::to_vec).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(words: &[&str]) -> Vec<OsString> {
        words.iter().map(OsString::from).collect()
    }

    #[test]
    fn names_in_a_list_are_unquoted_as_by_gnu_tar() {
        for (line, name) in [
            (r"a\nb\\c\303\244\7x", "a\nb\\c\u{e4}\u{7}x"),
            (r"\q\", "\\q\\"),
            (r"\?\a\b\f\r\t\v", "\u{7f}\u{7}\u{8}\u{c}\r\t\u{b}"),
            ("plain", "plain"),
        ] {
            assert_eq!(unquoted(line.as_bytes()), name.as_bytes(), "{line}");
        }
    }

    #[test]
    fn a_bundle_is_taken_apart() {
        let apart = |of: &[&str]| unbundled(&words(of), |letter| b"fCITX".contains(&letter));
        assert_eq!(apart(&["cvf", "x", "y"]), words(&["-c", "-v", "-f", "x", "y"]));
        assert_eq!(apart(&["xfC", "a", "d", "m"]), words(&["-x", "-f", "a", "-C", "d", "m"]));
        assert_eq!(apart(&["-cf", "x", "y"]), words(&["-cf", "x", "y"]));
        assert_eq!(apart(&["--list"]), words(&["--list"]));
        assert_eq!(apart(&["cf"]), words(&["-c", "-f"]));
        assert_eq!(apart(&[]), words(&[]));
    }

    #[test]
    fn a_directory_changes_the_place_of_what_follows() {
        let [name, to] = [|name: &str| Step::Name(name.into()), |name: &str| Step::Directory(name.into())];
        let steps = [name("a"), to("d"), name("b"), to("e"), name("c"), to("/f"), name("g")];
        let (named, last) = named(&steps, false).unwrap();
        let of = |named: &Named| {
            let text = |text: &CString| text.to_str().unwrap().to_owned();
            (named.directory.as_ref().map(text), text(&named.name))
        };
        let found: Vec<_> = named.iter().map(of).collect();
        let wanted = [(None, "a"), (Some("d"), "b"), (Some("d/e"), "c"), (Some("/f"), "g")];
        assert_eq!(found, wanted.map(|(directory, name)| (directory.map(str::to_owned), name.to_owned())));
        assert_eq!(last.as_deref(), Some(c"/f"));
    }
}
