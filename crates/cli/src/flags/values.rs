//! Flag values: keywords, counts, sizes, paths and times.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use haul_cluster::WalkPlacement;
use haul_copy::{Backup, Fsync, IfChanged, OnFull, Reflink, Sparse, Update, Verify};
use haul_delete::Limit;
use haul_digest::Algorithm;
use haul_digest::manifest::Format;
use haul_engine::{ENGINES, EngineChoice, Ops};

use super::{Doubt, FlagError, StatisticsForm, When};
use crate::line_file::Destination;

/// `--bwlimit`, in bytes per second.
const RATE: Bounds = Bounds { least: 0, most: usize::MAX, text: "0" };

/// `--iops-limit`, per second.
pub(crate) const OPERATIONS: Bounds = Bounds { least: 0, most: usize::MAX, text: "0" };

/// `--max-latency`, in milliseconds: up to an hour.
pub(crate) const LATENCY: Bounds = Bounds { least: 0, most: 3_600_000, text: "0 to 3600000" };

/// Returns a latency, given in milliseconds; `None` for 0, no limit.
pub(crate) fn milliseconds(count: usize) -> Option<Duration> {
    (count > 0).then(|| Duration::from_millis(count as u64))
}

/// Maximum walltime, in seconds: a year.
const WALLTIME_SECONDS_MAX: u64 = 366 * 24 * 3600;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Value<'a> {
    pub(crate) flag: &'static str,
    pub(crate) bytes: &'a [u8],
    /// Identifies the word of the command line.
    pub(crate) word: usize,
}

