//! The flags that choose entries by name, size and age.
//!
//! Patterns are those of `.gitignore` files, in the order of the command line: the last that
//! matches decides. What `--exclude-from` reads counts as if it were on the command line.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use haul_flow::{BadName, Contents, NameList, RefusedName, Selection};
use haul_sys::{Fd, LocalTime, Timestamp, c_string, reason, seconds_of, stat_path};

use super::Action::{Plain, Required};
use super::values::Bounds;
use super::{FlagError, FlagSpec, SharedArguments, Value};
use crate::option_files::{is_descriptor, is_descriptor_path};

/// Help heading of these flags.
pub(super) const CHOOSING: &str = "Choosing entries";

/// Byte order mark that some editors put before UTF-8 text.
const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

const BYTES: Bounds = Bounds { least: 0, most: i64::MAX as usize, text: "0 to 8E" };

pub(super) static FLAGS: &[FlagSpec<SharedArguments>] = &[
    FlagSpec::own(
        "--exclude",
        Required("GLOB", |shared, value| shared.add_rule("", value)),
        "skip entries that match GLOB, in .gitignore syntax: NAME or *.EXT at any depth, DIR/ only directories, /PATH \
         or A/B from the top of the tree; the last matching rule wins",
    ),
    FlagSpec::own(
        "--include",
        Required("GLOB", |shared, value| shared.add_rule("!", value)),
        "keep entries that match GLOB even if an earlier rule excludes them, but nothing below an excluded directory",
    ),
    FlagSpec::own(
        "--exclude-from",
        Required("FILE", SharedArguments::add_rules_of),
        "read rules from FILE (- for standard input), one per line; a line that begins with ! includes",
    ),
    FlagSpec::own(
        "--files-from",
        Required("FILE", |shared, value| shared.set_list(value, b'\n')),
        "process only the names listed in FILE (- for standard input), one per line; cp and sync also create their \
         parent directories, and copy the contents of a listed directory only with -r",
    ),
    FlagSpec::own(
        "--files0-from",
        Required("FILE", |shared, value| shared.set_list(value, 0)),
        "like --files-from, for names separated by NUL, as printed by find -print0 and git ls-files -z",
    ),
    FlagSpec::own(
        "--null",
        Plain(|shared| shared.null = true),
        "with --files-from, names are separated by NUL",
    ),
    FlagSpec::own(
        "--gitignore",
        Plain(|shared| shared.run.config.selection.gitignore = true),
        "honour the .gitignore files in the tree; --exclude and --include take precedence",
    ),
    FlagSpec::own(
        "--exclude-caches",
        Plain(|shared| shared.run.config.selection.exclude_caches = true),
        "skip the contents of directories that hold a CACHEDIR.TAG, except for the tag itself",
    ),
    FlagSpec::own(
        "--min-size",
        Required("SIZE", |shared, value| {
            value.size(BYTES).map(|bytes| shared.run.config.selection.size_min = Some(bytes as u64))
        }),
        "skip regular files smaller than SIZE bytes (K, M, G: powers of 1024)",
    ),
    FlagSpec::own(
        "--max-size",
        Required("SIZE", |shared, value| {
            value.size(BYTES).map(|bytes| shared.run.config.selection.size_max = Some(bytes as u64))
        }),
        "skip regular files larger than SIZE bytes",
    ),
    FlagSpec::own(
        "--newer-than",
        Required("WHEN", |shared, value| {
            shared.run.needs_descriptors |= is_descriptor_path(value.bytes);
            moment(value).map(|moment| shared.run.config.selection.newer_than = Some(moment))
        }),
        "skip regular files last modified at WHEN or before: 90m, 12h, 7d, 2w (ago), '2026-11-01 18:30', \
         @SECONDS, or the time of a file whose path begins with / or .",
    ),
    FlagSpec::own(
        "--older-than",
        Required("WHEN", |shared, value| {
            shared.run.needs_descriptors |= is_descriptor_path(value.bytes);
            moment(value).map(|moment| shared.run.config.selection.older_than = Some(moment))
        }),
        "skip regular files last modified at WHEN or later",
    ),
];

