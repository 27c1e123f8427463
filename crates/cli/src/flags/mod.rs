//! The flags of `cp`: parsing, help, completions and the manual page all follow from one table.
//!
//! [`getopt`] splits the command line as the C library's `getopt_long` does, and finds each flag
//! in [`table::TABLE`]. The flag's entry changes [`Typed`], and [`Typed::lower`] works out what
//! the flags mean together. Parsing ends at the first error, in the order in which GNU `cp`
//! finds errors.
//!
//! A command line means what it means to GNU `cp`. A name that haul adds never makes one of GNU's
//! abbreviations ambiguous and never changes its meaning.
//!
//! Invariant: a flag is defined in one entry of the table and nowhere else (test: `help` lists what
//! the table holds).

pub(crate) mod cluster;
mod definitions;
mod error;
mod getopt;
mod help;
mod lower;
pub(crate) mod spdcp;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod values;

use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};

pub(crate) use definitions::{Argument, Definition, definitions, definitions_of_spdcp};
pub(crate) use error::{Doubt, Error, Warning};
pub(crate) use help::help;
pub(crate) use lower::{Information, JOBS, LOOK_AHEAD, QUEUE_DEPTH, Request, StatisticsForm, Typed, When};

/// A flag's effect and its argument.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// No argument.
    Plain(fn(&mut Typed)),
    /// A required argument: attached, after `=`, or the next word.
    Required(&'static str, fn(&mut Typed, &[u8]) -> Result<(), Error>),
    /// An optional argument, only after `=`; the short form has none.
    Optional(&'static str, fn(&mut Typed, Option<&[u8]>) -> Result<(), Error>),
}

/// Who named a flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// GNU: its abbreviations take precedence.
    Gnu,
    /// haul.
    Haul,
}

/// One flag: its names, effect and help.
#[derive(Clone, Copy)]
pub(crate) struct Flag {
    /// Its letters; help shows the first as the usual one.
    pub(crate) letters: &'static str,
    /// Its long name, or empty.
    pub(crate) long: &'static str,
    /// Its effect.
    pub(crate) action: Action,
    /// Its help; aliases have none.
    pub(crate) help: &'static str,
    /// Who named it.
    pub(crate) owner: Owner,
    /// For an alias, the long name it stands for: the two are never ambiguous.
    pub(crate) alias_of: &'static str,
    /// True if it is about copying with many hosts.
    pub(crate) cluster: bool,
}

impl Flag {
    /// A flag of GNU's.
    const fn gnu(letters: &'static str, long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters, long, action, help, owner: Owner::Gnu, alias_of: long, cluster: false }
    }

    /// A flag of haul's own.
    const fn own(letters: &'static str, long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters, long, action, help, owner: Owner::Haul, alias_of: long, cluster: false }
    }

    /// A flag of haul's own about copying with many hosts.
    const fn of_cluster(long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters: "", long, action, help, owner: Owner::Haul, alias_of: long, cluster: true }
    }

    /// Makes this flag an alias of `long`.
    const fn meaning(mut self, long: &'static str) -> Self {
        self.alias_of = long;
        self
    }
}

/// The part of the environment that affects what a command line means.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// `POSIXLY_CORRECT` is set: the first operand ends the flags.
    pub(crate) posixly_correct: bool,
    /// The kernel labels files with SELinux contexts.
    pub(crate) selinux: bool,
    /// `VERSION_CONTROL`: the backup method, if the command line does not give one.
    pub(crate) version_control: Option<Vec<u8>>,
    /// `SIMPLE_BACKUP_SUFFIX`: the backup suffix, if the command line does not give one.
    pub(crate) backup_suffix: Option<Vec<u8>>,
    /// True if this process is one of several started by an MPI launcher.
    pub(crate) is_rank: bool,
}

impl Environment {
    /// Reads the environment of this process.
    pub(crate) fn of_process() -> Self {
        let bytes = |name| std::env::var_os(name).map(OsString::into_vec);
        Self {
            version_control: bytes("VERSION_CONTROL"),
            backup_suffix: bytes("SIMPLE_BACKUP_SUFFIX"),
            posixly_correct: std::env::var_os("POSIXLY_CORRECT").is_some(),
            selinux: std::path::Path::new("/sys/fs/selinux/enforce").exists(),
            is_rank: crate::cluster::is_under_launcher(),
        }
    }
}

/// The request of a command line.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A copy.
    Copy(Box<Request>),
    /// Help or version.
    Tell(Information),
}

/// Parses the arguments. `warn` is called for ignored flags as they are met, before any
/// later error.
///
/// # Errors
/// The first error, in the order in which GNU `cp` looks.
pub(crate) fn parse(
    words: &[OsString],
    environment: Environment,
    warn: &mut dyn FnMut(Warning),
) -> Result<Parsed, Error> {
    let mut typed = Typed::default();
    match typed.take_words(table::TABLE, words, &environment, warn)? {
        Taken::Operands(names) => {
            typed.check_job("--clients", environment.is_rank)?;
            typed.lower(names, &environment).map(|request| Parsed::Copy(Box::new(request)))
        }
        Taken::Information(information) => Ok(Parsed::Tell(information)),
    }
}

/// Rest of a command line after its flags.
enum Taken {
    /// The operands.
    Operands(Vec<Vec<u8>>),
    /// The information that a flag asks for.
    Information(Information),
}

impl Typed {
    /// Parses the flags of `table`.
    fn take_words(
        &mut self,
        table: &'static [Flag],
        words: &[OsString],
        environment: &Environment,
        warn: &mut dyn FnMut(Warning),
    ) -> Result<Taken, Error> {
        let mut scanner = getopt::Scanner::new(table, words, environment.posixly_correct);
        while let Some(given) = scanner.next_flag()? {
            match (given.flag.action, given.argument) {
                (Action::Plain(set), _) => set(self),
                (Action::Required(_, take), argument) => take(self, argument.unwrap_or_default())?,
                (Action::Optional(_, take), argument) => take(self, argument)?,
            }
            if !environment.selinux {
                self.take_warnings().into_iter().for_each(&mut *warn);
            }
            if let Some(information) = self.information {
                return Ok(Taken::Information(information));
            }
        }
        let names = scanner.into_operands().into_iter().map(|word| word.as_bytes().to_vec()).collect();
        Ok(Taken::Operands(names))
    }
}
