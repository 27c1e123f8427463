//! The flags of `haul grep`: GNU grep's, and haul's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use haul_grep::{Binary, Directories, Show, Syntax};

use crate::flags::Action::{Optional, Plain, Required, Word};
use crate::flags::shared::MACHINE;
use crate::flags::values::Words;
use crate::flags::{Arguments, Command, Error, Shared, Sharing, Value, When};

pub(super) static COMMAND: Command<Line> = Command {
    usage: &["[OPTION]... PATTERNS [FILE]..."],
    about: "Print the lines of each FILE that match PATTERNS.\n\
            Without FILE, search standard input, or with -r the current directory.",
    // The possibilities of an ambiguous abbreviation are listed in this order.
    sections: &[
        ("Patterns", PATTERNS),
        ("", GENERAL),
        ("Output", OUTPUT),
        ("File selection", FILES),
        ("Output", FILE_NAMES),
        ("Context", CONTEXT),
        ("Output", COLOR),
        (MACHINE, OWN),
    ],
    sharing: Sharing::WithoutSelection,
    notes: "\
Exit status is 0 if any line is selected, 1 otherwise;
if any error occurs and -q is not given, the exit status is 2.

Differences from GNU grep:
  Ranges such as [a-z] go by code points in every locale.
  Classes such as [:alpha:] are the C library's, by haul's version of Unicode.
  Combining marks are word characters for \\b, \\B, \\< and \\>, not for -w.
  Invalid bytes do not count as word characters for \\b, \\B, \\< and \\>.
  An empty word (-w '') does not match inside a character.
  A back-reference that takes too long for a line is an error.
  In (b*)+a\\1 and the like, the last iteration may be empty.
  In -P, \\d, \\w, \\s and \\b are ASCII only, unless (*UCP) begins the pattern.
  Locales with character sets other than UTF-8 and ASCII are not supported.",
};

#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) shared: Shared,
    pub(super) operands: Vec<OsString>,
    /// Matchers, in order.
    pub(super) matchers: Vec<Syntax>,
    /// Where the patterns come from, in order.
    pub(super) patterns: Vec<Source>,
    pub(super) ignore_case: bool,
    pub(super) word_regexp: bool,
    pub(super) line_regexp: bool,
    pub(super) null_data: bool,
    pub(super) no_messages: bool,
    pub(super) invert_match: bool,
    pub(super) max_count: Option<OsString>,
    pub(super) byte_offset: bool,
    pub(super) line_number: bool,
    pub(super) unix_byte_offsets: bool,
    pub(super) line_buffered: bool,
    /// The last of `-H` and `-h`.
    pub(super) with_filename: Option<bool>,
    pub(super) label: Option<OsString>,
    pub(super) only_matching: bool,
    pub(super) quiet: bool,
    /// The last of `-a`, `-I` and `--binary-files`.
    pub(super) binary: Option<Binary>,
    /// The last of `-d`, `-r` and `-R`, and whether links are followed.
    pub(super) directories: Option<(Directories, bool)>,
    pub(super) devices: Option<OsString>,
    /// Flags that select files by name, in order: the last match counts.
    pub(super) choices: Vec<(Choice, OsString)>,
    pub(super) exclude_dir: Vec<OsString>,
    /// The last of `-l` and `-L`.
    pub(super) list: Option<Show>,
    pub(super) count: bool,
    pub(super) initial_tab: bool,
    pub(super) null: bool,
    pub(super) before_context: Option<OsString>,
    pub(super) after_context: Option<OsString>,
    pub(super) context: Option<OsString>,
    /// Digits of `-NUM`, and the word that they are in.
    number: (usize, Vec<u8>),
    /// The separator, `None` for none.
    pub(super) group_separator: Option<Option<OsString>>,
    pub(super) color: Option<When>,
    pub(super) sorted: bool,
}

/// Where patterns come from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Source {
    Text(OsString),
    File(OsString),
}

/// How a flag selects files by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Include,
    Exclude,
    ExcludeFrom,
}

impl Arguments for Line {
    fn shared(&mut self) -> &mut Shared {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.operands.push(word.to_owned());
    }
}

impl Line {
    /// `-NUM`. Digits of one word are one number, even with other letters between them.
    fn number(&mut self, digits: Value<'_>) {
        if self.number.0 != digits.word {
            self.number = (digits.word, Vec::new());
        }
        self.number.1.extend_from_slice(digits.bytes);
        self.context = Some(OsString::from_vec(self.number.1.clone()));
    }

    fn binary_files(&mut self, value: Value<'_>) -> Result<(), Error> {
        self.binary = Some(match value.bytes {
            b"binary" => Binary::Tell,
            b"text" => Binary::Text,
            b"without-match" => Binary::WithoutMatch,
            _ => return Err(Error::Sentence("unknown binary-files type".to_owned())),
        });
        Ok(())
    }
}

