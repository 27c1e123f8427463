//! The flags of `haul grep`: GNU grep's, and haul's own.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;

use haul_grep::{Binary, Directories, Show, Syntax};

use crate::flags::Action::{AnyValue, Optional, Plain, Required};
use crate::flags::shared::MACHINE;
use crate::flags::values::Words;
use crate::flags::{AppletCommand, Arguments, FlagError, SharedArguments, Sharing, Value, When};

pub(super) static COMMAND: AppletCommand<GrepArguments> = AppletCommand {
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
  With -w, -o does not print a fixed string that follows a match within a word.
  A back-reference that takes too long for a line is an error.
  In (b*)+a\\1 and the like, the last iteration may be empty.
  In -P, \\d, \\w, \\s and \\b are ASCII only, unless (*UCP) begins the pattern.
  Locales with character sets other than UTF-8 and ASCII are not supported.",
};

#[derive(Clone, Debug, Default)]
pub(super) struct GrepArguments {
    pub(super) shared: SharedArguments,
    pub(super) operands: Vec<OsString>,
    /// Matchers, in order.
    pub(super) matchers: Vec<Syntax>,
    /// Where the patterns come from, in order.
    pub(super) patterns: Vec<PatternSource>,
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
    /// The last of `-d`, `-r` and `-R`.
    pub(super) directories: Option<Directories>,
    /// `-R`; a later `-r` doesn't undo it.
    pub(super) dereference: bool,
    pub(super) devices: Option<OsString>,
    /// Flags that select files by name, in order: the last match counts.
    pub(super) choices: Vec<(FileChoice, OsString)>,
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
pub(super) enum PatternSource {
    Text(OsString),
    File(OsString),
}

/// Effect of a flag that selects files by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileChoice {
    Include,
    Exclude,
    ExcludeFrom,
}

impl Arguments for GrepArguments {
    fn shared(&mut self) -> &mut SharedArguments {
        &mut self.shared
    }

    fn operand(&mut self, word: &OsStr) {
        self.operands.push(word.to_owned());
    }
}

impl GrepArguments {
    /// `-NUM`. Digits of one word are one number, even with other letters between them.
    fn number(&mut self, digits: Value<'_>) {
        if self.number.0 != digits.word {
            self.number = (digits.word, Vec::new());
        }
        self.number.1.extend_from_slice(digits.bytes);
        self.context = Some(OsString::from_vec(self.number.1.clone()));
    }

    fn binary_files(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        self.binary = Some(match value.bytes {
            b"binary" => Binary::Report,
            b"text" => Binary::Text,
            b"without-match" => Binary::WithoutMatch,
            _ => return Err(FlagError::Sentence("unknown binary-files type".to_owned())),
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

type GrepFlag = crate::flags::FlagSpec<GrepArguments>;

static PATTERNS: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-E --extended-regexp",
        Plain(|line| line.matchers.push(Syntax::Extended)),
        "PATTERNS are extended regular expressions",
    ),
    GrepFlag::gnu(
        "-F --fixed-strings",
        Plain(|line| line.matchers.push(Syntax::Fixed)),
        "PATTERNS are strings",
    ),
    GrepFlag::gnu(
        "-G --basic-regexp",
        Plain(|line| line.matchers.push(Syntax::Basic)),
        "PATTERNS are basic regular expressions (the default)",
    ),
    GrepFlag::gnu(
        "-P --perl-regexp",
        Plain(|line| line.matchers.push(Syntax::Perl)),
        "PATTERNS are Perl-compatible regular expressions, as in PCRE2",
    ),
    GrepFlag::gnu(
        "-e --regexp",
        AnyValue("PATTERNS", |line, value| line.patterns.push(PatternSource::Text(value.os()))),
        "search for PATTERNS; may be repeated",
    ),
    GrepFlag::gnu(
        "-f --file",
        AnyValue("FILE", |line, value| line.patterns.push(PatternSource::File(value.os()))),
        "read PATTERNS from FILE",
    ),
    GrepFlag::gnu(
        "-i --ignore-case",
        Plain(|line| line.ignore_case = true),
        "ignore case in patterns and files",
    )
    .also("-y"),
    GrepFlag::gnu("--no-ignore-case", Plain(|line| line.ignore_case = false), "match case (the default)"),
    GrepFlag::gnu("-w --word-regexp", Plain(|line| line.word_regexp = true), "match only whole words"),
    GrepFlag::gnu("-x --line-regexp", Plain(|line| line.line_regexp = true), "match only whole lines"),
    GrepFlag::gnu("-z --null-data", Plain(|line| line.null_data = true), "lines end with a NUL byte"),
];

static GENERAL: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-s --no-messages",
        Plain(|line| line.no_messages = true),
        "print no errors about unreadable files",
    ),
    GrepFlag::gnu(
        "-v --invert-match",
        Plain(|line| line.invert_match = true),
        "select lines that do not match",
    ),
    GrepFlag::version("-V --version"),
    GrepFlag::help("--help"),
];

