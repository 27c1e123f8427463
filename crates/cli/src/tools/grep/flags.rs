//! The flags of `haul grep`: GNU grep's, and haul's own.

use std::collections::VecDeque;
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

use clap::{ArgAction, ArgMatches, FromArgMatches, Parser};

use crate::shared::Shared;

const NOTES: &str = "\
Exit status is 0 if any line is selected, 1 otherwise;
if any error occurs and -q is not given, the exit status is 2.

Differences from GNU grep:
  Ranges such as [a-z] go by code points in every locale.
  Classes such as [:alpha:] are the C library's, by haul's version of Unicode.
  For \\b, \\B, \\< and \\> marks are parts of words, for -w they are not.
  \\b, \\B, \\< and \\> take bytes that are no characters for no parts of words.
  An empty word (-w '') is not found inside of a character.
  A back-reference that takes too long for a line is an error.
  (b*)+a\\1 and the like find lines in which the last iteration is empty.
  In -P, \\d, \\w, \\s and \\b know ASCII only, unless (*UCP) begins the pattern.
  Locales of other character sets than UTF-8 and ASCII are refused.";

/// Search for PATTERNS in each FILE, or in what is given on standard input
#[derive(Clone, Debug, Parser)]
#[command(
    name = "grep",
    override_usage = "haul grep [OPTION]... PATTERNS [FILE]...",
    after_help = NOTES,
    disable_help_flag = true,
    disable_version_flag = true,
    version,
    args_override_self = true
)]
pub(super) struct Line {
    /// PATTERNS are basic regular expressions; the default
    #[arg(short = 'G', long, help_heading = PATTERNS)]
    pub(super) basic_regexp: bool,
    /// PATTERNS are extended regular expressions
    #[arg(short = 'E', long, help_heading = PATTERNS)]
    pub(super) extended_regexp: bool,
    /// PATTERNS are strings
    #[arg(short = 'F', long, help_heading = PATTERNS)]
    pub(super) fixed_strings: bool,
    /// PATTERNS are Perl-compatible regular expressions, as PCRE2 knows them
    #[arg(short = 'P', long, alias = "p", help_heading = PATTERNS)]
    pub(super) perl_regexp: bool,
    /// Use PATTERNS for matching
    #[arg(short = 'e', long, value_name = "PATTERNS", allow_hyphen_values = true, help_heading = PATTERNS)]
    pub(super) regexp: Vec<OsString>,
    /// Take PATTERNS from FILE
    #[arg(short = 'f', long, value_name = "FILE", allow_hyphen_values = true, help_heading = PATTERNS)]
    pub(super) file: Vec<OsString>,
    /// Ignore case in patterns and data
    #[arg(short = 'i', short_alias = 'y', long, overrides_with = "no_ignore_case", help_heading = PATTERNS)]
    pub(super) ignore_case: bool,
    /// Do not ignore case; the default
    #[arg(long, overrides_with = "ignore_case", help_heading = PATTERNS)]
    pub(super) no_ignore_case: bool,
    /// Match only whole words
    #[arg(short = 'w', long, alias = "w", help_heading = PATTERNS)]
    pub(super) word_regexp: bool,
    /// Match only whole lines
    #[arg(short = 'x', long, help_heading = PATTERNS)]
    pub(super) line_regexp: bool,
    /// A line ends with NUL, not newline
    #[arg(short = 'z', long, help_heading = PATTERNS)]
    pub(super) null_data: bool,
    /// Suppress error messages about files that cannot be read
    #[arg(short = 's', long)]
    pub(super) no_messages: bool,
    /// Select lines that do not match
    #[arg(short = 'v', long)]
    pub(super) invert_match: bool,
    /// Stop after NUM selected lines of a file
    #[arg(short = 'm', long, alias = "m", value_name = "NUM", allow_hyphen_values = true, help_heading = OUTPUT)]
    pub(super) max_count: Option<OsString>,
    /// Print the offset of each line
    #[arg(short = 'b', long, help_heading = OUTPUT)]
    pub(super) byte_offset: bool,
    /// Print the number of each line
    #[arg(short = 'n', long, help_heading = OUTPUT)]
    pub(super) line_number: bool,
    /// Write every line at once
    #[arg(long, help_heading = OUTPUT)]
    pub(super) line_buffered: bool,
    /// Print the file's name with each line
    #[arg(short = 'H', long, overrides_with = "no_filename", help_heading = OUTPUT)]
    pub(super) with_filename: bool,
    /// Print no file names
    #[arg(short = 'h', long, overrides_with = "with_filename", help_heading = OUTPUT)]
    pub(super) no_filename: bool,
    /// Call standard input LABEL
    #[arg(long, alias = "la", value_name = "LABEL", allow_hyphen_values = true, help_heading = OUTPUT)]
    pub(super) label: Option<OsString>,
    /// Show only the parts of lines that match
    #[arg(short = 'o', long, help_heading = OUTPUT)]
    pub(super) only_matching: bool,
    /// Print nothing, and stop when a line is selected
    #[arg(short = 'q', long, alias = "silent", aliases = ["q", "qu", "s"], help_heading = OUTPUT)]
    pub(super) quiet: bool,
    /// Take binary files for TYPE: binary, text or without-match
    #[arg(long, value_name = "TYPE", overrides_with_all = ["text", "without_match"], help_heading = OUTPUT)]
    pub(super) binary_files: Option<OsString>,
    /// Take binary files for text
    #[arg(short = 'a', long, overrides_with_all = ["binary_files", "without_match"], help_heading = OUTPUT)]
    pub(super) text: bool,
    /// Take binary files for ones that do not match
    #[arg(short = 'I', overrides_with_all = ["binary_files", "text"], help_heading = OUTPUT)]
    pub(super) without_match: bool,
    /// What to do with directories that are named: read, skip or recurse
    #[arg(short = 'd', long, value_name = "ACTION", overrides_with_all = ["recursive", "dereference_recursive"],
        help_heading = FILES)]
    pub(super) directories: Option<OsString>,
    /// What to do with devices, FIFOs and sockets: read or skip
    #[arg(short = 'D', long, value_name = "ACTION", help_heading = FILES)]
    pub(super) devices: Option<OsString>,
    /// Search all that is in directories
    #[arg(short = 'r', long, overrides_with_all = ["directories", "dereference_recursive"], help_heading = FILES)]
    pub(super) recursive: bool,
    /// The same, and follow all symbolic links
    #[arg(short = 'R', long, overrides_with_all = ["directories", "recursive"], help_heading = FILES)]
    pub(super) dereference_recursive: bool,
    /// Search only files that match GLOB
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true, help_heading = FILES)]
    pub(super) include: Vec<OsString>,
    /// Do not search files that match GLOB
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true, help_heading = FILES)]
    pub(super) exclude: Vec<OsString>,
    /// Do not search files that match a pattern in FILE
    #[arg(long, value_name = "FILE", allow_hyphen_values = true, help_heading = FILES)]
    pub(super) exclude_from: Vec<OsString>,
    /// Do not search directories that match GLOB
    #[arg(long, value_name = "GLOB", allow_hyphen_values = true, help_heading = FILES)]
    pub(super) exclude_dir: Vec<OsString>,
    /// Print the names of files without selected lines only
    #[arg(short = 'L', long, overrides_with = "files_with_matches", help_heading = OUTPUT)]
    pub(super) files_without_match: bool,
    /// Print the names of files with selected lines only
    #[arg(short = 'l', long, overrides_with = "files_without_match", help_heading = OUTPUT)]
    pub(super) files_with_matches: bool,
    /// Print how many lines of each file are selected only
    #[arg(short = 'c', long, help_heading = OUTPUT)]
    pub(super) count: bool,
    /// Begin the text of lines at a tab stop
    #[arg(short = 'T', long, help_heading = OUTPUT)]
    pub(super) initial_tab: bool,
    /// End file names with NUL
    #[arg(short = 'Z', long, help_heading = OUTPUT)]
    pub(super) null: bool,
    /// Print NUM lines of context before
    #[arg(short = 'B', long, value_name = "NUM", allow_hyphen_values = true, help_heading = CONTEXT)]
    pub(super) before_context: Option<OsString>,
    /// Print NUM lines of context after
    #[arg(short = 'A', long, value_name = "NUM", allow_hyphen_values = true, help_heading = CONTEXT)]
    pub(super) after_context: Option<OsString>,
    /// Print NUM lines of context before and after; also -NUM
    #[arg(short = 'C', long, value_name = "NUM", allow_hyphen_values = true, help_heading = CONTEXT)]
    pub(super) context: Option<OsString>,
    /// Print SEP between lines that are apart
    #[arg(long, value_name = "SEP", overrides_with = "no_group_separator", allow_hyphen_values = true,
        help_heading = CONTEXT)]
    pub(super) group_separator: Option<OsString>,
    /// Print nothing between lines that are apart
    #[arg(long, overrides_with = "group_separator", help_heading = CONTEXT)]
    pub(super) no_group_separator: bool,
    /// Show matches in colour: always, never or on a terminal (auto), as GREP_COLORS says
    #[arg(long, alias = "colour", value_name = "WHEN", num_args = 0..=1, require_equals = true,
        default_missing_value = "auto", value_parser = COLOR_WORDS, hide_possible_values = true, help_heading = OUTPUT)]
    pub(super) color: Option<String>,
    /// Do nothing: there is no difference here
    #[arg(short = 'U', long, hide = true)]
    pub(super) binary: bool,
    /// Output results in walk order (path), the same in every run and over ranks, or as they are
    /// found (none)
    #[arg(long, value_name = "ORDER", value_parser = ["path", "none"], hide_possible_values = true,
        help_heading = OUTPUT)]
    pub(super) sort: Option<String>,
    /// Show this help
    #[arg(long, action = ArgAction::Help)]
    pub(super) help: Option<bool>,
    /// Show the version
    #[arg(short = 'V', long, action = ArgAction::Version)]
    pub(super) version: Option<bool>,
    #[command(flatten)]
    pub(super) shared: Shared,
    /// The patterns, unless they are given otherwise, and the files
    #[arg(value_name = "FILE")]
    pub(super) operands: Vec<OsString>,
}

