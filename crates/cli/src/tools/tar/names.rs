//! The names on the command line and in lists (`-T`), each with its directory.
//!
//! A line of a list that begins with a hyphen has options, as in GNU tar: those that choose files.
//! They affect what follows. haul knows all exclusions before it looks at files, so they must
//! precede the names of what is archived.
//!
//! After `--null`, names in lists end with a NUL, and none has options or escapes. If a list of
//! lines has a NUL in it, all names from there on end with one, which a warning says.

use std::collections::HashSet;
use std::ffi::{CString, OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use haul_tar::{Operation, TarOperand};

use super::words::{c_string, text};
use super::{Excluding, TarStep};
use crate::flags::Action::{AnyValue, Plain};
use crate::flags::{AppletCommand, Arguments, FlagSpec, SharedArguments, Sharing};
use crate::option_files::OptionFiles;

/// Maximum lists that lists name.
const LISTS_MAX: usize = 1000;

/// The options that a line of a list may have.
static LINE: AppletCommand<NamesFileArguments> =
    AppletCommand { usage: &[], about: "", sections: &[("", FLAGS)], sharing: Sharing::Nothing, notes: "" };

static FLAGS: &[FlagSpec<NamesFileArguments>] = &[
    FlagSpec::gnu(
        "-C --directory",
        AnyValue("DIR", |line, value| line.add(TarStep::Directory(value.os()))),
        "",
    ),
    FlagSpec::gnu("--add-file", AnyValue("FILE", |line, value| line.add(TarStep::Name(value.os()))), ""),
    FlagSpec::gnu("-T --files-from", AnyValue("FILE", |line, value| line.add(line.list(value.os()))), ""),
    FlagSpec::gnu(
        "--exclude",
        AnyValue("PATTERN", |line, value| line.add(line.exclude(value.os(), false))),
        "",
    ),
    FlagSpec::gnu(
        "-X --exclude-from",
        AnyValue("FILE", |line, value| line.add(line.exclude(value.os(), true))),
        "",
    ),
    FlagSpec::gnu("--no-recursion", Plain(|line| line.add(TarStep::Recursion(false))), ""),
    FlagSpec::gnu("--recursion", Plain(|line| line.add(TarStep::Recursion(true))), ""),
    FlagSpec::gnu("--null", Plain(|line| line.add(TarStep::ListEnd(ListEnd::Nul))), ""),
    FlagSpec::gnu("--no-null", Plain(|line| line.add(TarStep::ListEnd(ListEnd::Newline))), ""),
];

/// A line of options.
#[derive(Default)]
struct NamesFileArguments {
    shared: SharedArguments,
    steps: Vec<TarStep>,
    is_anchored: bool,
    /// True if it has a word that is no option.
    has_operand: bool,
}

impl NamesFileArguments {
    fn add(&mut self, step: TarStep) {
        self.steps.push(step);
    }

    fn list(&self, file: OsString) -> TarStep {
        TarStep::NamesFrom { file, is_anchored: self.is_anchored }
    }

    fn exclude(&self, text: OsString, is_file: bool) -> TarStep {
        TarStep::Exclude(Excluding { text, is_file, is_anchored: self.is_anchored })
    }
}

impl Arguments for NamesFileArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, _: &OsStr) {
        self.has_operand = true;
    }
}

/// Names, and what else the steps to them say.
#[derive(Debug, Default)]
pub(super) struct TarNames {
    pub(super) named: Vec<TarOperand>,
    /// Directory that the last `-C` led to.
    pub(super) directory: Option<CString>,
    /// Exclusions in lists.
    pub(super) excluding: Vec<Excluding>,
    list_end: ListEnd,
    operation: Operation,
    no_recursion: bool,
    /// Lists that were read.
    pub(super) lists: HashSet<OsString>,
    /// Those of lines with a NUL in them.
    pub(super) with_nul: Vec<OsString>,
    files: OptionFiles,
}

/// What the names in a list end with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum ListEnd {
    #[default]
    Newline,
    Nul,
}

