//! Arguments with a grammar of their own: mode changes, owners and times.

use std::ffi::{CString, OsStr};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;

use haul_sys::{LocalTime, Mode, Timestamp, local_time};
use haul_tar::{ModeChange, ModeOperator, ModePermissions, Represented};

const ALL: u32 = 0o7777;
const SET_ID: u32 = 0o6000;
const OPERATORS: [char; 3] = ['+', '-', '='];

/// Parses mode changes as `chmod` does: an octal number, or clauses like `u+rwX,go-w,g=u`.
pub(super) fn mode(text: &str) -> Result<Vec<ModeChange>, String> {
    changes(text).ok_or_else(|| "Invalid mode given on option".to_owned())
}

fn changes(text: &str) -> Option<Vec<ModeChange>> {
    if let Some(bits) = octal(text) {
        // Fewer than five digits leave the set-id bits of directories alone.
        return Some(vec![octal_change(ModeOperator::Set, bits, text.len() < 5)]);
    }
    let mut changes = Vec::new();
    for clause in text.split(',') {
        let (who, mut actions) = clause.split_at(clause.find(OPERATORS)?);
        let classes = classes(who)?;
        while !actions.is_empty() {
            let (operator, rest) = actions.split_at(1);
            let operator = match operator {
                "+" => ModeOperator::Add,
                "-" => ModeOperator::Remove,
                _ => ModeOperator::Set,
            };
            let (letters, following) = rest.split_at(rest.find(OPERATORS).unwrap_or(rest.len()));
            actions = following;
            if let Some(bits) = octal(letters).filter(|_| who.is_empty() && following.is_empty()) {
                changes.push(octal_change(operator, bits, false));
                continue;
            }
            let (permissions, mentioned) = permissions(letters)?;
            changes.push(ModeChange {
                operator,
                permissions,
                // The umask limits what is set, not what is cleared.
                affected: Mode::new(classes),
                cleared: Mode::new(if who.is_empty() { ALL } else { classes }),
                kept_by_directories: Mode::new(SET_ID & !(mentioned & classes)),
            });
        }
    }
    Some(changes)
}

fn octal(digits: &str) -> Option<u32> {
    let is_number = digits.bytes().all(|byte| byte.is_ascii_digit());
    u32::from_str_radix(digits, 8).ok().filter(|bits| is_number && *bits <= ALL)
}

fn octal_change(operator: ModeOperator, bits: u32, keeps_set_id: bool) -> ModeChange {
    ModeChange {
        operator,
        permissions: ModePermissions::Bits(Mode::new(bits)),
        affected: Mode::new(ALL),
        cleared: Mode::new(ALL),
        kept_by_directories: Mode::new(if keeps_set_id { SET_ID & !bits } else { 0 }),
    }
}

/// Returns the bits of user classes; without any, all that the umask allows.
fn classes(who: &str) -> Option<u32> {
    if who.is_empty() {
        return Some(ALL & !haul_sys::umask().bits());
    }
    who.chars().try_fold(0, |bits, class| {
        Some(
            bits | match class {
                'u' => 0o4700,
                'g' => 0o2070,
                'o' => 0o1007,
                'a' => ALL,
                _ => return None,
            },
        )
    })
}

/// Parses permission letters, or the one letter of a class whose permissions are copied. Returns
/// the bits that are mentioned, too.
fn permissions(letters: &str) -> Option<(ModePermissions, u32)> {
    let class = match letters {
        "u" => 0o700,
        "g" => 0o070,
        "o" => 0o007,
        _ => 0,
    };
    if class != 0 {
        return Some((ModePermissions::OfClass(Mode::new(class)), 0));
    }
    let bits = letters.chars().try_fold(0, |bits, letter| {
        Some(
            bits | match letter {
                'r' => 0o444,
                'w' => 0o222,
                'x' => 0o111,
                's' => SET_ID,
                't' => 0o1000,
                'X' => 0,
                _ => return None,
            },
        )
    })?;
    let permissions = match letters.contains('X') {
        true => ModePermissions::BitsAndExecutable(Mode::new(bits)),
        false => ModePermissions::Bits(Mode::new(bits)),
    };
    Some((permissions, bits))
}