/// The flags, with those that select files by name in the order given: the last match counts.
#[derive(Clone, Debug)]
pub(super) struct Asked {
    pub(super) line: Line,
    pub(super) choices: Vec<(Choice, OsString)>,
}

/// How a flag selects files by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    Include,
    Exclude,
    ExcludeFrom,
}

impl FromArgMatches for Asked {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut choices = Vec::new();
        for (name, choice) in [
            ("include", Choice::Include),
            ("exclude", Choice::Exclude),
            ("exclude_from", Choice::ExcludeFrom),
        ] {
            let values = matches.get_many::<OsString>(name).into_iter().flatten();
            let places = matches.indices_of(name).into_iter().flatten();
            choices.extend(places.zip(values).map(|(place, value)| (place, choice, value.clone())));
        }
        choices.sort_unstable_by_key(|(place, ..)| *place);
        let choices = choices.into_iter().map(|(_, choice, value)| (choice, value)).collect();
        Ok(Self { line: Line::from_arg_matches(matches)?, choices })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

const PATTERNS: &str = "Patterns";
const OUTPUT: &str = "Output";
const CONTEXT: &str = "Context";
const FILES: &str = "Which files";
const COLOR_WORDS: [&str; 9] = ["always", "yes", "force", "never", "no", "none", "auto", "tty", "if-tty"];

/// Letters that have a value.
const VALUED_LETTERS: &[u8] = b"ABCDdefmj";

/// Long flags that have a value as the next word.
const VALUED: [&str; 17] = [
    "regexp",
    "file",
    "max-count",
    "label",
    "binary-files",
    "directories",
    "devices",
    "include",
    "exclude",
    "exclude-from",
    "exclude-dir",
    "before-context",
    "after-context",
    "context",
    "group-separator",
    "jobs",
    "sort",
];

/// Rewrites `-NUM` as `--context=NUM`.
pub(super) fn with_context(words: &[OsString]) -> Vec<OsString> {
    let (mut made, mut rest) = (Vec::with_capacity(words.len()), VecDeque::from(words.to_vec()));
    while let Some(word) = rest.pop_front() {
        let bytes = word.as_bytes();
        if bytes == b"--" {
            made.push(word);
            break;
        }
        if let Some(long) = bytes.strip_prefix(b"--") {
            let takes_next =
                !long.contains(&b'=') && VALUED.iter().any(|name| name.as_bytes().starts_with(long));
            made.push(word);
            made.extend(takes_next.then(|| rest.pop_front()).flatten());
            continue;
        }
        let letters = bytes.strip_prefix(b"-").unwrap_or_default();
        let valued =
            letters.iter().position(|letter| VALUED_LETTERS.contains(letter)).unwrap_or(letters.len());
        let (flags, value) = letters.split_at(valued);
        if !flags.iter().any(u8::is_ascii_digit) {
            made.push(word.clone());
        } else {
            let (digits, others): (Vec<u8>, Vec<u8>) =
                flags.iter().partition(|letter| letter.is_ascii_digit());
            made.push(OsString::from_vec([b"--context=", digits.as_slice()].concat()));
            if !others.is_empty() || !value.is_empty() {
                made.push(OsString::from_vec([b"-", others.as_slice(), value].concat()));
            }
        }
        if value.len() == 1 {
            made.extend(rest.pop_front());
        }
    }
    made.extend(rest);
    made
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(words: &[&str]) -> Vec<String> {
        let words: Vec<_> = words.iter().map(OsString::from).collect();
        with_context(&words).into_iter().map(|word| word.into_string().unwrap()).collect()
    }

    #[test]
    fn numbers_are_context() {
        assert_eq!(made(&["-5"]), ["--context=5"]);
        assert_eq!(
            made(&["-n12H", "x", "-3e", "-4"]),
            ["--context=12", "-nH", "x", "--context=3", "-e", "-4"]
        );
        assert_eq!(
            made(&["-A2", "-m", "-1", "--reg", "-7", "--", "-8"]),
            ["-A2", "-m", "-1", "--reg", "-7", "--", "-8"]
        );
    }
}