impl SharedArguments {
    /// Adds the rule `before` + GLOB.
    pub(crate) fn add_rule(&mut self, before: &str, value: Value<'_>) -> Result<(), FlagError> {
        let glob = std::str::from_utf8(value.bytes).unwrap_or_default();
        if glob.is_empty() {
            return Err(value.refused("a pattern in UTF-8, like '*.o', 'build/' or '/docs/*.pdf'"));
        }
        if glob == "!" {
            return Err(value.refused("a pattern: '!GLOB' includes, and '\\!' is the character"));
        }
        self.includes |= before == "!";
        let rules = &mut self.run.config.selection.rules;
        rules.push(format!("{before}{}", as_line(glob)));
        Ok(())
    }

    fn add_rules_of(&mut self, value: Value<'_>) -> Result<(), FlagError> {
        let path = value.path()?;
        self.note_input(&path)?;
        let text = self.files.read(&path).map_err(|why| sentence(&path, &reason(&why)))?;
        let text = text.strip_prefix(BYTE_ORDER_MARK).unwrap_or(&text);
        let rules = &mut self.run.config.selection.rules;
        for (index, line) in text.split(|byte| *byte == b'\n').enumerate() {
            let line = std::str::from_utf8(line)
                .map_err(|_| sentence(&path, &format!("line {} is not UTF-8", index + 1)))?;
            // As in git, only spaces are trimmed: a tab is a name.
            if !line.trim_end_matches([' ', '\r']).is_empty() && !line.starts_with('#') {
                rules.push(line.to_owned());
            }
        }
        self.rule_files = true;
        Ok(())
    }

    /// Records that a file will be read. Standard input can be read only once.
    fn note_input(&mut self, path: &Path) -> Result<(), FlagError> {
        self.run.needs_descriptors |= is_descriptor(path);
        if path.as_os_str() == "-" && std::mem::replace(&mut self.run.reads_input, true) {
            return Err(FlagError::Sentence("standard input can be read only once".to_owned()));
        }
        Ok(())
    }

    fn set_list(&mut self, value: Value<'_>, end: u8) -> Result<(), FlagError> {
        let path = value.path()?;
        if let Some((flag, ..)) = &self.list {
            return Err(FlagError::Exclusive { flag, other: value.flag });
        }
        self.note_input(&path)?;
        self.list = Some((value.flag, path, end));
        Ok(())
    }

    /// Reads the list of names, if one was given. `contents` is the rule for the contents of listed
    /// directories. Returns true if there is a list.
    pub(crate) fn read_list(&mut self, contents: Contents) -> Result<bool, FlagError> {
        let Some((flag, path, end)) = &self.list else {
            let unused = FlagError::Requires { flag: "--null", other: "--files-from" };
            return if self.null { Err(unused) } else { Ok(false) };
        };
        let end = if self.null { 0 } else { *end };
        let refused = |why: &str| FlagError::Sentence(format!("{flag}: {}: {why}", path.display()));
        let mut text = self.files.read(path).map_err(|why| refused(&reason(&why)))?;
        // Editors begin text with it. No program that ends names with NUL does.
        if end == b'\n' && text.starts_with(BYTE_ORDER_MARK) {
            text.drain(..BYTE_ORDER_MARK.len());
        }
        let list = NameList::parse(text, end, contents).map_err(|RefusedName { number, name, why }| {
            let why = match why {
                BadName::Empty => "is empty",
                BadName::Absolute => "is absolute; names are relative to SOURCE",
                BadName::GoesUp => "leads out of SOURCE",
                BadName::Nul => "contains a NUL; use --null",
                BadName::TooFar => "is more than 4 GiB from the first",
            };
            refused(&format!("name {number} {why}: '{}'", name.escape_ascii()))
        })?;
        self.run.config.selection.list = Some(Arc::new(list));
        Ok(true)
    }