const DIRECTORIES: &Words<Directories> =
    &[("read", Directories::Read), ("recurse", Directories::Recurse), ("skip", Directories::Skip)];

const COLORS: &Words<When> = &[
    ("always", When::Always),
    ("yes", When::Always),
    ("force", When::Always),
    ("never", When::Never),
    ("no", When::Never),
    ("none", When::Never),
    ("auto", When::Auto),
    ("tty", When::Auto),
    ("if-tty", When::Auto),
];

type Flag = crate::flags::Flag<Line>;

static PATTERNS: &[Flag] = &[
    Flag::gnu(
        "-E --extended-regexp",
        Plain(|line| line.matchers.push(Syntax::Extended)),
        "PATTERNS are extended regular expressions",
    ),
    Flag::gnu("-F --fixed-strings", Plain(|line| line.matchers.push(Syntax::Fixed)), "PATTERNS are strings"),
    Flag::gnu(
        "-G --basic-regexp",
        Plain(|line| line.matchers.push(Syntax::Basic)),
        "PATTERNS are basic regular expressions (the default)",
    ),
    Flag::gnu(
        "-P --perl-regexp",
        Plain(|line| line.matchers.push(Syntax::Perl)),
        "PATTERNS are Perl-compatible regular expressions, as in PCRE2",
    ),
    Flag::gnu(
        "-e --regexp",
        Word("PATTERNS", |line, value| line.patterns.push(Source::Text(value.os()))),
        "search for PATTERNS; may be repeated",
    ),
    Flag::gnu(
        "-f --file",
        Word("FILE", |line, value| line.patterns.push(Source::File(value.os()))),
        "read PATTERNS from FILE",
    ),
    Flag::gnu("-i --ignore-case", Plain(|line| line.ignore_case = true), "ignore case in patterns and files")
        .also("-y"),
    Flag::gnu("--no-ignore-case", Plain(|line| line.ignore_case = false), "match case (the default)"),
    Flag::gnu("-w --word-regexp", Plain(|line| line.word_regexp = true), "match only whole words"),
    Flag::gnu("-x --line-regexp", Plain(|line| line.line_regexp = true), "match only whole lines"),
    Flag::gnu("-z --null-data", Plain(|line| line.null_data = true), "lines end with a NUL byte"),
];

static GENERAL: &[Flag] = &[
    Flag::gnu(
        "-s --no-messages",
        Plain(|line| line.no_messages = true),
        "print no errors about unreadable files",
    ),
    Flag::gnu("-v --invert-match", Plain(|line| line.invert_match = true), "select lines that do not match"),
    Flag::version("-V --version"),
    Flag::help("--help"),
];

static OUTPUT: &[Flag] = &[
    Flag::gnu(
        "-m --max-count",
        Word("NUM", |line, value| line.max_count = Some(value.os())),
        "stop searching a file after NUM selected lines",
    ),
    Flag::gnu(
        "-b --byte-offset",
        Plain(|line| line.byte_offset = true),
        "prefix lines with their byte offset",
    ),
    Flag::gnu("-n --line-number", Plain(|line| line.line_number = true), "prefix lines with their number"),
    Flag::gnu("--line-buffered", Plain(|line| line.line_buffered = true), "flush output after each line"),
    Flag::gnu(
        "-H --with-filename",
        Plain(|line| line.with_filename = Some(true)),
        "prefix lines with the file name",
    ),
    Flag::gnu("-h --no-filename", Plain(|line| line.with_filename = Some(false)), "print no file names"),
    Flag::gnu(
        "--label",
        Word("LABEL", |line, value| line.label = Some(value.os())),
        "print LABEL as the name of standard input",
    ),
    Flag::gnu(
        "-o --only-matching",
        Plain(|line| line.only_matching = true),
        "print only the matching parts of lines",
    ),
    Flag::gnu(
        "-q --quiet --silent",
        Plain(|line| line.quiet = true),
        "print nothing, and stop at the first match",
    ),
    Flag::gnu(
        "--binary-files",
        Required("TYPE", Line::binary_files),
        "treat binary files as TYPE: binary, text or without-match",
    ),
    Flag::gnu("-a --text", Plain(|line| line.binary = Some(Binary::Text)), "same as --binary-files=text"),
    Flag::gnu(
        "-I",
        Plain(|line| line.binary = Some(Binary::WithoutMatch)),
        "same as --binary-files=without-match",
    ),
];