impl Value<'_> {
    /// Returns the meaning of a keyword, which may be abbreviated.
    pub(crate) fn choose<T: Copy + PartialEq>(self, words: &Words<T>) -> Result<T, FlagError> {
        choose(self.flag, self.bytes, words)
    }

    /// Returns the meanings of keywords separated by commas.
    pub(crate) fn choose_each<T: Copy + PartialEq>(self, words: &Words<T>) -> Result<Vec<T>, FlagError> {
        self.bytes.split(|byte| *byte == b',').map(|word| choose(self.flag, word, words)).collect()
    }

    /// Returns the word as it is.
    pub(crate) fn os(self) -> OsString {
        OsStr::from_bytes(self.bytes).to_owned()
    }

    pub(crate) fn text(self) -> String {
        String::from_utf8_lossy(self.bytes).into_owned()
    }

    /// Returns the error for an invalid value.
    pub(crate) fn refused(self, wanted: &str) -> FlagError {
        FlagError::Number { value: self.bytes.to_vec(), flag: self.flag, wanted: wanted.to_owned() }
    }

    /// Parses a whole number.
    pub(crate) fn count(self, bounds: Bounds) -> Result<usize, FlagError> {
        number(self.bytes)
            .and_then(|number| within(number, bounds))
            .ok_or_else(|| self.refused(&format!("a whole number from {}", bounds.text)))
    }

    /// Parses a number of bytes: a whole number with an optional unit. `K`, `KiB`, `M`, `MiB`, ...
    /// are powers of 1024; `KB`, `MB`, ... are powers of 1000.
    pub(crate) fn size(self, bounds: Bounds) -> Result<usize, FlagError> {
        let digits = self.bytes.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (amount, unit) = self.bytes.split_at(digits);
        number(amount)
            .zip(unit_bytes(unit))
            .and_then(|(amount, unit)| amount.checked_mul(unit))
            .and_then(|bytes| within(bytes, bounds))
            .ok_or_else(|| self.refused(&format!("a size from {}, like 65536, 64K or 1MiB", bounds.text)))
    }

    /// Parses how much may be deleted: a number of entries, or a percentage.
    pub(crate) fn deletions(self) -> Result<Limit, FlagError> {
        let limit = match self.bytes.strip_suffix(b"%") {
            Some(percent) => {
                number(percent).and_then(|percent| u8::try_from(percent).ok()).map(Limit::Percent)
            }
            None => number(self.bytes).map(|entries| Limit::Entries(entries as u64)),
        };
        let is_valid = |limit: &Limit| !matches!(limit, Limit::Percent(101..));
        limit.filter(is_valid).ok_or_else(|| self.refused("a whole number, or a percentage up to 100%"))
    }

    /// Parses a number of bytes per second, as rsync does: without a unit, it is in KiB. `None` if
    /// it is 0, which is no limit.
    pub(crate) fn rate(self) -> Result<Option<u64>, FlagError> {
        let has_unit = self.bytes.last().is_some_and(|last| !last.is_ascii_digit());
        let unit: &[u8] = if has_unit { b"" } else { b"K" };
        let bytes = &[self.bytes, unit].concat();
        let rate = Value { bytes, ..self }.size(RATE).map_err(|_| self.refused("a rate, like 500K or 10M"));
        rate.map(|rate| (rate > 0).then_some(rate as u64))
    }

    pub(crate) fn path(self) -> Result<PathBuf, FlagError> {
        if self.bytes.is_empty() || self.bytes.contains(&0) {
            return Err(self.refused("a file name"));
        }
        Ok(PathBuf::from(self.os()))
    }

    /// Parses the name of a file to write. Nothing but data goes to standard output, which others
    /// call `-`.
    pub(crate) fn output_path(self) -> Result<PathBuf, FlagError> {
        if self.bytes == b"-" {
            return Err(self.refused("a file name; use ./- for a file named -"));
        }
        self.path()
    }

    /// Parses where lines go: `fd:N`, or a file.
    pub(crate) fn destination(self) -> Result<Destination, FlagError> {
        let Some(number) = self.bytes.strip_prefix(b"fd:") else {
            return self.output_path().map(Destination::File);
        };
        // Messages and other output go to the standard streams.
        let number =
            self::number(number).filter(|number| *number > 2).and_then(|number| u16::try_from(number).ok());
        let open = number.and_then(|number| {
            let fd = haul_sys::inherited_for_writing(number).ok()?;
            Some(Destination::Descriptor(number, Arc::new(fd)))
        });
        open.ok_or_else(|| self.refused("a file, or fd:N with N at least 3 and open for writing"))
    }

    /// Parses a name for a batch system. It ends up on command lines of other programs, so spaces,
    /// control characters and leading dashes are refused.
    pub(crate) fn name(self) -> Result<String, FlagError> {
        let text = std::str::from_utf8(self.bytes).unwrap_or_default();
        let odd = |letter: char| letter.is_whitespace() || letter.is_control();
        if text.is_empty() || text.starts_with('-') || text.contains(odd) {
            return Err(self.refused("a name without spaces or a leading dash"));
        }
        Ok(text.to_owned())
    }

    /// Parses a duration: seconds, `MM:SS` or `HH:MM:SS`.
    pub(crate) fn walltime(self) -> Result<Duration, FlagError> {
        let number = |digits: &str| number(digits.as_bytes()).and_then(|number| u64::try_from(number).ok());
        let sixtieths = |digits: &str| number(digits).filter(|number| *number < 60);
        let text = std::str::from_utf8(self.bytes).unwrap_or_default();
        let parts: Vec<_> = text.split(':').collect();
        let seconds = match parts.as_slice() {
            [seconds] => number(seconds),
            [minutes, seconds] => number(minutes)
                .zip(sixtieths(seconds))
                .and_then(|(minutes, seconds)| minutes.checked_mul(60)?.checked_add(seconds)),
            [hours, minutes, seconds] => number(hours)
                .zip(sixtieths(minutes).zip(sixtieths(seconds)))
                .and_then(|(hours, (minutes, seconds))| {
                    hours.checked_mul(3600)?.checked_add(minutes * 60 + seconds)
                }),
            _ => None,
        };
        seconds
            .filter(|seconds| (1..=WALLTIME_SECONDS_MAX).contains(seconds))
            .map(Duration::from_secs)
            .ok_or_else(|| self.refused("a time of up to a year, like 3600, 60:00 or 1:00:00"))
    }
}

