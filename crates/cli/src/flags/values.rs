//! Flag values: keywords, counts and sizes.

use haul_cluster::Walk;
use haul_copy::{Backup, Reflink, Sparse, Update};
use haul_engine::{Choice, ENGINES, Ops};

use super::{Doubt, Error, StatisticsForm, When};

/// A flag's keywords and their meanings, in the order of GNU's message.
pub(crate) type Words<T> = [(&'static str, T)];

/// `--sparse`.
pub(crate) const SPARSE: &Words<Sparse> =
    &[("never", Sparse::Never), ("auto", Sparse::Auto), ("always", Sparse::Always)];

/// `--reflink`.
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

/// `--update`.
pub(crate) const UPDATE: &Words<Update> = &[
    ("all", Update::All),
    ("none", Update::None),
    ("none-fail", Update::NoneFail),
    ("older", Update::Older),
];

/// `--ops`.
pub(crate) const OPS: &Words<Ops> = &[("single", Ops::Single), ("multi", Ops::Multi), ("batch", Ops::Batch)];

/// `--progress`.
pub(crate) const PROGRESS: &Words<When> =
    &[("auto", When::Auto), ("always", When::Always), ("never", When::Never)];

/// `--walk`.
pub(crate) const WALK: &Words<Walk> = &[("launch", Walk::Launch), ("ranks", Walk::Ranks)];
/// `--stats`.
pub(crate) const STATISTICS: &Words<StatisticsForm> = &[("json", StatisticsForm::Json)];

/// `--engine`: automatic choice, then all engines.
pub(crate) fn engines() -> Vec<(&'static str, Choice)> {
    let listed = ENGINES.iter().map(|engine| (engine.name, engine.choice));
    std::iter::once((Choice::AUTO, Choice::Auto)).chain(listed).collect()
}

/// Returns the meaning of `value`, which may be abbreviated, as everywhere in GNU's tools.
///
/// # Errors
/// When it matches no keyword, or is ambiguous.
pub(crate) fn choose<T: Copy + PartialEq>(
    flag: &'static str,
    value: &[u8],
    words: &Words<T>,
) -> Result<T, Error> {
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
    Err(Error::Value { doubt, value: value.to_vec(), flag, valid })
}

/// The range of numbers a flag accepts.
#[derive(Clone, Copy)]
pub(crate) struct Bounds {
    /// Minimum.
    pub(crate) least: usize,
    /// Maximum.
    pub(crate) most: usize,
    /// The range as help and messages show it.
    pub(crate) text: &'static str,
}

/// Parses a whole number.
///
/// # Errors
/// When it is not one, or is out of range.
pub(crate) fn count(flag: &'static str, value: &[u8], bounds: Bounds) -> Result<usize, Error> {
    let wanted = || format!("a whole number from {}", bounds.text);
    number(value).and_then(|number| within(number, bounds)).ok_or_else(|| Error::Number {
        value: value.to_vec(),
        flag,
        wanted: wanted(),
    })
}

/// Parses a number of bytes: a whole number with an optional unit. `K`, `KiB`, `M`, `MiB`, ... are
/// powers of 1024; `KB`, `MB`, ... are powers of 1000.
///
/// # Errors
/// When it is not one, or is out of range.
pub(crate) fn size(flag: &'static str, value: &[u8], bounds: Bounds) -> Result<usize, Error> {
    let digits = value.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let (amount, unit) = value.split_at(digits);
    let wanted = || format!("a size from {}, like 65536, 64K or 1MiB", bounds.text);
    number(amount)
        .zip(unit_bytes(unit))
        .and_then(|(amount, unit)| amount.checked_mul(unit))
        .and_then(|bytes| within(bytes, bounds))
        .ok_or_else(|| Error::Number { value: value.to_vec(), flag, wanted: wanted() })
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