static FILES: &[Flag] = &[
    Flag::gnu(
        "-d --directories",
        Required("ACTION", |line, value| {
            line.directories = Some((value.choose(DIRECTORIES)?, false));
            Ok(())
        }),
        "treat directories this way: read, recurse or skip",
    ),
    Flag::gnu(
        "-D --devices",
        Word("ACTION", |line, value| line.devices = Some(value.os())),
        "treat devices, FIFOs and sockets this way: read or skip",
    ),
    Flag::gnu(
        "-r --recursive",
        Plain(|line| line.directories = Some((Directories::Recurse, false))),
        "search directories recursively",
    ),
    Flag::gnu(
        "-R --dereference-recursive",
        Plain(|line| line.directories = Some((Directories::Recurse, true))),
        "same as -r, and follow all symbolic links",
    ),
    Flag::gnu(
        "--include",
        Word("GLOB", |line, value| line.choices.push((Choice::Include, value.os()))),
        "search only files whose name matches GLOB",
    ),
    Flag::gnu(
        "--exclude",
        Word("GLOB", |line, value| line.choices.push((Choice::Exclude, value.os()))),
        "skip files whose name matches GLOB",
    ),
    Flag::gnu(
        "--exclude-from",
        Word("FILE", |line, value| line.choices.push((Choice::ExcludeFrom, value.os()))),
        "skip files whose name matches a pattern in FILE",
    ),
    Flag::gnu(
        "--exclude-dir",
        Word("GLOB", |line, value| line.exclude_dir.push(value.os())),
        "skip directories whose name matches GLOB",
    ),
];

static FILE_NAMES: &[Flag] = &[
    Flag::gnu(
        "-L --files-without-match",
        Plain(|line| line.list = Some(Show::FilesWithout)),
        "print only the names of files without matches",
    ),
    Flag::gnu(
        "-l --files-with-matches",
        Plain(|line| line.list = Some(Show::FilesWith)),
        "print only the names of files with matches",
    ),
    Flag::gnu(
        "-c --count",
        Plain(|line| line.count = true),
        "print only the number of selected lines per file",
    ),
    Flag::gnu(
        "-T --initial-tab",
        Plain(|line| line.initial_tab = true),
        "align the text of lines at a tab stop",
    ),
    Flag::gnu("-Z --null", Plain(|line| line.null = true), "end file names with a NUL byte"),
];

static CONTEXT: &[Flag] = &[
    Flag::gnu(
        "-B --before-context",
        Word("NUM", |line, value| line.before_context = Some(value.os())),
        "print NUM lines before each match",
    ),
    Flag::gnu(
        "-A --after-context",
        Word("NUM", |line, value| line.after_context = Some(value.os())),
        "print NUM lines after each match",
    ),
    Flag::gnu(
        "-C --context",
        Word("NUM", |line, value| line.context = Some(value.os())),
        "print NUM lines before and after each match; also -NUM",
    ),
    Flag::gnu("-NUM", Word("NUM", Line::number), "same as --context=NUM"),
    Flag::gnu(
        "--group-separator",
        Word("SEP", |line, value| line.group_separator = Some(Some(value.os()))),
        "print SEP between groups of lines",
    ),
    Flag::gnu(
        "--no-group-separator",
        Plain(|line| line.group_separator = Some(None)),
        "print nothing between groups of lines",
    ),
];

static COLOR: &[Flag] = &[
    Flag::gnu(
        "--color --colour",
        Optional("WHEN", |line, value| {
            line.color = Some(value.map_or(Ok(When::Auto), |value| value.choose(COLORS))?);
            Ok(())
        }),
        "highlight matches in colour, as GREP_COLORS says: always, never or auto (on a terminal; the default for WHEN)",
    ),
    Flag::gnu("-U --binary", Plain(|_| ()), ""),
    Flag::gnu("-u --unix-byte-offsets", Plain(|line| line.unix_byte_offsets = true), ""),
];

static OWN: &[Flag] = &[Flag::own(
    "--sort",
    Required("ORDER", |line, value| {
        value.choose(&[("path", true), ("none", false)]).map(|sorted| line.sorted = sorted)
    }),
    "order of the results: path, the order of the walk, which is the same in every run and over ranks, or none, as \
         they are found (the default)",
)];

#[cfg(test)]
mod tests {
    use super::*;

    fn context(words: &[&str]) -> (Option<OsString>, Line) {
        let mut line = Line::default();
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        COMMAND.parse(&mut line, &words, false).unwrap();
        (line.context.clone(), line)
    }

    #[test]
    fn numbers_are_context() {
        assert_eq!(context(&["-5"]).0, Some("5".into()));
        let (number, line) = context(&["-n12H", "x", "-3e", "-4"]);
        assert_eq!((number, line.patterns), (Some("3".into()), vec![Source::Text("-4".into())]));
        assert!(line.line_number && line.with_filename == Some(true));
        assert_eq!(context(&["-1n2"]).0, Some("12".into()));
        assert_eq!(context(&["-1", "-2"]).0, Some("2".into()));
        let (number, line) = context(&["-A2", "-m", "-1", "--reg", "-7", "--", "-8"]);
        assert_eq!((number, line.operands), (None, vec![OsString::from("-8")]));
        assert_eq!(line.after_context, Some("2".into()));
    }
}
