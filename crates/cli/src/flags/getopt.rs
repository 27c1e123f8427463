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

use super::{Action, Error, Flag, Owner};

/// A flag as given.
#[derive(Clone, Copy)]
pub(crate) struct Given<'a> {
    /// The flag.
    pub(crate) flag: &'static Flag,
    /// Its argument.
    pub(crate) argument: Option<&'a [u8]>,
}

/// Iterates over the flags of a command line.
pub(crate) struct Scanner<'a> {
    table: &'static [Flag],
    words: std::slice::Iter<'a, OsString>,
    /// Rest of a bundle of letters.
    bundle: &'a [u8],
    operands: Vec<&'a OsStr>,
    operand_ends_flags: bool,
}

impl<'a> Scanner<'a> {
    /// Scans `words` for flags of `table`.
    pub(crate) fn new(table: &'static [Flag], words: &'a [OsString], operand_ends_flags: bool) -> Self {
        Self { table, words: words.iter(), bundle: &[], operands: Vec::new(), operand_ends_flags }
    }

    /// Returns the next flag, or `None` at the end.
    ///
    /// # Errors
    /// When the flag is unknown, or its argument is missing or not allowed.
    pub(crate) fn next_flag(&mut self) -> Result<Option<Given<'a>>, Error> {
        if let Some((&letter, rest)) = self.bundle.split_first() {
            return self.letter(letter, rest).map(Some);
        }
        while let Some(word) = self.words.next() {
            match word.as_bytes() {
                b"--" => self.take_the_rest(),
                [b'-', b'-', long @ ..] => return self.long(long).map(Some),
                [b'-', letter, rest @ ..] => return self.letter(*letter, rest).map(Some),
                _ => {
                    self.operands.push(word);
                    if self.operand_ends_flags {
                        self.take_the_rest();
                    }
                }
            }
        }
        Ok(None)
    }

    /// Returns the operands, in order.
    pub(crate) fn into_operands(self) -> Vec<&'a OsStr> {
        self.operands
    }

    fn take_the_rest(&mut self) {
        self.operands.extend(self.words.by_ref().map(OsString::as_os_str));
    }

    fn letter(&mut self, letter: u8, rest: &'a [u8]) -> Result<Given<'a>, Error> {
        let flag = self
            .table
            .iter()
            .find(|flag| flag.letters.as_bytes().contains(&letter))
            .ok_or(Error::UnknownLetter { letter })?;
        let given = Given { flag, argument: None };
        if !matches!(flag.action, Action::Required(..)) {
            self.bundle = rest;
            return Ok(given);
        }
        self.bundle = &[];
        let attached = if rest.is_empty() { None } else { Some(rest) };
        let argument =
            attached.or_else(|| self.next_word()).ok_or(Error::LetterArgumentMissing { letter })?;
        Ok(Given { argument: Some(argument), ..given })
    }

    fn long(&mut self, given: &'a [u8]) -> Result<Given<'a>, Error> {
        let (name, attached) = match given.iter().position(|&byte| byte == b'=') {
            Some(equals) => (&given[..equals], Some(&given[equals + 1..])),
            None => (given, None),
        };
        let flag = find_long(self.table, name, given)?;
        let argument = match (flag.action, attached) {
            (Action::Plain(_), Some(_)) => return Err(Error::ArgumentRefused { long: flag.long }),
            (Action::Required(..), None) => {
                Some(self.next_word().ok_or(Error::ArgumentMissing { long: flag.long })?)
            }
            (_, attached) => attached,
        };
        Ok(Given { flag, argument })
    }

    fn next_word(&mut self) -> Option<&'a [u8]> {
        self.words.next().map(|word| word.as_bytes())
    }
}

/// Finds the flag of `table` that `name` is or abbreviates. `given` is `name` and what follows it,
/// for the message.
fn find_long(table: &'static [Flag], name: &[u8], given: &[u8]) -> Result<&'static Flag, Error> {
    let long_flags = || table.iter().filter(|flag| !flag.long.is_empty());
    if let Some(exact) = long_flags().find(|flag| flag.long.as_bytes() == name) {
        return Ok(exact);
    }
    let abbreviated_by = |owner| {
        long_flags()
            .filter(|flag| flag.owner == owner && flag.long.as_bytes().starts_with(name))
            .collect::<Vec<_>>()
    };
    let mut candidates = abbreviated_by(Owner::Gnu);
    if candidates.is_empty() {
        candidates = abbreviated_by(Owner::Haul);
    }
    let Some(first) = candidates.first() else {
        return Err(Error::Unrecognized { given: given.to_vec() });
    };
    if candidates.iter().all(|flag| flag.alias_of == first.alias_of) {
        return Ok(first);
    }
    // An alias of the first is not another possibility.
    let others = candidates.iter().filter(|flag| flag.alias_of != first.alias_of);
    let possibilities = std::iter::once(first).chain(others).map(|flag| flag.long).collect();
    Err(Error::Ambiguous { given: given.to_vec(), possibilities })
}