    /// Returns a flag that was given of those that choose entries.
    pub(crate) fn selection_flag(&self) -> Option<&'static str> {
        let Selection {
            rules,
            gitignore,
            exclude_caches,
            size_min,
            size_max,
            newer_than,
            older_than,
            list: _,
            own_files: _,
        } = &self.run.config.selection;
        let given = [
            ("--files-from", self.list.is_some()),
            ("--exclude-from", self.rule_files),
            ("--exclude", !rules.is_empty()),
            ("--gitignore", *gitignore),
            ("--exclude-caches", *exclude_caches),
            ("--min-size", size_min.is_some()),
            ("--max-size", size_max.is_some()),
            ("--newer-than", newer_than.is_some()),
            ("--older-than", older_than.is_some()),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(flag, _)| flag)
    }

    /// Refuses a selection whose rules can't have the intended effect.
    pub(super) fn check_selection(&self) -> Result<(), FlagError> {
        let Selection { rules, gitignore, size_min, size_max, newer_than, older_than, .. } =
            &self.run.config.selection;
        let excludes = rules.iter().any(|rule| !rule.starts_with('!')) || *gitignore || self.rule_files;
        if !rules.is_empty() && !excludes && !self.includes {
            return Err(FlagError::Sentence(
                "--exclude='!GLOB' includes, so it needs a rule that excludes".into(),
            ));
        }
        if !rules.is_empty() && !excludes {
            return Err(FlagError::Requires { flag: "--include", other: "--exclude" });
        }
        if size_min.zip(*size_max).is_some_and(|(least, most)| least > most) {
            return Err(FlagError::Sentence("--min-size is larger than --max-size".into()));
        }
        if newer_than.zip(*older_than).is_some_and(|(newer, older)| newer >= older) {
            return Err(FlagError::Sentence("--newer-than must be before --older-than".into()));
        }
        Ok(())
    }
}

fn sentence(path: &Path, why: &str) -> FlagError {
    FlagError::Sentence(format!("--exclude-from: {}: {why}", path.display()))
}

/// Converts a command-line word, in which a leading `#` and trailing spaces are literal, into the
/// equivalent line of a `.gitignore` file.
fn as_line(glob: &str) -> String {
    let comment = if glob.starts_with('#') { "\\" } else { "" };
    let kept = glob.trim_end_matches(' ');
    let is_quoted = kept.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1;
    match glob.strip_suffix(' ') {
        Some(before) if !(is_quoted && before.len() == kept.len()) => format!("{comment}{before}\\ "),
        // One at the end of a line is part of the line's end.
        None if glob.ends_with('\r') => format!("{comment}{glob}\r"),
        _ => format!("{comment}{glob}"),
    }
}

/// Parses a moment: an age, a date and time, seconds since 1970, or a file with that time.
fn moment(value: Value<'_>) -> Result<Timestamp, FlagError> {
    let text = std::str::from_utf8(value.bytes).unwrap_or_default();
    let found = match value.bytes {
        [b'/' | b'.', ..] => {
            let looked = stat_path::<&Fd>(None, &c_string(value.bytes), true);
            let failed = |why| FlagError::Sentence(format!("{}: cannot stat {text:?}: {why}", value.flag));
            return looked.map(|stat| stat.modified).map_err(failed);
        }
        [b'@', ..] => seconds(&text[1..]),
        _ => age(text).or_else(|| date(text)),
    };
    found.ok_or_else(|| {
        value.refused("a time, like 12h, 7d, 2026-11-01, '2026-11-01 18:30', @1700000000 or ./FILE")
    })
}

