//! The flags of `cp`: one table, from which parsing, help, completions and the manual page follow.
//!
//! How it works: [`getopt`] splits the command line as the C library's `getopt_long` does and finds each flag in
//! [`table::TABLE`]; the flag's own entry says what it does to [`Typed`]; [`Typed::lower`] settles what the flags together
//! mean. The first error ends it, in the order in which GNU `cp` finds errors.
//!
//! What it promises: a command line means what it means to GNU `cp`. A name that haul adds never makes one of GNU's
//! abbreviations ambiguous and never changes its meaning.
//!
//! Invariant: a flag is defined in one entry of the table and nowhere else (test: `help` lists what the table holds).

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

/// What a flag does when it is given, and whether it takes an argument.
#[derive(Clone, Copy)]
pub(crate) enum Action {
    /// Takes none.
    Plain(fn(&mut Typed)),
    /// Takes one: attached, after `=`, or the next word.
    Required(&'static str, fn(&mut Typed, &[u8]) -> Result<(), Error>),
    /// Takes one only after `=`; its short form takes none.
    Optional(&'static str, fn(&mut Typed, Option<&[u8]>) -> Result<(), Error>),
}

/// Who gave the flag its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// GNU: its abbreviations are settled first.
    Gnu,
    /// haul.
    Haul,
}

/// One flag: how it is written, what it does, what help says of it.
#[derive(Clone, Copy)]
pub(crate) struct Flag {
    /// Its letters; help shows the first as the usual one.
    pub(crate) letters: &'static str,
    /// Its long name, or nothing.
    pub(crate) long: &'static str,
    /// What it does.
    pub(crate) action: Action,
    /// What help says. Second names have none.
    pub(crate) help: &'static str,
    /// Who named it.
    pub(crate) owner: Owner,
    /// The long name that means the same, for an alias: the two are never ambiguous.
    pub(crate) alias_of: &'static str,
    /// Whether it is about copying with many hosts.
    pub(crate) cluster: bool,
}

impl Flag {
    /// Makes a flag of GNU's.
    const fn gnu(letters: &'static str, long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters, long, action, help, owner: Owner::Gnu, alias_of: long, cluster: false }
    }

    /// Makes a flag of haul's own.
    const fn own(letters: &'static str, long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters, long, action, help, owner: Owner::Haul, alias_of: long, cluster: false }
    }

    /// Makes a flag of haul's own about copying with many hosts.
    const fn of_cluster(long: &'static str, action: Action, help: &'static str) -> Self {
        Self { letters: "", long, action, help, owner: Owner::Haul, alias_of: long, cluster: true }
    }

    /// Makes this flag another name of `long`.
    const fn meaning(mut self, long: &'static str) -> Self {
        self.alias_of = long;
        self
    }
}

/// What of the environment bears on the meaning of a command line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Environment {
    /// `POSIXLY_CORRECT` is set: the first operand ends the flags.
    pub(crate) posixly_correct: bool,
    /// The kernel labels files with SELinux contexts.
    pub(crate) selinux: bool,
    /// `VERSION_CONTROL`: how backups are made if the command line does not say.
    pub(crate) version_control: Option<Vec<u8>>,
    /// `SIMPLE_BACKUP_SUFFIX`: with what suffix if the command line does not say.
    pub(crate) backup_suffix: Option<Vec<u8>>,
    /// Whether this process is one of several that a launcher of MPI has started.
    pub(crate) is_rank: bool,
}

impl Environment {
    /// Looks at the environment of this process.
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

/// What a command line asks for.
#[derive(Debug)]
pub(crate) enum Parsed {
    /// A copy.
    Copy(Box<Request>),
    /// To be told something instead.
    Tell(Information),
}

/// Parses the words after the program's name. `warn` hears of what is ignored when it is met, before any error behind it.
///
/// # Errors
/// The first thing wrong, in the order in which GNU `cp` looks.
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

/// What is left of a command line when its flags are taken.
enum Taken {
    /// The names.
    Operands(Vec<Vec<u8>>),
    /// What a flag asks to be told instead.
    Information(Information),
}

impl Typed {
    /// Takes the flags of `table` out of a command line.
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