/// A flag's keywords and their meanings, in the order of GNU's message.
pub(crate) type Words<T> = [(&'static str, T)];

pub(crate) const SPARSE: &Words<Sparse> =
    &[("never", Sparse::Never), ("auto", Sparse::Auto), ("always", Sparse::Always)];

pub(crate) const REFLINK: &Words<Reflink> =
    &[("auto", Reflink::Auto), ("always", Reflink::Always), ("never", Reflink::Never)];

/// `--backup`, and `VERSION_CONTROL`.
pub(crate) const BACKUP: &Words<Backup> = &[
    ("none", Backup::None),
    ("off", Backup::None),
    ("simple", Backup::Simple),
    ("never", Backup::Simple),
    ("existing", Backup::Existing),
    ("nil", Backup::Existing),
    ("numbered", Backup::Numbered),
    ("t", Backup::Numbered),
];

pub(crate) const UPDATE: &Words<Update> = &[
    ("all", Update::All),
    ("none", Update::None),
    ("none-fail", Update::NoneFail),
    ("older", Update::Older),
];

pub(crate) const FSYNC: &Words<Fsync> = &[("end", Fsync::End), ("each", Fsync::Each)];

pub(crate) const MANIFEST_FORMAT: &Words<Format> =
    &[("b3sum", Format::B3sum), ("bsd", Format::Bsd), ("json", Format::Json), ("mhl", Format::Mhl)];

pub(crate) const HASH: &Words<Algorithm> = &[
    ("blake3", Algorithm::Blake3),
    ("xxh128", Algorithm::Xxh128),
    ("xxh64", Algorithm::Xxh64),
    ("sha256", Algorithm::Sha256),
    ("md5", Algorithm::Md5),
];

/// Refuses a manifest that can't have hashes of an algorithm.
///
/// # Errors
/// For MHL files with others than the standard's.
pub(crate) fn check_manifest(format: Format, algorithm: Algorithm) -> Result<(), FlagError> {
    if format == Format::Mhl && matches!(algorithm, Algorithm::Blake3 | Algorithm::Sha256) {
        let name = algorithm.name();
        return Err(FlagError::Sentence(format!(
            "an MHL file cannot have {name} hashes: use --hash=xxh128, xxh64 or md5"
        )));
    }
    Ok(())
}

pub(crate) const VERIFY: &Words<Verify> =
    &[("target", Verify::Target), ("both", Verify::Both), ("stream", Verify::Stream)];

/// Meaning of `--if-changed=retry` without a number.
pub(crate) const USUAL_RETRY: IfChanged = IfChanged::Retry(3);
/// `--if-changed=retry=N`: a file that has changed a thousand times won't stop.
pub(crate) const RETRIES: Bounds = Bounds { least: 1, most: 1000, text: "1 to 1000" };

pub(crate) const IF_CHANGED: &Words<IfChanged> =
    &[("ignore", IfChanged::Ignore), ("warn", IfChanged::Warn), ("retry", USUAL_RETRY)];

pub(crate) const ON_FULL: &Words<OnFull> = &[("stop", OnFull::Stop), ("pause", OnFull::Pause)];

pub(crate) const OPS: &Words<Ops> = &[("single", Ops::Single), ("multi", Ops::Multi), ("batch", Ops::Batch)];

pub(crate) const PROGRESS: &Words<When> =
    &[("auto", When::Auto), ("always", When::Always), ("never", When::Never)];

pub(crate) const WALK: &Words<WalkPlacement> =
    &[("launch", WalkPlacement::Launch), ("ranks", WalkPlacement::Ranks)];
pub(crate) const STATISTICS: &Words<StatisticsForm> = &[("json", StatisticsForm::Json)];

/// `--engine`: automatic choice, then all engines.
pub(crate) fn engines() -> Vec<(&'static str, EngineChoice)> {
    let listed = ENGINES.iter().map(|engine| (engine.name, engine.choice));
    std::iter::once((EngineChoice::AUTO, EngineChoice::Auto)).chain(listed).collect()
}

/// Returns the meaning of `value`, which may be abbreviated, as everywhere in GNU's tools.
///
/// # Errors
/// When it matches no keyword, or is ambiguous.
pub(crate) fn choose<T: Copy + PartialEq>(
    flag: &'static str,
    value: &[u8],
    words: &Words<T>,
) -> Result<T, FlagError> {
    if let Some((_, meaning)) = words.iter().find(|(name, _)| name.as_bytes() == value) {
        return Ok(*meaning);
    }
    let mut candidates = words.iter().filter(|(name, _)| name.as_bytes().starts_with(value));
    let doubt = match candidates.next() {
        Some((_, meaning)) if candidates.all(|(_, other)| other == meaning) => return Ok(*meaning),
        Some(_) => Doubt::Ambiguous,
        None => Doubt::Invalid,
    };
    let same = words.chunk_by(|(_, one), (_, other)| one == other);
    let valid = same.map(|words| words.iter().map(|(name, _)| *name).collect()).collect();
    Err(FlagError::Value { doubt, value: value.to_vec(), flag, valid })
}

/// `--block-size`: from the smallest sector to the largest buffer an operation can have.
pub(crate) const BLOCK_BYTES: Bounds = Bounds { least: 512, most: 1 << 30, text: "512 to 1G" };

/// The range of numbers a flag accepts.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    pub(crate) least: usize,
    pub(crate) most: usize,
    /// The range as help and messages show it.
    pub(crate) text: &'static str,
}

/// Parses decimal digits and nothing else; `None` also on overflow.
fn number(digits: &[u8]) -> Option<u128> {
    let only_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    only_digits.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
}

/// Returns the number of bytes in a unit.
fn unit_bytes(unit: &[u8]) -> Option<u128> {
    let Some((letter, rest)) = unit.split_first() else { return Some(1) };
    let exponent =
        b"KMGTPEZYRQ".iter().position(|known| known == letter).or((*letter == b'k').then_some(0))?;
    let base: u128 = match rest {
        b"" | b"iB" => 1024,
        b"B" => 1000,
        _ => return None,
    };
    base.checked_pow(u32::try_from(exponent).ok()? + 1)
}

fn within(number: u128, bounds: Bounds) -> Option<usize> {
    usize::try_from(number).ok().filter(|number| (bounds.least..=bounds.most).contains(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(bytes: &[u8]) -> Value<'_> {
        Value { flag: "-w", bytes, word: 0 }
    }

    #[test]
    fn times_are_seconds_or_have_colons() {
        let seconds = |text: &str| value(text.as_bytes()).walltime().map(|time| time.as_secs()).ok();
        assert_eq!(
            [seconds("1"), seconds("090"), seconds("31622400")],
            [Some(1), Some(90), Some(31_622_400)]
        );
        assert_eq!([seconds("1:30"), seconds("120:00"), seconds("0:01")], [Some(90), Some(7200), Some(1)]);
        assert_eq!([seconds("1:00:00"), seconds("48:59:59")], [Some(3600), Some(176_399)]);
        for bad in [
            "",
            "0",
            "0:00",
            "1:60",
            "1:60:00",
            "1:00:60",
            ":",
            "1:",
            ":1",
            "1:2:3:4",
            "+1",
            "-1",
            "1.5",
            " 1",
            "1h",
            "31622401",
            "18446744073709551615:00",
            "18446744073709551616",
            "\u{661}",
        ] {
            assert_eq!(seconds(bad), None, "{bad}");
        }
    }

    #[test]
    fn names_for_batch_systems_are_single_words() {
        let read = |text: &str| value(text.as_bytes()).name().ok();
        assert_eq!(read("debug,batch@x").as_deref(), Some("debug,batch@x"));
        for bad in ["", "-x", "a b", "a\nb", "a\u{7f}"] {
            assert_eq!(read(bad), None, "{bad:?}");
        }
        assert!(value(b"\xff").name().is_err());
    }
}