/// Parses seconds since 1970, with up to nine decimals.
fn seconds(text: &str) -> Option<Timestamp> {
    let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
    let are_digits =
        !decimals.is_empty() && decimals.len() <= 9 && decimals.bytes().all(|b| b.is_ascii_digit());
    let nanoseconds = are_digits.then(|| format!("{decimals:0<9}").parse().ok()).flatten()?;
    Some(Timestamp { seconds: number(whole)?, nanoseconds })
}

/// Parses a time before now: `90m`, `12h`, `7d`, `2w`, `30s`.
fn age(text: &str) -> Option<Timestamp> {
    let unit: u64 = match text.bytes().last()? {
        b's' => 1,
        b'm' => 60,
        b'h' => 3600,
        b'd' => 24 * 3600,
        b'w' => 7 * 24 * 3600,
        _ => return None,
    };
    let amount = u64::try_from(number(&text[..text.len() - 1])?).ok()?;
    let then = SystemTime::now().checked_sub(Duration::from_secs(amount.checked_mul(unit)?))?;
    let since = then.duration_since(UNIX_EPOCH).ok()?;
    Some(Timestamp { seconds: i64::try_from(since.as_secs()).ok()?, nanoseconds: since.subsec_nanos() })
}

/// Parses `YYYY-MM-DD`, with an optional `HH:MM` or `HH:MM:SS` after a space or a `T`, in local
/// time.
fn date(text: &str) -> Option<Timestamp> {
    let (day, clock) = text.split_once([' ', 'T']).unwrap_or((text, "0:00"));
    let part = |text: &str| u8::try_from(number(text)?).ok();
    let mut days = day.split('-');
    let (year, month, day) = (number(days.next()?)?, part(days.next()?)?, part(days.next()?)?);
    let mut clock = clock.split(':');
    let (hour, minute) = (part(clock.next()?)?, part(clock.next()?)?);
    let second = clock.next().map_or(Some(0), part)?;
    if days.next().is_some() || clock.next().is_some() {
        return None;
    }
    let seconds = seconds_of(LocalTime { year, month, day, hour, minute, second })?;
    Some(Timestamp { seconds, nanoseconds: 0 })
}

/// Parses decimal digits and nothing else.
fn number(digits: &str) -> Option<i64> {
    let only_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    only_digits.then(|| digits.parse().ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Option<Timestamp> {
        moment(Value { flag: "--newer-than", bytes: text.as_bytes(), word: 0 }).ok()
    }

    #[test]
    fn moments_are_ages_dates_seconds_and_files() {
        let at = |seconds, nanoseconds| Some(Timestamp { seconds, nanoseconds });
        assert_eq!([read("@7"), read("@7.25")], [at(7, 0), at(7, 250_000_000)]);
        let (hour, day) = (read("1h").unwrap(), read("1d").unwrap());
        assert!((hour.seconds - day.seconds - 23 * 3600).abs() < 60);
        let (noon, later) = (read("2026-11-01 12:00").unwrap(), read("2026-11-01T12:00:05").unwrap());
        assert_eq!(later.seconds - noon.seconds, 5);
        assert!(read("2026-11-01").unwrap() < noon);
        assert!(read("/").is_some() && read("/no/such/file").is_none());
        for bad in [
            "",
            "d",
            "-1d",
            "1y",
            "1.5h",
            "2026-11",
            "2026-13-01",
            "2026-02-30",
            "2026-11-01 24:00",
            "2026-11-01 1:2:3:4",
            "@",
            "@x",
            "@1.",
            "@1.0000000001",
            "tomorrow",
            "99999999999999999999d",
        ] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
    }

    #[test]
    fn words_mean_themselves_as_lines() {
        let cases =
            [("a", "a"), ("#a", "\\#a"), ("a b", "a b"), ("a ", "a\\ "), ("a  ", "a \\ "), ("a\\ ", "a\\ ")];
        for (word, line) in cases {
            assert_eq!(as_line(word), line);
        }
    }
}