static OUTPUT: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-m --max-count",
        AnyValue("NUM", |line, value| line.max_count = Some(value.os())),
        "stop searching a file after NUM selected lines",
    ),
    GrepFlag::gnu(
        "-b --byte-offset",
        Plain(|line| line.byte_offset = true),
        "prefix lines with their byte offset",
    ),
    GrepFlag::gnu(
        "-n --line-number",
        Plain(|line| line.line_number = true),
        "prefix lines with their number",
    ),
    GrepFlag::gnu("--line-buffered", Plain(|line| line.line_buffered = true), "flush output after each line"),
    GrepFlag::gnu(
        "-H --with-filename",
        Plain(|line| line.with_filename = Some(true)),
        "prefix lines with the file name",
    ),
    GrepFlag::gnu("-h --no-filename", Plain(|line| line.with_filename = Some(false)), "print no file names"),
    GrepFlag::gnu(
        "--label",
        AnyValue("LABEL", |line, value| line.label = Some(value.os())),
        "print LABEL as the name of standard input",
    ),
    GrepFlag::gnu(
        "-o --only-matching",
        Plain(|line| line.only_matching = true),
        "print only the matching parts of lines",
    ),
    GrepFlag::gnu(
        "-q --quiet --silent",
        Plain(|line| line.quiet = true),
        "print nothing, and stop at the first match",
    ),
    GrepFlag::gnu(
        "--binary-files",
        Required("TYPE", GrepArguments::binary_files),
        "treat binary files as TYPE: binary, text or without-match",
    ),
    GrepFlag::gnu("-a --text", Plain(|line| line.binary = Some(Binary::Text)), "same as --binary-files=text"),
    GrepFlag::gnu(
        "-I",
        Plain(|line| line.binary = Some(Binary::WithoutMatch)),
        "same as --binary-files=without-match",
    ),
];

static FILES: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-d --directories",
        Required("ACTION", |line, value| {
            line.directories = Some(value.choose(DIRECTORIES)?);
            Ok(())
        }),
        "treat directories this way: read, recurse or skip",
    ),
    GrepFlag::gnu(
        "-D --devices",
        AnyValue("ACTION", |line, value| line.devices = Some(value.os())),
        "treat devices, FIFOs and sockets this way: read or skip",
    ),
    GrepFlag::gnu(
        "-r --recursive",
        Plain(|line| line.directories = Some(Directories::Recurse)),
        "search directories recursively",
    ),
    GrepFlag::gnu(
        "-R --dereference-recursive",
        Plain(|line| {
            line.directories = Some(Directories::Recurse);
            line.dereference = true;
        }),
        "same as -r, and follow all symbolic links",
    ),
    GrepFlag::gnu(
        "--include",
        AnyValue("GLOB", |line, value| line.choices.push((FileChoice::Include, value.os()))),
        "search only files whose name matches GLOB",
    ),
    GrepFlag::gnu(
        "--exclude",
        AnyValue("GLOB", |line, value| line.choices.push((FileChoice::Exclude, value.os()))),
        "skip files whose name matches GLOB",
    ),
    GrepFlag::gnu(
        "--exclude-from",
        AnyValue("FILE", |line, value| line.choices.push((FileChoice::ExcludeFrom, value.os()))),
        "skip files whose name matches a pattern in FILE",
    ),
    GrepFlag::gnu(
        "--exclude-dir",
        AnyValue("GLOB", |line, value| line.exclude_dir.push(value.os())),
        "skip directories whose name matches GLOB",
    ),
];