/// Parses the owner of members: a name, a number, or both.
pub(super) fn owner(text: &OsStr) -> Result<Represented, String> {
    represented(text, "owner", |name| haul_sys::user_number(name), haul_sys::user_name)
}

/// Parses the group of members.
pub(super) fn group(text: &OsStr) -> Result<Represented, String> {
    represented(text, "group", |name| haul_sys::group_number(name), haul_sys::group_name)
}

fn represented(
    text: &OsStr,
    what: &str,
    number_of: impl Fn(&CString) -> Option<u32>,
    name_of: impl Fn(u32) -> Option<Vec<u8>>,
) -> Result<Represented, String> {
    let wrong = || format!("'{}': Invalid {what}", text.to_string_lossy());
    // GNU tar's words.
    let wrong_number = |digits: &[u8]| format!("{}: Invalid owner or group ID", digits.escape_ascii());
    let number =
        |digits: &[u8]| std::str::from_utf8(digits).ok().and_then(|digits| digits.parse::<u32>().ok());
    let bytes = text.as_bytes();
    if let Some(colon) = bytes.iter().position(|byte| *byte == b':') {
        let digits = &bytes[colon + 1..];
        let number = number(digits).ok_or_else(|| wrong_number(digits))?;
        let name = match &bytes[..colon] {
            b"" => name_of(number).unwrap_or_default(),
            name => name.to_vec(),
        };
        return Ok(Represented { name, number: Some(number) });
    }
    // To GNU tar a sign begins a name.
    let is_number = bytes.first().is_some_and(u8::is_ascii_digit);
    if let Some(number) = number(bytes).filter(|_| is_number) {
        return Ok(Represented { name: name_of(number).unwrap_or_default(), number: Some(number) });
    }
    // An empty name replaces that of the file, and its number stays.
    if bytes.is_empty() {
        return Ok(Represented::default());
    }
    if bytes.iter().all(u8::is_ascii_digit) {
        return Err(wrong_number(bytes));
    }
    // A name unknown here may exist where the archive goes.
    let name = CString::new(bytes).map_err(|_| wrong())?;
    Ok(Represented { name: bytes.to_vec(), number: number_of(&name) })
}

/// Parses a time: `@SECONDS`, a date with an optional time of day, in UTC if it says so, or the
/// path of a file that has it.
pub(super) fn time(text: &OsStr) -> Result<Timestamp, String> {
    let wrong = || format!("invalid date '{}'", text.to_string_lossy());
    if text.as_bytes().first().is_some_and(|first| matches!(first, b'/' | b'.')) {
        let there = std::fs::metadata(text)
            .map_err(|cause| format!("{}: Cannot stat: {cause}", text.to_string_lossy()))?;
        let nanoseconds = u32::try_from(there.mtime_nsec()).unwrap_or_default();
        return Ok(Timestamp { seconds: there.mtime(), nanoseconds });
    }
    let text = text.to_str().ok_or_else(wrong)?;
    if let Some(seconds) = text.strip_prefix('@') {
        return since_1970(seconds).ok_or_else(wrong);
    }
    let stripped = text.trim().trim_start_matches("UTC").trim_end_matches("UTC").trim_end_matches('Z').trim();
    let is_utc = stripped.len() < text.trim().len();
    let (day, hour) = stripped.split_once([' ', 'T']).unwrap_or((stripped, "0:00"));
    // Two digits would mean a year of the first century.
    let has_century = day.split('-').next().is_some_and(|year| year.len() >= 4);
    let shown = numbers(day, '-').filter(|_| has_century).zip(numbers(hour, ':'));
    let seconds = shown.and_then(|(day, hour)| civil(&day, &hour)).ok_or_else(wrong)?;
    let seconds = if is_utc { seconds } else { from_local(seconds).ok_or_else(wrong)? };
    Ok(Timestamp { seconds, nanoseconds: 0 })
}

fn since_1970(text: &str) -> Option<Timestamp> {
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
    if fraction.len() > 9 || seconds.starts_with('-') && !fraction.is_empty() {
        return None;
    }
    let nanoseconds = if fraction.is_empty() { 0 } else { format!("{fraction:0<9}").parse().ok()? };
    Some(Timestamp { seconds: seconds.parse().ok()?, nanoseconds })
}

