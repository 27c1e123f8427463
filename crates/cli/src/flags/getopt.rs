//! Splits a command line as the C library's `getopt_long` does.
//!
//! Flags may follow operands, unless `POSIXLY_CORRECT` is set; `--` ends them. Letters may be
//! bundled, and the rest of a bundle is the argument of the first letter that requires one. Long
//! names may be abbreviated.
//!
//! A long name is resolved in three steps: an exact name; else an abbreviation of a GNU name; else,
//! only if it abbreviates no GNU name, an abbreviation of a haul name. So `--st` is
//! `--strip-trailing-slashes` although haul has `--stats`.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;

use super::{FlagError, FlagOrigin, Spec, Value};

/// Maximum number of letters that a suggested name differs in.
const SLIPS_MAX: usize = 2;

pub(super) enum GetoptItem<'a> {
    Flag(&'a Spec, Option<Value<'a>>),
    Operand(&'a OsStr),
    /// The words after `--`, or from the first operand on if it ends the flags.
    Rest(&'a [OsString]),
}

pub(super) struct Scanner<'a> {
    specs: &'a [Spec],
    words: &'a [OsString],
    /// Index of the next word.
    next: usize,
    /// Rest of a bundle of letters.
    bundle: &'a [u8],
    operand_ends_flags: bool,
}

impl<'a> Scanner<'a> {
    /// Scans `words` for flags.
    pub(super) fn new(specs: &'a [Spec], words: &'a [OsString], operand_ends_flags: bool) -> Self {
        Self { specs, words, next: 0, bundle: &[], operand_ends_flags }
    }

    /// Returns the next part, or `None` at the end.
    ///
    /// # Errors
    /// When a flag is unknown, or its argument is missing or not allowed.
    pub(super) fn next_item(&mut self) -> Result<Option<GetoptItem<'a>>, FlagError> {
        if !self.bundle.is_empty() {
            return self.letter(self.bundle).map(Some);
        }
        let Some(word) = self.words.get(self.next) else { return Ok(None) };
        self.next += 1;
        match word.as_bytes() {
            b"--" => Ok(Some(self.rest(self.next))),
            [b'-', b'-', long @ ..] => self.long(long).map(Some),
            [b'-', bundle @ ..] if !bundle.is_empty() => self.letter(bundle).map(Some),
            _ if self.operand_ends_flags => Ok(Some(self.rest(self.next - 1))),
            _ => Ok(Some(GetoptItem::Operand(word))),
        }
    }

    /// True if the next part is a long flag.
    pub(super) fn is_at_long_flag(&self) -> bool {
        let begins = |word: &OsString| word.as_bytes().starts_with(b"--");
        self.bundle.is_empty() && self.words.get(self.next).is_some_and(begins)
    }

    fn rest(&mut self, from: usize) -> GetoptItem<'a> {
        self.next = self.words.len();
        GetoptItem::Rest(&self.words[from..])
    }

    fn value(&self, spec: &Spec, bytes: &'a [u8]) -> Value<'a> {
        Value { flag: spec.name(), bytes, word: self.next }
    }

    fn letter(&mut self, bundle: &'a [u8]) -> Result<GetoptItem<'a>, FlagError> {
        let digits = bundle.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let number = self.specs.iter().find(|spec| digits > 0 && spec.names == "-NUM");
        if let Some(spec) = number {
            let (number, rest) = bundle.split_at(digits);
            self.bundle = rest;
            return Ok(GetoptItem::Flag(spec, Some(self.value(spec, number))));
        }
        let (&letter, rest) = bundle.split_first().ok_or(FlagError::UnknownLetter { letter: b'-' })?;
        let spec = self.specs.iter().find(|spec| spec.has_letter(letter));
        let spec = spec.ok_or(FlagError::UnknownLetter { letter })?;
        if !matches!(spec.argument, Some((_, false))) {
            self.bundle = rest;
            return Ok(GetoptItem::Flag(spec, None));
        }
        self.bundle = &[];
        let attached = if rest.is_empty() { None } else { Some(rest) };
        let argument =
            attached.or_else(|| self.next_word()).ok_or(FlagError::LetterArgumentMissing { letter })?;
        Ok(GetoptItem::Flag(spec, Some(self.value(spec, argument))))
    }

    fn long(&mut self, given: &'a [u8]) -> Result<GetoptItem<'a>, FlagError> {
        let (name, attached) = match given.iter().position(|&byte| byte == b'=') {
            Some(equals) => (&given[..equals], Some(&given[equals + 1..])),
            None => (given, None),
        };
        let (spec, long) = find_long(self.specs, name, given)?;
        let argument = match (spec.argument, attached) {
            (None, Some(_)) => return Err(FlagError::ArgumentRefused { long }),
            (Some((_, false)), None) => Some(self.next_word().ok_or(FlagError::ArgumentMissing { long })?),
            (_, attached) => attached,
        };
        Ok(GetoptItem::Flag(spec, argument.map(|argument| self.value(spec, argument))))
    }

    fn next_word(&mut self) -> Option<&'a [u8]> {
        let word = self.words.get(self.next)?;
        self.next += 1;
        Some(word.as_bytes())
    }
}

/// Finds the flag whose name `name` is or abbreviates. Returns it with its full name. `given` is
/// `name` and the rest of the word, for the message.
fn find_long<'a>(
    specs: &'a [Spec],
    name: &[u8],
    given: &[u8],
) -> Result<(&'a Spec, &'static str), FlagError> {
    let all = || specs.iter().flat_map(|spec| spec.longs().map(move |long| (spec, long)));
    if let Some(exact) = all().find(|(_, long)| long.as_bytes() == name) {
        return Ok(exact);
    }
    let abbreviated_by = |owner| {
        let begins = |(spec, long): &(&Spec, &str)| spec.owner == owner && long.as_bytes().starts_with(name);
        all().filter(begins).collect::<Vec<_>>()
    };
    let mut candidates = abbreviated_by(FlagOrigin::Gnu);
    if candidates.is_empty() {
        candidates = abbreviated_by(FlagOrigin::Haul);
    }
    let Some(&(first, long)) = candidates.first() else {
        let text = String::from_utf8_lossy(name);
        let distances = all().map(|(_, long)| (edits(&text, long), long));
        let meant = distances.min_by_key(|(distance, _)| *distance);
        let meant = meant.filter(|(distance, long)| *distance <= SLIPS_MAX && *distance * 2 <= long.len());
        return Err(FlagError::Unrecognized { given: given.to_vec(), meant: meant.map(|(_, long)| long) });
    };
    // Other names of the first flag are not other possibilities.
    let others = candidates.iter().filter(|(spec, _)| !std::ptr::eq(*spec, first)).map(|(_, long)| *long);
    let possibilities: Vec<_> = std::iter::once(long).chain(others).collect();
    match possibilities.as_slice() {
        [_] => Ok((first, long)),
        _ => Err(FlagError::Ambiguous { given: given.to_vec(), possibilities }),
    }
}

/// Returns the Levenshtein distance: the fewest letters to insert, delete or change.
pub(crate) fn edits(from: &str, to: &str) -> usize {
    let to: Vec<char> = to.chars().collect();
    let mut row: Vec<usize> = (0..=to.len()).collect();
    for (index, letter) in from.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = index + 1;
        for column in 1..=to.len() {
            let changed = diagonal + usize::from(letter != to[column - 1]);
            diagonal = row[column];
            row[column] = changed.min(diagonal + 1).min(row[column - 1] + 1);
        }
    }
    row[to.len()]
}