impl TarNames {
    /// Follows the steps on the command line.
    pub(super) fn of(steps: &[TarStep], operation: Operation, files: OptionFiles) -> Result<Self, String> {
        let mut names = Self { operation, files, ..Self::default() };
        steps.iter().try_for_each(|step| names.take(step))?;
        Ok(names)
    }

    fn take(&mut self, step: &TarStep) -> Result<(), String> {
        match step {
            TarStep::Directory(to) => {
                let before = self.directory.take().filter(|_| !to.as_bytes().starts_with(b"/"));
                let before = before.map(|before| [before.as_bytes(), b"/"].concat()).unwrap_or_default();
                self.directory = Some(c_string(OsStr::from_bytes(&[&before, to.as_bytes()].concat()))?);
            }
            TarStep::Name(name) => {
                let (directory, no_recursion) = (self.directory.clone(), self.no_recursion);
                self.named.push(TarOperand { directory, name: c_string(name)?, no_recursion });
            }
            TarStep::Recursion(recursion) => self.no_recursion = !recursion,
            TarStep::ListEnd(end) => self.list_end = *end,
            TarStep::Exclude(excluding) => self.excluding.push(excluding.clone()),
            TarStep::NamesFrom { file, is_anchored } => self.read(file, *is_anchored)?,
        }
        Ok(())
    }

    fn read(&mut self, file: &OsStr, is_anchored: bool) -> Result<(), String> {
        self.lists.insert(file.to_owned());
        let (text, list_end) = (text(self.files, file)?, self.list_end);
        if list_end == ListEnd::Newline && text.contains(&0) {
            self.with_nul.push(file.to_owned());
        }
        for (number, line) in names_in(&text, list_end) {
            let line = line.to_vec();
            if list_end == ListEnd::Nul {
                self.take(&TarStep::Name(OsString::from_vec(line)))?;
            } else if line.trim_ascii_start().starts_with(b"-") {
                let said = |why: String| format!("{}:{number}: {why}", file.to_string_lossy());
                for step in steps(&line, is_anchored).map_err(said)? {
                    self.check(&step).map_err(said)?;
                    self.take(&step)?;
                }
            } else {
                self.take(&TarStep::Name(OsString::from_vec(unquoted(&line))))?;
            }
        }
        self.list_end = list_end;
        Ok(())
    }

    /// Checks a step of a list.
    fn check(&self, step: &TarStep) -> Result<(), String> {
        match step {
            TarStep::NamesFrom { file, .. } if self.lists.contains(file) => {
                Err(format!("{}: file list requested twice", file.to_string_lossy()))
            }
            TarStep::NamesFrom { .. } if self.lists.len() > LISTS_MAX => {
                Err("too many file lists".to_owned())
            }
            TarStep::Exclude(_) if self.operation == Operation::Create && !self.named.is_empty() => {
                Err("exclusions must precede all names".to_owned())
            }
            _ => Ok(()),
        }
    }
}

/// Splits the text of a list, and numbers its lines from 1 on. Empty ones are skipped.
fn names_in(text: &[u8], end: ListEnd) -> impl Iterator<Item = (usize, &[u8])> {
    let line_of = |nul: usize| text[..nul].iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
    let names_from = match (end, text.iter().position(|byte| *byte == 0)) {
        (ListEnd::Nul, _) => 0,
        (ListEnd::Newline, None) => text.len(),
        (ListEnd::Newline, Some(nul)) => line_of(nul),
    };
    let (lines, names) = text.split_at(names_from);
    let lines =
        lines.split_inclusive(|byte| *byte == b'\n').map(|line| line.strip_suffix(b"\n").unwrap_or(line));
    let names = names.split_inclusive(|byte| *byte == 0).map(|name| name.strip_suffix(b"\0").unwrap_or(name));
    lines.chain(names).zip(1..).map(|(line, number)| (number, line)).filter(|(_, line)| !line.is_empty())
}