/// Parses two or three numbers.
fn numbers(text: &str, between: char) -> Option<Vec<i64>> {
    let numbers = text.split(between).map(|number| number.parse().ok());
    numbers.collect::<Option<Vec<_>>>().filter(|numbers| (2..=3).contains(&numbers.len()))
}

fn days_of(year: i64, month: i64) -> i64 {
    let is_leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
    match month {
        2 => 28 + i64::from(is_leap),
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Converts a date and time in UTC to seconds since 1970.
fn civil(day: &[i64], hour: &[i64]) -> Option<i64> {
    let &[year, month, day] = day else { return None };
    let (hour, minute, second) = (hour[0], hour[1], hour.get(2).copied().unwrap_or(0));
    let fits = (1..=12).contains(&month)
        && (1..=days_of(year, month)).contains(&day)
        && (0..24).contains(&hour)
        && (0..60).contains(&minute)
        && (0..=60).contains(&second)
        && (-9999..=9999).contains(&year);
    fits.then(|| {
        // Years begin in March, so that the leap day comes last.
        let (years, months) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
        let days = years * 365 + years.div_euclid(4) - years.div_euclid(100)
            + years.div_euclid(400)
            + (months * 153 + 2) / 5
            + day
            - 719_469;
        ((days * 24 + hour) * 60 + minute) * 60 + second
    })
}

/// Converts local time to seconds since 1970; `seconds` is the clock reading taken as UTC.
fn from_local(seconds: i64) -> Option<i64> {
    // Twice: near a clock change, the first answer is that of the other side.
    let mut moment = seconds;
    for _ in 0..2 {
        let LocalTime { year, month, day, hour, minute, second } = local_time(moment)?;
        let day = [year, i64::from(month), i64::from(day)];
        let shown = civil(&day, &[i64::from(hour), i64::from(minute), i64::from(second)])?;
        moment -= shown - seconds;
    }
    Some(moment)
}

#[cfg(test)]
mod tests {
    use std::fs::{self, Permissions};
    use std::os::unix::fs::PermissionsExt;
    use std::path::Path;
    use std::process::Command;

    use haul_testkit::Sandbox;

    use super::*;

    fn applied(text: &str, to: u32, is_directory: bool) -> u32 {
        let changes = mode(text).unwrap();
        changes.iter().fold(Mode::new(to), |mode, change| change.apply(mode, is_directory)).bits()
    }

    #[test]
    fn modes_are_changed_as_chmod_does() {
        assert_eq!(applied("755", 0o4644, false), 0o755);
        assert_eq!(applied("u+x,go-r", 0o644, false), 0o700);
        assert_eq!(applied("a+rX", 0o600, false), 0o644);
        assert_eq!(applied("a+rX", 0o600, true), 0o755);
        assert_eq!(applied("a+rX", 0o700, false), 0o755);
        assert_eq!(applied("go=", 0o6777, false), 0o4700);
        assert_eq!(applied("u=rw,g=r,o=", 0o777, false), 0o640);
        assert_eq!(applied("u+s,+t", 0o755, false) & 0o4000, 0o4000);
        assert_eq!(applied("u-w+x", 0o644, false), 0o544);
        assert_eq!(applied("=", 0o7777, false), 0);
        assert_eq!(applied("=r", 0o7666, false), 0o444 & !haul_sys::umask().bits());
        assert_eq!(applied("755", 0o2775, true), 0o2755);
        assert_eq!(applied("00755", 0o2775, true), 0o755);
        assert_eq!(applied("u=rwX,go=rX", 0o6755, true), 0o6755);
        assert_eq!(applied("g=rxs", 0o6755, true), 0o6755);
        assert_eq!(applied("ug-s", 0o6755, true), 0o755);
        for wrong in ["", "9", "10000", "u", "z+r", "u+q", "u+r,"] {
            assert!(mode(wrong).is_err(), "{wrong}");
        }
    }

    /// Returns the mode that `chmod` gives an entry; `None` if it refuses the change.
    fn chmod(text: &str, (path, before): (&Path, u32)) -> Option<u32> {
        fs::set_permissions(path, Permissions::from_mode(before)).unwrap();
        let said = Command::new("chmod").args(["--", text]).arg(path).env("LC_ALL", "C").output().unwrap();
        let is_refused = said.stderr.windows(12).any(|words| words == b"invalid mode");
        (!is_refused).then(|| fs::metadata(path).unwrap().mode() & ALL)
    }

    #[test]
    fn any_change_is_that_of_chmod() {
        let sandbox = Sandbox::in_memory().unwrap();
        let (file, directory) = (sandbox.join("file"), sandbox.join("directory"));
        fs::write(&file, "").unwrap();
        fs::create_dir(&directory).unwrap();
        let mut texts = Vec::new();
        let letters =
            ["", "r", "X", "sw", "xt", "u", "g", "o", "ug", "ur", "22", "6755", "8", "77777", "q", "7r"];
        for who in ["", "u", "g", "o", "a", "uo", "q"] {
            for operator in ["", "+", "-", "="] {
                texts.extend(letters.map(|letters| format!("{who}{operator}{letters}")));
            }
        }
        for more in
            ["u=g-w+X,o=u", "go+u,go-w", "u=rwx,go=u", "a-x,g=u+s", "+22,u-w", "=7-7", "u=s,u=g,", ",u+r"]
        {
            texts.push(more.to_owned());
        }
        for text in &texts {
            let entries = [(&file, 0o2640, false), (&file, 0o5751, false), (&directory, 0o6724, true)];
            for (path, before, is_directory) in entries {
                let ours = mode(text).ok().map(|_| applied(text, before, is_directory));
                assert_eq!(ours, chmod(text, (path, before)), "{text:?} of {before:o}");
            }
        }
    }

    #[test]
    fn times_are_read() {
        let seconds = |text: &str| time(OsStr::new(text)).map(|time| time.seconds);
        assert_eq!(seconds("@0"), Ok(0));
        assert_eq!(seconds("@-5"), Ok(-5));
        assert_eq!(time(OsStr::new("@1.5")), Ok(Timestamp { seconds: 1, nanoseconds: 500_000_000 }));
        assert_eq!(seconds("1970-01-01 00:00Z"), Ok(0));
        assert_eq!(seconds("2000-03-01 UTC"), Ok(951_868_800));
        assert_eq!(seconds("2024-02-29T12:34:56Z"), Ok(1_709_210_096));
        assert_eq!(seconds("UTC 2019-01-01"), Ok(1_546_300_800));
        let local = seconds("2019-01-01 05:00").unwrap();
        let shown = local_time(local).unwrap();
        assert_eq!((shown.year, shown.month, shown.day, shown.hour, shown.minute), (2019, 1, 1, 5, 0));
        for wrong in [
            "",
            "soon",
            "2020-02-31",
            "2021-02-29",
            "2019-04-31",
            "2019-13-01",
            "2019-01",
            "19-01-01",
            "@x",
            "2019-01-01 25:00",
        ] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn owners_are_names_or_numbers() {
        let read = |text: &str| owner(OsStr::new(text)).map(|owner| (owner.name, owner.number));
        assert_eq!(read("root"), Ok((b"root".to_vec(), Some(0))));
        assert_eq!(read("0"), Ok((b"root".to_vec(), Some(0))));
        assert_eq!(read("someone:7"), Ok((b"someone".to_vec(), Some(7))));
        assert_eq!(read(":0"), Ok((b"root".to_vec(), Some(0))));
        assert_eq!(read("4000000000"), Ok((Vec::new(), Some(4_000_000_000))));
        assert_eq!(read("+5"), Ok((b"+5".to_vec(), None)));
        assert_eq!(read("a:+5"), Ok((b"a".to_vec(), Some(5))));
        assert_eq!(read("nobody by this name"), Ok((b"nobody by this name".to_vec(), None)));
        assert_eq!(read(""), Ok((Vec::new(), None)));
        for wrong in [":", "a:", "a:b", "a:b:5", "4294967296", "a:4294967296", "999999999999"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