static FILE_NAMES: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-L --files-without-match",
        Plain(|line| line.list = Some(Show::FilesWithout)),
        "print only the names of files without matches",
    ),
    GrepFlag::gnu(
        "-l --files-with-matches",
        Plain(|line| line.list = Some(Show::FilesWith)),
        "print only the names of files with matches",
    ),
    GrepFlag::gnu(
        "-c --count",
        Plain(|line| line.count = true),
        "print only the number of selected lines per file",
    ),
    GrepFlag::gnu(
        "-T --initial-tab",
        Plain(|line| line.initial_tab = true),
        "align the text of lines at a tab stop",
    ),
    GrepFlag::gnu("-Z --null", Plain(|line| line.null = true), "end file names with a NUL byte"),
];

static CONTEXT: &[GrepFlag] = &[
    GrepFlag::gnu(
        "-B --before-context",
        AnyValue("NUM", |line, value| line.before_context = Some(value.os())),
        "print NUM lines before each match",
    ),
    GrepFlag::gnu(
        "-A --after-context",
        AnyValue("NUM", |line, value| line.after_context = Some(value.os())),
        "print NUM lines after each match",
    ),
    GrepFlag::gnu(
        "-C --context",
        AnyValue("NUM", |line, value| line.context = Some(value.os())),
        "print NUM lines before and after each match; also -NUM",
    ),
    GrepFlag::gnu("-NUM", AnyValue("NUM", GrepArguments::number), "same as --context=NUM"),
    GrepFlag::gnu(
        "--group-separator",
        AnyValue("SEP", |line, value| line.group_separator = Some(Some(value.os()))),
        "print SEP between groups of lines",
    ),
    GrepFlag::gnu(
        "--no-group-separator",
        Plain(|line| line.group_separator = Some(None)),
        "print nothing between groups of lines",
    ),
];

static COLOR: &[GrepFlag] = &[
    GrepFlag::gnu(
        "--color --colour",
        Optional("WHEN", |line, value| {
            line.color = Some(value.map_or(Ok(When::Auto), |value| value.choose(COLORS))?);
            Ok(())
        }),
        "highlight matches in colour, as GREP_COLORS says: always, never or auto (on a terminal; the default for WHEN)",
    ),
    GrepFlag::gnu("-U --binary", Plain(|_| ()), ""),
    GrepFlag::gnu("-u --unix-byte-offsets", Plain(|line| line.unix_byte_offsets = true), ""),
];

static OWN: &[GrepFlag] = &[GrepFlag::own(
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

    fn context(words: &[&str]) -> (Option<OsString>, GrepArguments) {
        let mut line = GrepArguments::default();
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        COMMAND.parse(&mut line, &words, false).unwrap();
        (line.context.clone(), line)
    }

    #[test]
    fn numbers_are_context() {
        assert_eq!(context(&["-5"]).0, Some("5".into()));
        let (number, line) = context(&["-n12H", "x", "-3e", "-4"]);
        assert_eq!((number, line.patterns), (Some("3".into()), vec![PatternSource::Text("-4".into())]));
        assert!(line.line_number && line.with_filename == Some(true));
        assert_eq!(context(&["-1n2"]).0, Some("12".into()));
        assert_eq!(context(&["-1", "-2"]).0, Some("2".into()));
        let (number, line) = context(&["-A2", "-m", "-1", "--reg", "-7", "--", "-8"]);
        assert_eq!((number, line.operands), (None, vec![OsString::from("-8")]));
        assert_eq!(line.after_context, Some("2".into()));
    }
}