/// Parses a line of options.
fn steps(text: &[u8], is_anchored: bool) -> Result<Vec<TarStep>, String> {
    let of = || String::from_utf8_lossy(text);
    let words = split(text).ok_or_else(|| format!("cannot split string '{}'", of()))?;
    let mut line = NamesFileArguments { is_anchored, ..NamesFileArguments::default() };
    match LINE.parse(&mut line, &words, false) {
        Ok(_) if !line.has_operand => Ok(line.steps),
        _ => Err(format!("unrecognized option in '{}'", of())),
    }
}

/// Splits a line at blanks, except for those in quotes; `None` if a quote is not closed.
fn split(line: &[u8]) -> Option<Vec<OsString>> {
    let (mut words, mut word, mut quote) = (Vec::new(), None::<Vec<u8>>, None);
    let mut bytes = line.iter().copied();
    while let Some(byte) = bytes.next() {
        match (byte, quote) {
            (b' ' | b'\t', None) => words.extend(word.take()),
            (b'\'' | b'"', None) => {
                quote = Some(byte);
                word.get_or_insert_default();
            }
            (_, Some(open)) if byte == open => quote = None,
            (b'\\', None | Some(b'"')) => match bytes.next()? {
                // GNU tar would read an escape of C.
                escaped if escaped.is_ascii_alphanumeric() => return None,
                escaped => word.get_or_insert_default().push(escaped),
            },
            _ => word.get_or_insert_default().push(byte),
        }
    }
    words.extend(word);
    quote.is_none().then(|| words.into_iter().map(OsString::from_vec).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

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
    fn a_list_is_split_at_newlines_or_from_a_nul_on() {
        let split = |text: &str, end| -> Vec<(usize, String)> {
            let names = names_in(text.as_bytes(), end);
            names.map(|(number, name)| (number, String::from_utf8(name.to_vec()).unwrap())).collect()
        };
        let named = |names: &[(usize, &str)]| -> Vec<(usize, String)> {
            names.iter().map(|(number, name)| (*number, (*name).to_owned())).collect()
        };
        assert_eq!(split("a\n\nb", ListEnd::Newline), named(&[(1, "a"), (3, "b")]));
        assert_eq!(
            split("a\nb\0c\nd\0\0e", ListEnd::Newline),
            named(&[(1, "a"), (2, "b"), (3, "c\nd"), (5, "e")])
        );
        assert_eq!(split("a\nb\0c\0", ListEnd::Nul), named(&[(1, "a\nb"), (2, "c")]));
        assert_eq!(split("\0a\0", ListEnd::Newline), named(&[(2, "a")]));
    }

    #[test]
    fn a_line_of_options_is_split_as_by_a_shell() {
        for (line, words) in [
            (" -C d\t", Some(&["-C", "d"][..])),
            (r#"--exclude='*.o' "a b"c'd'"#, Some(&["--exclude=*.o", "a bcd"])),
            (r#"-C '' \'a\ b "\"""#, Some(&["-C", "", "'a b", "\""])),
            (r"-C 'd", None),
            (r"-C d\", None),
            (r"-C d\n", None),
        ] {
            let wanted = words.map(|words| words.iter().map(OsString::from).collect::<Vec<_>>());
            assert_eq!(split(line.as_bytes()), wanted, "{line}");
        }
    }

    #[test]
    fn a_directory_changes_the_place_of_what_follows() {
        let [name, to] =
            [|name: &str| TarStep::Name(name.into()), |name: &str| TarStep::Directory(name.into())];
        let steps = [name("a"), to("d"), name("b"), to("e"), name("c"), to("/f"), name("g")];
        let names = TarNames::of(&steps, Operation::Create, OptionFiles::Read).unwrap();
        let of = |named: &TarOperand| {
            let text = |text: &CString| text.to_str().unwrap().to_owned();
            (named.directory.as_ref().map(text), text(&named.name))
        };
        let found: Vec<_> = names.named.iter().map(of).collect();
        let wanted = [(None, "a"), (Some("d"), "b"), (Some("d/e"), "c"), (Some("/f"), "g")];
        assert_eq!(found, wanted.map(|(directory, name)| (directory.map(str::to_owned), name.to_owned())));
        assert_eq!(names.directory.as_deref(), Some(c"/f"));
    }
}
